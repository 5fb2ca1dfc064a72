import {
  buildRun,
  buildRunJobs,
  buildSystemEvent,
  clampTimes,
  collectJob,
  createListeners,
  createStepWatch,
  ID_TAKEN,
  isFencingToken,
  LONGEST_TIMER_MS,
  RouseError,
  singleNode,
  STORE_UNAVAILABLE,
  type DedupeRecord,
  type EventRecord,
  type JobKind,
  type Listeners,
  type Ms,
  type OpenOptions,
  type Queue,
  type RunAction,
  type Store,
  type StoreDriver,
  type StoreHandle,
  type WakeMode,
} from "rouse/store-kit";
import { copy, createWrites, Data } from "./data.ts";
import { createReads } from "./reads.ts";
import { getOldestBody, sweep } from "./sweep.ts";
import { createUsage } from "./usage.ts";

const KINDS: readonly JobKind[] = ["turn", "delivery", "command"];

const toKey = ({ scope, key }: { scope: string; key: string }): string =>
  JSON.stringify([scope, key]);

/** Makes an accepted action its run, or one more event of a run that collects. */
function addRun(data: Data, action: RunAction, { id, receivedAt }: EventRecord): Set<JobKind> {
  const writes = createWrites(data, receivedAt);
  const known = data.runs.get(action.runId);
  const run = known ?? buildRun(action, id, receivedAt);
  if (!known) writes.add("run", run);
  if (action.collect) {
    const { closesAt, event } = action.collect;
    data.collected.set(run.id, [...(data.collected.get(run.id) ?? []), event]);
    if (!known) writes.add("job", collectJob(run.id, receivedAt, closesAt));
    else if (known.collect) {
      writes.update("run", run.id, {
        collect: { ...known.collect, closesAt, count: known.collect.count + 1 },
      });
      writes.update("job", "turn", run.id, closesAt);
    }
  } else if (!known) for (const job of buildRunJobs(run, action.parked)) writes.add("job", job);
  return writes.apply();
}

/** Adds an event and its work. Returns what the work calls for. */
function addEvent(
  data: Data,
  event: EventRecord,
): { kinds: Set<JobKind>; wakes: Map<string, WakeMode> } {
  const kinds = new Set<JobKind>();
  const wakes = new Map<string, WakeMode>();
  data.events.set(event.id, event);
  data.eventNumbers.set(event.id, data.nextSeq());
  for (const action of event.actions) {
    if (action.kind === "run") for (const kind of addRun(data, action, event)) kinds.add(kind);
    else {
      const writes = createWrites(data, event.receivedAt);
      writes.add("systemEvent", buildSystemEvent(action, event.receivedAt));
      writes.apply();
      if (action.mode === "now" || !wakes.has(action.agentId))
        wakes.set(action.agentId, action.mode);
    }
  }
  return { kinds, wakes };
}

function keepEvent(event: EventRecord): EventRecord {
  const { body } = event.request;
  const kept = copy({ ...event, request: { ...event.request, body: null } });
  return { ...kept, request: { ...kept.request, body: body && Uint8Array.from(body) } };
}

interface Parts {
  data: Data;
  listeners: Listeners;
  now: () => Ms;
  /** Throws once the store is closed. */
  checkOpen(): void;
  /** Tells who waits for jobs, now and when the next one's time has come. */
  announce(kinds: Iterable<JobKind>): void;
  watchTime(kind: JobKind): void;
  /** Keeps delays as long as they were to be, if the clock was set back. */
  followClock(): void;
}

