import { DatabaseSync } from "node:sqlite";
import { type Clock, createStepWatch, type StepWatch } from "../../core/clock.ts";
import type { Logger } from "../../core/log.ts";
import { singleNode } from "../cluster.ts";
import { isFencingToken } from "../sql/record-writes.ts";
import { createSignals } from "../sql/signals.ts";
import type {
  FencingToken,
  Job,
  JobKind,
  Ms,
  Queue,
  Store,
  StoreHandle,
  Writes,
} from "../types.ts";
import { acceptEvent, MaterializeLoop, Materializer, type WriteWith } from "./accepted-events.ts";
import { copyTo } from "./copy-database.ts";
import { Checkpoints, createWritable, endProcess, openLog } from "./disk.ts";
import { createSqliteGroupCommit, type SqliteGroupCommit, Statements } from "./connection.ts";
import { SqliteJobs } from "./jobs.ts";
import { createDurableReads, createSqliteWriter } from "./records.ts";
import { readOldestBody, sweepSteps } from "./sweep.ts";
import { createSqliteUsage } from "./usage.ts";

type Parts = ReturnType<typeof createParts>;
type Writing = Pick<Store, "accept" | "commit" | "onSystemEvents">;
const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function writing({
  sql,
  jobs,
  group,
  materializer,
  loop,
  signals,
  writeWith,
  now,
}: Parts): Writing {
  const nextSeq = (): number => materializer.nextSeq();
  return {
    async accept(event, keys = []) {
      const result = await group.add(() => acceptEvent(sql, nextSeq, event, keys, now()), {
        many: keys.length > 0,
      });
      if (event.actions.length > 0 && result.kind === "accepted") loop.noticed();
      return result;
    },
    async commit(write: (tx: Writes) => void, held?: Job | FencingToken) {
      await loop.catchUp();
      const touched = new Set<JobKind>();
      const work = (): boolean => {
        if (held && !isFencingToken(held) && !jobs.isHeld(held)) return false;
        writeWith(touched, ({ writes }) => write(writes));
        return true;
      };
      const done = await group.add(work, { many: true });
      if (!done) return false;
      for (const kind of touched) {
        const later = jobs.nextTime(kind);
        if (later !== undefined) signals.later(kind, later);
      }
      if (touched.size > 0) signals.announce(touched);
      return true;
    },
    onSystemEvents: signals.onWake,
  };
}

/** The store over one SQLite database. */
function createStore(parts: Parts): Store {
  const { sql, group, checkpoints, writable, logFile, materializer, loop, signals } = parts;
  let closed = false;
  return {
    ...writing(parts),
    ...createDurableReads(parts),
    async sweep(at, retention) {
      await loop.catchUp();
      let total = 0;
      for (const step of sweepSteps(sql, at, retention, materializer.done)) {
        for (let more = true; more && !closed; await nextTurn()) {
          const slice = await group.derive(step);
          slice.settle?.();
          total += slice.changed;
          more = slice.more;
        }
      }
      return total;
    },
    oldestBody: async (at) => readOldestBody(sql, at),
    backup: (file) => copyTo(sql.db, file),
    async close() {
      if (closed) return;
      closed = true;
      writable.close();
      await loop.close();
      await group.drain();
      await checkpoints.close();
      signals.close();
      sql.db.close();
      logFile.close();
    },
  };
}

/** The queue over the store's own database, so that work and jobs share a commit. */
function createQueue({ jobs, group, loop, signals, now }: Parts, watch: StepWatch): Queue {
  /** Keeps delays as long as they were to be, if the clock is set back. */
  const followClock = async (): Promise<void> => {
    const step = watch.look();
    if (step < 0) await group.add(() => jobs.moveBack(-step), { many: true });
  };
  return {
    async fetch(kind, limit) {
      const take = (): Job[] => jobs.take(kind, limit);
      await followClock();
      // Jobs that are ready came in before all that is still to be taken up: only where they are too few, wait for more.
      if (jobs.readyCount(kind, limit) < limit) await loop.catchUp();
      const isReady = jobs.readyCount(kind, 1) > 0;
      // A lease that is lost with the power is one of a process that is lost too. A turn is synced before its tools or its hook's
      // model are called. A delivery or a command acts without another commit, and only its taking counts its tries.
      const taken = !isReady
        ? []
        : await (kind === "turn" ? group.derive(take) : group.add(take, { many: true }));
      // A caller that was given as many as it asked for asks again by itself.
      const later = taken.length < limit ? jobs.nextTime(kind) : undefined;
      if (later !== undefined) signals.later(kind, later);
      return taken;
    },
    onReady: signals.onReady,
    async find(kind, id) {
      await loop.catchUp();
      return jobs.find(kind, id);
    },
    // All that stands before a job that was given to a worker is in the table already.
    findEarlier: (job, keys) => Promise.resolve(jobs.findEarlier(job, keys)),
    async waiting(kind) {
      await loop.catchUp();
      const { count, oldest } = jobs.waiting(kind);
      return { count, oldestMs: oldest === null ? 0 : Math.max(0, now() - oldest) };
    },
    async recover() {
      await loop.catchUp();
      const released = await group.add(() => jobs.recover(), { many: true });
      signals.announce(new Set(released));
      return released.length;
    },
  };
}

/** The parts of a store, on a database that is open. */
function createParts(db: DatabaseSync, clock: Clock, log: Logger) {
  const logFile = openLog(db, clock.now());
  const file = db.location() ?? "";
  const now = (): Ms => clock.now();
  const sql = new Statements(db);
  const jobs = new SqliteJobs(sql, now);
  const materializer = new Materializer(sql);
  const writer = createSqliteWriter(sql, jobs, now);
  const writeWith: WriteWith = (touched, work) => {
    jobs.touched = touched;
    return work(writer);
  };
  const writable = createWritable(sql, () => group, log);
  const onFailure = writable.failed;
  const group: SqliteGroupCommit = createSqliteGroupCommit({
    sql,
    sync: () => logFile.sync(),
    onCommit: () => checkpoints.committed(),
    onFailure,
    onBroken: (error) => endProcess(log, file, error),
  });
  const checkpoints = new Checkpoints({ file, log: logFile, group, onFailure });
  const signals = createSignals({ clock, log });
  const loop = new MaterializeLoop({ materializer, group, signals, writeWith, log });
  return {
    sql,
    jobs,
    group,
    checkpoints,
    writable,
    logFile,
    materializer,
    loop,
    signals,
    writeWith,
    now,
  };
}

/** The store and its queue on a database that is open, and belongs to this process alone. */
export function createSqlite(db: DatabaseSync, clock: Clock, log: Logger): StoreHandle {
  const parts = createParts(db, clock, log);
  return {
    store: createStore(parts),
    queue: createQueue(parts, createStepWatch(clock, log)),
    cluster: { ...singleNode(parts.now, log), reachable: parts.writable.isWritable },
    usage: createSqliteUsage(parts),
  };
}

/** Opens the embedded store and its queue on a file. */
export function openSqlite(file: string, clock: Clock, log: Logger): StoreHandle {
  const db = new DatabaseSync(file);
  try {
    return createSqlite(db, clock, log);
  } catch (error) {
    db.close();
    throw error;
  }
}
