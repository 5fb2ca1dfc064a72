import { parseObject, sleep } from "./kit.ts";
import {
  ChannelError,
  type ErrorRules,
  classifyError,
  type FailedSend,
  loadPackage,
} from "./errors.ts";
import type { ChannelHost, ReceivedMessage, PluginLog } from "../contract/channel.ts";
import { backOff } from "../core/backoff.ts";

/** A WebSocket that speaks JSON. Times are in milliseconds. */
interface Socket {
  name: string;
  url: string;
  /** A connection without its greeting by then carries nothing. */
  helloMs: number;
  /** A connection on which nothing comes is asked so often, and given up if it stays silent. */
  pingMs: number;
  /** The messages that open the connection, and that ask whether it lives. */
  hello: object;
  ping: object;
  /** Reads a frame, synchronously. */
  read(frame: unknown, connection: Connection): void;
}

/** One connection, from its start to its end. Throws a `ChannelError` where it does not come about, and what work threw. */
export async function followSocket(
  { name, url, helloMs, pingMs, hello, ping, read }: Socket,
  signal: AbortSignal,
): Promise<void> {
  const greeting = {
    helloMs,
    late: `${name} did not greet`,
    unopened: "the websocket cannot be opened",
  };
  await withConnection(signal, greeting, (connection) => {
    const socket = new WebSocket(url);
    let isAlive = true;
    let seq = 1;
    const send = (frame: object): void => socket.send(JSON.stringify({ ...frame, seq: seq++ }));
    socket.addEventListener("open", () => send(hello));
    socket.addEventListener("error", () => {});
    socket.addEventListener("close", () => connection.ended());
    socket.addEventListener("message", ({ data }) => {
      isAlive = true;
      try {
        read(JSON.parse(String(data)), connection);
      } catch {
        connection.fail(new ChannelError(`${name} sent what is not its format`));
      }
    });
    const pulse = setInterval(() => {
      if (!isAlive) return connection.ended();
      isAlive = false;
      if (socket.readyState === WebSocket.OPEN) send(ping);
    }, pingMs);
    return () => {
      clearInterval(pulse);
      socket.close();
    };
  });
}

/** A stream of server-sent events in JSON that goes on behind the `Last-Event-ID`. Lengths of time are in milliseconds. */
interface EventListener<E> {
  vendor: ErrorRules;
  url: string;
  fetch: typeof fetch;
  log: PluginLog;
  now(): number;
  /** The meanings of statuses, for the operator. */
  statuses?: Readonly<Record<number, string>>;
  /** After so long without a sign the connection is dead. */
  silenceMs: number;
  /** By how much the clocks of the vendor and of this machine may differ. */
  skewMs: number;
  /** The time of an event, in milliseconds since 1970; undefined if the event has none. */
  at(event: E): number | undefined;
  /** The message in an event; undefined if the event is no message. */
  read(event: E): ReceivedMessage | undefined | Promise<ReceivedMessage | undefined>;
}

/** A cursor of ours, before the stream gave one: its time. The far side takes it for an id that it has forgotten, and sends all it kept. */
const SINCE = "rouse-since-";

/** Follows the stream until `signal` aborts; comes back after every end of it. What was there before the channel was is passed over. */
export async function listenToEvents<E extends object>(
  { vendor, url, fetch, log, now, statuses = {}, silenceMs, skewMs, at, read }: EventListener<E>,
  signal: AbortSignal,
  host: ChannelHost,
): Promise<void> {
  let place = await host.cursor();
  /** Hands over what an event holds. The next one waits for it. */
  const take = async (
    { id, data }: { id?: string | undefined; data: string },
    since: number,
    to: ChannelHost,
  ): Promise<void> => {
    const event = parseObject(data) as E | undefined;
    if (!event) log.warn("an event of the stream was not JSON");
    const message = event && (at(event) ?? Infinity) >= since ? await read(event) : undefined;
    if (message) await to.receive(message);
    if (id === undefined) return;
    place = id;
    // Only a message moves the stored place: coming again past receipts and typing does no harm.
    if (message) await to.saveCursor(id);
  };
  const connect = async (to: ChannelHost): Promise<void> => {
    const { createParser } = await loadPackage(
      "eventsource-parser",
      () => import("eventsource-parser"),
    );
    const since = place?.startsWith(SINCE) ? Number(place.slice(SINCE.length)) - skewMs : 0;
    const stop = new AbortController();
    const fallSilent = (): void => stop.abort(new ChannelError("the stream fell silent"));
    const silence = setTimeout(fallSilent, silenceMs);
    try {
      const response = await fetch(url, {
        headers: {
          accept: "text/event-stream",
          ...(place !== undefined && { "last-event-id": place }),
        },
        signal: AbortSignal.any([signal, stop.signal]),
      });
      const { ok, status, body } = response;
      if (!ok || !body)
        throw new ChannelError(
          statuses[status] ?? `${vendor.name} answered ${status} to ${new URL(url).pathname}`,
        );
      if (place === undefined) await to.saveCursor((place = `${SINCE}${now()}`));
      to.report({ ok: true, message: "listening" });
      const events: { id?: string | undefined; data: string }[] = [];
      const parser = createParser({ onEvent: (event) => events.push(event) });
      const decoder = new TextDecoder();
      for await (const chunk of body) {
        silence.refresh();
        parser.feed(decoder.decode(chunk, { stream: true }));
        for (const event of events.splice(0)) await take(event, since, to);
      }
      throw new ChannelError(`${vendor.name} closed the stream`);
    } finally {
      clearTimeout(silence);
    }
  };
  await reconnectLoop(signal, host, { connect, vendor, say: retryMessage });
}

