import type { Job, JobKind, JobPosition, Ms, NewJob } from "../types.ts";
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

/**
 * The queue's table. Only the first job of a key has `ready`, so that taking the next one needs no look at the
 * thousands that may wait behind it. All writing methods run inside a transaction of the caller.
 */
export class SqliteJobs {
  readonly #sql: Statements;

  constructor(sql: Statements) {
    this.#sql = sql;
  }

  /** False if there is a job with this id already. */
  enqueue(job: NewJob): boolean {
    const sql = this.#sql;
    const first = !sql.get("SELECT 1 FROM jobs WHERE kind = ? AND key = ? LIMIT 1", job.kind, job.key);
    const runAt = job.runAt ?? job.enqueuedAt;
    const added = sql.run(
      "INSERT INTO jobs (kind, id, key, data, enqueued, run_at, ready) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (kind, id) DO NOTHING",
      job.kind,
      job.id,
      job.key,
      JSON.stringify(job.data),
      job.enqueuedAt,
      runAt,
      first ? runAt : null,
    );
    return added === 1;
  }

  /** Takes up to `limit` jobs that may start at `now` and counts their starts. */
  take(kind: JobKind, limit: number, now: Ms): Job[] {
    const rows = this.#sql.all<JobRow>(
      "SELECT * FROM jobs INDEXED BY jobs_ready WHERE kind = ? AND ready IS NOT NULL AND ready <= ? ORDER BY ready, seq LIMIT ?",
      kind,
      now,
      limit,
    );
    return rows.map((row) => {
      this.#sql.run("UPDATE jobs SET held = 1, ready = NULL, attempts = attempts + 1, starts = starts + 1 WHERE seq = ?", row.seq);
      return {
        id: row.id,
        kind: row.kind,
        key: row.key,
        data: JSON.parse(row.data) as unknown,
        attempts: row.attempts + 1,
        enqueuedAt: row.enqueued,
        lease: row.starts + 1,
      };
    });
  }

  isHeld(job: Job): boolean {
    return (
      this.#sql.get("SELECT 1 FROM jobs WHERE kind = ? AND id = ? AND held = 1 AND starts = ?", job.kind, job.id, job.lease ?? 0) !==
      undefined
    );
  }

  /** Ends a job that its caller holds. */
  complete(job: Job, now: Ms): void {
    const gone = this.#sql.run("DELETE FROM jobs WHERE kind = ? AND id = ? AND held = 1 AND starts = ?", job.kind, job.id, job.lease ?? 0);
    if (gone > 0) this.#promote(job.kind, job.key, now);
  }

  /** Puts a job that its caller holds back; it stays the first of its key. */
  retry(job: Job, runAt: Ms, resetAttempts: boolean): void {
    this.#sql.run(
      "UPDATE jobs SET held = 0, run_at = ?, ready = ?, attempts = iif(?, 0, attempts) WHERE kind = ? AND id = ? AND held = 1 AND starts = ?",
      runAt,
      runAt,
      resetAttempts ? 1 : 0,
      job.kind,
      job.id,
      job.lease ?? 0,
    );
  }

  /** Changes when a job may start, if no worker holds it. */
  reschedule(kind: JobKind, id: string, runAt: Ms): void {
    this.#sql.run(
      "UPDATE jobs SET run_at = ?, ready = iif(ready IS NULL, NULL, ?) WHERE kind = ? AND id = ? AND held = 0",
      runAt,
      runAt,
      kind,
      id,
    );
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

  /** Lets the next of a key start: not before those of other keys that wait already, so that a busy key lets others through. */
  #promote(kind: JobKind, key: string, now: Ms): void {
    this.#sql.run(
      "UPDATE jobs SET ready = max(run_at, ?) WHERE seq = (SELECT seq FROM jobs WHERE kind = ? AND key = ? ORDER BY seq LIMIT 1)",
      now,
      kind,
      key,
    );
  }

  /** Jobs of a process that died may start again. */
  recover(now: Ms): JobKind[] {
    const kinds = this.#sql.all<{ kind: JobKind }>("SELECT kind FROM jobs WHERE held = 1");
    // The start that was interrupted stays counted, and its lease is not valid any more.
    this.#sql.run("UPDATE jobs SET held = 0, run_at = ?, ready = ? WHERE held = 1", now, now);
    return kinds.map((row) => row.kind);
  }

  /** How many jobs may start at `now`, counted up to `limit`. */
  readyCount(kind: JobKind, now: Ms, limit: number): number {
    return (
      this.#sql.get<{ count: number }>(
        "SELECT count(*) AS count FROM (SELECT 1 FROM jobs INDEXED BY jobs_ready WHERE kind = ? AND ready IS NOT NULL AND ready <= ? LIMIT ?)",
        kind,
        now,
        limit,
      )?.count ?? 0
    );
  }

  /** When the next job of a kind may start, or undefined if no job waits. */
  nextReady(kind: JobKind): Ms | undefined {
    return this.#sql.get<{ ready: number }>(
      "SELECT ready FROM jobs INDEXED BY jobs_ready WHERE kind = ? AND ready IS NOT NULL ORDER BY ready LIMIT 1",
      kind,
    )?.ready;
  }

  /** Where a job stands. The first of its key is the one that may start or is under way. */
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

  waiting(kind: JobKind): { count: number; oldest: Ms | null } {
    return (
      this.#sql.get<{ count: number; oldest: number | null }>(
        "SELECT count(*) AS count, min(enqueued) AS oldest FROM jobs WHERE kind = ? AND held = 0",
        kind,
      ) ?? { count: 0, oldest: null }
    );
  }

  counts(): { name: string; n: number }[] {
    return (["turn", "delivery", "command"] as const).map((kind) => ({
      name: `jobs.${kind}`,
      n: this.#sql.get<{ n: number }>("SELECT count(*) AS n FROM jobs WHERE kind = ?", kind)?.n ?? 0,
    }));
  }
}
