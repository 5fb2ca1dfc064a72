import { WebSocketServer, type WebSocket } from "ws";
import type { Fault } from "../../src/testing/channel.ts";
import { bytesAnswer, createShelf } from "./shelf.ts";
import { createTypingLog, keepSign } from "./typing-log.ts";
import { failing, serve, type Answer, type Call } from "./wire.ts";

/** Ways to fail beyond those that all channels know. */
type DiscordFault =
  | Fault
  | "cut-after-taking"
  | "no access"
  | "AutoMod"
  | "no direct messages"
  | "no history";

/** A message as it arrived. */
export interface DiscordMessage {
  id: string;
  channel: string;
  content: string;
  request: Record<string, unknown>;
  buttons: { label: string; custom_id: string }[];
}

interface Session {
  id: string;
  intents: number;
  events: { t: string; s: number; d: unknown }[];
  socket?: WebSocket;
}

/** A command that the gateway received: `identify`, or `resume` with its sequence. */
interface Received {
  op: "identify" | "resume";
  path: string;
  d: Record<string, unknown>;
}

/** A command that the app has registered. */
interface Registered {
  name: string;
  description: string;
  options?: object[];
}

export type DiscordServer = Awaited<ReturnType<typeof startDiscord>>;

/** The bot of the test server, a channel, a thread of it, a user and the channel of their direct messages. */
export const BOT_ID = "700000000000000001";
/** The role that Discord gives a bot in each server. */
export const BOT_ROLE = "700000000000000099";
/** The bot in answers of the API. */
const SELF: Readonly<Record<string, object>> = {
  "/users/@me": { id: BOT_ID, username: "rouse", bot: true },
  [`/guilds/1/members/${BOT_ID}`]: { user: { id: BOT_ID }, roles: [BOT_ROLE], nick: null },
};
export const CHANNEL = "800000000000000001";
export const THREAD = "800000000000000002";
export const USER = "600000000000000001";
export const DIRECT = "900000000000000001";
export const RETRY_AFTER = 0.6;
const CHANNELS = [CHANNEL, THREAD, DIRECT];
const CONTENT_INTENT = 1 << 15;

const error = (status: number, code: number, message: string, more: object = {}): Answer => ({
  status,
  json: { message, code, ...more },
});

/** The answer of a fault that is the vendor's own. */
function injected(fault: DiscordFault | undefined): Answer | undefined {
  switch (fault) {
    case "rate-limited":
      return {
        status: 429,
        json: { message: "You are being rate limited.", retry_after: RETRY_AFTER, global: false },
        headers: {
          "retry-after": "1",
          "x-ratelimit-scope": "shared",
          "x-ratelimit-bucket": "b",
          "x-ratelimit-limit": "5",
        },
      };
    case "bad-credential":
      return error(401, 0, "401: Unauthorized");
    case "no-such-recipient":
      return error(404, 10003, "Unknown Channel");
    case "no access":
      return error(403, 50001, "Missing Access");
    case "AutoMod":
      return error(400, 200_000, "Message was blocked by AutoMod");
    case "no history":
      return error(400, 160002, "Cannot reply without permission to read message history");
    case "no direct messages":
      return error(403, 50007, "Cannot send messages to this user");
    default:
      return undefined;
  }
}

interface Row {
  type: number;
  components: { type: number; style: number; label: string; custom_id: string }[];
}

/** The buttons of a request; undefined if one is not as Discord wants it. */
function readButtons({ components = [] }: Call["body"]): DiscordMessage["buttons"] | undefined {
  const rows = components as Row[];
  const fits = ({ type, style, label, custom_id }: Row["components"][number]): boolean =>
    type === 2 &&
    style >= 1 &&
    style <= 4 &&
    label !== "" &&
    label.length <= 80 &&
    custom_id !== "" &&
    custom_id.length <= 100;
  const whole = rows.every(
    (row) => row.type === 1 && row.components.length <= 5 && row.components.every(fits),
  );
  return whole ? rows.flatMap((row) => row.components) : undefined;
}

interface Pushed {
  guild_id?: string;
  channel_id?: string;
  author?: { id: string };
  mentions?: { id: string }[];
}

