import type { GmailConfig } from "./config.ts";
import { GoogleError, type Google } from "./google.ts";
import { GmailProblem } from "./problem.ts";

/** Full names in Pub/Sub. */
export interface Names {
  project: string;
  topic: string;
  subscription: string;
}

/** The names of topic and subscription; the project may come from the credentials. */
export function getPubSubNames(config: GmailConfig, fallback: string | undefined): Names {
  const project = config.project ?? fallback;
  if (project === undefined)
    throw new GmailProblem("no project: name one with --project or hooks.gmail.project");
  return {
    project,
    topic: `projects/${project}/topics/${config.topic}`,
    subscription: `projects/${project}/subscriptions/${config.subscription}`,
  };
}

/** Google holds a pull that has nothing to give for about 90 s. */
const PULL_TIMEOUT_MS = 150_000;
const MAX_PULLED = 100;

interface PullAnswer {
  receivedMessages?: { ackId: string; message?: { data?: string } }[];
}

/** The result of a pull. */
export interface Pulled {
  ackIds: string[];
  /** The latest history id that they name, where they name one. */
  historyId: string | undefined;
}

/** The larger of two history ids: they are numbers of up to 64 bits. */
export const laterId = (one: string | undefined, other: string | undefined): string | undefined => {
  if (one === undefined || other === undefined) return one ?? other;
  return BigInt(one) > BigInt(other) ? one : other;
};

function historyIdIn(data: string | undefined): string | undefined {
  try {
    const { historyId } = JSON.parse(Buffer.from(data ?? "", "base64").toString()) as {
      historyId?: unknown;
    };
    return /^\d{1,20}$/.test(String(historyId)) ? String(historyId) : undefined;
  } catch {
    return undefined;
  }
}

/** Waits for notifications. None after a while is a normal answer. */
export async function pull(
  google: Google,
  subscription: string,
  signal: AbortSignal,
): Promise<Pulled> {
  const call = {
    method: "POST",
    body: { maxMessages: MAX_PULLED },
    what: "pulling notifications",
    timeoutMs: PULL_TIMEOUT_MS,
    signal,
  } as const;
  const { receivedMessages = [] } = await google
    .pubsub<PullAnswer>(`${subscription}:pull`, call)
    .catch((error: unknown) => {
      if (!(error instanceof GoogleError)) throw error;
      const again = "run `rouse webhooks gmail setup` again";
      if (error.kind === "notFound")
        throw new GoogleError(
          `the subscription ${subscription} is not there: ${again}`,
          "notFound",
          404,
        );
      if (error.status === 400)
        throw new GoogleError(
          `the subscription ${subscription} cannot be pulled from: ${again}`,
          "other",
          400,
        );
      throw error;
    });
  const ids = receivedMessages.map(({ message }) => historyIdIn(message?.data));
  return {
    ackIds: receivedMessages.map(({ ackId }) => ackId),
    historyId: ids.reduce(laterId, undefined),
  };
}

/** Says that notifications need not come again. */
export async function acknowledge(
  google: Google,
  subscription: string,
  ackIds: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  await google.pubsub(`${subscription}:acknowledge`, {
    method: "POST",
    body: { ackIds },
    what: "acknowledging notifications",
    signal,
  });
}
