import { WebSocketServer, type WebSocket } from "ws";
import { bytesAnswer, createShelf } from "./shelf.ts";
import type { Fault } from "../../src/testing/channel.ts";
import { createFaults, failing, json, serve, type Answer, type Call } from "./wire.ts";
import { createTypingLog, keepSign } from "./typing-log.ts";

/** Ways to fail beyond those that all channels know: a cut after the post was made, a hang after it. */
export type MattermostFault = Fault | "cut-after-taking" | "hang-after-taking" | "in-flight";

export const TOKEN = "mattermost-token-4711";
export const RATE_RESET_S = 3;
const MAX_RUNES = 16_383;
const DEDUPLICATION_MS = 30_000;

const id = (name: string): string => name.padEnd(26, "0");
export const ME = id("me");
export const ROSA = id("rosa");
export const OTHER_BOT = id("otherbot");
export const TOWN = id("town");
export const DIRECT = id("direct");
const USERS: Record<string, string> = { [ME]: "rouse.bot", [ROSA]: "rosa", [OTHER_BOT]: "other" };

/** A post, with what the server keeps of it. */
export interface MattermostPost {
  id: string;
  channel_id: string;
  user_id: string;
  root_id: string;
  message: string;
  type: string;
  create_at: number;
  update_at: number;
  delete_at: number;
  pending_post_id: string;
  props: Record<string, unknown>;
  metadata: {
    files?: { id?: string; name: string; mime_type?: string; size?: number }[];
    embeds?: object[];
  };
}

export type WebsocketMode = "open" | "closed" | "refusing" | "mute";

export type MattermostServer = Awaited<ReturnType<typeof startMattermost>>;

const refuse = (status: number, error: string): Answer =>
  json(status, {
    id: error,
    message: "Quotes body-mark-7f3a.",
    detailed_error: "",
    request_id: "r1",
    status_code: status,
  });
const NO_PERMISSION = refuse(403, "api.context.permissions.app_error");

/** The answer of a fault that is the vendor's own. */
function injected(fault: MattermostFault | undefined): Answer | undefined {
  switch (fault) {
    case "rate-limited":
      return {
        status: 429,
        text: "limit exceeded",
        headers: {
          "x-ratelimit-limit": "10",
          "x-ratelimit-remaining": "0",
          "x-ratelimit-reset": String(RATE_RESET_S),
        },
      };
    case "in-flight":
      return refuse(500, "api.post.deduplicate_create_post.pending");
    case "bad-credential":
      return refuse(401, "api.context.session_expired.app_error");
    case "no-such-recipient":
      return NO_PERMISSION;
    default:
      return undefined;
  }
}

