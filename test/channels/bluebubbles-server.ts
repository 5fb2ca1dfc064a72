import { z } from "zod";
import { bytesAnswer, createShelf } from "./shelf.ts";
import { createFaults, failing, json, serve, type Answer, type Call } from "./wire.ts";
import { createTypingLog, keepSign } from "./typing-log.ts";

/** Ways in which the server, the Mac, or something in between fails. */
export type BlueBubblesFault =
  | "rate-limited"
  | "unavailable"
  | "cut-connection"
  | "cut-after-taking"
  | "hang"
  | "bad-credential"
  | "no-such-recipient"
  | "no-such-chat"
  | "private-api-off"
  | "timed-out"
  | "already-queued"
  | "redirect";

const METHOD = z.enum(["apple-script", "private-api"]).optional();
/** The bodies that the server accepts. Here an unknown member is an error. */
const TEXT = z.strictObject({
  chatGuid: z.string().min(1),
  tempGuid: z.string().min(1),
  message: z.string().min(1),
  method: METHOD,
  selectedMessageGuid: z.string().optional(),
});
const NEW_CHAT = z.strictObject({
  addresses: z.array(z.string()).length(1),
  tempGuid: z.string().min(1),
  message: z.string().min(1),
  method: METHOD,
  service: z.enum(["iMessage", "SMS"]),
});
const CHAT_QUERY = z.strictObject({ guid: z.string(), limit: z.number() });
const MESSAGE_QUERY = z.strictObject({
  chatGuid: z.string().optional(),
  after: z.number().min(0),
  sort: z.enum(["ASC", "DESC"]),
  limit: z.number().min(1).max(1000),
  offset: z.number().min(0).default(0),
  with: z.array(z.string()).default([]),
});

/** A message as the server writes it; the members that matter here. */
export interface ServerMessage {
  guid: string;
  text: string | null;
  subject?: string | null;
  isFromMe: boolean;
  handle: { address: string } | null;
  chats: { guid: string; displayName?: string }[];
  dateEdited?: number;
  attachments?: { guid: string; mimeType: string; transferName: string; totalBytes: number }[];
  threadOriginatorGuid?: string;
  dateCreated: number;
  itemType: number;
  associatedMessageGuid: string | null;
  error: number;
}

export const PASSWORD = "pass word&4711";

export type BlueBubblesServer = Awaited<ReturnType<typeof blueBubblesServer>>;

const OWNER = "+15551234567";

/** A message that was sent, as it reached Messages. */
interface Sent {
  chatGuid: string;
  text: string;
  tempGuid: string;
  method: string | undefined;
  selectedMessageGuid: string | undefined;
}

const success = (body: object): Answer => json(200, { status: 200, ...body });
const refuse = (status: number, type: string, said: string, data?: object): Answer =>
  json(status, {
    status,
    message: said,
    error: { type, error: said, message: said },
    ...(data ? { data } : {}),
  });
const NOT_FOUND = refuse(404, "Database Error", "not found");

/** The answer of a fault. It quotes secrets, as the real server does. */
function injected(fault: BlueBubblesFault | undefined, quote: string): Answer | undefined {
  switch (fault) {
    case "rate-limited":
      return { status: 429, text: quote, headers: { "retry-after": "5" } };
    case "redirect":
      return { status: 307, headers: { location: "http://127.0.0.1:1/elsewhere" } };
    case "no-such-recipient":
      return refuse(500, "iMessage Error", quote, { guid: "GUID-X", error: 22 });
    case "no-such-chat":
      return refuse(500, "iMessage Error", `Can’t get chat id "${quote}"`);
    case "private-api-off":
      return refuse(500, "iMessage Error", `iMessage Private API is not enabled! ${quote}`);
    case "already-queued":
      return refuse(
        400,
        "Validation Error",
        `Message is already queued to be sent! (Temp GUID: ${quote})`,
      );
    case "timed-out":
      return refuse(500, "iMessage Error", `Transaction timeout ${quote}`);
    default:
      return undefined;
  }
}

