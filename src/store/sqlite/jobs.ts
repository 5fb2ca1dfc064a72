import { FIRST_TIME, getDelayEnd, getReadyUntil, JOB_KINDS } from "../sql/rows.ts";
import {
  type EarlierJob,
  type Job,
  type JobKind,
  type JobPosition,
  type Ms,
  type NewJob,
  PARKED_FROM,
} from "../types.ts";
import type { JobRows } from "../sql/record-writes.ts";
import type { Statements } from "./connection.ts";

interface JobRow {
  seq: number;
  kind: JobKind;
  id: string;
  key: string;
  data: string;
  attempts: number;
  starts: number;
  enqueued: number;
}

type JobName = Pick<Job, "kind" | "id">;

/** Jobs whose delay is over and that join the line in one transaction; other jobs are taken all the same once the line is empty. */
const JOIN_AT_ONCE = 256;

/**
 * The queue's table. Only the first job of a key has `ready`, so that taking the next one needs no look at the
 * thousands that may wait behind it: its place in the line, or the time of its delay (`FIRST_TIME`). `run_at` is the
 * time of the delay, or 0. All writing methods run inside a transaction of the caller.
 */
export class SqliteJobs implements JobRows {
  /** Gets the kinds of jobs that may have become ready. */
  touched = new Set<JobKind>();
  readonly #sql: Statements;
  readonly #now: () => Ms;
  /** The last place that was given. */
  #line: number;
  /** The last lease that this process gave. A job that was ended and added again begins to count from 0 again; its leases do not. */
  #lease = 0;

