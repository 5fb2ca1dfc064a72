import { sessionId } from "../types.ts";
import type { DeliveryRecord, EventRecord, Job, JobKind, LastRoute, Ms, NewDelivery, NewJob, NewSystemEvent, NewTurn, RunChange, RunRecord, SessionRef, SystemEventState, Writes } from "../types.ts";
import type { Jobs } from "./jobs.ts";
import type { Statements } from "./statements.ts";

/** What a commit touched that others wait for. */
export interface Touched {
  jobs: Set<JobKind>;
}

/** Adds an event's row: the one insert of the hot path. */
export function insertEvent(sql: Statements, event: EventRecord): void {
  const { id, receivedAt, path, credential, outcome, actions, request, ...rest } = event;
  const { body, ...head } = request;
  sql.run(
    "INSERT INTO events (id, at, path, credential, outcome, head, actions, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    id,
    receivedAt,
    path,
    credential,
    outcome,
    JSON.stringify({ ...rest, request: head }),
    actions.length === 0 ? null : JSON.stringify(actions),
    body,
  );
}

/** Runs inside a transaction; every method writes at once. */
export class SqliteWrites implements Writes {
  readonly #sql: Statements;
  readonly #jobs: Jobs;
  readonly #now: () => Ms;
  readonly touched: Touched = { jobs: new Set() };

  constructor(sql: Statements, jobs: Jobs, now: () => Ms) {
    this.#sql = sql;
    this.#jobs = jobs;
    this.#now = now;
  }

  recordEvent(event: EventRecord): void {
    insertEvent(this.#sql, event);
  }

  insertRun(run: RunRecord): void {
    this.#sql.run(
      "INSERT INTO runs (id, event_id, session, session_key, status, created, ended, record) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
      run.id,
      run.eventId,
      sessionId(run.spec.session),
      run.spec.session.key,
      run.status,
      run.createdAt,
      run.endedAt ?? null,
      JSON.stringify(run),
    );
  }

  updateRun(id: string, change: RunChange): void {
    const row = this.#sql.get<{ seq: number; record: string }>("SELECT seq, record FROM runs WHERE id = ?", id);
    if (!row) return;
    const run = withChange(JSON.parse(row.record) as RunRecord, change);
    this.#sql.run("UPDATE runs SET status = ?, ended = ?, record = ? WHERE seq = ?", run.status, run.endedAt ?? null, JSON.stringify(run), row.seq);
  }

  appendTurn(ref: SessionRef, turn: NewTurn): void {
    const session = sessionId(ref);
    this.#sql.run("INSERT INTO turns (session, at, record) VALUES (?, ?, ?)", session, turn.at, JSON.stringify(turn));
    this.#sql.run(
      "INSERT INTO sessions (session, agent, origin, key, turns, created, used) VALUES (?, ?, ?, ?, 1, ?, ?) ON CONFLICT (session) DO UPDATE SET turns = turns + 1, used = excluded.used",
      session,
      ref.agentId,
      ref.origin,
      ref.key,
      turn.at,
      turn.at,
    );
  }

  resetSession(ref: SessionRef): void {
    this.#sql.run("DELETE FROM turns WHERE session = ?", sessionId(ref));
    this.#sql.run("UPDATE sessions SET turns = 0 WHERE session = ?", sessionId(ref));
  }

  deleteSession(ref: SessionRef): void {
    this.#sql.run("DELETE FROM turns WHERE session = ?", sessionId(ref));
    this.#sql.run("DELETE FROM sessions WHERE session = ?", sessionId(ref));
  }

  addSystemEvent(event: NewSystemEvent): void {
    this.#sql.run("INSERT OR IGNORE INTO system_events (id, agent, at, state, record) VALUES (?, ?, ?, 'queued', ?)", event.id, event.agentId, event.at, JSON.stringify(event));
  }

  setSystemEvents(ids: readonly string[], change: { state?: SystemEventState; failed?: boolean }): void {
    for (const id of ids) {
      this.#sql.run("UPDATE system_events SET state = coalesce(?, state), failures = failures + ? WHERE id = ?", change.state ?? null, change.failed ? 1 : 0, id);
    }
  }

  addDelivery(delivery: NewDelivery): void {
    const record: DeliveryRecord = { ...delivery, nextChunk: 0, status: "pending", attempts: 0, messageIds: [], nextAt: delivery.createdAt };
    this.#sql.run("INSERT INTO deliveries (id, status, channel, created, record) VALUES (?, 'pending', ?, ?, ?)", record.id, record.route.channel, record.createdAt, JSON.stringify(record));
  }

  updateDelivery(id: string, change: Parameters<Writes["updateDelivery"]>[1]): void {
    const row = this.#sql.get<{ seq: number; record: string }>("SELECT seq, record FROM deliveries WHERE id = ?", id);
    if (!row) return;
    const record = withChange(JSON.parse(row.record) as DeliveryRecord, change);
    this.#sql.run("UPDATE deliveries SET status = ?, ended = ?, record = ? WHERE seq = ?", record.status, record.endedAt ?? null, JSON.stringify(record), row.seq);
  }

  setLastRoute(route: LastRoute): void {
    this.#sql.run(
      "INSERT INTO last_routes (agent, channel, recipient, thread, at) VALUES (?, ?, ?, ?, ?) ON CONFLICT (agent, channel) DO UPDATE SET recipient = excluded.recipient, thread = excluded.thread, at = excluded.at",
      route.agentId,
      route.channel,
      route.to,
      route.thread ?? null,
      route.at,
    );
  }

  countRestart(scope: string, key: string): void {
    this.#sql.run("UPDATE dedupe SET restarts = restarts + 1 WHERE scope = ? AND key = ?", scope, key);
  }

  setValue(key: string, value: unknown): void {
    this.#sql.run("INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", key, JSON.stringify(value));
  }

  enqueue(job: NewJob): void {
    if (this.#jobs.enqueue(job)) this.touched.jobs.add(job.kind);
  }

  completeJob(job: Job): void {
    this.#jobs.remove(job.kind, job.id, this.#now());
    this.touched.jobs.add(job.kind);
  }

  retryJob(job: Job, runAt: Ms, options?: { resetAttempts?: boolean }): void {
    this.#jobs.retry(job, runAt, options?.resetAttempts ?? false);
    this.touched.jobs.add(job.kind);
  }

  removeJob(kind: JobKind, id: string): void {
    this.#jobs.remove(kind, id, this.#now());
    this.touched.jobs.add(kind);
  }
}

/** A record with a change; null takes a field away. */
function withChange<T extends object>(record: T, change: object): T {
  const changed = { ...record, ...change } as Record<string, unknown>;
  for (const key of Object.keys(change)) if (changed[key] === null) delete changed[key];
  return changed as T;
}
