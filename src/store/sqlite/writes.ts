import { deliveryState, sessionId } from "../types.ts";
import type {
  Collected,
  DeliveryChange,
  DeliveryRecord,
  EventRecord,
  Job,
  JobKind,
  LastRoute,
  Ms,
  NewDelivery,
  NewJob,
  NewSystemEvent,
  NewTurn,
  RunChange,
  RunRecord,
  SessionRef,
  SystemEventState,
  Writes,
} from "../types.ts";
import type { Jobs } from "./jobs.ts";
import { eventColumns, newDeliveryRecord, runColumns, withChange } from "../rows.ts";
import type { Statements } from "./statements.ts";

/** Adds an event's row: the one insert of an answer's way. */
export function insertEvent(sql: Statements, seq: number, event: EventRecord): void {
  const { id, at, path, credential, outcome, mapping, head, actions, body } = eventColumns(event);
  sql.run(
    "INSERT INTO events (seq, id, at, path, credential, outcome, mapping, head, actions, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    seq,
    id,
    at,
    path,
    credential,
    outcome,
    mapping,
    head,
    actions,
    body,
  );
}

const INSERT_RUN = "INTO runs (id, event_id, session_key, status, created, ended, spec, record) VALUES (?, ?, ?, ?, ?, ?, ?, ?)";

function runValues(run: RunRecord): [string, string | null, string, string, number, number | null, string, string] {
  const { id, eventId, sessionKey, status, created, ended, spec, record } = runColumns(run);
  return [id, eventId, sessionKey, status, created, ended, spec, record];
}

/** Adds the run of an accepted action, unless there is one with its id. */
export function insertRunOnce(sql: Statements, run: RunRecord): boolean {
  return sql.run(`INSERT OR IGNORE ${INSERT_RUN}`, ...runValues(run)) === 1;
}

/** Runs inside a transaction; every method writes at once. */
export class SqliteWrites implements Writes {
  readonly #sql: Statements;
  readonly #jobs: Jobs;
  readonly #now: () => Ms;
  /** Kinds of jobs that may have become ready. */
  readonly touched = new Set<JobKind>();

  constructor(parts: { sql: Statements; jobs: Jobs; now: () => Ms }) {
    this.#sql = parts.sql;
    this.#jobs = parts.jobs;
    this.#now = parts.now;
  }

  insertRun(run: RunRecord): void {
    this.#sql.run(`INSERT ${INSERT_RUN}`, ...runValues(run));
  }

  updateRun(id: string, change: RunChange): void {
    const row = this.#sql.get<{ seq: number; record: string }>("SELECT seq, record FROM runs WHERE id = ?", id);
    if (!row) return;
    const { spec, ...rest } = change;
    const run = withChange(JSON.parse(row.record) as Omit<RunRecord, "spec">, rest);
    this.#sql.run(
      "UPDATE runs SET status = ?, ended = ?, record = ? WHERE seq = ?",
      run.status,
      run.endedAt ?? null,
      JSON.stringify(run),
      row.seq,
    );
    if (spec) this.#sql.run("UPDATE runs SET session_key = ?, spec = ? WHERE seq = ?", spec.session.key, JSON.stringify(spec), row.seq);
  }

  appendTurn(ref: SessionRef, turn: NewTurn): void {
    const session = sessionId(ref);
    this.#sql.run("INSERT INTO turns (session, record) VALUES (?, ?)", session, JSON.stringify(turn));
    this.#sql.run(
      "INSERT INTO sessions (session, agent, origin, key, path, credential, turns, created, used) VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?) ON CONFLICT (session) DO UPDATE SET turns = turns + 1, used = excluded.used",
      session,
      ref.agentId,
      ref.origin,
      ref.key,
      ref.via?.path ?? null,
      ref.via?.credential ?? null,
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
    this.#sql.run(
      "INSERT OR IGNORE INTO system_events (id, agent, at, state, record) VALUES (?, ?, ?, 'queued', ?)",
      event.id,
      event.agentId,
      event.at,
      JSON.stringify(event),
    );
  }

  setSystemEvents(ids: readonly string[], change: { state?: SystemEventState; failed?: boolean }): void {
    for (const id of ids) {
      this.#sql.run(
        "UPDATE system_events SET state = coalesce(?, state), failures = failures + ? WHERE id = ?",
        change.state ?? null,
        change.failed ? 1 : 0,
        id,
      );
    }
  }

  addDelivery(delivery: NewDelivery): void {
    const record = newDeliveryRecord(delivery);
    this.#sql.run(
      "INSERT INTO deliveries (id, status, channel, created, ended, record) VALUES (?, ?, ?, ?, ?, ?)",
      record.id,
      deliveryState(record),
      record.route.channel,
      record.createdAt,
      record.endedAt ?? null,
      JSON.stringify(record),
    );
  }

  updateDelivery(id: string, change: DeliveryChange): void {
    const row = this.#sql.get<{ seq: number; record: string }>("SELECT seq, record FROM deliveries WHERE id = ?", id);
    if (!row) return;
    const record = withChange(JSON.parse(row.record) as DeliveryRecord, change);
    this.#sql.run(
      "UPDATE deliveries SET status = ?, channel = ?, ended = ?, record = ? WHERE seq = ?",
      deliveryState(record),
      record.route.channel,
      record.endedAt ?? null,
      JSON.stringify(record),
      row.seq,
    );
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

  setValue(key: string, value: unknown): void {
    this.#sql.run(
      "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
      key,
      JSON.stringify(value),
    );
  }

  enqueue(job: NewJob): void {
    if (this.#jobs.enqueue(job)) this.touched.add(job.kind);
  }

  completeJob(job: Job): void {
    this.#jobs.complete(job, this.#now());
    this.touched.add(job.kind);
  }

  retryJob(job: Job, runAt: Ms, options?: { resetAttempts?: boolean }): void {
    this.#jobs.retry(job, runAt, options?.resetAttempts ?? false);
    this.touched.add(job.kind);
  }

  rescheduleJob(kind: JobKind, id: string, runAt: Ms): void {
    this.#jobs.reschedule(kind, id, runAt);
    this.touched.add(kind);
  }

  addCollected(runId: string, event: Collected): void {
    this.#sql.run("INSERT INTO collected (run_id, record) VALUES (?, ?)", runId, JSON.stringify(event));
  }

  dropCollected(runId: string): void {
    this.#sql.run("DELETE FROM collected WHERE run_id = ?", runId);
  }

  removeJob(kind: JobKind, id: string): void {
    this.#jobs.remove(kind, id, this.#now());
    this.touched.add(kind);
  }
}
