import type { Hooks } from "#plugin";
import type { MailMessage } from "./messages.ts";
import { GmailProblem } from "./problem.ts";
import type { RefusedMessage } from "./state.ts";

/** The hook did not take a batch, and it is tried again. */
export class MailHookError extends GmailProblem {
  /** True if it may pass by itself. */
  readonly transient: boolean;

  constructor(message: string, transient: boolean) {
    super(message);
    this.name = "HookError";
    this.transient = transient;
  }
}

const MAX_MESSAGES = 50;
/** The gateway takes 262,144 bytes unless the config says otherwise. */
const MAX_BYTES = 200_000;

/** Messages in batches that the hook takes. */
export function toBatches(messages: readonly MailMessage[]): MailMessage[][] {
  const batches: MailMessage[][] = [];
  let bytes = 0;
  for (const message of messages) {
    const size = Buffer.byteLength(JSON.stringify(message)) + 1;
    const last = batches.at(-1);
    if (last && last.length < MAX_MESSAGES && bytes + size <= MAX_BYTES) {
      last.push(message);
      bytes += size;
    } else {
      batches.push([message]);
      bytes = size;
    }
  }
  return batches;
}

const getErrorCode = (body: unknown): string => {
  const { code } = (body as { error?: { code?: unknown } } | undefined)?.error ?? {};
  return typeof code === "string" && /^\w{1,60}$/.test(code) ? code : "";
};

/** No mapping took the batch: it is recorded, but no mail may be lost because the mapping is not there yet. */
const isUnmatched = (body: unknown): boolean =>
  (body as { outcome?: unknown } | undefined)?.outcome === "unmatched";

function advice(status: number, code: string, hook: string): string {
  if (code === "no_mapping" || code === "unmatched")
    return `no mapping takes what the hook "${hook}" is given: add the preset gmail to hooks.presets`;
  if (status === 401 || status === 403)
    return `the hook "${hook}" does not accept the hook token: let it be called with hooks.token, without an \`auth\` of its own`;
  if (status === 404)
    return `the hook "${hook}" is not there: set hooks.enabled to true, and hooks.gmail.hook to the path of a mapping`;
  return `the hook "${hook}" answered ${`${status} ${code}`.trim()}: \`rouse events\` shows why`;
}

/** Bad in themselves, not for the moment. */
const REFUSED = new Set([400, 413, 415, 422]);

/** Returns the messages that the hook refused in a batch that was taken. */
function refusedIn(messages: readonly MailMessage[], body: unknown, at: number): RefusedMessage[] {
  const { results } = (body ?? {}) as { results?: unknown };
  if (!Array.isArray(results) || results.length !== messages.length) return [];
  return messages.flatMap(({ id }, index) => {
    const result = results[index] as { ok?: unknown } | null;
    return result?.ok === false ? [{ id, at, reason: getErrorCode(result) }] : [];
  });
}

/**
 * Gives messages to the hook. Resolves once all are on disk there, with those that it will never take.
 * @throws HookError where it has to be tried again.
 */
export async function giveToHook(
  gateway: Hooks,
  hook: string,
  messages: readonly MailMessage[],
  now: () => number,
): Promise<RefusedMessage[]> {
  const answer = await gateway.hook(hook, { source: "gmail", messages }).catch((error: unknown) => {
    throw new MailHookError(
      `the gateway does not answer (${(error as Error).name}); start it with \`rouse start\``,
      true,
    );
  });
  const { status, body } = answer;
  if (status >= 200 && status < 300 && !isUnmatched(body)) return refusedIn(messages, body, now());
  const code = isUnmatched(body) ? "unmatched" : getErrorCode(body);
  if (!REFUSED.has(status))
    throw new MailHookError(advice(status, code, hook), status === 429 || status === 503);
  const [only] = messages;
  if (only && messages.length === 1)
    return [{ id: only.id, at: now(), reason: `${status} ${code}`.trim() }];
  const half = Math.ceil(messages.length / 2);
  const first = await giveToHook(gateway, hook, messages.slice(0, half), now);
  return [...first, ...(await giveToHook(gateway, hook, messages.slice(half), now))];
}
