import { setTimeout as sleep } from "node:timers/promises";
import type { REST } from "@discordjs/rest";
import type { SessionInfo, WebSocketManager } from "@discordjs/ws";
import type { ChannelHost, IncomingMessage, PluginContext } from "#plugin";
import { loadPackage, problemOf } from "./client.ts";
import type { Config } from "./index.ts";

/** `GUILD_MESSAGES` and `DIRECT_MESSAGES`. The contents of messages to the bot and of mentions come without more. */
const INTENTS = (1 << 9) | (1 << 12);
/** `DEFAULT` and `REPLY`; the others are notices of Discord. */
const WRITTEN_TYPES = [0, 19];
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 60_000;
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

/** Errors that say what the operator can know: of this plugin, and of the SDK about the sessions of a day. */
const TOLD = /^(?:discord |Not enough sessions )/;

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
export function toMessage(given: GatewayMessage, me: string): IncomingMessage | undefined {
  if (given.author.bot || given.author.id === me || given.webhook_id !== undefined || !WRITTEN_TYPES.includes(given.type)) return undefined;
  const direct = given.guild_id === undefined;
  if (!direct && !given.mentions.some(({ id }) => id === me)) return undefined;
  const written = given.content.replace(new RegExp(`<@!?${me}>`, "g"), "").trim();
  const files = given.attachments.map(({ filename, url }) => `[file ${filename}: ${url}]`);
  const text = [written, ...files].filter((part) => part !== "").join("\n");
  return text === "" ? undefined : { id: given.id, from: given.author.id, to: given.channel_id, direct, text };
}

function readSession(cursor: string | undefined): SessionInfo | null {
  try {
    return cursor === undefined ? null : (JSON.parse(cursor) as SessionInfo);
  } catch {
    return null;
  }
}

const wait = (ms: number, signal: AbortSignal): Promise<unknown> => sleep(ms, undefined, { signal }).catch(() => undefined);
const backOff = (failures: number): number => Math.min(FIRST_WAIT_MS * 2 ** (failures - 1), LONGEST_WAIT_MS);

/** The gateway of Discord: one session, taken up again after a cut and after a restart, so that Discord sends what was missed. */
export async function listen(
  { config }: Pick<PluginContext<Config>, "config">,
  client: () => Promise<REST>,
  signal: AbortSignal,
  host: ChannelHost,
): Promise<void> {
  let session = readSession(await host.cursor());
  /** What has been received, in the order of the gateway; what comes next waits for it. */
  let work = Promise.resolve();
  let savedAt = 0;

  const take = async (message: IncomingMessage): Promise<boolean> => {
    for (let failures = 1; ; failures++) {
      try {
        await host.receive(message);
        if (failures > 1) host.report({ ok: true, message: "receiving" });
        return true;
      } catch {
        if (signal.aborted) return false;
        host.report({ ok: false, message: "not receiving: a message could not be written down" });
        await wait(backOff(failures), signal);
      }
    }
  };
  /** The place of what was received, not of what has arrived. */
  let place = session;
  const save = async (): Promise<void> => {
    savedAt = Date.now();
    if (place) await host.saveCursor(JSON.stringify(place));
  };
  const handle = async (me: string, type: string, data: unknown, at: SessionInfo | null): Promise<void> => {
    const message = type === "MESSAGE_CREATE" ? toMessage(data as GatewayMessage, me) : undefined;
    if (stopped || (message && !(await take(message)))) {
      // What could not be taken comes again after the restart, and so must all behind it.
      stopped = true;
      return;
    }
    place = at;
    if (message || Date.now() - savedAt >= SAVE_EVERY_MS) await save().catch(() => undefined);
  };
  let stopped = false;

  /** One manager; ends when `signal` aborts, throws what no reconnecting will mend. */
  const connect = async (): Promise<void> => {
    const rest = await client();
    const { WebSocketManager: Manager } = await loadPackage("@discordjs/ws", () => import("@discordjs/ws"));
    const { id: me } = (await rest.get("/users/@me", { signal })) as { id: string };
    let failures = 0;
    let closedAs: number | undefined;
    let openedAt = 0;
    let pause = 0;
    const manager: WebSocketManager = new Manager({
      token: config.token,
      intents: INTENTS,
      rest,
      shardCount: 1,
      // Asked before each connection (then `pause` holds it back), and with each event.
      async retrieveSessionInfo() {
        const ms = pause;
        pause = 0;
        if (ms > 0) await wait(ms, signal);
        // After the end nothing connects any more.
        if (signal.aborted) await new Promise(() => undefined);
        return session && { ...session, resumeURL: config.gatewayUrl ?? session.resumeURL };
      },
      updateSessionInfo(_, given) {
        // The SDK drops a session when the network fails while it connects; Discord does not.
        if (given === null && closedAs === CLOSED_BY_NETWORK && failures <= MAX_RESUMES) return;
        session = given;
      },
    });
    const { gatewayUrl } = config;
    if (gatewayUrl !== undefined) {
      const ask = manager.fetchGatewayInformation.bind(manager);
      manager.fetchGatewayInformation = async (force) => ({ ...(await ask(force)), url: gatewayUrl });
    }
    const up = (): void => {
      openedAt = Date.now();
      host.report({ ok: true, message: "receiving" });
    };
    const failed = Promise.withResolvers<never>();
    // Listened to before anything can fail, so that no rejection is left alone.
    failed.promise.catch(() => undefined);
    manager
      .on("ready", up)
      .on("resumed", up)
      .on("hello", () => void (closedAs = undefined))
      .on("error", () =>
        failed.reject(new Error(CLOSE_REASONS[closedAs ?? 0] ?? `discord closed the connection for good (${closedAs ?? "no code"})`)),
      )
      .on("socketError", () => undefined)
      .on("dispatch", (payload) => {
        const { t, d } = payload as { t: string; d: unknown };
        const at = session && { ...session, sequence: payload.s };
        work = work.then(() => handle(me, t, d, at));
      })
      .on("closed", (code) => {
        if (signal.aborted) return;
        closedAs = code;
        failures = openedAt > 0 && Date.now() - openedAt > STEADY_MS ? 1 : failures + 1;
        openedAt = 0;
        pause = failures > 1 ? backOff(failures - 1) : 0;
        if (code !== CLOSE_RESUMABLE) host.report({ ok: false, message: `not receiving: the connection was closed (${code})` });
      });
    const aborted = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
    try {
      const connecting = manager.connect();
      connecting.catch(() => undefined);
      await Promise.race([aborted, failed.promise, connecting.then(() => aborted)]);
    } finally {
      await manager.destroy({ code: CLOSE_RESUMABLE });
    }
  };

  for (let failures = 1; !signal.aborted; failures++) {
    try {
      await connect();
    } catch (error) {
      if (signal.aborted) break;
      const { reason, afterMs } = problemOf(error);
      const told = error instanceof Error && TOLD.test(error.message) ? error.message : reason;
      host.report({ ok: false, message: `not receiving: ${told}` });
      await wait(afterMs ?? backOff(failures), signal);
    }
  }
  await work;
  await save();
}
