import type { Job, Ms, Queue, StoreHandle } from "../types.ts";
import { Checkpoints, LogFile } from "./checkpoints.ts";
import { type SqliteGroupCommit, createSqliteGroupCommit } from "./group-commit.ts";
import { MaterializeLoop, Materializer } from "./materialize-loop.ts";
import { findEarlierSqliteJob, findSqliteJob } from "./job-positions.ts";
import { SqliteJobs } from "./jobs.ts";
import { restartLog } from "./restart-log.ts";
import { Statements } from "./statements.ts";
import { DatabaseSync } from "node:sqlite";
import { type Clock, createStepWatch, type StepWatch } from "../../core/clock.ts";
import { RouseError, safeError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import { clampTimes } from "../sql/clamp-times.ts";
import { createFailureLog } from "../sql/errors.ts";
import { createSignals, type Signals } from "../sql/signals.ts";
import { singleNode } from "../cluster.ts";
import { prepareDatabase } from "./schema.ts";
import { createSqliteStore } from "./store.ts";
import { createSqliteUsage } from "./usage.ts";
import { createSqliteWriter } from "./writes.ts";

/** Between looks whether a store that could not commit can do so again. */
const LOOK_MS = 1000;
/** After so long without a commit, one is made to see whether the disk still takes it. */
const IDLE_MS = 5000;

/** Whether the database's disk takes commits. */
interface Writable {
  /** False from a commit that failed, as on a disk that is full, until one has gone through again. */
  isWritable(): boolean;
  /** To be called when a commit went through. */
  committed(): void;
  /** To be called when a commit has failed. */
  failed(): void;
  close(): void;
}

/**
 * Remembers whether commits go through, and makes one of its own from time to time while there are no others: a gateway
 * without work notices that its disk is full before a hook does, and one that is taken out of service that there is room again.
 */
function createWritable(sql: Statements, group: () => SqliteGroupCommit): Writable {
  let isWritable = true;
  let isClosed = false;
  let hasCommitted = false;

  const commit = (): Promise<boolean> =>
    group()
      .add(
        () =>
          sql.run(
            "INSERT INTO marks VALUES ('written', 0) ON CONFLICT (name) DO UPDATE SET seq = seq + 1",
          ),
        { many: false },
      )
      .then(
        () => true,
        () => false,
      );
  const look = async (): Promise<void> => {
    if (!isWritable || !hasCommitted) isWritable = await commit();
    hasCommitted = false;
    lookLater();
  };
  let timer: NodeJS.Timeout | undefined;
  const lookLater = (): void => {
    clearTimeout(timer);
    if (!isClosed) timer = setTimeout(() => void look(), isWritable ? IDLE_MS : LOOK_MS).unref();
  };
  lookLater();

  return {
    isWritable: () => isWritable,
    committed: () => void (hasCommitted = true),
    failed() {
      if (!isWritable) return;
      isWritable = false;
      lookLater();
    },
    close() {
      isClosed = true;
      clearTimeout(timer);
    },
  };
}

interface Parts {
  sql: Statements;
  jobs: SqliteJobs;
  group: SqliteGroupCommit;
  loop: MaterializeLoop;
  signals: Signals;
  watch: StepWatch;
  now: () => Ms;
}

/** The queue over the store's own database, so that work and jobs share a commit. */
export function createSqliteQueue({ sql, jobs, group, loop, signals, watch, now }: Parts): Queue {
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
      return findSqliteJob(sql, kind, id);
    },
    // What stands before a job that was given to a worker is in the table already.
    findEarlier: (job, keys) => Promise.resolve(findEarlierSqliteJob(sql, job, keys)),
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

/** The number and name that SQLite gives a failure, which quote nothing. */
const describeFailure = (error: unknown): object => {
  const { errcode, errstr } = ((error as Error | undefined)?.cause ?? {}) as {
    errcode?: number;
    errstr?: string;
  };
  return { errcode, reason: errstr };
};

/** Answers are sent within this time. */
const LAST_WORDS: Ms = 200;

/**
 * Ends the process after a sync that failed. The system forgets what it could not write, and the next sync succeeds
 * without it: only reading the files again shows what is there. The next start does so, and copies it to where a sync
 * of its own confirms it.
 */
function endProcess(log: Logger, file: string, error: unknown): void {
  const { code = "error" } = error as { code?: string };
  const message = `the disk did not confirm what was written to ${file} (${code}), so the process ends; check the disk, then start again: what was acknowledged before is kept`;
  log.fatal({ err: safeError(error) }, message);
  setTimeout(() => {
    throw new RouseError({ code: "store_unavailable", message });
  }, LAST_WORDS);
}

/** Brings the schema up to date. From here on this connection waits neither for the disk nor for a lock. */
function openLog(db: DatabaseSync, now: Ms): LogFile {
  prepareDatabase(db, now);
  // What a process wrote before it died is visible, and may not be on disk.
  restartLog(db);
  db.exec("PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=0; PRAGMA busy_timeout=0;");
  return new LogFile(db.location() ?? "");
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
  const logFailure = createFailureLog(log, describeFailure);
  const writable = createWritable(sql, () => group);
  const onFailure = (error: unknown): void => {
    logFailure(error);
    writable.failed();
  };
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
  const store = createSqliteStore({
    sql,
    jobs,
    group,
    checkpoints,
    logFile,
    materializer,
    loop,
    signals,
    writeWith,
    now,
  });
  const close = (): Promise<void> => {
    writable.close();
    return store.close();
  };
  return {
    store: { ...clampTimes(store, now), close },
    queue: createSqliteQueue({ sql, jobs, group, loop, signals, watch, now }),
    cluster: { ...singleNode(now, log), reachable: writable.isWritable },
    usage: createSqliteUsage({ sql, jobs, group, loop, signals, now }),
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
