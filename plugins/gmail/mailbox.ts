import { getLabels, type GmailConfig } from "./config.ts";
import { GoogleError, type Google } from "./google.ts";
import { GmailProblem } from "./problem.ts";
import { readMailText, toMail, type GmailMessage, type MailMessage } from "./messages.ts";

/** Mail that is nobody's news. */
const LEFT_OUT = new Set(["SPAM", "TRASH", "DRAFT", "SENT"]);
const PAGE = "500";
const PARALLEL = 8;
/** Texts of one mail that are fetched for themselves: each is a call, and a sender writes as many as they like. */
const MAX_LONG_TEXTS = 10;

/** The calls that Rouse makes about a mailbox. */
export type Mailbox = ReturnType<typeof createMailbox>;

interface HistoryAnswer {
  history?: { id: string; messagesAdded?: { message?: { id?: string; labelIds?: string[] } }[] }[];
  nextPageToken?: string;
  historyId: string;
}

interface MessageList {
  messages?: { id: string }[];
  nextPageToken?: string;
}

/** The ids of the labels that the config names. */
export async function labelIds(
  config: GmailConfig,
  google: Google,
  signal: AbortSignal,
): Promise<string[]> {
  const { labels = [] } = await google.gmail<{ labels?: { id: string; name: string }[] }>(
    "labels",
    { what: "listing the labels", signal },
  );
  return getLabels(config).map((wanted) => {
    const found =
      labels.find(({ id }) => id === wanted) ??
      labels.find(({ name }) => name.toLowerCase() === wanted.toLowerCase());
    if (found) return found.id;
    throw new GmailProblem(
      `the mailbox has no label "${wanted}": set hooks.gmail.label to one that it has`,
    );
  });
}

/** Creates the `fetch` of a mailbox. */
function createFetch(config: GmailConfig, google: Google, signal: AbortSignal) {
  const readBody = ({ id, payload = {} }: GmailMessage): Promise<string> => {
    let left = MAX_LONG_TEXTS;
    return readMailText(payload, async ({ body: { data, attachmentId } = {} }) => {
      if (data !== undefined || attachmentId === undefined || left-- <= 0) return data ?? "";
      const path = `messages/${id}/attachments/${encodeURIComponent(attachmentId)}`;
      const what = "fetching a long text";
      return (await google.gmail<{ data?: string }>(path, { what, signal })).data ?? "";
    });
  };

  const fetchOne = async (id: string): Promise<MailMessage | undefined> => {
    const query = config.includeBody
      ? { format: "full" }
      : { format: "metadata", metadataHeaders: ["From", "To", "Subject"] };
    try {
      const message = await google.gmail<GmailMessage>(`messages/${encodeURIComponent(id)}`, {
        query,
        what: "fetching a message",
        signal,
      });
      if (message.labelIds?.some((label) => LEFT_OUT.has(label))) return undefined;
      return toMail(message, config.includeBody ? await readBody(message) : "", config.maxBytes);
    } catch (error) {
      // Deleted meanwhile.
      if (error instanceof GoogleError && error.kind === "notFound") return undefined;
      throw error;
    }
  };

  return async (ids: readonly string[]) => {
    const messages: (MailMessage | undefined)[] = [];
    for (let at = 0; at < ids.length; at += PARALLEL)
      messages.push(...(await Promise.all(ids.slice(at, at + PARALLEL).map(fetchOne))));
    return messages.filter((message) => message !== undefined);
  };
}

/** The mailbox of an account. */
export function createMailbox(
  config: GmailConfig,
  google: Google,
  labels: readonly string[],
  signal: AbortSignal,
) {
  const watched = new Set(labels);
  const [only] = labels.length === 1 ? labels : [];
  async function* readPages<P extends { nextPageToken?: string }>(
    path: string,
    query: Record<string, string | undefined>,
    what: string,
  ): AsyncGenerator<P> {
    let pageToken: string | undefined;
    do {
      const asked = { ...query, maxResults: PAGE, pageToken };
      const page: P = await google.gmail(path, { query: asked, what, signal });
      yield page;
      pageToken = page.nextPageToken;
    } while (pageToken !== undefined);
  }

  return {
    /** Lets Gmail tell the topic of changes, for seven days. */
    async watch(topic: string) {
      const body = { topicName: topic, labelIds: labels, labelFilterBehavior: "include" };
      const method = "POST";
      const start = () =>
        google.gmail<{ historyId: string; expiration: string }>("watch", {
          method,
          body,
          what: "starting the watch",
          signal,
        });
      const { historyId, expiration } = await start().catch(async (error: unknown) => {
        // A watch for another topic of the project has to be stopped first.
        if (!(error instanceof GoogleError && error.kind === "exists")) throw error;
        await google.gmail("stop", {
          method,
          what: "stopping the watch for another topic",
          signal,
        });
        return start();
      });
      return { historyId, expires: Number(expiration) };
    },
    async historyId() {
      return (
        await google.gmail<{ historyId: string }>("profile", {
          what: "reading the profile",
          signal,
        })
      ).historyId;
    },
    /**
     * Lists messages that were added after `from`, page by page: up to `historyId`, all of them are in this page and those before.
     * Throws GoogleError `notFound` where Gmail does not reach back so far.
     */
    async *history(from: string) {
      const query = { startHistoryId: from, historyTypes: "messageAdded", labelId: only };
      for await (const page of readPages<HistoryAnswer>("history", query, "reading the history")) {
        const { history = [], historyId, nextPageToken } = page;
        const added = history.flatMap(({ messagesAdded = [] }) =>
          messagesAdded.map(({ message }) => message),
        );
        const wanted = added.filter(
          (message) => only !== undefined || message?.labelIds?.some((label) => watched.has(label)),
        );
        const ids = [...new Set(wanted.flatMap((message) => message?.id ?? []))];
        const last = history.at(-1)?.id ?? from;
        yield { ids, historyId: nextPageToken === undefined ? historyId : last };
      }
    },
    /** Lists ids of messages that came after a time, oldest first. */
    async since(time: number) {
      const found = new Set<string>();
      const q = `after:${Math.floor(time / 1000)}`;
      for (const labelIds of labels)
        for await (const { messages = [] } of readPages<MessageList>(
          "messages",
          { labelIds, q },
          "listing messages",
        ))
          for (const { id } of messages) found.add(id);
      return [...found].toReversed();
    },
    /** Fetches the messages that are still there and are news. */
    fetch: createFetch(config, google, signal),
  };
}
