import type { REST } from "@discordjs/rest";
import type { SessionInfo, WebSocketManager } from "@discordjs/ws";
import { backOff, heard, holdLink, keepPlace, loadPackage, pause as wait, stayConnected, Trouble, type ChannelHost } from "#plugin";
import { VENDOR } from "./send.ts";

/** `GUILD_MESSAGES` and `DIRECT_MESSAGES`. The contents of messages to the bot and of mentions come without more. */
const INTENTS = (1 << 9) | (1 << 12);
/** `DEFAULT` and `REPLY`; the others are notices of Discord. */
const WRITTEN_TYPES = [0, 19];
/** A connection that held so long was a good one: the next is made at once. */
const STEADY_MS = 60_000;
/** So many times a session is taken up again after the network failed; then a new one begins. */
const MAX_RESUMES = 5;
/** How often the place is saved while nothing for the agent comes. */
const SAVE_EVERY_MS = 10_000;
/** Closes the connection so that Discord keeps the session. */
const CLOSE_RESUMABLE = 4200;
const CLOSED_BY_NETWORK = 1006;
const CLOSE_REASONS: Record<number, string> = {
  4004: "discord does not know the bot token",
  4014: "discord does not give the bot these intents",
};

/** A message as the gateway gives it, as far as it is read here. */
export interface GatewayMessage {
  id: string;
  channel_id: string;
  guild_id?: string;
  type: number;
  content: string;
  author: { id: string; bot?: boolean };
  webhook_id?: string;
  mentions: { id: string }[];
  attachments: { filename: string; url: string }[];
}

/** A message for the agent; undefined where it is none: of a bot, not to this one, or without content. */
function toMessage({ id, author, channel_id: to, ...given }: GatewayMessage, me: string) {
  if (author.bot || author.id === me || given.webhook_id !== undefined || !WRITTEN_TYPES.includes(given.type)) return undefined;
  const text = given.content.replace(new RegExp(`<@!?${me}>`, "g"), "");
  const files = given.attachments.map(({ filename: name, url }) => ({ name, url }));
  const called = given.mentions.some((mention) => mention.id === me);
  return heard({ id, from: author.id, to, direct: given.guild_id === undefined, called, text, files });
}

function readSession(cursor: string | undefined): SessionInfo | null {
  try {
    return cursor === undefined ? null : (JSON.parse(cursor) as SessionInfo);
  } catch {
    return null;
  }
}

/** The gateway of Discord: one session, taken up again after a cut and after a restart, so that Discord sends what was missed. */
export async function listen(
  { token, gatewayUrl }: { token: string; gatewayUrl?: string | undefined },
  client: () => Promise<REST>,
  signal: AbortSignal,
  host: ChannelHost,
): Promise<void> {
  /** The place of what was received, not of what has arrived. */
  let place = readSession(await host.cursor());
  const kept = keepPlace(host, SAVE_EVERY_MS);
  const greeting = { late: "discord did not greet", unopened: "discord closed the connection" };

  /** One manager; ends when `signal` aborts, throws what no reconnecting will mend. */
  const connect = async (watched: ChannelHost): Promise<void> => {
    const rest = await client();
    const { WebSocketManager: Manager } = await loadPackage("@discordjs/ws", () => import("@discordjs/ws"));
    const { id: me } = (await rest.get("/users/@me", { signal })) as { id: string };
    // What has arrived and was not received comes again.
    let session = place;
    let failures = 0;
    let closedAs: number | undefined;
    let openedAt = 0;
    let pause = 0;
    await holdLink(signal, greeting, (link) => {
      const manager: WebSocketManager = new Manager({
        token,
        intents: INTENTS,
        rest,
        shardCount: 1,
        // Asked before each connection (then `pause` holds it back), and with each event.
        async retrieveSessionInfo() {
          const ms = pause;
          pause = 0;
          if (ms > 0) await wait(ms, link.signal);
          // After the end nothing connects any more.
          if (link.signal.aborted) await new Promise(() => undefined);
          return session && { ...session, resumeURL: gatewayUrl ?? session.resumeURL };
        },
        updateSessionInfo(_, given) {
          // The SDK drops a session when the network fails while it connects; Discord does not.
          if (given === null && closedAs === CLOSED_BY_NETWORK && failures <= MAX_RESUMES) return;
          session = given;
        },
      });
      if (gatewayUrl !== undefined) {
        const ask = manager.fetchGatewayInformation.bind(manager);
        manager.fetchGatewayInformation = async (force) => ({ ...(await ask(force)), url: gatewayUrl });
      }
      const up = (): void => {
        openedAt = Date.now();
        host.report({ ok: true, message: "receiving" });
      };
      const take = async (type: string, data: unknown, at: SessionInfo | null): Promise<void> => {
        const message = type === "MESSAGE_CREATE" ? toMessage(data as GatewayMessage, me) : undefined;
        if (message) await watched.receive(message);
        place = at;
        if (place) await kept.move(JSON.stringify(place), message !== undefined).catch(() => undefined);
      };
      manager
        .on("ready", up)
        .on("resumed", up)
        .on("hello", () => void (closedAs = undefined))
        .on("error", () =>
          link.fail(new Trouble(CLOSE_REASONS[closedAs ?? 0] ?? `discord closed the connection for good (${closedAs ?? "no code"})`)),
        )
        .on("socketError", () => undefined)
        .on("dispatch", (payload) => {
          const { t, d } = payload as { t: string; d: unknown };
          const at = session && { ...session, sequence: payload.s };
          link.inOrder(() => take(t, d, at));
        })
        .on("closed", (code) => {
          if (link.signal.aborted) return;
          closedAs = code;
          failures = openedAt > 0 && Date.now() - openedAt > STEADY_MS ? 1 : failures + 1;
          openedAt = 0;
          pause = failures > 1 ? backOff(failures - 1) : 0;
          if (code !== CLOSE_RESUMABLE) host.report({ ok: false, message: `not receiving: the connection was closed (${code})` });
        });
      manager.connect().catch(link.fail);
      return () => manager.destroy({ code: CLOSE_RESUMABLE });
    });
  };

  await stayConnected(signal, host, { connect, vendor: VENDOR, say: (reason) => `not receiving: ${reason}` });
  await kept.save();
}
