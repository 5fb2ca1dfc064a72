import { createHmac } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { ConversationsRepliesResponse, UsersInfoResponse } from "@slack/web-api";
import { WebSocketServer, type WebSocket } from "ws";
import { bytesAnswer, createShelf, type Shelf } from "./shelf.ts";
import { answerJson, createFaults, listenOn, readText } from "./wire.ts";
import { createTypingLog, keepSign, type TypingLog } from "./typing-log.ts";
import type { Fault } from "../../src/testing/channel.ts";

/** Ways to fail beyond those that all channels know: a cut or no answer after the message was taken, a 429 that names no wait, an answer that takes 300 ms, one of the vendor's errors. */
export type SlackFault =
  | Fault
  | "cut-after-taking"
  | "hang-after-taking"
  | "rate-limited-bare"
  | "slow"
  | { error: string };

export const BOT_TOKEN = "xoxb-test-4711";
export const APP_TOKEN = "xapp-test-4712";
export const SIGNING_SECRET = "signing-secret-4713";
export const BOT_USER = "U0BOT00001";
export const RETRY_AFTER_S = 7;
const MAX_MARKDOWN = 12_000;
const MAX_TEXT = 40_000;
/** The longest `text` of an edit. */
const MAX_UPDATED = 4_000;

export interface SlackPost {
  channel: string;
  text: string;
  kind: "markdown_text" | "text";
  thread_ts: string | undefined;
  fields: Record<string, string>;
  buttons: { label: string; value: string }[];
  ts: string;
  /** When it was made, in seconds since 1970: `ts` only counts. */
  at: number;
}

type MessageElement = NonNullable<ConversationsRepliesResponse["messages"]>[number];

export interface SlackServer {
  /** The address for `apiUrl`. */
  url: string;
  posts: SlackPost[];
  /** Files that people have sent. */
  shelf: Shelf;
  /** Messages that people wrote in threads, for `conversations.replies`. */
  written: ({
    ts: string;
    thread_ts: string;
    user?: string;
    text: string;
    channel?: string;
  } & Pick<MessageElement, "bot_id" | "bot_profile" | "blocks" | "attachments">)[];
  /** Calls by method, in order, those that failed included. */
  calls: string[];
  /** Calls that have no answer, and that the caller has not given up. */
  hanging: number;
  fail(fault: SlackFault, times?: number): void;
  /** Does not know `markdown_text`, as some servers. */
  withoutMarkdown(): void;
  /** The app may not read what was written. */
  withoutHistory(): void;
  /** The languages of people, for `users.info`; undefined: the app may not read people. */
  locales: Record<string, string> | undefined;
  /** Their names. */
  names: Record<string, string>;
  /** Sends an event through the socket, as soon as there is one, until it is acknowledged. */
  emit(event: object): void;
  /** Sends a frame through the socket as it is. */
  say(frame: string): void;
  /** Somebody presses a button of the last message: by the socket if there is one, else the request is returned. */
  press(label: string, user: string): Request | undefined;
  typing: TypingLog;
  /** The texts that people see after they press a button. */
  notices: { user: string; text: string }[];
  /** Sends what was not acknowledged once more, as the vendor does after a while. */
  redeliver(): void;
  acknowledged: number;
  /** Connections of Socket Mode that stand. */
  sockets(): number;
  /** The number of connections so far, closed ones included. */
  linked: number;
  dropSockets(how: "cut" | "refresh"): void;
  /** Takes connections, and says nothing on them any more. */
  mute(): void;
  close(): Promise<void>;
}

interface Signed {
  at: number;
  secret?: string;
  /** Changes the body after it was signed. */
  change?: (body: string) => string;
}

/** A request as the vendor signs it. */
function signed(path: string, type: string, body: string, options: Signed): Request {
  const { at, secret = SIGNING_SECRET, change = (same) => same } = options;
  const signature = createHmac("sha256", secret).update(`v0:${at}:${body}`).digest("hex");
  const headers = {
    "x-slack-request-timestamp": String(at),
    "x-slack-signature": `v0=${signature}`,
    "content-type": type,
  };
  const url = `http://rouse.test/channels/slack/${path}`;
  return new Request(url, { method: "POST", headers, body: change(body) });
}

