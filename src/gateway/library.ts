import { createLogger, LOG_LEVELS, type Logger } from "../core/log.ts";
import type { Log, Denied, Gateway, HookInput, Receipt, GatewayEvents } from "./types.ts";
import { deliveryView, eventView, runDetail } from "../operate/records/views.ts";
import type { Intake } from "../intake/receive.ts";
import type { Received } from "../intake/types.ts";
import { ENDED, type RunRecord, type Store, type Writes } from "../store/types.ts";

type Level = (typeof LOG_LEVELS)[number];
type Line = { level: Exclude<Level, "silent">; time: string; msg: string } & Record<
  string,
  unknown
>;

const METHODS = {
  trace: "debug",
  debug: "debug",
  info: "info",
  warn: "warn",
  error: "error",
  fatal: "error",
} as const;

/**
 * Creates the gateway's logger over that of the program around it. What reaches the program went through the gateway's
 * serializers: no body and no credential. A program's log that throws cannot stop the gateway.
 */
export function createHostLogger(log: Log | undefined): {
  logger: Logger;
  setLevel(level: Level): void;
} {
  let shown = LOG_LEVELS.indexOf("info");
  const write = (text: string): void => {
    const { level, time: _time, msg: message, ...fields } = JSON.parse(text) as Line;
    // Loggers of plugins keep the level that they were made with.
    if (LOG_LEVELS.indexOf(level) < shown) return;
    try {
      log?.[METHODS[level]](fields, message);
    } catch {
      // There is nowhere left to say it.
    }
  };
  const logger = createLogger(log ? "info" : "silent", { write });
  return {
    logger,
    setLevel(level) {
      shown = LOG_LEVELS.indexOf(level);
      if (log) logger.level = level;
    },
  };
}

/** Returns an event's outcome as the program has it. Only requests over HTTP are handshakes. */
function toResult(received: Exclude<Received, { kind: "handshake" }>): Receipt | Denied {
  if (received.kind === "denied") return { kind: "denied", error: received.error };
  const { quiet: _quiet, list: _list, hints: _hints, repeats, ...receipt } = received;
  const { actions, warnings } = repeats?.receipt ?? receipt;
  return { ...receipt, actions, ...(warnings && { warnings }), duplicateOf: repeats?.eventId };
}

const JSON_TYPE = { "content-type": "application/json" };

function toRawInput({ path, body = {}, method = "POST", headers = {}, query = {} }: HookInput) {
  const named = Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]),
  );
  const isBytes = body instanceof Uint8Array;
  return {
    method,
    path: path.replace(/^\/+|\/+$/g, ""),
    query: { ...query },
    headers: isBytes ? named : { ...named, ...JSON_TYPE },
    body: isBytes ? body : Buffer.from(JSON.stringify(body) ?? "null"),
  };
}

/** Creates what the program that embeds a gateway hands events over by. */
export const createReceive =
  ({ receive }: Pick<Intake, "receive">): Gateway["receive"] =>
  async (input) => {
    const received = await receive(toRawInput(input), { kind: "internal" });
    return toResult(received as Parameters<typeof toResult>[0]);
  };

type Name = keyof GatewayEvents;
type Listener<N extends Name> = (event: GatewayEvents[N]) => void | Promise<void>;

/** Reports to the program that a gateway runs in. */
export interface Reporter {
  /** Calls `listener` after each such event, until the returned function is called. */
  on<N extends Name>(name: N, listener: Listener<N>): () => void;
  /** Calls the listeners in a turn of the event loop of their own: one that throws or rejects is reported to `failed`. */
  emit<N extends Name>(name: N, event: GatewayEvents[N]): void;
  isHeard(name: Name): boolean;
  /** Calls `start` when the first listener is there. */
  whenHeard(start: () => void): void;
}

/** Calls a listener; what it throws rejects. */
const call = async <N extends Name>(
  listener: Listener<N>,
  event: GatewayEvents[N],
): Promise<void> => listener(event);

