import type { REST } from "@discordjs/rest";
import type { SessionInfo, SimpleShardingStrategy, WebSocketManager } from "@discordjs/ws";
import {
  ChannelError,
  checkpoint,
  loadPackage,
  nativeCommands,
  once,
  parseDecision,
  parseObject,
  reconnectLoop,
  toEdit,
  toIncomingMessage,
  withConnection,
} from "#channel-kit";
import type { ChannelHost, ReceivedMessage } from "#plugin";
import { readParts, toName, type DiscordContent, type GatewayMessage } from "./content.ts";
import { VENDOR } from "./send.ts";

/** `GUILD_MESSAGES` and `DIRECT_MESSAGES`. The contents of messages to the bot and of mentions come without more. */
const INTENTS = (1 << 9) | (1 << 12);
/** `MESSAGE_CONTENT`, which is privileged: the text of all other messages. */
const CONTENT_INTENT = 1 << 15;
/** The flags of an application that may have it: one in many servers, and one in few. */
const CONTENT_FLAGS = (1 << 18) | (1 << 19);
/** The kinds of threads: of announcements, public and private. */
const THREAD_TYPES = [10, 11, 12];
/** `DEFAULT` and `REPLY`; the others are notices of Discord. */
const WRITTEN_TYPES = [0, 19];
/** So many times no gateway is met where the session was; then a new one begins, elsewhere. */
const MAX_MISSES = 5;
/** The time for which the bot's roles in a server stay known. */
const ROLES_MS = 600_000;
/** The interval at which the place is saved while nothing for the agent comes. */
const SAVE_EVERY_MS = 10_000;
/** Closes the connection so that Discord keeps the session. */
const CLOSE_RESUMABLE = 4200;
/** Closed in these ways, Discord takes the session up no more. */
const FORGOTTEN = [1000, 4007, 4009];
const CLOSE_REASONS: Record<number, string> = {
  4004: "discord does not know the bot token",
  4014: "discord does not give the bot these intents",
};

/** The bot: its id, and its roles in the server of a message. People mention a bot by its role, too. */
interface Self {
  me: string;
  roles: readonly string[];
}

const HIDDEN =
  "the message answers the bot without a mention, and Discord shows its content only with the Message Content Intent";

/** Returns whether Discord shows nothing of a message. */
const isHidden = ({
  content,
  attachments,
  sticker_items,
  poll,
}: Omit<DiscordContent, "mentions">) =>
  content === "" && !attachments?.length && !sticker_items?.length && !poll;

/** A message for the agent, or why it is not for it; undefined for the bot's own. */
function toMessage(message: GatewayMessage, { me, roles }: Self): ReceivedMessage | undefined {
  const { id, author, channel_id: to, member, ...given } = message;
  if (author.id === me) return undefined;
  if (author.bot || given.webhook_id !== undefined)
    return { id, skipped: "the message was written by a bot" };
  if (!WRITTEN_TYPES.includes(given.type))
    return { id, skipped: `a notice of discord (type ${given.type}), not a message of a person` };
  const direct = given.guild_id === undefined;
  const { mention_roles: called = [], referenced_message: answered } = given;
  const isCalled =
    given.mentions.some((mention) => mention.id === me) ||
    called.some((role) => roles.includes(role));
  const isAnswer = answered?.author.id === me;
  if (!direct && isAnswer && !isCalled && isHidden(given)) return { id, skipped: HIDDEN };
  return toIncomingMessage({
    id,
    from: author.id,
    name: toName({ ...author, ...(member && { member }) }),
    to,
    direct,
    ...(!direct && { room: { kind: "channel" } }),
    mentioned: isCalled || isAnswer,
    inThread: given.channel_type !== undefined && THREAD_TYPES.includes(given.channel_type),
    parts: readParts(message, [me, ...roles.map((role) => `&${role}`)]),
  });
}

/** An edit; previews of links come as one too, without its time. */
function readEdit(message: Partial<GatewayMessage>, self: Self): ReceivedMessage | undefined {
  const {
    id: edits = "",
    author,
    edited_timestamp: at,
    timestamp = "",
    content,
    type = 0,
    mentions = [],
    channel_id,
  } = message;
  if (!at || !author || author.id === self.me) return undefined;
  const id = `${edits} ${at}`;
  if (content === undefined || channel_id === undefined)
    return { id, skipped: "an edit of an earlier message" };
  const read = toMessage(
    { ...message, id: edits, author, content, type, mentions, channel_id },
    self,
  );
  return read && toEdit(read, id, Date.parse(timestamp));
}

