import type { Job, JobKind, Ms, NewJob } from "../types.ts";
import type { Statements } from "./statements.ts";

interface JobRow {
  seq: number;
  kind: JobKind;
  id: string;
  key: string;
  data: string;
  attempts: number;
  enqueued: number;
  ready: number | null;
  held: number;
}

/**
 * The queue's table. Only the first job of a key has `ready`, so that taking the next one needs no look at the
 * thousands that may wait behind it. All methods run inside a transaction of the caller.
 */
export class Jobs {
  readonly #sql: Statements;

  constructor(sql: Statements) {
    this.#sql = sql;
  }

  enqueue(job: NewJob): boolean {
    const sql = this.#sql;
    if (sql.get("SELECT 1 FROM jobs WHERE kind = ? AND id = ?", job.kind, job.id)) return false;
    const first = !sql.get("SELECT 1 FROM jobs WHERE kind = ? AND key = ? LIMIT 1", job.kind, job.key);
    const ready = first ? (job.runAt ?? job.enqueuedAt) : null;
    sql.run("INSERT INTO jobs (kind, id, key, data, enqueued, ready) VALUES (?, ?, ?, ?, ?, ?)", job.kind, job.id, job.key, JSON.stringify(job.data), job.enqueuedAt, ready);
    return true;
  }

  /** Takes up to `limit` jobs that may start at `now` and counts their starts. */
  take(kind: JobKind, limit: number, now: Ms): Job[] {
    const rows = this.#sql.all<JobRow>("SELECT * FROM jobs INDEXED BY jobs_ready WHERE kind = ? AND ready IS NOT NULL AND ready <= ? ORDER BY ready, seq LIMIT ?", kind, now, limit);
    return rows.map((row) => {
      this.#sql.run("UPDATE jobs SET held = 1, ready = NULL, attempts = attempts + 1 WHERE seq = ?", row.seq);
      return { id: row.id, kind: row.kind, key: row.key, data: JSON.parse(row.data) as unknown, attempts: row.attempts + 1, enqueuedAt: row.enqueued };
    });
  }

  isHeld(job: Job): boolean {
    const row = this.#sql.get<{ held: number; attempts: number }>("SELECT held, attempts FROM jobs WHERE kind = ? AND id = ?", job.kind, job.id);
    return row !== undefined && row.held === 1 && row.attempts === job.attempts;
  }

  remove(kind: JobKind, id: string, now: Ms): void {
    const row = this.#sql.get<JobRow>("SELECT * FROM jobs WHERE kind = ? AND id = ?", kind, id);
    if (!row) return;
    this.#sql.run("DELETE FROM jobs WHERE seq = ?", row.seq);
    if (row.ready !== null || row.held === 1) this.#promote(kind, row.key, now);
  }

  /** Lets the next of a key start. */
  #promote(kind: JobKind, key: string, now: Ms): void {
    this.#sql.run("UPDATE jobs SET ready = max(enqueued, ?) WHERE seq = (SELECT seq FROM jobs WHERE kind = ? AND key = ? ORDER BY seq LIMIT 1) AND held = 0", now, kind, key);
  }

  retry(job: Job, runAt: Ms, resetAttempts: boolean): void {
    this.#sql.run("UPDATE jobs SET held = 0, ready = ?, attempts = CASE WHEN ? THEN 0 ELSE attempts END WHERE kind = ? AND id = ?", runAt, resetAttempts ? 1 : 0, job.kind, job.id);
  }

  /** Jobs of a process that died may start again. */
  recover(now: Ms): number {
    return this.#sql.run("UPDATE jobs SET held = 0, ready = ? WHERE held = 1", now);
  }

  /** When the next job of a kind may start, or undefined where none waits. */
  nextReady(kind: JobKind): Ms | undefined {
    const row = this.#sql.get<{ ready: number }>("SELECT ready FROM jobs INDEXED BY jobs_ready WHERE kind = ? AND ready IS NOT NULL ORDER BY ready LIMIT 1", kind);
    return row?.ready;
  }

  waiting(kind: JobKind): { count: number; oldest: Ms | null } {
    return this.#sql.get<{ count: number; oldest: number | null }>("SELECT count(*) AS count, min(enqueued) AS oldest FROM jobs WHERE kind = ? AND held = 0", kind) ?? { count: 0, oldest: null };
  }
}
