import type { IncomingMessage, ServerResponse } from "node:http";
import { z } from "zod";
import { createShelf, handOver, type Shelf } from "./shelf.ts";
import { answerJson, createFaults, listenOn, readText } from "./wire.ts";
import { createTypingLog, keepSign, type TypingLog } from "./typing-log.ts";

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

export interface BlueBubblesServer {
  url: string;
  /** The messages that reached Messages, oldest first. */
  sent: {
    chatGuid: string;
    text: string;
    tempGuid: string;
    method: string | undefined;
    selectedMessageGuid: string | undefined;
  }[];
  /** Paths that were asked, without their query. */
  asked: string[];
  /** Chats that exist. */
  chats: Set<string>;
  messages: ServerMessage[];
  /** Files that people have sent. */
  shelf: Shelf;
  typing: TypingLog;
  /** Makes the next sends fail, `times` of them or all; a wrong password and being away meet everything. */
  fail(fault: BlueBubblesFault | undefined, times?: number): void;
  /** A message that arrives; returns what a webhook of it carries. */
  arrive(
    text: string | null,
    more?: Partial<ServerMessage>,
  ): { type: "new-message"; data: ServerMessage };
  close(): Promise<void>;
}

const OWNER = "+15551234567";

/** A small BlueBubbles server; the clock of its messages is `now`. */
export async function blueBubblesServer(now: () => number): Promise<BlueBubblesServer> {
  const sent: BlueBubblesServer["sent"] = [];
  const asked: string[] = [];
  const chats = new Set([`iMessage;-;${OWNER}`]);
  const messages: ServerMessage[] = [];
  const shelf = createShelf();
  const typing = createTypingLog();
  const faults = createFaults<BlueBubblesFault>();
  let count = 0;

  const write = (response: ServerResponse, status: number, body: object): void =>
    answerJson(response, status, { status, ...body });
  const refuse = (
    response: ServerResponse,
    status: number,
    type: string,
    said: string,
    data?: object,
  ): void =>
    write(response, status, {
      message: said,
      error: { type, error: said, message: said },
      ...(data ? { data } : {}),
    });
  const add = (more: Partial<ServerMessage>): ServerMessage => {
    const guid = `GUID-${++count}`;
    const message: ServerMessage = {
      guid,
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
  /** Returns true if a fault has answered. The faults quote secrets, as the real server does. */
  const failed = (
    request: IncomingMessage,
    response: ServerResponse,
    text: string,
    accept: () => void,
  ): boolean => {
    const quote = `${request.url} ${text}`;
    switch (faults.take()) {
      case "hang":
        return true;
      case "cut-connection":
        request.socket.destroy();
        return true;
      case "cut-after-taking":
        accept();
        request.socket.destroy();
        return true;
      case "rate-limited":
        response.writeHead(429, { "retry-after": "5" }).end(quote);
        return true;
      case "unavailable":
        response.writeHead(503).end(quote);
        return true;
      case "redirect":
        response.writeHead(307, { location: "http://127.0.0.1:1/elsewhere" }).end();
        return true;
      case "no-such-recipient":
        refuse(response, 500, "iMessage Error", quote, { guid: "GUID-X", error: 22 });
        return true;
      case "no-such-chat":
        refuse(response, 500, "iMessage Error", `Can’t get chat id "${quote}"`);
        return true;
      case "private-api-off":
        refuse(response, 500, "iMessage Error", `iMessage Private API is not enabled! ${quote}`);
        return true;
      case "already-queued":
        refuse(
          response,
          400,
          "Validation Error",
          `Message is already queued to be sent! (Temp GUID: ${quote})`,
        );
        return true;
      case "timed-out":
        refuse(response, 500, "iMessage Error", `Transaction timeout ${quote}`);
        return true;
      default:
        return false;
    }
  };

  /** The routes of the Private API for the typing sign, which Messages has in chats with one person alone. */
  const type = (path: string, request: IncomingMessage, response: ServerResponse): boolean => {
    const { method } = request;
    const [, encoded] = /^\/api\/v1\/chat\/([^/]+)\/typing$/.exec(path) ?? [];
    if (encoded === undefined || (method !== "POST" && method !== "DELETE")) return false;
    const guid = decodeURIComponent(encoded);
    if (!/^iMessage;-;\S+$/.test(guid) || !chats.has(guid)) {
      refuse(response, 404, "Database Error", "Chat does not exist!");
      return true;
    }
    if (failed(request, response, "", () => undefined)) return true;
    if (method === "DELETE") typing.hidden++;
    const mode = method === "DELETE" ? "ok" : keepSign(typing, guid.replace(/^.*;-;/, ""));
    if (mode === "ok") write(response, 200, { message: "Successfully changed typing!" });
    else if (mode === "unavailable")
      refuse(response, 500, "iMessage Error", "iMessage Private API is not enabled!");
    return true;
  };

  const give = (path: string, request: IncomingMessage, response: ServerResponse): void => {
    const file = /^\/api\/v1\/attachment\/(\w+)\/download$/.exec(path)?.[1];
    if (file !== undefined) return handOver(shelf, file, request, response);
    const guid = /^\/api\/v1\/message\/([\w-]+)$/.exec(path)?.[1];
    const data = messages.find((message) => message.guid === guid);
    if (data) write(response, 200, { message: "Success", data });
    else refuse(response, 404, "Database Error", "not found");
  };

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { pathname, searchParams } = new URL(request.url ?? "", "http://server");
    asked.push(pathname);
    const text = await readText(request);
    if (searchParams.get("password") !== PASSWORD || faults.see() === "bad-credential")
      return refuse(response, 401, "Authentication Error", `Unauthorized ${request.url}`);
    if (request.method === "GET" && pathname === "/api/v1/ping")
      return write(response, 200, { message: "Ping received!", data: "pong" });
    if (type(pathname, request, response)) return;
    if (request.method !== "POST") return give(pathname, request, response);
    const body: unknown = JSON.parse(text);
    if (pathname === "/api/v1/chat/query") {
      const { guid } = CHAT_QUERY.parse(body);
      return write(response, 200, {
        message: "Success",
        data: chats.has(guid) ? [{ guid, participants: [] }] : [],
      });
    }
    if (pathname === "/api/v1/message/query") {
      if (faults.see() === "unavailable" && faults.take())
        return void response.writeHead(503).end();
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
      return write(response, 200, {
        message: "Success",
        data: found.slice(offset, offset + limit),
      });
    }
    if (pathname === "/api/v1/message/text") {
      const given = TEXT.parse(body);
      if (failed(request, response, text, () => take(given.chatGuid, given))) return;
      return write(response, 200, {
        message: "Message sent!",
        data: { ...take(given.chatGuid, given), tempGuid: given.tempGuid },
      });
    }
    if (pathname === "/api/v1/chat/new") {
      const given = NEW_CHAT.parse(body);
      const guid = `${given.service};-;${given.addresses[0]}`;
      if (failed(request, response, text, () => take(guid, given))) return;
      chats.add(guid);
      return write(response, 200, {
        message: "Successfully created chat!",
        data: { guid, messages: [take(guid, given)] },
      });
    }
    return refuse(response, 404, "Database Error", "not found");
  };

  const { url, close } = await listenOn((request, response) => {
    answer(request, response).catch(() =>
      refuse(response, 400, "Validation Error", `bad request ${request.url}`),
    );
  });
  return {
    url,
    sent,
    asked,
    chats,
    messages,
    shelf,
    typing,
    fail: faults.fail,
    arrive: (text, more = {}) => ({ type: "new-message", data: add({ text, ...more }) }),
    close,
  };
}