/** A press of a button or a command, as the gateway gives it. In a guild the person is a member. */
export interface GatewayInteraction {
  id: string;
  token: string;
  type: number;
  data?: { custom_id?: string; name?: string; options?: { value?: unknown }[] };
  channel_id?: string;
  guild_id?: string;
  /** The language of the person's app. */
  locale?: string;
  user?: { id: string };
  member?: { user: { id: string } };
}

const COMMAND = 2;
const PRESS = 3;
/** An answer that only the person who pressed sees. */
const MESSAGE_RESPONSE = 4;
const EPHEMERAL = 64;
/** The kind of a command's option. */
const STRING = 3;

/** Shows a text to the person behind an interaction. One that Discord takes no more is not shown. */
async function respond(
  { id, token }: GatewayInteraction,
  content: string,
  rest: REST,
): Promise<void> {
  const body = {
    type: MESSAGE_RESPONSE,
    data: { content, flags: EPHEMERAL, allowed_mentions: { parse: [] } },
  };
  await rest
    .post(`/interactions/${id}/${token}/callback`, { body, auth: false })
    .catch(() => undefined);
}

/**
 * Passes on a press of a button, or a command of the app as the message that people would write, and answers the person, for which
 * Discord waits three seconds. Returns the message, if it is one.
 */
async function takeInteraction(
  interaction: GatewayInteraction,
  rest: REST,
  host: ChannelHost,
): Promise<ReceivedMessage | undefined> {
  const { id, type, data = {}, user, member, channel_id: to, guild_id } = interaction;
  const { locale: language } = interaction;
  const from = (member?.user ?? user)?.id;
  if (from === undefined) return undefined;
  const decision = type === PRESS ? parseDecision(data.custom_id ?? "") : undefined;
  if (decision) {
    const { text } = await host.decide({ id, from, language, ...decision });
    await respond(interaction, text, rest);
  }
  if (type !== COMMAND || data.name === undefined || to === undefined) return undefined;
  const words = (data.options ?? []).map(({ value }) => String(value));
  const text = [`/${data.name}`, ...words].join(" ");
  const direct = guild_id === undefined;
  const message = toIncomingMessage({
    id,
    from,
    language,
    to,
    direct,
    ...(!direct && { room: { kind: "channel" } }),
    mentioned: true,
    parts: [{ kind: "own", text }],
  });
  await host.receive(message);
  await respond(interaction, `\`${text}\``, rest);
  return message;
}

/** Shows the commands in Discord's apps. */
async function registerCommands(rest: REST): Promise<void> {
  const { id } = (await rest.get("/applications/@me")) as { id: string };
  const body = nativeCommands().map(({ name, description, argument }) => ({
    name,
    description,
    ...(argument && { options: [{ type: STRING, description: argument.name, ...argument }] }),
  }));
  await rest.put(`/applications/${id}/commands`, { body });
}

/** The gateway's events that are read, with their readers. */
const DISPATCHED: Partial<
  Record<string, (message: GatewayMessage, self: Self) => ReceivedMessage | undefined>
> = {
  MESSAGE_CREATE: toMessage,
  MESSAGE_UPDATE: readEdit,
};

/** Hands over what an event of the gateway holds. Returns the message, if it is one. */
async function takeEvent(
  event: string,
  payload: unknown,
  {
    me,
    findRoles,
    rest,
    host,
  }: { me: string; findRoles: FindRoles; rest: REST; host: ChannelHost },
): Promise<ReceivedMessage | undefined> {
  if (event === "INTERACTION_CREATE")
    return takeInteraction(payload as GatewayInteraction, rest, host);
  const read = DISPATCHED[event];
  if (!read) return undefined;
  const roles = await findRoles(payload as Partial<GatewayMessage>);
  const message = read(payload as GatewayMessage, { me, roles });
  if (message) await host.receive(message);
  return message;
}

/** The bot's roles in the server of a message that mentions roles. */
type FindRoles = (message: Partial<GatewayMessage>) => Promise<readonly string[]>;

/** Asks for the roles of the bot, and remembers them. None if Discord does not answer: then a role is no mention. */
function createRoles(rest: REST, me: string): FindRoles {
  const known = new Map<string, { roles: Promise<readonly string[]>; until: number }>();
  const ask = async (guild: string): Promise<readonly string[]> => {
    try {
      const member = (await rest.get(`/guilds/${guild}/members/${me}`)) as { roles?: string[] };
      return member.roles ?? [];
    } catch {
      known.delete(guild);
      return [];
    }
  };
  return async ({ guild_id: guild, mention_roles: called = [] }) => {
    if (guild === undefined || called.length === 0) return [];
    let found = known.get(guild);
    if (!found || found.until < performance.now()) {
      found = { roles: ask(guild), until: performance.now() + ROLES_MS };
      known.set(guild, found);
    }
    return found.roles;
  };
}