/** An event as the vendor posts it. */
export const signedRequest = (
  payload: object,
  { path = "events", ...options }: Signed & { path?: string },
): Request => signed(path, "application/json", JSON.stringify(payload), options);

/** A press of a button as the vendor posts it: a form. */
export function pressRequest(
  payload: object,
  at = Math.floor(Date.now() / 1000),
  secret = SIGNING_SECRET,
): Request {
  const body = new URLSearchParams({ payload: JSON.stringify(payload) }).toString();
  return signed("interactions", "application/x-www-form-urlencoded", body, { at, secret });
}

interface Block {
  type: string;
  text?: { type: string; text: string };
  elements?: {
    type: string;
    text: { type: string; text: string };
    action_id?: string;
    value?: string;
    style?: string;
  }[];
}

/** The buttons of a message's blocks; undefined if a block is not as the vendor wants it. */
function readBlocks(given: string | undefined): SlackPost["buttons"] | undefined {
  const blocks = given === undefined ? [] : (JSON.parse(given) as Block[]);
  const fits = ({ type, text, elements = [] }: Block): boolean => {
    if (type === "section")
      return text?.type === "mrkdwn" && text.text !== "" && text.text.length <= 3000;
    const ids = elements.map(({ action_id }) => action_id);
    if (type === "actions")
      return (
        new Set(ids).size === elements.length &&
        elements.every((one) => one.type === "button" && one.text.text.length <= 75)
      );
    return type === "context" && elements.length <= 10;
  };
  if (!blocks.every(fits)) return undefined;
  const actions = blocks
    .filter(({ type }) => type === "actions")
    .flatMap(({ elements = [] }) => elements);
  return actions.map(({ text, value = "" }) => ({ label: text.text, value }));
}

/** Wraps an event as the vendor does. */
export function eventCallback(event: object, event_id = "Ev1"): object {
  return {
    type: "event_callback",
    team_id: "T1",
    event_id,
    authorizations: [{ user_id: BOT_USER, is_bot: true }],
    event,
  };
}

async function parametersOf(request: IncomingMessage): Promise<Record<string, string>> {
  const text = await readText(request);
  if (request.headers["content-type"]?.includes("json") === true)
    return JSON.parse(text) as Record<string, string>;
  return Object.fromEntries(new URLSearchParams(text));
}

