import { askSince, heard, normalForm, readHook, sameSecret, type Channel, type IncomingMessage } from "#plugin";
import { parsePerson, VENDOR, type Message, type Server } from "./server.ts";

/** Where a webhook brings messages at once, asking only makes up for those that it lost: the server sends each just once. */
const ASK_MS = { withWebhook: 60_000, without: 3_000 };
const OVERLAP_MS = 300_000;
const PAGE = 200;

/** A message that is for the agent; undefined for its own, reactions, changes of a group and the talk of others. */
function toMessage(data: Message, mentions: readonly string[]): IncomingMessage | undefined {
  const { guid, handle, isFromMe, itemType, associatedMessageGuid } = data;
  const chat = data.chats?.[0]?.guid;
  const address = handle?.address;
  if (!guid || !chat || !address || isFromMe !== false || itemType || associatedMessageGuid) return undefined;
  // An object character stands for each attachment.
  const text = (data.text ?? "").replaceAll("\uFFFC", "");
  const called = mentions.some((name) => text.toLowerCase().includes(name.toLowerCase()));
  const from = normalForm(parsePerson, address) ?? address;
  return heard({ id: guid, from, to: `chat:${chat}`, direct: chat.includes(";-;"), called, text });
}

/** Both ways to receive, for a group that calls the agent by one of these words. */
export function createReceiver(
  { query, now }: Server,
  secret: string | undefined,
  mentions: readonly string[],
): Pick<Channel, "request" | "listen"> {
  return {
    /** Takes the server's webhook, which is not signed: the secret in the path is what says who calls. Strangers learn nothing. */
    async request(request, host) {
      const given = new URL(request.url).pathname.split("/").at(-1) ?? "";
      if (secret === undefined || !sameSecret(given, secret)) return new Response(null, { status: 404 });
      const read = await readHook<{ type?: unknown; data?: Message }>(request, {});
      if (!read.ok) return new Response(null, { status: read.response.status, headers: { allow: "POST" } });
      const { type, data } = read.body;
      if (type === undefined) return new Response(null, { status: 400 });
      const message = type === "new-message" && data ? toMessage(data, mentions) : undefined;
      if (message) await host.receive(message);
      return new Response(null, { status: 204 });
    },
    listen(signal, host) {
      async function* read(after: number) {
        for (let offset = 0, length = PAGE; length === PAGE; offset += PAGE) {
          const page = await query({ after, sort: "ASC", limit: PAGE, offset }, signal);
          ({ length } = page);
          for (const data of page)
            if (data.guid !== undefined) yield { id: data.guid, at: data.dateCreated ?? 0, message: toMessage(data, mentions) };
        }
      }
      const everyMs = secret === undefined ? ASK_MS.without : ASK_MS.withWebhook;
      return askSince(signal, host, { vendor: VENDOR, now, everyMs, overlapMs: OVERLAP_MS, read });
    },
  };
}
