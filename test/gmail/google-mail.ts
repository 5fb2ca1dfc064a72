import type { GmailMessage } from "../../plugins/gmail/messages.ts";
import { Refusal, type Asked, type MailInput } from "./google.ts";
import type { Publisher } from "./google-pubsub.ts";

interface HistoryRecord {
  id: number;
  message: { id: string; threadId: string; labelIds: string[] };
}

export interface Watch {
  topic: string;
  labels: string[];
  expires: number;
  /** The number of times that it was started. */
  count: number;
}

const DAY_MS = 86_400_000;

/** A page of a list, and what leads to the next. */
function pageOf<T>(
  items: readonly T[],
  query: URLSearchParams,
  most: number,
): { page: T[]; nextPageToken?: string } {
  const from = Number(query.get("pageToken") ?? 0);
  const size = Math.min(most, Number(query.get("maxResults") ?? 100));
  const next = from + size;
  return {
    page: items.slice(from, next),
    ...(next < items.length ? { nextPageToken: String(next) } : {}),
  };
}

/** A mailbox as Gmail's REST interface shows it. */
export function createMailboxes(
  account: string,
  publisher: (topic: string) => Publisher | undefined,
) {
  const messages = new Map<string, GmailMessage>();
  const history: HistoryRecord[] = [];
  const labels = ["INBOX", "SENT", "DRAFT", "TRASH", "SPAM", "UNREAD"].map((id) => ({
    id,
    name: id,
    type: "system",
  }));
  labels.push({ id: "Label_7", name: "Invoices", type: "user" });
  let serial = 0;
  let forgotten = 0;
  const mailbox = {
    pageSize: 100,
    historyId: 1000,
    watch: undefined as Watch | undefined,
    watchMs: 7 * DAY_MS,
    attachments: new Map<string, string>(),
  };

  const store = (input: MailInput): GmailMessage => {
    const {
      from = "Bob <bob@example.org>",
      to = account,
      subject = "Hello",
      text = "A mail.",
      labels: labelIds = ["INBOX", "UNREAD"],
    } = input;
    const id = `18f${(++serial).toString(16).padStart(13, "0")}`;
    const data = Buffer.from(text).toString("base64url");
    const payload = input.payload ?? {
      mimeType: "text/plain",
      filename: "",
      headers: [{ name: "Content-Type", value: "text/plain; charset=UTF-8" }],
      body: { size: Buffer.byteLength(text), data },
    };
    const headers = [
      { name: "From", value: from },
      { name: "To", value: to },
      { name: "Subject", value: subject },
      ...(payload.headers ?? []),
    ];
    const message: GmailMessage = {
      id,
      threadId: id,
      labelIds,
      snippet: input.snippet ?? text.slice(0, 100),
      internalDate: String(Date.now()),
      payload: { ...payload, headers },
    };
    messages.set(id, message);
    // Other changes use up ids as well.
    mailbox.historyId += 3;
    history.push({ id: mailbox.historyId, message: { id, threadId: id, labelIds } });
    return message;
  };

  const tell = (labelIds: readonly string[]): void => {
    const { watch } = mailbox;
    if (
      !watch ||
      watch.expires <= Date.now() ||
      !labelIds.some((label) => watch.labels.includes(label))
    )
      return;
    publisher(watch.topic)?.publish({ emailAddress: account, historyId: mailbox.historyId });
  };

  const startWatch = (body: { topicName: string; labelIds?: string[] }): unknown => {
    const found = publisher(body.topicName);
    if (!found) throw new Refusal(404, "NOT_FOUND");
    if (!found.allows("serviceAccount:gmail-api-push@system.gserviceaccount.com"))
      throw new Refusal(403, "PERMISSION_DENIED");
    const { expires: until = 0, topic } = mailbox.watch ?? {};
    if (until > Date.now() && topic !== body.topicName)
      throw new Refusal(
        400,
        "INVALID_ARGUMENT",
        [],
        "Only one user push notification client allowed per developer (call /stop then try again)",
      );
    const expires = Date.now() + mailbox.watchMs;
    mailbox.watch = {
      topic: body.topicName,
      labels: body.labelIds ?? [],
      expires,
      count: (mailbox.watch?.count ?? 0) + 1,
    };
    return { historyId: String(mailbox.historyId), expiration: String(expires) };
  };

  const stopWatch = (): unknown => {
    if (mailbox.watch) mailbox.watch.expires = 0;
    return {};
  };

  const posts: Record<string, typeof startWatch> = { watch: startWatch, stop: stopWatch };

  const listHistory = (query: URLSearchParams): unknown => {
    const start = Number(query.get("startHistoryId"));
    if (start < forgotten) throw new Refusal(404, "NOT_FOUND");
    const label = query.get("labelId");
    const found = history.filter(
      ({ id, message }) => id > start && (label === null || message.labelIds.includes(label)),
    );
    const { page, nextPageToken } = pageOf(found, query, mailbox.pageSize);
    const shown = page.map(({ id, message }) => ({
      id: String(id),
      messages: [message],
      messagesAdded: [{ message }],
    }));
    return {
      ...(shown.length > 0 ? { history: shown } : {}),
      historyId: String(mailbox.historyId),
      ...(nextPageToken && { nextPageToken }),
    };
  };

  const listMessages = (query: URLSearchParams): unknown => {
    const after = Number(/\bafter:(\d+)/.exec(query.get("q") ?? "")?.[1] ?? 0) * 1000;
    const wanted = query.getAll("labelIds");
    const hidden = (message: GmailMessage): boolean =>
      message.labelIds?.some((label) => label === "SPAM" || label === "TRASH") ?? false;
    const found = [...messages.values()]
      .filter((message) => Number(message.internalDate) >= after && !hidden(message))
      .filter((message) => wanted.every((label) => message.labelIds?.includes(label)))
      .toReversed();
    const { page, nextPageToken } = pageOf(found, query, mailbox.pageSize);
    const shown = page.map(({ id, threadId }) => ({ id, threadId }));
    return {
      ...(shown.length > 0 ? { messages: shown } : {}),
      resultSizeEstimate: found.length,
      ...(nextPageToken && { nextPageToken }),
    };
  };

  const getMessage = (id: string, query: URLSearchParams): unknown => {
    const found = messages.get(id);
    if (!found) throw new Refusal(404, "NOT_FOUND");
    if (query.get("format") !== "metadata") return found;
    const wanted = query.getAll("metadataHeaders").map((name) => name.toLowerCase());
    return {
      ...found,
      payload: {
        headers: found.payload?.headers?.filter(({ name = "" }) =>
          wanted.includes(name.toLowerCase()),
        ),
      },
    };
  };

  return {
    mailbox,
    /** A message arrives. Returns its id. */
    receive(mail: MailInput = {}): string {
      const { id, labelIds = [] } = store(mail);
      tell(labelIds);
      return id;
    },
    /** A message arrives without a notification. */
    receiveQuietly: (mail: MailInput = {}) => store(mail).id,
    remove: (id: string) => void messages.delete(id),
    /** Gmail forgets the history up to now. */
    expireHistory(): void {
      mailbox.historyId += 3;
      forgotten = mailbox.historyId;
    },
    handle({ method, path, query, body, subject }: Asked): unknown {
      const [, user = "", rest = ""] = /^\/gmail\/v1\/users\/([^/]+)\/(.*)$/.exec(path) ?? [];
      if ((user === "me" ? subject : user) !== account) {
        // Consent of another account reads that account's mailbox, which holds nothing.
        if (rest === "profile" && user === "me") return { emailAddress: subject, historyId: "1" };
        throw new Refusal(403, "PERMISSION_DENIED");
      }
      const post = method === "POST" ? posts[rest] : undefined;
      if (post) return post(body);
      if (method !== "GET") throw new Refusal(404, "NOT_FOUND");
      if (rest === "profile")
        return {
          emailAddress: account,
          messagesTotal: messages.size,
          historyId: String(mailbox.historyId),
        };
      if (rest === "labels") return { labels };
      if (rest === "history") return listHistory(query);
      if (rest === "messages") return listMessages(query);
      const [, attachment] = /^messages\/\w+\/attachments\/(.+)$/.exec(rest) ?? [];
      if (attachment !== undefined) return { data: mailbox.attachments.get(attachment) };
      const [, id] = /^messages\/(\w+)$/.exec(rest) ?? [];
      if (id !== undefined) return getMessage(id, query);
      throw new Refusal(404, "NOT_FOUND");
    },
  };
}