/** A connection that lasted so long was a good one. */
const STABLE_MS = 10_000;

/** A reason, and how long it is until the next try. */
export const retryMessage = (reason: string, waitMs: number): string =>
  `${reason}; trying again in ${waitMs / 1000} s`;

interface Reconnecting {
  /**
   * One connection, from its start to its end, or one poll. It may report at any time, to a watched host. Returns how long to
   * wait until the next poll, in milliseconds, or undefined if a connection ended. Throws if it failed.
   */
  connect(host: ChannelHost): Promise<number | void>;
  /** Tells the errors: messages of those that are no `ChannelError` may quote anything. */
  vendor: ErrorRules;
  /** Builds the reported text. Default: the reason alone. */
  say?(reason: string, waitMs: number): string;
  stableMs?: number | undefined;
}

/**
 * A host that tells a message that could not be written down from all other errors, by a `ChannelError` that quotes nothing
 * of it, and to which the same good state is reported once.
 */
export function watch(host: ChannelHost): ChannelHost {
  let up: string | undefined;
  return {
    receive: (message) =>
      host.receive(message).catch((cause: unknown) => {
        throw new ChannelError("a message could not be written down", undefined, { cause });
      }),
    decide: (press) =>
      host.decide(press).catch((cause: unknown) => {
        throw new ChannelError("a decision could not be written down", undefined, { cause });
      }),
    notDelivered: (message) => host.notDelivered(message),
    cursor: () => host.cursor(),
    saveCursor: (cursor) => host.saveCursor(cursor),
    report(state) {
      if (state.ok && state.message === up) return;
      up = state.ok ? state.message : undefined;
      host.report(state);
    },
  };
}

/**
 * Keeps a connection until `signal` aborts: reconnects whenever it ends, immediately if it worked, else after a growing
 * pause (1 s to 1 min, or what the vendor asks for), and reports what is wrong.
 */
export async function reconnectLoop(
  signal: AbortSignal,
  host: ChannelHost,
  reconnecting: Reconnecting,
): Promise<void> {
  const { connect, vendor, say = (reason) => reason, stableMs = STABLE_MS } = reconnecting;
  let watched = watch(host);
  for (let failures = 0; !signal.aborted;) {
    const begun = performance.now();
    let failure: FailedSend | undefined;
    let next: number | void = undefined;
    try {
      next = await connect(watched);
    } catch (error) {
      failure = classifyError(vendor, error);
    }
    if (signal.aborted) return;
    // The next connection reports again that it is established; the next poll does not.
    if (next === undefined) watched = watch(host);
    const good = next !== undefined || performance.now() - begun >= stableMs;
    if (good) failures = 0;
    if (!good || failure) {
      failures++;
      const asked = failure?.status === "retry" ? (failure.afterMs ?? 0) : 0;
      const wait = Math.max(backOff(failures), asked);
      watched.report({
        ok: false,
        message: say(failure?.reason ?? "connections do not last; trying again", wait),
      });
      // If all gateways lost their connection at the same moment, they do not reconnect at the same moment.
      next = asked > 0 ? wait : wait * (1 + Math.random() / 4);
    }
    if (next) await sleep(next, signal);
  }
}

/**
 * Stores the position in a vendor's stream as it advances: immediately if `now` is set, as for a message, else only if
 * the position on disk is older than `everyMs` milliseconds. `save` stores it in any case.
 */
export function checkpoint(host: ChannelHost, everyMs: number) {
  let place: string | undefined;
  let savedAt = -Infinity;
  const save = async (): Promise<void> => {
    savedAt = performance.now();
    if (place !== undefined) await host.saveCursor(place);
  };
  return {
    save,
    async move(to: string, now: boolean): Promise<void> {
      place = to;
      if (now || performance.now() - savedAt >= everyMs) await save();
    },
  };
}

