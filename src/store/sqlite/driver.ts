import { DatabaseSync, backup } from "node:sqlite";
import type { WakeMode } from "../../config/schema/common.ts";
import type { Clock } from "../../core/clock.ts";
import { safeError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import type { AcceptResult, DedupeEntry, DedupeRecord, EventRecord, Job, JobKind, Queue, Store, StoreHandle, Writes } from "../types.ts";
import { createGroupCommit } from "./commit.ts";
import { Intake } from "./intake.ts";
import { Jobs } from "./jobs.ts";
import { Reads } from "./reads.ts";
import { prepareDatabase } from "./schema.ts";
import { Statements } from "./statements.ts";
import { SWEEP_SLICE, sweepSteps } from "./sweep.ts";
import { insertEvent, SqliteWrites } from "./writes.ts";

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
/** A flood of accepts holds the intake back no longer than this. */
const INTAKE_MAX_DELAY_MS = 50;
/** A wait for a job's time is looked at again at least so often. */
const LONGEST_TIMER_MS = 60_000;

/** Opens the embedded store and its queue on one database file. */
export function openSqlite(file: string, clock: Pick<Clock, "now">, log: Logger): StoreHandle {
  const db = new DatabaseSync(file);
  prepareDatabase(db);
  const sql = new Statements(db);
  const jobs = new Jobs(sql);
  const reads = new Reads(sql);
  const group = createGroupCommit(db);
  const intake = new Intake(sql);
  const now = (): number => clock.now();
  const readyListeners = new Set<(kind: JobKind) => void>();
  const wakeListeners = new Set<(agentId: string, mode: WakeMode) => void>();
  const timers = new Map<JobKind, NodeJS.Timeout>();
  let closed = false;
  let intakePlanned = false;

  const announce = (kinds: Iterable<JobKind>): void => {
    for (const kind of kinds) for (const listener of readyListeners) listener(kind);
  };

  /** Wakes the listeners when the next waiting job's time comes. */
  const watchTime = (kind: JobKind): void => {
    clearTimeout(timers.get(kind));
    if (closed) return;
    const next = jobs.nextReady(kind);
    if (next === undefined) return;
    const timer = setTimeout(() => announce([kind]), Math.min(Math.max(next - now(), 1), LONGEST_TIMER_MS));
    timer.unref();
    timers.set(kind, timer);
  };

  const expandSlice = async (): Promise<void> => {
    let done: ReturnType<Intake["expand"]> | undefined;
    const writes = new SqliteWrites(sql, jobs, now);
    await group.add(
      () => {
        done = intake.expand(writes);
      },
      { many: true },
    );
    done?.commit();
    announce(writes.touched.jobs);
    for (const [agentId, mode] of done?.expanded.wakes ?? []) for (const listener of wakeListeners) listener(agentId, mode);
  };

  let expanding: Promise<void> | undefined;
  /** Expands all accepted events there are: one at a time, shared by all who wait for it. */
  const catchUp = (): Promise<void> => {
    if (!intake.behind) return Promise.resolve();
    expanding ??= (async () => {
      try {
        while (intake.behind && !closed) await expandSlice();
      } finally {
        expanding = undefined;
      }
    })();
    return expanding;
  };

  /** Accepting goes before starting: the intake waits for a quiet turn of the event loop, but not for ever. */
  const planIntake = (): void => {
    if (intakePlanned || closed) return;
    intakePlanned = true;
    const since = Date.now();
    const look = (): void => {
      if (closed) return;
      if (group.waiting > 0 && Date.now() - since < INTAKE_MAX_DELAY_MS) {
        setImmediate(look);
        return;
      }
      intakePlanned = false;
      catchUp().catch((error: unknown) => {
        log.error({ err: safeError(error) }, "accepted events could not be queued yet; it is tried again");
        setTimeout(planIntake, 1000).unref();
      });
    };
    setTimeout(look, 2).unref();
  };

  const acceptNow = (event: EventRecord, keys: readonly DedupeEntry[]): AcceptResult => {
    for (const entry of keys) {
      const record = reads.duplicate(entry.scope, entry.key, now());
      if (record) return { kind: "duplicate", record };
    }
    insertEvent(sql, event);
    for (const entry of keys) {
      const record: Omit<DedupeRecord, "restarts"> = { ...entry, eventId: event.id };
      sql.run("INSERT OR REPLACE INTO dedupe (scope, key, expires, restarts, record) VALUES (?, ?, ?, 0, ?)", entry.scope, entry.key, entry.expiresAt, JSON.stringify(record));
    }
    return { kind: "accepted" };
  };

  const store: Store = {
    async accept(event, keys = []) {
      const result = await group.add(() => acceptNow(event, keys), { many: keys.length > 0 });
      if (event.actions.length > 0 && result.kind === "accepted") {
        intake.noticed();
        planIntake();
      }
      return result;
    },
    async commit(write: (tx: Writes) => void, held?: Job) {
      await catchUp();
      const writes = new SqliteWrites(sql, jobs, now);
      const done = await group.add(
        () => {
          if (held && !jobs.isHeld(held)) return false;
          write(writes);
          return true;
        },
        { many: true },
      );
      for (const kind of writes.touched.jobs) watchTime(kind);
      announce(writes.touched.jobs);
      return done;
    },
    onSystemEvents(listener) {
      wakeListeners.add(listener);
      return () => wakeListeners.delete(listener);
    },
    findDuplicates: async (keys) => keys.map(({ scope, key }) => reads.duplicate(scope, key, now())),
    getEvent: async (id) => reads.event(id),
    async listEvents(query) {
      await catchUp();
      return reads.events(query);
    },
    async getRun(id) {
      await catchUp();
      return reads.run(id);
    },
    async listRuns(query) {
      await catchUp();
      return reads.runs(query);
    },
    getDelivery: async (id) => reads.delivery(id),
    listDeliveries: async (query) => reads.deliveries(query),
    getTurns: async (session) => reads.turns(session),
    getSession: async (session) => reads.session(session),
    listSessions: async (query) => reads.sessions(query),
    async queuedSystemEvents(agentId, limit) {
      await catchUp();
      return reads.queuedSystemEvents(agentId, limit);
    },
    async listSystemEvents(query) {
      await catchUp();
      return reads.systemEvents(query);
    },
    lastRoutes: async (agentId) => reads.lastRoutes(agentId),
    getValue: async (key) => reads.value(key),
    async counts() {
      await catchUp();
      return reads.counts();
    },
    async sweep(at, retention) {
      await catchUp();
      let total = 0;
      for (const step of sweepSteps(at, retention, () => Number(reads.value("intake.seq") ?? 0))) {
        for (let rows = SWEEP_SLICE; rows === SWEEP_SLICE; total += rows) {
          rows = await group.add(() => step(sql), { many: true });
          await nextTurn();
        }
      }
      return total;
    },
    async backup(target) {
      await catchUp();
      await backup(db, target);
    },
    async close() {
      group.flush();
      await catchUp().catch(() => undefined);
      closed = true;
      for (const timer of timers.values()) clearTimeout(timer);
      db.close();
    },
  };

  const queue: Queue = {
    async fetch(kind, limit) {
      await catchUp();
      if ((jobs.nextReady(kind) ?? Infinity) > now()) {
        watchTime(kind);
        return [];
      }
      const taken = await group.add(() => jobs.take(kind, limit, now()), { many: true });
      watchTime(kind);
      return taken;
    },
    onReady(listener) {
      readyListeners.add(listener);
      return () => readyListeners.delete(listener);
    },
    async waiting(kind) {
      await catchUp();
      const { count, oldest } = jobs.waiting(kind);
      return { count, oldestMs: oldest === null ? 0 : Math.max(0, now() - oldest) };
    },
    async recover() {
      await catchUp();
      const released = await group.add(() => jobs.recover(now()), { many: true });
      if (released > 0) announce(["turn", "delivery"]);
      return released;
    },
  };
  return { store, queue };
}
