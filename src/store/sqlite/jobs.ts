import { STEP_MS } from "../../core/clock.ts";
import { FIRST_TIME, getDelayEnd, getReadyUntil, JOB_KINDS } from "../job-records.ts";
import { type Job, type JobKind, type Ms, type NewJob, PARKED_FROM } from "../types.ts";
import type { Statements } from "./statements.ts";

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

/** Where a job goes that gets another key. */
interface Target {
  key: string;
  runAt: Ms;
  now: Ms;
}

/** Jobs whose delay is over and that join the line in one transaction; other jobs are taken all the same once the line is empty. */
const JOIN_AT_ONCE = 256;
/** The time of the clock is on disk at least so often while jobs wait for theirs: what is lost of a step while no process ran. */
const NOTE_MS = 10_000;

/**
 * The queue's table. Only the first job of a key has `ready`, so that taking the next one needs no look at the
 * thousands that may wait behind it: its place in the line, or the time of its delay (`FIRST_TIME`). `run_at` is the
 * time of the delay, or 0. All writing methods run inside a transaction of the caller.
 */
export class SqliteJobs {
  readonly #sql: Statements;
  /** The last place that was given. */
  #line: number;
  /** The last lease that this process gave. A job that was ended and added again begins to count from 0 again; its leases do not. */
  #lease = 0;
  #noted = -Infinity;

  constructor(sql: Statements) {
    this.#sql = sql;
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

  /** False if there is a job with this id already. */
  enqueue(job: NewJob, now: Ms): boolean {
    const sql = this.#sql;
    const first = !sql.get(
      "SELECT 1 FROM jobs WHERE kind = ? AND key = ? LIMIT 1",
      job.kind,
      job.key,
    );
    const runAt = getDelayEnd(job.runAt, now);
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
    return added === 1;
  }

  /** Jobs whose delay is over go to the end of the line. They would wait for it to be empty otherwise. */
  #join(kind: JobKind, now: Ms): void {
    const due = this.#sql.all<{ seq: number }>(
      "SELECT seq FROM jobs INDEXED BY jobs_ready WHERE kind = ? AND ready IS NOT NULL AND ready >= ? AND ready <= ? ORDER BY ready, seq LIMIT ?",
      kind,
      FIRST_TIME,
      now,
      JOIN_AT_ONCE,
    );
    for (const { seq } of due)
      this.#sql.run("UPDATE jobs SET run_at = 0, ready = ? WHERE seq = ?", ++this.#line, seq);
  }

  /** Takes up to `limit` jobs that may start at `now` and gives each start its lease. */
  take(kind: JobKind, limit: number, now: Ms): Job[] {
    this.#join(kind, now);
    if (this.shouldNote(now)) this.note(now);
    const rows = this.#sql.all<JobRow>(
      "SELECT * FROM jobs INDEXED BY jobs_ready WHERE kind = ? AND ready IS NOT NULL AND ready <= ? ORDER BY ready, seq LIMIT ?",
      kind,
      getReadyUntil(now),
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
  complete(job: Job, now: Ms): void {
    const gone = this.#sql.run(
      "DELETE FROM jobs WHERE kind = ? AND id = ? AND held = 1 AND starts = ?",
      job.kind,
      job.id,
      job.lease ?? 0,
    );
    if (gone > 0) this.#promote(job.kind, job.key, now);
  }

  /** Puts a job that its caller holds back; it stays the first of its key. */
  retry(job: Job, runAt: Ms, resetAttempts: boolean, now: Ms): void {
    const delayEnd = getDelayEnd(runAt, now);
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
  reschedule(kind: JobKind, id: string, runAt: Ms, now: Ms): void {
    const delayEnd = getDelayEnd(runAt, now);
    this.#sql.run(
      "UPDATE jobs SET run_at = ?, ready = iif(ready IS NULL, NULL, ?) WHERE kind = ? AND id = ? AND held = 0",
      delayEnd,
      this.#readyAt(delayEnd),
      kind,
      id,
    );
  }

  /** Puts a job that its caller holds under another key. It keeps its `seq`: it goes before what was added later, unless that was begun. */
  move(job: Job, { key, runAt, now }: Target): void {
    const sql = this.#sql;
    const { kind, id, lease = 0 } = job;
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
    const delayEnd = getDelayEnd(runAt, now);
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
    this.#promote(kind, job.key, now);
  }

  /** Removes a job, if no worker holds it. */
  remove(kind: JobKind, id: string, now: Ms): void {
    const row = this.#sql.get<{ seq: number; key: string; ready: number | null }>(
      "SELECT seq, key, ready FROM jobs WHERE kind = ? AND id = ? AND held = 0",
      kind,
      id,
    );
    if (!row) return;
    this.#sql.run("DELETE FROM jobs WHERE seq = ?", row.seq);
    if (row.ready !== null) this.#promote(kind, row.key, now);
  }

  /** Lets the next of a key start: at the end of the line, so that a busy key lets others through. */
  #promote(kind: JobKind, key: string, now: Ms): void {
    this.#sql.run(
      "UPDATE jobs SET ready = iif(run_at > ?, run_at, ?) WHERE seq = (SELECT seq FROM jobs WHERE kind = ? AND key = ? ORDER BY seq LIMIT 1)",
      now,
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

  /** Whether the time on disk is older than it may be. */
  shouldNote(now: Ms): boolean {
    return Math.abs(now - this.#noted) >= NOTE_MS;
  }

  /** Writes down what time it is, for a process that starts after the clock was set back. */
  note(now: Ms): void {
    this.#noted = now;
    this.#sql.run(
      "INSERT INTO marks VALUES ('clock', ?1) ON CONFLICT (name) DO UPDATE SET seq = ?1",
      Math.round(now),
    );
  }

  /** How far the clock was set back while no process ran, as far as that is known; 0 if it was not. */
  getStepBack(now: Ms): Ms {
    const noted =
      this.#sql.get<{ seq: number }>("SELECT seq FROM marks WHERE name = 'clock'")?.seq ?? 0;
    return noted - now < STEP_MS ? 0 : noted - now;
  }

  /** Moves the ends of delays by a step back of the clock, so that they last as long as they were to. */
  moveBack(step: Ms, now: Ms): void {
    this.#sql.run(
      "UPDATE jobs SET run_at = run_at - ?1, ready = iif(ready >= ?2, ready - ?1, ready) WHERE run_at > ?3 AND run_at < ?4",
      step,
      FIRST_TIME,
      now,
      PARKED_FROM,
    );
    this.note(now);
  }

  /** How many jobs may start at `now`, counted up to `limit`. */
  readyCount(kind: JobKind, now: Ms, limit: number): number {
    return (
      this.#sql.get<{ count: number }>(
        "SELECT count(*) AS count FROM (SELECT 1 FROM jobs INDEXED BY jobs_ready WHERE kind = ? AND ready IS NOT NULL AND ready <= ? LIMIT ?)",
        kind,
        getReadyUntil(now),
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