/** A small server that speaks the vendor's REST API and websocket, and can fail. */
export async function startMattermost(now: () => number = Date.now) {
  const all: MattermostPost[] = [];
  const calls: string[] = [];
  const shelf = createShelf();
  const channels = new Map([
    [TOWN, "O"],
    [DIRECT, "D"],
  ]);
  const pending = new Map<string, { post: MattermostPost; until: number }>();
  const sockets = new Map<WebSocket, number>();
  const faults = createFaults<MattermostFault>();
  let mode: WebsocketMode = "open";
  let count = 0;
  let clock = now();
  const users = { ...USERS };

  const publish = (event: string, data: object, broadcast: object): void => {
    for (const [socket, seq] of sockets) {
      sockets.set(socket, seq + 1);
      socket.send(JSON.stringify({ event, data, broadcast, seq }));
    }
  };
  const make = (given: Partial<MattermostPost>): MattermostPost => {
    // No two posts at one time: then their order is known.
    clock = Math.max(clock + 1, now());
    const post = {
      id: id(`post${++count}x`),
      channel_id: TOWN,
      user_id: ROSA,
      root_id: "",
      message: "",
      type: "",
      create_at: clock,
      update_at: clock,
      delete_at: 0,
      pending_post_id: "",
      props: {},
      metadata: {},
      ...given,
    };
    all.push(post);
    const data = {
      channel_type: channels.get(post.channel_id),
      ...(post.channel_id === TOWN && { channel_display_name: "Town Square" }),
      post: JSON.stringify(post),
      sender_name: "@display",
    };
    publish("posted", data, { channel_id: post.channel_id });
    return post;
  };

  const create = (given: Partial<MattermostPost>): Answer => {
    const { channel_id = "", message = "", root_id = "", pending_post_id = "", props } = given;
    if (!channels.has(channel_id)) return NO_PERMISSION;
    if (message.trim() === "") return refuse(400, "api.context.invalid_body_param.app_error");
    if ([...message].length > MAX_RUNES)
      return refuse(400, "model.post.is_valid.message_length.app_error");
    if (
      root_id !== "" &&
      !all.some((post) => post.id === root_id && post.channel_id === channel_id)
    )
      return refuse(400, "api.post.create_post.root_id.app_error");
    const seen = pending.get(pending_post_id);
    if (seen && seen.until > Date.now()) return json(201, seen.post);
    const post = make({
      channel_id,
      message,
      root_id,
      pending_post_id,
      user_id: ME,
      props: { ...props, from_bot: "true" },
    });
    if (pending_post_id !== "")
      pending.set(pending_post_id, { post, until: Date.now() + DEDUPLICATION_MS });
    return json(201, post);
  };

  const typing = createTypingLog();
  const showTyping = ({ channel_id = "", parent_id }: Record<string, string>): Answer =>
    channels.has(channel_id)
      ? (keepSign(typing, channel_id, parent_id) ?? json(200, { status: "OK" }))
      : NO_PERMISSION;

  const lookUp = (path: string, body: unknown): object | undefined => {
    const channel = /^channels\/(\w+)$/.exec(path)?.[1] ?? "";
    if (channels.has(channel)) return { id: channel, type: channels.get(channel) };
    if (path === "users/ids")
      return (body as string[]).map((user) => ({ id: user, username: users[user] }));
    const root = /^posts\/(\w+)\/thread$/.exec(path)?.[1];
    if (root === undefined) return undefined;
    const found = all.filter((post) => post.id === root || post.root_id === root);
    return {
      order: found.map(({ id }) => id),
      posts: Object.fromEntries(found.map((post) => [post.id, post])),
    };
  };

  /** Changes a post of the bot, or deletes it. */
  const change = (path: string, message: string | undefined): Answer => {
    const post = /^posts\/(\w+?)(?:\/patch)?$/.exec(path)?.[1];
    const found = all.find((one) => one.id === post && one.user_id === ME);
    if (!found) return refuse(404, "app.post.get.app_error");
    if (message !== undefined && [...message].length > MAX_RUNES)
      return refuse(400, "model.post.is_valid.msg.app_error");
    if (message === undefined) all.splice(all.indexOf(found), 1);
    else Object.assign(found, { message, update_at: ++clock });
    return json(200, message === undefined ? { status: "OK" } : found);
  };

  const listChannels = (): Answer => {
    const last = (channel: string): number =>
      Math.max(
        0,
        ...all.filter((post) => post.channel_id === channel).map((post) => post.create_at),
      );
    const list = [...channels].map(([channel, type]) => ({
      id: channel,
      type,
      last_post_at: last(channel),
    }));
    return json(200, list);
  };

  const route = ({ method, query, body }: Call, path: string): Answer => {
    if (path === "users/me") return json(200, { id: ME, username: users[ME] });
    if (method === "DELETE") return change(path, undefined);
    if (method === "PUT") return change(path, String(body["message"]));
    const name = /^users\/username\/(.+)$/.exec(path)?.[1];
    if (name !== undefined) {
      const user = Object.entries(users).find(([, username]) => username === name);
      return user
        ? json(200, { id: user[0], username: name })
        : refuse(404, "app.user.missing_account.const");
    }
    const known = lookUp(path, body);
    if (known) return json(200, known);
    if (method === "POST" && path === "channels/direct") {
      const pair = body as unknown as string[];
      if (!pair.includes(ME) || pair.some((user) => !(user in users)))
        return refuse(400, "api.context.invalid_body_param.app_error");
      return json(201, { id: DIRECT, type: "D" });
    }
    if (method === "POST" && path === "posts") return create(body);
    if (path === `users/${ME}/channels`) return listChannels();
    const since = /^channels\/(\w+)\/posts$/.exec(path)?.[1];
    if (since !== undefined) {
      const found = all
        .filter((post) => post.channel_id === since && post.update_at > Number(query.get("since")))
        .slice(-1_000);
      return json(200, {
        order: found.map((post) => post.id).toReversed(),
        posts: Object.fromEntries(found.map((post) => [post.id, post])),
      });
    }
    return refuse(404, "api.context.404.app_error");
  };

  const { server, url, close } = await serve((call): Answer | Promise<Answer> => {
    const path = call.path.replace("/api/v4/", "");
    calls.push(`${call.method} ${path}`);
    const fault = faults.take();
    return failing(fault, () => {
      const failed = injected(fault);
      if (failed) return failed;
      if (call.headers.authorization?.replace(/^bearer /i, "") !== TOKEN)
        return refuse(401, "api.context.session_expired.app_error");
      const file = /^files\/(\w+)$/.exec(path)?.[1];
      if (file !== undefined) return bytesAnswer(shelf, file, call);
      if (path === "users/me/typing") return showTyping(call.body as Record<string, string>);
      return route(call, path);
    });
  });

  const link = new WebSocketServer({ server, path: "/api/v4/websocket" });
  link.on("connection", (socket) => {
    if (mode === "closed") return socket.terminate();
    const enter = (): void => {
      sockets.set(socket, 1);
      const data = { server_version: "11.0.0", connection_id: `connection-${++count}` };
      socket.send(JSON.stringify({ event: "hello", data, broadcast: { user_id: ME }, seq: 0 }));
    };
    socket.on("close", () => sockets.delete(socket));
    socket.on("message", (data: Buffer) => {
      if (mode === "mute") return;
      const {
        action,
        seq,
        data: given,
      } = JSON.parse(data.toString("utf8")) as {
        action: string;
        seq: number;
        data?: { token?: string };
      };
      if (action === "authentication_challenge") {
        if (given?.token !== TOKEN || mode === "refusing") {
          const error = {
            id: "api.web_socket_router.not_authenticated.app_error",
            message: "",
            status_code: 401,
          };
          socket.send(JSON.stringify({ status: "FAIL", error, seq_reply: seq }));
          return socket.close();
        }
        socket.send(JSON.stringify({ status: "OK", seq_reply: seq }));
        enter();
      } else if (action === "ping")
        socket.send(JSON.stringify({ status: "OK", data: { text: "pong" }, seq_reply: seq }));
    });
  });

  return {
    url,
    /** The posts of the bot. */
    get posts() {
      return all.filter((post) => post.user_id === ME);
    },
    /** Files that people have sent. */
    shelf,
    typing,
    /** Requests in order, those that failed included: method and path. */
    calls,
    fail: faults.fail,
    /** Somebody writes. */
    write: make,
    /** Somebody changes a post. */
    edit(post: MattermostPost, message: string): void {
      Object.assign(post, { message, update_at: ++clock });
      publish(
        "post_edited",
        { post: JSON.stringify({ ...post, edit_at: clock }) },
        { channel_id: post.channel_id },
      );
    },
    /** Connections of the websocket that are let in. */
    sockets: () => sockets.size,
    dropSockets: () => {
      for (const socket of sockets.keys()) socket.terminate();
    },
    /** Sets the mode of the websocket: `closed` rejects connections, `refusing` rejects tokens, `mute` sends nothing any more. */
    websocket: (next: WebsocketMode) => void (mode = next),
    /** Forgets the ids of pending posts, as after their time. */
    forgetPending: () => pending.clear(),
    /** Adds a member and the channel of the conversation with it, or a room. */
    addMember(member: string, name: string, direct: string): void {
      users[member] = name;
      channels.set(direct, "D");
    },
    addRoom: (room: string) => void channels.set(room, "O"),
    async close(): Promise<void> {
      for (const socket of link.clients) socket.terminate();
      link.close();
      await close();
    },
  };
}