/** An event as a session gets it: without the intent, messages of a guild that do not mention the bot have no text and no files. */
function showTo({ intents }: Session, event: string, message: Pushed): object {
  if (!event.startsWith("MESSAGE_")) return message;
  const { guild_id, channel_id, author, mentions = [] } = message;
  const shown = {
    ...message,
    channel_type: guild_id === undefined ? 1 : channel_id === THREAD ? 11 : 0,
  };
  const isOpen =
    guild_id === undefined || author?.id === BOT_ID || mentions.some(({ id }) => id === BOT_ID);
  return isOpen || (intents & CONTENT_INTENT) !== 0
    ? shown
    : { ...shown, content: "", attachments: [] };
}

/** The HTTP API and the gateway of Discord, as far as a bot that reads and writes messages needs them. */
export async function startDiscord() {
  const token = "NzAwMDAw.test-token.of-the-bot_0123456789";
  const messages: DiscordMessage[] = [];
  const shelf = createShelf();
  const nonces = new Map<string, DiscordMessage>();
  const faults: { fault: DiscordFault; path: string }[] = [];
  const sessions = new Map<string, Session>();
  const gateway: Received[] = [];
  const calls: string[] = [];
  const attempts: number[] = [];
  const presses = new Set<string>();
  const notices: string[] = [];
  const typing = createTypingLog();
  let refusals = 0;
  let sequence = 0;
  let posted = -1;
  let gatewayUrl = "";

  const post = (channel: string, body: Call["body"]): Answer => {
    if (!CHANNELS.includes(channel)) return error(404, 10003, "Unknown Channel");
    const content = typeof body.content === "string" ? body.content.trim() : "";
    if (content === "") return error(400, 50006, "Cannot send an empty message");
    if ([...content].length > 2000) {
      const problem = { code: "BASE_TYPE_MAX_LENGTH", message: "Must be 2000 or fewer in length." };
      return error(400, 50035, "Invalid Form Body", {
        errors: { content: { _errors: [problem] } },
      });
    }
    if (typeof body.nonce === "string" && body.nonce.length > 25)
      return error(400, 50035, "Invalid Form Body");
    const nonce =
      body.enforce_nonce === true && typeof body.nonce === "string"
        ? `${channel}/${body.nonce}`
        : undefined;
    const known = nonce === undefined ? undefined : nonces.get(nonce);
    const buttons = readButtons(body);
    if (!buttons) return error(400, 50035, "Invalid Form Body");
    const message = known ?? {
      id: `1${String(++posted).padStart(17, "0")}`,
      channel,
      content,
      request: body,
      buttons,
    };
    if (!known) messages.push(message);
    if (nonce !== undefined) nonces.set(nonce, message);
    return {
      status: 200,
      json: {
        id: message.id,
        channel_id: channel,
        content,
        nonce: body.nonce,
        type: 0,
        author: { id: BOT_ID, bot: true },
      },
    };
  };

  const edit = (id: string, body: Call["body"]): Answer => {
    const message = messages.find((one) => one.id === id);
    const buttons = readButtons(body);
    if (!message) return error(404, 10008, "Unknown Message");
    const { length } = [...String(body["content"])];
    if (!buttons || length === 0 || length > 2000) return error(400, 50035, "Invalid Form Body");
    Object.assign(message, { content: String(body["content"]), buttons });
    return { status: 200, json: { id } };
  };

  const remove = (id: string): Answer => {
    const at = messages.findIndex((one) => one.id === id);
    if (at < 0) return error(404, 10008, "Unknown Message");
    messages.splice(at, 1);
    return { status: 204 };
  };

  const putCommands = (body: unknown): Answer => {
    const commands = body as Registered[];
    const isWrong = commands.some(
      ({ name, description }) =>
        !/^[-_a-z0-9]{1,32}$/.test(name) || description.length < 1 || description.length > 100,
    );
    if (isWrong) return error(400, 50035, "Invalid Form Body");
    self.commands = commands;
    return { status: 200, json: commands };
  };

  const answerPress = (id: string, { type, data }: Call["body"]): Answer => {
    if (!presses.delete(id)) return error(404, 10062, "Unknown interaction");
    const { content, flags } = data as { content: string; flags: number };
    if (type !== 4 || flags !== 64) return error(400, 50035, "Invalid Form Body");
    notices.push(content);
    return { status: 204 };
  };

  const showTyping = (channel: string): Answer =>
    CHANNELS.includes(channel)
      ? (keepSign(typing, channel) ?? { status: 204 })
      : error(404, 10003, "Unknown Channel");

  const describeApplication = (): Answer => ({
    status: 200,
    json: {
      id: "1",
      flags: self.givesContent ? 1 << 19 : 0,
      interactions_endpoint_url: self.interactionsUrl,
    },
  });

  const api = (method: string, route: string, body: Call["body"]): Answer => {
    const [, shownIn] = /^\/channels\/(\d+)\/typing$/.exec(route) ?? [];
    if (method === "POST" && shownIn !== undefined) return showTyping(shownIn);
    const [, channel] = /^\/channels\/(\d+)\/messages$/.exec(route) ?? [];
    if (method === "POST" && channel !== undefined) return post(channel, body);
    const [, edited] = /^\/channels\/\d+\/messages\/(\d+)$/.exec(route) ?? [];
    if (method === "PATCH" && edited !== undefined) return edit(edited, body);
    if (method === "DELETE" && edited !== undefined) return remove(edited);
    if (method === "PUT" && route === "/applications/1/commands") return putCommands(body);
    if (route === "/applications/@me") return describeApplication();
    if (method === "POST" && route === "/users/@me/channels") {
      return body.recipient_id === USER
        ? { status: 200, json: { id: DIRECT, type: 1 } }
        : error(400, 50033, "Invalid Recipient(s)");
    }
    const self = SELF[route];
    if (self) return { status: 200, json: self };
    if (route === "/gateway/bot") {
      const session_start_limit = {
        total: 1000,
        remaining: 999,
        reset_after: 14_400_000,
        max_concurrency: 1,
      };
      return { status: 200, json: { url: gatewayUrl, shards: 1, session_start_limit } };
    }
    return error(404, 0, "404: Not Found");
  };

  const { server, url, close } = await serve((call): Answer | Promise<Answer> => {
    const { method, path, headers, body } = call;
    const route = path.replace(/^\/api\/v10/, "");
    const [, file] = /^\/attachments\/1\/2\/(\w+)$/.exec(path) ?? [];
    if (file !== undefined) return bytesAnswer(shelf, file, call);
    calls.push(`${method} ${route}`);
    const [, pressed] = /^\/interactions\/(\w+)\/token\/callback$/.exec(route) ?? [];
    if (pressed !== undefined) return answerPress(pressed, body);
    if (headers.authorization !== `Bot ${token}`) return error(401, 0, "401: Unauthorized");
    const index = faults.findIndex((entry) => route.includes(entry.path));
    const [fault] = index < 0 ? [] : faults.splice(index, 1);
    return failing(fault?.fault, () => injected(fault?.fault) ?? api(method, route, body));
  });
  gatewayUrl = url.replace("http", "ws");

  const wss = new WebSocketServer({
    server,
    verifyClient: () => {
      attempts.push(performance.now());
      return refusals-- <= 0;
    },
  });
  const emit = (session: Session, t: string, d: unknown): void => {
    const event = { t, s: (sequence += 1), d };
    session.events.push(event);
    session.socket?.send(JSON.stringify({ op: 0, ...event }));
  };
  wss.on("connection", (socket, request) => {
    const say = (payload: object): void => socket.send(JSON.stringify(payload));
    let session: Session | undefined;
    say({ op: 10, d: { heartbeat_interval: 41_250 } });
    socket.on("close", (code) => {
      if (session?.socket === socket) delete session.socket;
      // A client that closes normally gives up its session.
      if (session && (code === 1000 || code === 1001)) sessions.delete(session.id);
    });
    socket.on("message", (data) => {
      const { op, d } = JSON.parse((data as Buffer).toString()) as {
        op: number;
        d: Record<string, unknown>;
      };
      if (op === 1) return say({ op: 11 });
      if (op !== 2 && op !== 6) return socket.close(4001);
      gateway.push({ op: op === 2 ? "identify" : "resume", path: request.url ?? "", d });
      if (d.token !== token) return socket.close(4004, "Authentication failed.");
      if (op === 2) {
        const intents = Number(d["intents"]);
        if ((intents & CONTENT_INTENT) !== 0 && !self.givesContent)
          return socket.close(4014, "Disallowed intent(s).");
        session = { id: `session-${gateway.length}`, intents, events: [], socket };
        sessions.set(session.id, session);
        return emit(session, "READY", {
          v: 10,
          user: { id: BOT_ID },
          session_id: session.id,
          resume_gateway_url: `${gatewayUrl}/resume`,
        });
      }
      session = sessions.get(d.session_id as string);
      if (!session) return say({ op: 9, d: false });
      session.socket = socket;
      for (const event of session.events.filter(({ s }) => s > Number(d.seq)))
        say({ op: 0, ...event });
      return say({ op: 0, t: "RESUMED", s: sequence, d: {} });
    });
  });

  /** Sends an event to all sessions; those without a connection get it when they resume. */
  const push = (
    message: object,
    event: "MESSAGE_CREATE" | "MESSAGE_UPDATE" | "INTERACTION_CREATE" = "MESSAGE_CREATE",
  ): void => {
    for (const session of sessions.values()) emit(session, event, showTo(session, event, message));
  };
  /** Something that a person does with the app, in a guild or in direct messages. */
  const interact = (user: string, where: "guild" | undefined, more: object): void => {
    const id = `70${sequence}`;
    presses.add(id);
    const who =
      where === "guild"
        ? { guild_id: "1", member: { user: { id: user } } }
        : { user: { id: user } };
    push(
      { id, application_id: "1", token: "token", version: 1, ...who, ...more },
      "INTERACTION_CREATE",
    );
  };

  const self = {
    url: `${url}/api`,
    gatewayUrl,
    token,
    messages,
    /** Files that people have sent. */
    shelf,
    /** The requests to the HTTP API, rejected ones included. */
    calls,
    fail: (fault: DiscordFault, { times = 1, path = "" }: { times?: number; path?: string } = {}) =>
      void faults.push(...Array.from({ length: times }, () => ({ fault, path }))),
    gateway,
    push,
    /** Sends a frame to all connections as it is. */
    say: (frame: string) => wss.clients.forEach((socket) => socket.send(frame)),
    /** Somebody presses a button of the last message. */
    press(label: string, user: string, where?: "guild", locale?: string): void {
      const message = messages.at(-1);
      const custom_id = message?.buttons.find((button) => button.label === label)?.custom_id;
      interact(user, where, {
        type: 3,
        channel_id: message?.channel,
        locale,
        data: { component_type: 2, custom_id },
        message: { id: message?.id },
      });
    },
    /** Somebody chooses a command of the app. */
    command(
      name: string,
      {
        user,
        channel,
        words = [],
        where,
      }: { user: string; channel: string; words?: string[]; where?: "guild" },
    ): void {
      const options = words.map((value) => ({ type: 3, name: "word", value }));
      const data = { name, options };
      interact(user, where, { type: 2, channel_id: channel, locale: "de", data });
    },
    commands: [] as Registered[],
    typing,
    /** The texts that people see after they press a button. */
    notices,
    /** The application may have the text of all messages. */
    givesContent: false,
    /** Presses go to this address, and not to the gateway. */
    interactionsUrl: null as string | null,
    /** Closes the connections; without a code they break. */
    disconnect(code?: number): void {
      for (const socket of wss.clients) {
        if (code === undefined) socket.terminate();
        else socket.close(code);
      }
    },
    /** When somebody asked for a connection. */
    attempts,
    /** Lets the next connections fail. */
    refuse: (times: number) => void (refusals = times),
    /** Forgets the sessions, so that a client that resumes has to identify again. */
    expire: () => sessions.clear(),
    connections: () => wss.clients.size,
    async close(): Promise<void> {
      for (const socket of wss.clients) socket.terminate();
      wss.close();
      await close();
    },
  };
  return self;
}
