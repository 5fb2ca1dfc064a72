import { DatabaseSync } from "node:sqlite";
import { type Clock, createStepWatch, type StepWatch } from "../../core/clock.ts";
import type { Logger } from "../../core/log.ts";
import { singleNode } from "../cluster.ts";
import { createSignals, type Signals } from "../sql/signals.ts";
import {
  isFencingToken,
  type EarlierJob,
  type FencingToken,
  type Job,
  type JobKind,
  type JobPosition,
  type Ms,
  type Queue,
  type Store,
  type StoreHandle,
  type Writes,
} from "../types.ts";
import { copyTo } from "./copy-database.ts";
import {
  Checkpoints,
  createWritable,
  endProcess,
  openLog,
  type LogFile,
  type Writable,
} from "./disk.ts";
import { type SqliteGroupCommit, createSqliteGroupCommit } from "./group-commit.ts";
import { SqliteJobs } from "./jobs.ts";
import { MaterializeLoop, Materializer } from "./materialize-loop.ts";
import { createDurableReads } from "./reads.ts";
import { Statements } from "./statements.ts";
import { readOldestBody, sweepSteps } from "./sweep.ts";
import { createSqliteUsage } from "./usage.ts";
import { acceptEvent, createSqliteWriter, type WriteWith } from "./writes.ts";

interface Parts {
  sql: Statements;
  jobs: SqliteJobs;
  group: SqliteGroupCommit;
  checkpoints: Checkpoints;
  writable: Writable;
  logFile: LogFile;
  materializer: Materializer;
  loop: MaterializeLoop;
  signals: Signals;
  writeWith: WriteWith;
  now: () => Ms;
}

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

/** Where a job stands. The first of its key is the one that may start or is under way. */
function findJob(sql: Statements, kind: JobKind, id: string): JobPosition | undefined {
  const row = sql.get<{ head: string; runAt: Ms; held: number }>(
    `SELECT run_at AS runAt, held, iif(held = 1 OR ready IS NOT NULL, id,
        coalesce((SELECT id FROM jobs AS first WHERE first.kind = jobs.kind AND first.key = jobs.key AND (first.held = 1 OR first.ready IS NOT NULL) ORDER BY seq LIMIT 1), id)) AS head
      FROM jobs WHERE kind = ? AND id = ?`,
    kind,
    id,
  );
  return row && { ...row, held: row.held === 1 };
}

/** The first of those with one of these keys that were added before a job. Reads one row of each key. */
function findEarlierJob(
  sql: Statements,
  { kind, id }: Pick<Job, "kind" | "id">,
  keys: readonly string[],
): EarlierJob | undefined {
  return sql.get<EarlierJob>(
    `SELECT id, key, run_at AS runAt FROM jobs WHERE seq = (
        SELECT min((SELECT min(seq) FROM jobs INDEXED BY jobs_key WHERE kind = ?1 AND key = given.value AND seq < own.seq))
        FROM jobs AS own, json_each(?3) AS given WHERE own.kind = ?1 AND own.id = ?2)`,
    kind,
    id,
    JSON.stringify(keys),
  );
}

/** The queue over the store's own database, so that work and jobs share a commit. */
function createQueue({ sql, jobs, group, loop, signals, now }: Parts, watch: StepWatch): Queue {
  /** Keeps delays as long as they were to be, if the clock is set back now or while no process runs. */
  const followClock = async (): Promise<void> => {
    const step = watch.look();
    if (step < 0) await group.add(() => jobs.moveBack(-step, now()), { many: true });
  };
  return {
    async fetch(kind, limit) {
      const take = (): Job[] => jobs.take(kind, limit, now());
      await followClock();
      // Jobs that are ready came in before all that is still to be taken up: only where they are too few, wait for more.
      if (jobs.readyCount(kind, now(), limit) < limit) await loop.catchUp();
      const isReady = jobs.readyCount(kind, now(), 1) > 0;
      // A lease that is lost with the power is one of a process that is lost too. A turn is synced before its tools or its hook's
      // model are called. A delivery or a command acts without another commit, and only its taking counts its tries.
      const taken = !isReady
        ? []
        : await (kind === "turn" ? group.derive(take) : group.add(take, { many: true }));
      if (taken.length === 0 && jobs.shouldNote(now()) && jobs.nextTime(kind) !== undefined)
        await group.add(() => jobs.note(now()), { many: false });
      // A caller that was given as many as it asked for asks again by itself.
      const later = taken.length < limit ? jobs.nextTime(kind) : undefined;
      if (later !== undefined) signals.later(kind, later);
      return taken;
    },
    onReady: signals.onReady,
    async find(kind, id) {
      await loop.catchUp();
      return findJob(sql, kind, id);
    },
    // What stands before a job that was given to a worker is in the table already.
    findEarlier: (job, keys) => Promise.resolve(findEarlierJob(sql, job, keys)),
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

/** Moves the ends of delays if the clock was set back while no process used the file. */
function makeUpForStep({
  sql,
  jobs,
  now,
  log,
}: {
  sql: Statements;
  jobs: SqliteJobs;
  now: () => Ms;
  log: Logger;
}): void {
  const step = jobs.getStepBack(now());
  if (step === 0) return;
  log.warn(
    { stepMs: -step },
    "the system clock was set back since the store was used last; delays end as if it had not been",
  );
  sql.run("BEGIN IMMEDIATE");
  jobs.moveBack(step, now());
  sql.run("COMMIT");
}

/** The store and its queue on a database that is open, and belongs to this process alone. */
export function createSqlite(db: DatabaseSync, clock: Clock, log: Logger): StoreHandle {
  const logFile = openLog(db, clock.now());
  const file = db.location() ?? "";
  const now = (): number => clock.now();
  const sql = new Statements(db);
  const jobs = new SqliteJobs(sql);
  const materializer = new Materializer(sql);
  const writeWith = createSqliteWriter(sql, jobs, now);
  const writable = createWritable(sql, () => group, log);
  const onFailure = writable.failed;
  const group: SqliteGroupCommit = createSqliteGroupCommit({
    sql,
    sync: () => logFile.sync(),
    onCommit: () => {
      checkpoints.committed();
      writable.committed();
    },
    onFailure,
    onBroken: (error) => endProcess(log, file, error),
  });
  const checkpoints = new Checkpoints({ file, log: logFile, group, onFailure });
  const signals = createSignals({ clock, log });
  const watch = createStepWatch(clock, log);
  makeUpForStep({ sql, jobs, now, log });
  const loop = new MaterializeLoop({ materializer, group, signals, writeWith, log });
  const parts: Parts = {
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
  return {
    store: createStore(parts),
    queue: createQueue(parts, watch),
    cluster: { ...singleNode(now, log), reachable: writable.isWritable },
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