  constructor(sql: Statements, now: () => Ms) {
    this.#sql = sql;
    this.#now = now;
    this.#line = Math.max(
      ...JOB_KINDS.map(
        (kind) =>
          sql.get<{ last: number | null }>(
            "SELECT max(ready) AS last FROM jobs INDEXED BY jobs_ready WHERE kind = ? AND ready IS NOT NULL AND ready < ?",
            kind,
            FIRST_TIME,
          )?.last ?? 0,
      ),
    );
  }

  /** The `ready` of a job with this `run_at`: the end of its delay, or else a place at the end of the line. */
  #readyAt(runAt: Ms): number {
    return runAt || ++this.#line;
  }

  add(job: NewJob): void {
    const sql = this.#sql;
    const first = !sql.get(
      "SELECT 1 FROM jobs WHERE kind = ? AND key = ? LIMIT 1",
      job.kind,
      job.key,
    );
    const runAt = getDelayEnd(job.runAt, this.#now());
    const added = sql.run(
      "INSERT INTO jobs (kind, id, key, data, enqueued, run_at, ready) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (kind, id) DO NOTHING",
      job.kind,
      job.id,
      job.key,
      JSON.stringify(job.data),
      job.enqueuedAt,
      runAt,
      first ? this.#readyAt(runAt) : null,
    );
    if (added === 1) this.touched.add(job.kind);
  }

  /** Jobs whose delay is over go to the end of the line. They would wait for it to be empty otherwise. */
  #join(kind: JobKind): void {
    const due = this.#sql.all<{ seq: number }>(
      "SELECT seq FROM jobs INDEXED BY jobs_ready WHERE kind = ? AND ready IS NOT NULL AND ready >= ? AND ready <= ? ORDER BY ready, seq LIMIT ?",
      kind,
      FIRST_TIME,
      this.#now(),
      JOIN_AT_ONCE,
    );
    for (const { seq } of due)
      this.#sql.run("UPDATE jobs SET run_at = 0, ready = ? WHERE seq = ?", ++this.#line, seq);
  }

  /** Takes up to `limit` jobs that may start and gives each start its lease. */
  take(kind: JobKind, limit: number): Job[] {
    this.#join(kind);
    const rows = this.#sql.all<JobRow>(
      "SELECT * FROM jobs INDEXED BY jobs_ready WHERE kind = ? AND ready IS NOT NULL AND ready <= ? ORDER BY ready, seq LIMIT ?",
      kind,
      getReadyUntil(this.#now()),
      limit,
    );
    return rows.map((row) => {
      this.#lease = Math.max(row.starts, this.#lease) + 1;
      this.#sql.run(
        "UPDATE jobs SET held = 1, ready = NULL, attempts = attempts + 1, starts = ? WHERE seq = ?",
        this.#lease,
        row.seq,
      );
      return {
        id: row.id,
        kind: row.kind,
        key: row.key,
        data: JSON.parse(row.data) as unknown,
        attempts: row.attempts + 1,
        enqueuedAt: row.enqueued,
        lease: this.#lease,
      };
    });
  }

  isHeld(job: Job): boolean {
    return (
      this.#sql.get(
        "SELECT 1 FROM jobs WHERE kind = ? AND id = ? AND held = 1 AND starts = ?",
        job.kind,
        job.id,
        job.lease ?? 0,
      ) !== undefined
    );
  }

  /** Ends a job that its caller holds. */
  complete(job: Job): void {
    this.touched.add(job.kind);
    const gone = this.#sql.run(
      "DELETE FROM jobs WHERE kind = ? AND id = ? AND held = 1 AND starts = ?",
      job.kind,
      job.id,
      job.lease ?? 0,
    );
    if (gone > 0) this.#promote(job.kind, job.key);
  }

  /** Puts a job that its caller holds back; it stays the first of its key. */
  retry(job: Job, runAt: Ms, resetAttempts: boolean): void {
    this.touched.add(job.kind);
    const delayEnd = getDelayEnd(runAt, this.#now());
    this.#sql.run(
      "UPDATE jobs SET held = 0, run_at = ?, ready = ?, attempts = iif(?, 0, attempts) WHERE kind = ? AND id = ? AND held = 1 AND starts = ?",
      delayEnd,
      this.#readyAt(delayEnd),
      resetAttempts ? 1 : 0,
      job.kind,
      job.id,
      job.lease ?? 0,
    );
  }

  /** Changes when a job may start, if no worker holds it. */
  reschedule({ kind, id }: JobName, runAt: Ms): void {
    this.touched.add(kind);
    const delayEnd = getDelayEnd(runAt, this.#now());
    this.#sql.run(
      "UPDATE jobs SET run_at = ?, ready = iif(ready IS NULL, NULL, ?) WHERE kind = ? AND id = ? AND held = 0",
      delayEnd,
      this.#readyAt(delayEnd),
      kind,
      id,
    );
  }

  /** Puts a job that its caller holds under another key. It keeps its `seq`: it goes before what was added later, unless that was begun. */
  move(job: Job, runAt: Ms, key: string): void {
    const sql = this.#sql;
    const { kind, id, lease = 0 } = job;
    this.touched.add(kind);
    const row = sql.get<{ seq: number }>(
      "SELECT seq FROM jobs WHERE kind = ? AND id = ? AND held = 1 AND starts = ?",
      kind,
      id,
      lease,
    );
    if (!row) return;
    // The one of the key that is held or may start. Before it stand only those that got this key after it was begun.
    const first = sql.get<{ seq: number; id: string; isBegun: number }>(
      `SELECT seq, id, starts > 0 AS isBegun FROM jobs INDEXED BY jobs_key
        WHERE kind = ? AND key = ? AND (held = 1 OR ready IS NOT NULL) ORDER BY seq LIMIT 1`,
      kind,
      key,
    );
    const isBehind = first !== undefined && (first.isBegun === 1 || first.seq < row.seq);
    const delayEnd = getDelayEnd(runAt, this.#now());
    if (first && !isBehind) {
      sql.run("UPDATE jobs SET ready = NULL WHERE seq = ?", first.seq);
      // A limit keeps no place for a run that cannot start; it is parked once more when it is the first of its key again.
      if (kind === "turn") sql.run("DELETE FROM parked WHERE run = ?", first.id);
    }
    sql.run(
      "UPDATE jobs SET key = ?, run_at = ?, ready = ?, held = 0, attempts = 0, starts = 0 WHERE seq = ?",
      key,
      delayEnd,
      isBehind ? null : this.#readyAt(delayEnd),
      row.seq,
    );
    this.#promote(kind, job.key);
  }

  /** Removes a job, if no worker holds it. */
  remove({ kind, id }: JobName): void {
    this.touched.add(kind);
    const row = this.#sql.get<{ seq: number; key: string; ready: number | null }>(
      "SELECT seq, key, ready FROM jobs WHERE kind = ? AND id = ? AND held = 0",
      kind,
      id,
    );
    if (!row) return;
    this.#sql.run("DELETE FROM jobs WHERE seq = ?", row.seq);
    if (row.ready !== null) this.#promote(kind, row.key);
  }

  /** Lets the next of a key start: at the end of the line, so that a busy key lets others through. */
  #promote(kind: JobKind, key: string): void {
    this.#sql.run(
      "UPDATE jobs SET ready = iif(run_at > ?, run_at, ?) WHERE seq = (SELECT seq FROM jobs WHERE kind = ? AND key = ? ORDER BY seq LIMIT 1)",
      this.#now(),
      ++this.#line,
      kind,
      key,
    );
  }

  /** Jobs of a process that died may start again. */
  recover(): JobKind[] {
    const held = this.#sql.all<{ seq: number; kind: JobKind }>(
      "SELECT seq, kind FROM jobs WHERE held = 1 ORDER BY seq",
    );
    // The start that was interrupted stays counted, and its lease is not valid any more.
    for (const { seq } of held)
      this.#sql.run(
        "UPDATE jobs SET held = 0, run_at = 0, ready = ? WHERE seq = ?",
        ++this.#line,
        seq,
      );
    return held.map((row) => row.kind);
  }

  /** Moves the ends of delays by a step back of the clock, so that they last as long as they were to. */
  moveBack(step: Ms): void {
    this.#sql.run(
      "UPDATE jobs SET run_at = run_at - ?1, ready = iif(ready >= ?2, ready - ?1, ready) WHERE run_at > ?3 AND run_at < ?4",
      step,
      FIRST_TIME,
      this.#now(),
      PARKED_FROM,
    );
  }

  /** Counts the jobs that may start, up to `limit`. */
  readyCount(kind: JobKind, limit: number): number {
    return (
      this.#sql.get<{ count: number }>(
        "SELECT count(*) AS count FROM (SELECT 1 FROM jobs INDEXED BY jobs_ready WHERE kind = ? AND ready IS NOT NULL AND ready <= ? LIMIT ?)",
        kind,
        getReadyUntil(this.#now()),
        limit,
      )?.count ?? 0
    );
  }

  /** When the next delay of a job of a kind ends, or undefined if no job waits for one. */
  nextTime(kind: JobKind): Ms | undefined {
    return this.#sql.get<{ ready: number }>(
      "SELECT ready FROM jobs INDEXED BY jobs_ready WHERE kind = ? AND ready IS NOT NULL AND ready >= ? ORDER BY ready LIMIT 1",
      kind,
      FIRST_TIME,
    )?.ready;
  }

  /** Returns the place of a job. The first of its key is the one that may start or is under way. */
  find(kind: JobKind, id: string): JobPosition | undefined {
    const row = this.#sql.get<{ head: string; runAt: Ms; held: number }>(
      `SELECT run_at AS runAt, held, iif(held = 1 OR ready IS NOT NULL, id,
          coalesce((SELECT id FROM jobs AS first WHERE first.kind = jobs.kind AND first.key = jobs.key AND (first.held = 1 OR first.ready IS NOT NULL) ORDER BY seq LIMIT 1), id)) AS head
        FROM jobs WHERE kind = ? AND id = ?`,
      kind,
      id,
    );
    return row && { ...row, held: row.held === 1 };
  }

  /** The first of those with one of these keys that were added before a job. Reads one row of each key. */
  findEarlier({ kind, id }: JobName, keys: readonly string[]): EarlierJob | undefined {
    return this.#sql.get<EarlierJob>(
      `SELECT id, key, run_at AS runAt FROM jobs WHERE seq = (
          SELECT min((SELECT min(seq) FROM jobs INDEXED BY jobs_key WHERE kind = ?1 AND key = given.value AND seq < own.seq))
          FROM jobs AS own, json_each(?3) AS given WHERE own.kind = ?1 AND own.id = ?2)`,
      kind,
      id,
      JSON.stringify(keys),
    );
  }

  waiting(kind: JobKind): { count: number; oldest: Ms | null } {
    return (
      this.#sql.get<{ count: number; oldest: number | null }>(
        "SELECT count(*) AS count, min(enqueued) AS oldest FROM jobs WHERE kind = ? AND held = 0",
        kind,
      ) ?? { count: 0, oldest: null }
    );
  }

  counts(): { name: string; n: number }[] {
    return JOB_KINDS.map((kind) => ({
      name: `jobs.${kind}`,
      n:
        this.#sql.get<{ n: number }>("SELECT count(*) AS n FROM jobs WHERE kind = ?", kind)?.n ?? 0,
    }));
  }
}
