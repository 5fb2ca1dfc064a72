import { createHmac } from "node:crypto";
import type { Socket } from "node:net";
import type { ConversationsRepliesResponse, UsersInfoResponse } from "@slack/web-api";
import { WebSocketServer, type WebSocket } from "ws";
import { bytesAnswer, createShelf } from "./shelf.ts";
import { createFaults, failing, json, serve, type Answer, type Call } from "./wire.ts";
import { createTypingLog, failSign, keepSign } from "./typing-log.ts";
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

/** A message that a person wrote in a thread. */
type Written = {
  ts: string;
  thread_ts: string;
  user?: string;
  text: string;
  channel?: string;
} & Pick<MessageElement, "bot_id" | "bot_profile" | "blocks" | "attachments">;

export type SlackServer = Awaited<ReturnType<typeof startSlack>>;

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

const parametersOf = ({ headers, body, bytes }: Call): Record<string, string> =>
  headers["content-type"]?.includes("json") === true
    ? (body as Record<string, string>)
    : Object.fromEntries(new URLSearchParams(bytes.toString()));

const refuse = (error: string): Answer => json(200, { ok: false, error });
const CONVERSATION = /^[CDG]0\w+$/;
const STAMP = /^\d+\.\d+$/;

/** The answer of a fault that is the vendor's own. */
function injected(fault: SlackFault | undefined): Answer | undefined {
  if (typeof fault === "object") return refuse(fault.error);
  switch (fault) {
    case "rate-limited":
      return { status: 429, headers: { "retry-after": String(RETRY_AFTER_S) } };
    case "rate-limited-bare":
      return { status: 429 };
    case "bad-credential":
      return refuse("invalid_auth");
    case "no-such-recipient":
      return refuse("channel_not_found");
    default:
      return undefined;
  }
}