function createStore({ data, listeners, now, checkOpen, announce }: Parts): Omit<Store, "close"> {
  const findKey = (entry: { scope: string; key: string }): DedupeRecord | undefined => {
    const found = data.keys.get(toKey(entry));
    return found && found.expiresAt > now() ? structuredClone(found) : undefined;
  };
  return {
    ...createReads(data),
    async accept(event, keys = []) {
      checkOpen();
      const [record] = keys.flatMap((entry) => findKey(entry) ?? []);
      if (record) return { kind: "duplicate", record };
      if (data.events.has(event.id)) throw new RouseError(ID_TAKEN);
      const [kept, entries] = [keepEvent(event), copy(keys)];
      for (const entry of entries) data.keys.set(toKey(entry), { ...entry, eventId: event.id });
      const { kinds, wakes } = addEvent(data, kept);
      announce(kinds);
      listeners.woke(wakes);
      return { kind: "accepted" };
    },
    async commit(write, held) {
      checkOpen();
      if (held && !isFencingToken(held) && !data.jobs.isHeld(held)) return false;
      const writes = createWrites(data, now());
      write(writes);
      announce(writes.apply());
      return true;
    },
    onSystemEvents: (listener) => listeners.onWake(listener),
    findDuplicates: async (keys) => keys.map(findKey),
    sweep: async (at, retention) => sweep(data, at, retention),
    oldestBody: async (at) => getOldestBody(data, at),
    async backup() {
      throw new RouseError({ code: "usage", message: "a store in memory has no backup" });
    },
  };
}

function createQueue({
  data: { jobs },
  listeners,
  now,
  checkOpen,
  announce,
  watchTime,
  followClock,
}: Parts): Queue {
  return {
    async fetch(kind, limit) {
      // A worker that asks again and again must let others do something in between.
      await new Promise((resolve) => setImmediate(resolve));
      checkOpen();
      followClock();
      const taken = jobs.take(kind, limit, now());
      if (taken.length < limit) watchTime(kind);
      return taken;
    },
    onReady: (listener) => listeners.onReady(listener),
    find: async (kind, id) => jobs.find(kind, id),
    findEarlier: async (job, keys) => jobs.findEarlier(job, keys),
    waiting: async (kind) => jobs.waiting(kind, now()),
    async recover() {
      const released = jobs.recover();
      announce(new Set(released));
      return released.length;
    },
  };
}

function open(data: Data, { clock, log }: Pick<OpenOptions, "clock" | "log">): StoreHandle {
  const now = (): Ms => clock.now();
  const timers = new Map<JobKind, NodeJS.Timeout>();
  const isDue = (kind: JobKind): boolean => (data.jobs.nextAt(kind) ?? Infinity) <= now();
  /** Kinds of jobs that an earlier opening left, for the first who listens. */
  let left = KINDS.filter(isDue);
  let closed = false;
  const listeners = createListeners(log, () => {
    const kinds = left.splice(0);
    setImmediate(() => listeners.announce(kinds));
  });
  const watchTime = (kind: JobKind): void => {
    clearTimeout(timers.get(kind));
    const at = data.jobs.nextAt(kind);
    if (at === undefined || at === 0 || closed) return;
    // A delay that has ended since the last look is announced as well.
    timers.set(
      kind,
      setTimeout(
        () => listeners.announce([kind]),
        Math.min(Math.max(at - now(), 0), LONGEST_TIMER_MS),
      ).unref(),
    );
  };
  const announce = (kinds: Iterable<JobKind>): void => {
    for (const kind of kinds) watchTime(kind);
    listeners.announce(kinds);
  };
  const checkOpen = (): void => {
    if (closed) throw new RouseError(STORE_UNAVAILABLE);
  };
  const watch = createStepWatch(clock, log);
  const followClock = (): void => data.jobs.moveBack(Math.max(0, -watch.look()));
  const parts: Parts = { data, listeners, now, checkOpen, announce, watchTime, followClock };
  const close = async (): Promise<void> => {
    closed = true;
    left = [];
    listeners.close();
    for (const timer of timers.values()) clearTimeout(timer);
  };
  return {
    store: clampTimes({ ...createStore(parts), close }, now),
    queue: createQueue(parts),
    cluster: singleNode(now, log),
    usage: createUsage(data, now, () => announce(["turn"])),
  };
}

/**
 * Creates a store that keeps its work in memory, for one process: `<protocol>:<name>` until the process ends, and
 * `<protocol>:` without a name until it is closed.
 */
export function createMemoryStore(protocol: string): StoreDriver {
  const kept = new Map<string, Data>();
  return {
    protocols: [protocol],
    example: `${protocol}:<name>`,
    shared: false,
    async open({ url, ...options }) {
      const data = kept.get(url) ?? new Data();
      if (url !== `${protocol}:`) kept.set(url, data);
      return open(data, options);
    },
    status: async ({ url }) => ({ driver: protocol, where: url, schema: 1, known: 1, bytes: 0 }),
  };
}