/** Returns the intents to ask for: more than direct messages and mentions only if the application may have it. */
async function readIntents(rest: REST, signal: AbortSignal): Promise<number> {
  const { flags = 0 } = (await rest.get("/applications/@me", { signal })) as { flags?: number };
  return (flags & CONTENT_FLAGS) === 0 ? INTENTS : INTENTS | CONTENT_INTENT;
}

/** Methods of a connection of the SDK that it does not wait for: their errors would end the process. */
const LEFT_ALONE = ["internalConnect", "onMessage", "onClose", "heartbeat"];

/** Calls `fail` if a connection of a strategy has such an error, as at a frame without its parts. */
function catchErrors(
  strategy: SimpleShardingStrategy,
  fail: (error: ChannelError) => void,
): SimpleShardingStrategy {
  type Method = (...values: unknown[]) => Promise<void>;
  const { shards } = strategy as unknown as { shards: Map<number, Record<string, Method>> };
  const connect = strategy.connect.bind(strategy);
  strategy.connect = () => {
    for (const shard of shards.values())
      for (const name of LEFT_ALONE) {
        const method = shard[name]?.bind(shard);
        if (method)
          shard[name] = (...values) =>
            method(...values).catch(() =>
              fail(new ChannelError("discord sent what is not its format")),
            );
      }
    return connect();
  };
  return strategy;
}

/** The gateway of Discord: one session, taken up again after a cut and after a restart, so that Discord sends what was missed. */
export async function listen(
  token: string,
  client: () => Promise<REST>,
  signal: AbortSignal,
  host: ChannelHost,
): Promise<void> {
  /** The place of what was received, not of what has arrived; null begins a new session. */
  let place = (parseObject((await host.cursor()) ?? "") ?? null) as
    | (SessionInfo & { intents?: number })
    | null;
  let misses = 0;
  const register = once(async () => registerCommands(await client()).catch(() => undefined));
  const kept = checkpoint(host, SAVE_EVERY_MS);

  /** One connection, of a manager of its own. */
  const connect = async (watched: ChannelHost): Promise<void> => {
    const rest = await client();
    const { WebSocketManager: Manager, SimpleShardingStrategy: Strategy } = await loadPackage(
      "@discordjs/ws",
      () => import("@discordjs/ws"),
    );
    const { id: me } = (await rest.get("/users/@me", { signal })) as { id: string };
    const findRoles = createRoles(rest, me);
    const intents = await readIntents(rest, signal);
    // A session keeps the intents that it began with.
    if (misses++ >= MAX_MISSES || (place?.intents ?? INTENTS) !== intents) place = null;
    // The session is resumed from this place, so events that arrived and were not received come again.
    let session: SessionInfo | null = place;
    await withConnection(signal, { unopened: "discord closed the connection" }, (connection) => {
      const manager: WebSocketManager = new Manager({
        token,
        intents,
        rest,
        shardCount: 1,
        buildStrategy: (own) => catchErrors(new Strategy(own), connection.fail),
        async retrieveSessionInfo() {
          // The SDK would connect again by itself, and cannot be told not to: the next connection is another manager's.
          if (connection.signal.aborted) await new Promise(() => undefined);
          return session;
        },
        updateSessionInfo(_, given) {
          // At the end of a connection the SDK drops a session that Discord keeps.
          if (connection.signal.aborted) return;
          session = given;
          if (given === null) place = null;
        },
      });
      const up = (): void => {
        connection.greeted();
        void register();
        watched.report({ ok: true, message: "receiving" });
      };
      manager
        .on("ready", up)
        .on("resumed", up)
        .on("hello", () => void (misses = 0))
        .on("error", connection.fail)
        .on("socketError", () => undefined)
        .on("dispatch", (payload) => {
          const { t, d, s } = payload as { t: string; d: unknown; s: number };
          const at = session && { ...session, sequence: s, intents };
          connection.inOrder(async () => {
            const message = await takeEvent(t, d, { me, findRoles, rest, host: watched });
            place = at;
            const taken = message !== undefined && !("skipped" in message);
            if (place) await kept.move(JSON.stringify(place), taken).catch(() => undefined);
          });
        })
        .on("closed", (code) => {
          if (FORGOTTEN.includes(code)) place = null;
          // Discord asked for another connection.
          if (code === CLOSE_RESUMABLE) connection.ended();
          else
            connection.fail(
              new ChannelError(CLOSE_REASONS[code] ?? `the connection was closed (${code})`),
            );
        });
      manager.connect().catch(connection.fail);
      return () => manager.destroy({ code: CLOSE_RESUMABLE });
    });
  };

  await reconnectLoop(signal, host, {
    connect,
    vendor: VENDOR,
    say: (reason) => `not receiving: ${reason}`,
  });
  await kept.save();
}
