import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "pg";
import {
  type Cluster,
  type JobKind,
  type Logger,
  newId,
  safeError,
  type Topic,
  type WakeMode,
} from "#store-kit";
import type { Db } from "../client/db.ts";
import { digest } from "../client/digest.ts";

/** A message from one gateway to the other ones; the short names keep many entries within one message. */
interface Message {
  /** The sender: its own messages come back to it as well. */
  f: string;
  k: JobKind[];
  w: [string, WakeMode][];
  /** Further messages, by topic. */
  t?: [Topic, string[]][];
}

/** PostgreSQL takes messages of less than 8000 bytes. */
const MAX_WAKES = 20;
const MAX_SAID = 5000;
/** More is not kept to be said: who says so much says it again. */
const MAX_WAITING = 20_000;
const RETRY_MS = 1000;
/**
 * The pause after a message, longer while more keeps coming: each message is a transaction, and work for every gateway.
 */
const PAUSE_MS = 10;
const MAX_PAUSE_MS = 40;
/** A connection on which nothing comes is asked regularly whether it still is one. */
const PROBE_MS = 5000;

export interface Notifier {
  /** Tells the other gateways, soon: what comes in meanwhile goes with it. Nothing is lost but time where it fails. */
  tell(kinds: Iterable<JobKind>, wakes: Iterable<readonly [string, WakeMode]>): void;
  /** The same for what is said under a topic. */
  say: Cluster["tell"];
  /** Hears what others say under a topic. Returns its undo. */
  on: Cluster["on"];
  /** Listens from now on; a second call does nothing. */
  listen(): void;
  close(): Promise<void>;
}

export interface NotifierParts {
  db: Db;
  log: Logger;
  heard(kinds: JobKind[], wakes: [string, WakeMode][]): void;
  lost(): void;
}

/** Takes from what waits to be said as much as one message holds. */
function takeSaid(said: [Topic, string][]): [Topic, string[]][] {
  const topics = new Map<Topic, string[]>();
  for (let bytes = 0; said[0] && bytes < MAX_SAID;) {
    const [topic, value] = said.shift() as [Topic, string];
    bytes += Buffer.byteLength(value) + 4;
    topics.set(topic, [...(topics.get(topic) ?? []), value]);
  }
  return [...topics];
}

/** Asks a connection regularly, never before the last answer is there. @throws when there is none */
async function probe(client: Client, signal: AbortSignal): Promise<never> {
  for (;;) {
    await sleep(PROBE_MS, undefined, { signal, ref: false });
    await client.query("SELECT 1");
  }
}

/**
 * LISTEN and NOTIFY between the gateways of one database. A message is sent after the commit, not in it: PostgreSQL
 * lets only one transaction with a message commit at a time, and all gateways would wait for each other's disks.
 * `lost` is called when messages may have been missed.
 */
export function createNotifier(parts: NotifierParts): Notifier {
  const { db, log, heard, lost } = parts;
  const listeners = new Map<Topic, Set<(values: readonly string[]) => void>>();
  const channel = `rouse_${digest(db.address.schema).toString("hex")}`;
  const self = newId("req");
  const ended = new AbortController();
  const kinds = new Set<JobKind>();
  const wakes = new Map<string, WakeMode>();
  const said: [Topic, string][] = [];
  let sending: Promise<void> | undefined;
  let listening: Promise<void> | undefined;
  let missed = false;

  const send = async (): Promise<void> => {
    for (
      let pause = PAUSE_MS;
      kinds.size > 0 || wakes.size > 0 || said.length > 0;
      pause = Math.min(pause * 2, MAX_PAUSE_MS)
    ) {
      await new Promise((resolve) => setImmediate(resolve));
      const message: Message = { f: self, k: [...kinds], w: [...wakes].slice(0, MAX_WAKES) };
      if (said.length > 0) message.t = takeSaid(said);
      kinds.clear();
      for (const [agentId] of message.w) wakes.delete(agentId);
      // If it fails, the other gateways find the work at their next read.
      await db
        .query("SELECT pg_notify($1, $2)", [channel, JSON.stringify(message)])
        .catch(() => undefined);
      await sleep(pause);
    }
  };

  const hear = (payload: string | undefined): void => {
    if (ended.signal.aborted) return;
    try {
      const message = JSON.parse(payload ?? "") as Message;
      if (message.f === self) return;
      heard(message.k, message.w);
      for (const [topic, values] of message.t ?? [])
        for (const listener of listeners.get(topic) ?? []) listener(values);
    } catch (error) {
      // Each client of the database can send something on the channel.
      log.warn({ err: safeError(error) }, "a notification that is not of a gateway was ignored");
    }
  };

  /** Resolves at the end, also where that has come already. */
  const whenEnded = new Promise<void>((resolve) =>
    ended.signal.addEventListener("abort", () => resolve(), { once: true }),
  );

  /** Listens until the connection is lost. */
  const stay = async (client: Client): Promise<void> => {
    const gone = new Promise<void>((resolve) => {
      client.once("end", resolve);
      client.once("error", () => resolve());
    });
    client.on("notification", ({ payload }) => hear(payload));
    await client.query(`LISTEN ${channel}`);
    if (missed) lost();
    missed = true;
    const over = new AbortController();
    try {
      await Promise.race([gone, whenEnded, probe(client, over.signal)]);
    } finally {
      over.abort();
    }
  };

  const work = async (): Promise<void> => {
    while (!ended.signal.aborted) {
      let client: Client | undefined;
      try {
        client = await db.client();
        await stay(client);
      } catch (error) {
        if (!ended.signal.aborted)
          log.debug(
            { err: safeError(error) },
            "PostgreSQL cannot be listened to just now; it is tried again",
          );
      }
      await client?.end().catch(() => undefined);
      if (!ended.signal.aborted)
        await Promise.race([sleep(RETRY_MS, undefined, { ref: false }), whenEnded]);
    }
  };

  const listen = (): void => void (listening ??= work());
  const soon = (): void => void (sending ??= send().finally(() => (sending = undefined)));

  return {
    tell(newKinds, newWakes) {
      if (ended.signal.aborted) return;
      for (const kind of newKinds) kinds.add(kind);
      for (const [agentId, mode] of newWakes)
        if (mode === "now" || !wakes.has(agentId)) wakes.set(agentId, mode);
      soon();
    },
    say(topic, values) {
      if (ended.signal.aborted || said.length > MAX_WAITING) return;
      for (const value of values) said.push([topic, value]);
      soon();
    },
    on(topic, listener) {
      const set = listeners.get(topic) ?? new Set();
      listeners.set(topic, set.add(listener));
      listen();
      return () => void set.delete(listener);
    },
    listen,
    async close() {
      await sending;
      ended.abort();
      await listening;
    },
  };
}