/** A small server that speaks the vendor's Web API and Socket Mode, and can fail. */
export async function startSlack(): Promise<SlackServer> {
  const posts: SlackPost[] = [];
  const calls: string[] = [];
  const shelf = createShelf();
  const written: SlackServer["written"] = [];
  const waiting = new Map<string, object>();
  const sockets = new Set<WebSocket>();
  const faults = createFaults<SlackFault>();
  let markdown = true;
  let scopes = true;
  let mute = false;
  let linked = 0;
  let acknowledged = 0;
  /** Messages that have the app's reaction. */
  const reactions = new Set<string>();
  let count = 0;

  const answer = (response: ServerResponse, body: object): void => answerJson(response, 200, body);
  const refuse = (response: ServerResponse, error: string): void =>
    answer(response, { ok: false, error });

  const post = (fields: Record<string, string>): { error: string } | SlackPost => {
    const { channel = "", text = "", markdown_text = "", thread_ts } = fields;
    const kind = markdown && markdown_text !== "" ? "markdown_text" : "text";
    const content = kind === "markdown_text" ? markdown_text : text;
    if (!/^(?:[CDG]0\w+|#general)$/.test(channel)) return { error: "channel_not_found" };
    if (channel === "C0ARCHIVED") return { error: "is_archived" };
    if (content === "") return { error: "no_text" };
    if (content.length > (kind === "text" ? MAX_TEXT : MAX_MARKDOWN))
      return { error: "msg_too_long" };
    const buttons = readBlocks(fields["blocks"]);
    if (!buttons) return { error: "invalid_blocks" };
    const ts = `1700000000.${String(++count).padStart(6, "0")}`;
    const made = {
      channel,
      text: content,
      kind,
      thread_ts,
      fields,
      buttons,
      ts,
      at: Date.now() / 1000,
    } as const;
    posts.push(made);
    return made;
  };

  /** Posts since `oldest`, by pages: the vendor gives their metadata only where it is asked for. */
  const history = (
    fields: Record<string, string>,
    response: ServerResponse,
    wanted: (post: SlackPost) => boolean,
    people?: readonly { ts: string }[],
  ): void => {
    if (!scopes) return refuse(response, "missing_scope");
    const found = posts.filter(
      (made) =>
        made.channel === fields["channel"] &&
        made.at >= Number(fields["oldest"] ?? 0) &&
        wanted(made),
    );
    const messages = found.map(({ ts, text, fields: given }) => ({
      type: "message",
      ts,
      text,
      ...(fields["include_all_metadata"] === "true" &&
        given["metadata"] !== undefined && { metadata: JSON.parse(given["metadata"]) as unknown }),
    }));
    // A thread begins with its oldest message, a conversation with its newest.
    const all = people
      ? [...people.map((one) => ({ type: "message", ...one })), ...messages]
      : messages.toReversed();
    const [from, limit] = [Number(fields["cursor"] ?? 0), Number(fields["limit"] ?? 100)];
    const next_cursor = from + limit < all.length ? String(from + limit) : "";
    answer(response, {
      ok: true,
      messages: all.slice(from, from + limit),
      has_more: next_cursor !== "",
      response_metadata: { next_cursor },
    });
  };

  const methods: Record<
    string,
    (fields: Record<string, string>, response: ServerResponse) => void
  > = {
    "auth.test": (_, response) => answer(response, { ok: true, user_id: BOT_USER, team_id: "T1" }),
    "conversations.open": ({ users = "" }, response) =>
      /^[UW]0\w+$/.test(users)
        ? answer(response, { ok: true, channel: { id: `D0${users}` } })
        : refuse(response, "user_not_found"),
    "chat.postMessage": (fields, response) => {
      const made = post(fields);
      if ("error" in made) return refuse(response, made.error);
      const { ts, channel, text } = made;
      answer(response, {
        ok: true,
        ts,
        channel: channel === "#general" ? "C0GENERAL" : channel,
        message: { text, ts },
      });
    },
    "chat.delete": ({ channel, ts }, response) => {
      const at = posts.findIndex((one) => one.channel === channel && one.ts === ts);
      if (at < 0) return refuse(response, "message_not_found");
      posts.splice(at, 1);
      answer(response, { ok: true, channel, ts });
    },
    "chat.update": ({ channel, ts, text: given, markdown_text, blocks }, response) => {
      const text = given ?? markdown_text;
      const made = posts.find((one) => one.channel === channel && one.ts === ts);
      const buttons = readBlocks(blocks);
      if (!made) return refuse(response, "message_not_found");
      if (!buttons) return refuse(response, "invalid_blocks");
      if ((text ?? "") === "") return refuse(response, "no_text");
      if ((given ?? "").length > MAX_UPDATED || (markdown_text ?? "").length > MAX_MARKDOWN)
        return refuse(response, "msg_too_long");
      Object.assign(made, { text, buttons });
      answer(response, { ok: true, channel, ts, text });
    },
    "users.info": ({ user = "", include_locale }, response) => {
      if (!self.locales) return refuse(response, "missing_scope");
      const locale = self.locales[user];
      if (locale === undefined) return refuse(response, "user_not_found");
      const info: UsersInfoResponse = {
        ok: true,
        user: {
          id: user,
          profile: { display_name: self.names[user] ?? "" },
          ...(include_locale === "true" && { locale }),
        },
      };
      answer(response, info);
    },
    "chat.postEphemeral": ({ user = "", text = "" }, response) => {
      self.notices.push({ user, text });
      answer(response, { ok: true, message_ts: "1" });
    },
    "assistant.threads.setStatus": ({ channel_id = "", thread_ts = "", status }, response) => {
      if (!/^[CDG]0\w+$/.test(channel_id)) return refuse(response, "channel_not_found");
      if (!/^\d+\.\d+$/.test(thread_ts) || status === undefined)
        return refuse(response, "invalid_arguments");
      if (status === "") self.typing.hidden++;
      const mode = status === "" ? self.typing.mode : keepSign(self.typing, channel_id, thread_ts);
      if (mode === "ok") answer(response, { ok: true });
      else if (mode === "unavailable") response.writeHead(503).end("<html>body-mark-7f3a</html>");
    },
    "reactions.add": ({ channel = "", timestamp = "", name = "" }, response) => {
      if (!/^[CDG]0\w+$/.test(channel)) return refuse(response, "channel_not_found");
      if (!/^\d+\.\d+$/.test(timestamp)) return refuse(response, "bad_timestamp");
      if (!/^[a-z0-9_+-]+$/.test(name)) return refuse(response, "invalid_name");
      const mode = keepSign(self.typing, channel);
      if (mode === "unavailable")
        return void response.writeHead(503).end("<html>body-mark-7f3a</html>");
      if (mode === "hang") return;
      if (reactions.has(timestamp)) return refuse(response, "already_reacted");
      reactions.add(timestamp);
      answer(response, { ok: true });
    },
    "reactions.remove": ({ timestamp = "" }, response) => {
      if (!reactions.delete(timestamp)) return refuse(response, "no_reaction");
      self.typing.hidden++;
      answer(response, { ok: true });
    },
    "conversations.history": (fields, response) =>
      history(fields, response, (made) => made.thread_ts === undefined),
    "conversations.replies": (fields, response) => {
      const { channel: asked, ts: thread, latest = "9" } = fields;
      const people = written.filter(
        ({ thread_ts, ts, channel = asked }) =>
          thread_ts === thread && ts < latest && channel === asked,
      );
      // As the vendor's pages: the oldest first, with what the app has posted.
      history(fields, response, (made) => made.thread_ts === thread, people);
    },
    "apps.connections.open": (_, response) =>
      answer(response, { ok: true, url: `${url.replace("http", "ws")}/link?ticket=${++count}` }),
  };

  const misbehave = (
    failing: SlackFault,
    fields: Record<string, string>,
    request: IncomingMessage,
    response: ServerResponse,
  ): void => {
    if (failing === "cut-after-taking" || failing === "hang-after-taking") post(fields);
    if (failing === "hang-after-taking") return;
    if (failing === "cut-connection" || failing === "cut-after-taking")
      return void request.socket.destroy();
    if (failing === "rate-limited")
      return void response.writeHead(429, { "retry-after": String(RETRY_AFTER_S) }).end();
    if (failing === "rate-limited-bare") return void response.writeHead(429).end();
    if (failing === "unavailable")
      return void response.writeHead(503).end("<html>body-mark-7f3a</html>");
    if (failing === "bad-credential") return refuse(response, "invalid_auth");
    refuse(response, typeof failing === "object" ? failing.error : "channel_not_found");
  };

  const { server, url, close } = await listenOn((request, response) => {
    const file = /^\/files-pri\/T1-(\w+)\/download\/[^/]+$/.exec(request.url ?? "");
    if (file) {
      const { authorization } = request.headers;
      const given = bytesAnswer(shelf, file[1] ?? "", request.url ?? "", authorization);
      // Without a good token the vendor sends its sign-in page.
      if (authorization !== `Bearer ${BOT_TOKEN}`)
        return void response
          .setHeader("content-type", "text/html; charset=utf-8")
          .end("<html>sign in</html>");
      return void response.writeHead(given.status, given.headers).end(given.bytes ?? given.text);
    }
    const serve = async (fields: Record<string, string>): Promise<void> => {
      const method = /^\/api\/([\w.]+)$/.exec(request.url ?? "")?.[1] ?? "";
      calls.push(method);
      const failing = faults.take();
      if (failing === "hang") {
        self.hanging++;
        return void response.once("close", () => self.hanging--);
      }
      if (failing === "slow") await new Promise((passed) => setTimeout(passed, 300));
      else if (failing) return misbehave(failing, fields, request, response);
      const token = method === "apps.connections.open" ? APP_TOKEN : BOT_TOKEN;
      if (request.headers.authorization !== `Bearer ${token}`)
        return refuse(response, "invalid_auth");
      const run = methods[method];
      if (run) run(fields, response);
      else refuse(response, "unknown_method");
    };
    // A caller that is killed leaves half a request, which the vendor drops.
    void parametersOf(request).then(serve, () => response.destroy());
  });
  const push = (socket: WebSocket, envelope_id: string, payload: { type?: string }): void => {
    const type = payload.type === "block_actions" ? "interactive" : "events_api";
    socket.send(
      JSON.stringify({
        type,
        envelope_id,
        payload,
        accepts_response_payload: false,
        retry_attempt: 0,
      }),
    );
  };
  const link = new WebSocketServer({ server, path: "/link" });
  link.on("connection", (socket) => {
    linked++;
    if (mute) return;
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("message", (data: Buffer) => {
      const { envelope_id = "" } = JSON.parse(data.toString("utf8")) as { envelope_id?: string };
      if (waiting.delete(envelope_id)) acknowledged++;
    });
    socket.send(
      JSON.stringify({ type: "hello", num_connections: 1, connection_info: { app_id: "A1" } }),
    );
    for (const [id, payload] of waiting) push(socket, id, payload);
  });

  const self: SlackServer = {
    locales: undefined,
    names: {},
    notices: [],
    typing: createTypingLog(),
    press(label, user) {
      const made = posts.at(-1);
      const value = made?.buttons.find((button) => button.label === label)?.value;
      const container = { type: "message", message_ts: made?.ts, channel_id: made?.channel };
      const actions = [
        {
          type: "button",
          action_id: "any",
          block_id: "b",
          value,
          action_ts: `${Date.now()}.${++count}`,
        },
      ];
      const payload = {
        type: "block_actions",
        user: { id: user, team_id: "T1" },
        container,
        channel: { id: made?.channel },
        actions,
      };
      if (sockets.size === 0) return pressRequest(payload);
      const id = `envelope-${++count}`;
      waiting.set(id, payload);
      for (const socket of sockets) push(socket, id, payload);
      return undefined;
    },
    url: `${url}/api/`,
    posts,
    shelf,
    written,
    calls,
    hanging: 0,
    fail: faults.fail,
    withoutMarkdown: () => void (markdown = false),
    withoutHistory: () => void (scopes = false),
    emit(event) {
      const id = `envelope-${++count}`;
      const payload = eventCallback(event, `Ev${count}`);
      waiting.set(id, payload);
      for (const socket of sockets) push(socket, id, payload);
    },
    say: (frame) => sockets.forEach((socket) => socket.send(frame)),
    redeliver() {
      for (const socket of sockets) for (const [id, payload] of waiting) push(socket, id, payload);
    },
    get acknowledged() {
      return acknowledged;
    },
    sockets: () => sockets.size,
    get linked() {
      return linked;
    },
    dropSockets(how) {
      for (const socket of sockets) {
        if (how === "cut") socket.terminate();
        else socket.send(JSON.stringify({ type: "disconnect", reason: "refresh_requested" }));
      }
    },
    mute() {
      mute = true;
      // A peer that is gone agrees to no end either.
      for (const { _socket } of [...sockets] as (WebSocket & { _socket: Socket })[])
        _socket.pause();
    },
    async close() {
      for (const socket of link.clients) socket.terminate();
      link.close();
      await close();
    },
  };
  return self;
}