/** A small BlueBubbles server; the clock of its messages is `now`. */
export async function blueBubblesServer(now: () => number) {
  const sent: Sent[] = [];
  const asked: string[] = [];
  const chats = new Set([`iMessage;-;${OWNER}`]);
  const messages: ServerMessage[] = [];
  const shelf = createShelf();
  const typing = createTypingLog();
  const faults = createFaults<BlueBubblesFault>();
  let count = 0;

  const add = (more: Partial<ServerMessage>): ServerMessage => {
    const message: ServerMessage = {
      guid: `GUID-${++count}`,
      text: "",
      isFromMe: false,
      handle: { address: OWNER },
      chats: [{ guid: `iMessage;-;${OWNER}` }],
      dateCreated: now(),
      itemType: 0,
      associatedMessageGuid: null,
      error: 0,
      ...more,
    };
    messages.push(message);
    return message;
  };

  const take = (
    chatGuid: string,
    body: z.output<typeof TEXT> | z.output<typeof NEW_CHAT>,
  ): ServerMessage => {
    const { message: text, tempGuid, method } = body;
    sent.push({
      chatGuid,
      text,
      tempGuid,
      method,
      selectedMessageGuid: "selectedMessageGuid" in body ? body.selectedMessageGuid : undefined,
    });
    return add({ text, isFromMe: true, handle: null, chats: [{ guid: chatGuid }] });
  };

  /** The routes of the Private API for the typing sign, which Messages has in chats with one person alone. */
  const type = (guid: string, method: string): Answer => {
    if (!/^iMessage;-;\S+$/.test(guid) || !chats.has(guid))
      return refuse(404, "Database Error", "Chat does not exist!");
    if (method === "DELETE") typing.hidden++;
    const failed = method === "DELETE" ? undefined : keepSign(typing, guid.replace(/^.*;-;/, ""));
    return failed ?? success({ message: "Successfully changed typing!" });
  };

  const give = (call: Call): Answer => {
    const file = /^\/api\/v1\/attachment\/(\w+)\/download$/.exec(call.path)?.[1];
    if (file !== undefined) return bytesAnswer(shelf, file, call);
    const guid = /^\/api\/v1\/message\/([\w-]+)$/.exec(call.path)?.[1];
    const data = messages.find((message) => message.guid === guid);
    return data ? success({ message: "Success", data }) : NOT_FOUND;
  };

  const queryMessages = (body: unknown): Answer => {
    const { chatGuid, after, sort, limit, offset } = MESSAGE_QUERY.parse(body);
    const found = messages
      .filter(
        (message) =>
          message.dateCreated >= after &&
          (chatGuid === undefined || message.chats[0]?.guid === chatGuid),
      )
      .toSorted((a, b) =>
        sort === "ASC" ? a.dateCreated - b.dateCreated : b.dateCreated - a.dateCreated,
      );
    return success({ message: "Success", data: found.slice(offset, offset + limit) });
  };

  /** The requests that change something. Faults meet these alone. */
  const change = ({ method, path, body }: Call): Answer => {
    const [, typedIn] = /^\/api\/v1\/chat\/([^/]+)\/typing$/.exec(path) ?? [];
    if (typedIn !== undefined) return type(decodeURIComponent(typedIn), method);
    if (path === "/api/v1/message/text") {
      const given = TEXT.parse(body);
      return success({
        message: "Message sent!",
        data: { ...take(given.chatGuid, given), tempGuid: given.tempGuid },
      });
    }
    if (path === "/api/v1/chat/new") {
      const given = NEW_CHAT.parse(body);
      const guid = `${given.service};-;${given.addresses[0]}`;
      chats.add(guid);
      return success({
        message: "Successfully created chat!",
        data: { guid, messages: [take(guid, given)] },
      });
    }
    return NOT_FOUND;
  };

  const answer = async (call: Call): Promise<Answer> => {
    const { method, path, query, body, bytes } = call;
    const address = `${path}?${query.toString()}`;
    if (query.get("password") !== PASSWORD || faults.see() === "bad-credential")
      return refuse(401, "Authentication Error", `Unauthorized ${address}`);
    if (method === "GET" && path === "/api/v1/ping")
      return success({ message: "Ping received!", data: "pong" });
    if (method === "GET") return give(call);
    if (path === "/api/v1/chat/query") {
      const { guid } = CHAT_QUERY.parse(body);
      const data = chats.has(guid) ? [{ guid, participants: [] }] : [];
      return success({ message: "Success", data });
    }
    if (path === "/api/v1/message/query")
      return faults.see() === "unavailable"
        ? failing(faults.take(), () => NOT_FOUND)
        : queryMessages(body);
    const fault = faults.take();
    const quote = `${address} ${bytes.toString()}`;
    return failing(fault, () => injected(fault, quote) ?? change(call));
  };

  const { url, close } = await serve(async (call): Promise<Answer> => {
    asked.push(call.path);
    return answer(call).catch(() => refuse(400, "Validation Error", `bad request ${call.path}`));
  });
  return {
    url,
    /** The messages that reached Messages, oldest first. */
    sent,
    /** Paths that were asked, without their query. */
    asked,
    /** Chats that exist. */
    chats,
    messages,
    /** Files that people have sent. */
    shelf,
    typing,
    /** Makes the next sends fail, `times` of them or all; a wrong password and being away meet everything. */
    fail: faults.fail,
    /** A message that arrives; returns what a webhook of it carries. */
    arrive: (text: string | null, more: Partial<ServerMessage> = {}) => ({
      type: "new-message",
      data: add({ text, ...more }),
    }),
    close,
  };
}