/** @param failed is called when a listener throws or rejects. It must not emit anything itself. */
export function createReporter(failed: (name: Name, error: unknown) => void): Reporter {
  const listeners = new Map<Name, Set<Listener<never>>>();
  const starts: (() => void)[] = [];
  return {
    on(name, listener) {
      const own: Listener<typeof name> = (event) => listener(event);
      const all = listeners.get(name) ?? new Set();
      listeners.set(name, all.add(own));
      for (const start of starts.splice(0)) start();
      return () => void all.delete(own);
    },
    emit(name, event) {
      for (const listener of listeners.get(name) ?? []) {
        setImmediate(() => {
          void call(listener as Listener<Name>, event).catch((error: unknown) =>
            failed(name, error),
          );
        });
      }
    },
    isHeard: (name) => (listeners.get(name)?.size ?? 0) > 0,
    whenHeard(start) {
      if (listeners.size > 0) start();
      else starts.push(start);
    },
  };
}

/** The ids of the runs and deliveries that a commit ends. */
interface Ends {
  runs: Set<string>;
  deliveries: Set<string>;
}

/** Passes everything on to `tx`, and notes what ends by it. */
function noting(tx: Writes, ends: Ends): Writes {
  const noteRun = (id: string, status: RunRecord["status"] | undefined): void => {
    if (ENDED.some((ended) => ended === status)) ends.runs.add(id);
  };
  return {
    ...tx,
    runs: {
      ...tx.runs,
      add(run) {
        noteRun(run.id, run.status);
        tx.runs.add(run);
      },
      update(id, change, expected) {
        noteRun(id, change.status);
        tx.runs.update(id, change, expected);
      },
    },
    deliveries: {
      add(delivery) {
        // One that is added with an error has failed already.
        if (delivery.error !== undefined) ends.deliveries.add(delivery.id);
        tx.deliveries.add(delivery);
      },
      update(id, change) {
        if (change.status !== undefined && change.status !== "pending") ends.deliveries.add(id);
        tx.deliveries.update(id, change);
      },
    },
  };
}

/** The same store, whose commits are reported once they are on disk: from the first listener on. */
export function reportingStore(store: Store, reporter: Reporter): Store {
  const report = async ({ runs, deliveries }: Ends): Promise<void> => {
    for (const id of reporter.isHeard("run.ended") ? runs : []) {
      const run = await store.runs.get(id);
      if (!run) continue;
      const delivery = run.deliveryId && (await store.deliveries.get(run.deliveryId));
      reporter.emit(
        "run.ended",
        runDetail(run, { delivery: delivery || undefined, waitsFor: undefined }),
      );
    }
    for (const id of deliveries) {
      const delivery = await store.deliveries.get(id);
      if (delivery) reporter.emit("delivery.ended", deliveryView(delivery));
    }
  };
  const reporting: Pick<Store, "accept" | "commit"> = {
    async accept(event, keys, fencingToken) {
      const result = await store.accept(event, keys, fencingToken);
      if (result.kind === "accepted" && reporter.isHeard("event.recorded"))
        reporter.emit("event.recorded", eventView(event));
      return result;
    },
    async commit(write, held) {
      if (!reporter.isHeard("run.ended") && !reporter.isHeard("delivery.ended"))
        return store.commit(write, held);
      const ends: Ends = { runs: new Set(), deliveries: new Set() };
      const isCommitted = await store.commit((tx) => {
        // A commit that is tried again writes everything again.
        ends.runs.clear();
        ends.deliveries.clear();
        write(noting(tx, ends));
      }, held);
      // A store that closes meanwhile has nothing to report.
      if (isCommitted) void report(ends).catch(() => undefined);
      return isCommitted;
    },
  };
  const reported = { ...store };
  reporter.whenHeard(() => Object.assign(reported, reporting));
  return reported;
}