/** A vendor that is asked for what has come since a time. Times are in milliseconds since 1970, lengths in milliseconds. */
interface PollOptions {
  vendor: ErrorRules;
  now(): number;
  everyMs: number;
  /** A message bears the time of its sending, and may come later than one that was sent after it: so much is asked for again. */
  overlapMs: number;
  /** Reads the entries of this time or a later one, the oldest first; an entry that is no message has none. */
  read(
    after: number,
  ): AsyncIterable<{ id: string; at: number; message: ReceivedMessage | undefined }>;
}

/** Polls until `signal` aborts. The cursor is the time of the last item read, so messages of a time without a gateway are not lost. */
export async function pollSince(
  signal: AbortSignal,
  host: ChannelHost,
  asking: PollOptions,
): Promise<void> {
  const { vendor, now, everyMs, overlapMs, read } = asking;
  const stored = await host.cursor();
  // Messages from before the channel existed are not answered.
  if (stored === undefined) await host.saveCursor(String(now()));
  // Some vendors take 0 for no bound at all, and nothing below it.
  let after = Math.max(stored === undefined ? now() : Number(stored) - overlapMs, 1);
  const seen = new Map<string, number>();

  /** One round: the time of what was handed over or passed over is the new place, also where the round fails later. */
  const connect = async (to: ChannelHost): Promise<number> => {
    let newest: number | undefined;
    try {
      for await (const { id, at, message } of read(after)) {
        if (seen.has(id)) continue;
        if (message) await to.receive(message);
        seen.set(id, at);
        newest = Math.max(newest ?? 0, at);
      }
    } finally {
      if (newest !== undefined) {
        await host.saveCursor(String(newest));
        after = Math.max(after, newest - overlapMs);
        for (const [id, at] of seen) if (at < after) seen.delete(id);
      }
    }
    to.report({ ok: true, message: "listening" });
    return everyMs;
  };
  await reconnectLoop(signal, host, { connect, vendor, say: retryMessage });
}

/** A connection may take so long for its end: a peer that is gone never agrees to it. */
const CLOSE_MS = 2_000;

/** A connection, as those see it who hold it. */
export interface Connection {
  /** Aborts when the connection is to end. */
  signal: AbortSignal;
  /** The far side has greeted, so the connection carries something. */
  greeted(): void;
  /** Does its work after that of earlier calls. What waits when the connection ends is not done; what work throws ends it. */
  inOrder(work: () => void | Promise<void>): void;
  /** The far side has ended it. */
  ended(): void;
  /** Ends it as failed. */
  fail(error: unknown): void;
}

/** The messages about a connection without a greeting. Times are in milliseconds. */
interface Greeting {
  /** A connection without its greeting by then carries nothing. Default: none is waited for. */
  helloMs?: number;
  /** The error if the greeting is late. Default: as `unopened`. */
  late?: string;
  /** The error if the connection ends before its greeting. */
  unopened: string;
}

/**
 * Holds one connection from its start to its end, for clients of any kind: `open` begins it and gives how to close it.
 * Throws what `fail` was given, or a `ChannelError` where no greeting came.
 */
export async function withConnection(
  signal: AbortSignal,
  { helloMs, unopened, late = unopened }: Greeting,
  open: (connection: Connection) => (() => unknown) | Promise<() => unknown>,
): Promise<void> {
  const over = Promise.withResolvers<void>();
  // Listened to before anything can fail, so that no rejection is left alone.
  over.promise.catch(() => undefined);
  const stop = new AbortController();
  let greeted = false;
  let order = Promise.resolve();
  const end = (error?: Error): void => {
    stop.abort();
    if (error === undefined) over.resolve();
    else over.reject(error);
  };
  const fail = (error: unknown): void =>
    end(error instanceof Error ? error : new ChannelError(unopened));
  const connection: Connection = {
    signal: stop.signal,
    greeted: () => void (greeted = true),
    inOrder: (work) =>
      void (order = order.then(() => (stop.signal.aborted ? undefined : work())).catch(fail)),
    ended: () => end(greeted ? undefined : new ChannelError(unopened)),
    fail,
  };
  const quit = (): void => end();
  signal.addEventListener("abort", quit);
  if (signal.aborted) quit();
  const timer =
    helloMs === undefined
      ? undefined
      : setTimeout(() => greeted || fail(new ChannelError(late)), helloMs);
  let close: (() => unknown) | undefined;
  try {
    close = await open(connection);
    await over.promise;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", quit);
    stop.abort();
    const patience = new AbortController();
    const closed = Promise.resolve(close?.()).catch(() => undefined);
    await order;
    await Promise.race([closed, sleep(CLOSE_MS, patience.signal)]);
    patience.abort();
  }
}