/** A small server that speaks the vendor's Web API and Socket Mode, and can fail. */
export async function startSlack() {
  const posts: SlackPost[] = [];
  const calls: string[] = [];
  const shelf = createShelf();
  const written: Written[] = [];
  const waiting = new Map<string, object>();
  const sockets = new Set<WebSocket>();
  const faults = createFaults<SlackFault>();
  let markdown = true;
  let scopes = true;
  let mute = false;
  const typing = createTypingLog();
  const notices: { user: string; text: string }[] = [];
  /** Messages that have the app's reaction. */
  const reactions = new Set<string>();
  let count = 0;

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
    wanted: (post: SlackPost) => boolean,
    people?: readonly { ts: string }[],
  ): Answer => {
    if (!scopes) return refuse("missing_scope");
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
    return json(200, {
      ok: true,
      messages: all.slice(from, from + limit),
      has_more: next_cursor !== "",
      response_metadata: { next_cursor },
    });
  };

  const methods: Record<string, (fields: Record<string, string>) => Answer> = {
    "auth.test": () => json(200, { ok: true, user_id: BOT_USER, team_id: "T1" }),
    "conversations.open": ({ users = "" }) =>
      /^[UW]0\w+$/.test(users)
        ? json(200, { ok: true, channel: { id: `D0${users}` } })
        : refuse("user_not_found"),
    "chat.postMessage": (fields) => {
      const made = post(fields);
      if ("error" in made) return refuse(made.error);
      const { ts, channel, text } = made;
      return json(200, {
        ok: true,
        ts,
        channel: channel === "#general" ? "C0GENERAL" : channel,
        message: { text, ts },
      });
    },
    "chat.delete": ({ channel, ts }) => {
      const at = posts.findIndex((one) => one.channel === channel && one.ts === ts);
      if (at < 0) return refuse("message_not_found");
      posts.splice(at, 1);
      return json(200, { ok: true, channel, ts });
    },
    "chat.update": ({ channel, ts, text: given, markdown_text, blocks }) => {
      const text = given ?? markdown_text;
      const made = posts.find((one) => one.channel === channel && one.ts === ts);
      const buttons = readBlocks(blocks);
      if (!made) return refuse("message_not_found");
      if (!buttons) return refuse("invalid_blocks");
      if ((text ?? "") === "") return refuse("no_text");
      if ((given ?? "").length > MAX_UPDATED || (markdown_text ?? "").length > MAX_MARKDOWN)
        return refuse("msg_too_long");
      Object.assign(made, { text, buttons });
      return json(200, { ok: true, channel, ts, text });
    },
    "users.info": ({ user = "", include_locale }) => {
      if (!self.locales) return refuse("missing_scope");
      const locale = self.locales[user];
      if (locale === undefined) return refuse("user_not_found");
      const info: UsersInfoResponse = {
        ok: true,
        user: {
          id: user,
          profile: { display_name: self.names[user] ?? "" },
          ...(include_locale === "true" && { locale }),
        },
      };
      return json(200, info);
    },
    "chat.postEphemeral": ({ user = "", text = "" }) => {
      notices.push({ user, text });
      return json(200, { ok: true, message_ts: "1" });
    },
    "assistant.threads.setStatus": ({ channel_id = "", thread_ts = "", status }) => {
      if (!CONVERSATION.test(channel_id)) return refuse("channel_not_found");
      if (!STAMP.test(thread_ts) || status === undefined) return refuse("invalid_arguments");
      if (status === "") typing.hidden++;
      const failed = status === "" ? failSign(typing) : keepSign(typing, channel_id, thread_ts);
      return failed ?? json(200, { ok: true });
    },
    "reactions.add": ({ channel = "", timestamp = "", name = "" }) => {
      if (!CONVERSATION.test(channel)) return refuse("channel_not_found");
      if (!STAMP.test(timestamp)) return refuse("bad_timestamp");
      if (!/^[a-z0-9_+-]+$/.test(name)) return refuse("invalid_name");
      const failed = keepSign(typing, channel);
      if (failed) return failed;
      if (reactions.has(timestamp)) return refuse("already_reacted");
      reactions.add(timestamp);
      return json(200, { ok: true });
    },
    "reactions.remove": ({ timestamp = "" }) => {
      if (!reactions.delete(timestamp)) return refuse("no_reaction");
      typing.hidden++;
      return json(200, { ok: true });
    },
    "conversations.history": (fields) => history(fields, (made) => made.thread_ts === undefined),
    "conversations.replies": (fields) => {
      const { channel: asked, ts: thread, latest = "9" } = fields;
      const people = written.filter(
        ({ thread_ts, ts, channel = asked }) =>
          thread_ts === thread && ts < latest && channel === asked,
      );
      // As the vendor's pages: the oldest first, with what the app has posted.
      return history(fields, (made) => made.thread_ts === thread, people);
    },
    "apps.connections.open": () =>
      json(200, { ok: true, url: `${url.replace("http", "ws")}/link?ticket=${++count}` }),
  };

  const { server, url, close } = await serve(async (call, gone): Promise<Answer> => {
    const { path, headers } = call;
    const file = /^\/files-pri\/T1-(\w+)\/download\/[^/]+$/.exec(path);
    if (file) {
      const given = bytesAnswer(shelf, file[1] ?? "", call);
      // Without a good token the vendor sends its sign-in page.
      return headers.authorization === `Bearer ${BOT_TOKEN}`
        ? given
        : {
            status: 200,
            text: "<html>sign in</html>",
            headers: { "content-type": "text/html; charset=utf-8" },
          };
    }
    const method = /^\/api\/([\w.]+)$/.exec(path)?.[1] ?? "";
    calls.push(method);
    const fault = faults.take();
    if (fault === "hang") {
      self.hanging++;
      gone.addEventListener("abort", () => self.hanging--);
    }
    if (fault === "slow") await new Promise((passed) => setTimeout(passed, 300));
    return failing(fault, () => {
      const token = method === "apps.connections.open" ? APP_TOKEN : BOT_TOKEN;
      if (headers.authorization !== `Bearer ${token}`) return refuse("invalid_auth");
      const run = methods[method];
      return injected(fault) ?? run?.(parametersOf(call)) ?? refuse("unknown_method");
    });
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
    self.linked++;
    if (mute) return;
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("message", (data: Buffer) => {
      const { envelope_id = "" } = JSON.parse(data.toString("utf8")) as { envelope_id?: string };
      if (waiting.delete(envelope_id)) self.acknowledged++;
    });
    socket.send(
      JSON.stringify({ type: "hello", num_connections: 1, connection_info: { app_id: "A1" } }),
    );
    for (const [id, payload] of waiting) push(socket, id, payload);
  });

  /** Sends a payload through the sockets until it is acknowledged. */
  const deliver = (payload: object): void => {
    const id = `envelope-${++count}`;
    waiting.set(id, payload);
    for (const socket of sockets) push(socket, id, payload);
  };

  const self = {
    /** The address for `apiUrl`. */
    url: `${url}/api/`,
    posts,
    /** Files that people have sent. */
    shelf,
    /** Messages that people wrote in threads, for `conversations.replies`. */
    written,
    /** Calls by method, in order, those that failed included. */
    calls,
    /** Calls that have no answer, and that the caller has not given up. */
    hanging: 0,
    fail: faults.fail,
    /** Does not know `markdown_text`, as some servers. */
    withoutMarkdown: () => void (markdown = false),
    /** The app may not read what was written. */
    withoutHistory: () => void (scopes = false),
    /** The languages of people, for `users.info`; undefined: the app may not read people. */
    locales: undefined as Record<string, string> | undefined,
    /** Their names. */
    names: {} as Record<string, string>,
    typing,
    /** The texts that people see after they press a button. */
    notices,
    /** Somebody presses a button of the last message: by the socket if there is one, else the request is returned. */
    press(label: string, user: string): Request | undefined {
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
      deliver(payload);
      return undefined;
    },
    /** Sends an event through the socket, as soon as there is one, until it is acknowledged. */
    emit: (event: object) => deliver(eventCallback(event, `Ev${++count}`)),
    /** Sends a frame through the socket as it is. */
    say: (frame: string) => sockets.forEach((socket) => socket.send(frame)),
    /** Sends what was not acknowledged once more, as the vendor does after a while. */
    redeliver(): void {
      for (const socket of sockets) for (const [id, payload] of waiting) push(socket, id, payload);
    },
    acknowledged: 0,
    /** Connections of Socket Mode that stand. */
    sockets: () => sockets.size,
    /** The number of connections so far, closed ones included. */
    linked: 0,
    dropSockets(how: "cut" | "refresh"): void {
      for (const socket of sockets) {
        if (how === "cut") socket.terminate();
        else socket.send(JSON.stringify({ type: "disconnect", reason: "refresh_requested" }));
      }
    },
    /** Takes connections, and says nothing on them any more. */
    mute(): void {
      mute = true;
      // A peer that is gone agrees to no end either.
      for (const { _socket } of [...sockets] as (WebSocket & { _socket: Socket })[])
        _socket.pause();
    },
    async close(): Promise<void> {
      for (const socket of link.clients) socket.terminate();
      link.close();
      await close();
    },
  };
  return self;
}
