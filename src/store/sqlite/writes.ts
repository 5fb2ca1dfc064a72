import { RouseError } from "../../core/errors.ts";
import { countChange, deliveryState, isAsExpected, sessionId, withRefused } from "../types.ts";
import type {
  ApprovalDecision,
  ApprovalRecord,
  DeliveryChange,
  DeliveryRecord,
  EventChange,
  EventRecord,
  ExpectedRun,
  JobKind,
  Ms,
  NewDelivery,
  NewSystemEvent,
  NewTurn,
  RefusedDecision,
  RunChange,
  RunRecord,
  SessionRef,
  StepRecord,
  ToolCallChange,
  ToolCallRecord,
  Writes,
} from "../types.ts";
import { toWrites } from "../write-table.ts";
import type { SqliteJobs } from "./jobs.ts";
import { NOT_OPEN, RUN_CHANGED } from "../errors.ts";
import {
  toApprovalRow,
  toEventRow,
  newDeliveryRecord,
  toRunRow,
  toStepRow,
  withChange,
  withEventChange,
} from "../rows.ts";
import type { Statements } from "./statements.ts";
import { writeUsage } from "./usage.ts";

/** Adds an event's row: the one insert of an answer's way. */
export function insertEvent(sql: Statements, seq: number, event: EventRecord): void {
  const { id, at, path, credential, outcome, mapping, head, actions, body } = toEventRow(event);
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

const INSERT_RUN =
  "INTO runs (id, event_id, session_key, status, created, ended, spec, record) VALUES (?, ?, ?, ?, ?, ?, ?, ?)";

function runValues(
  run: RunRecord,
): [string, string | null, string, string, number, number | null, string, string] {
  const { id, eventId, sessionKey, status, created, ended, spec, record } = toRunRow(run);
  return [id, eventId, sessionKey, status, created, ended, spec, record];
}

function countRun(
  sql: Statements,
  before: Omit<RunRecord, "spec"> | undefined,
  after: Omit<RunRecord, "spec">,
  now: Ms,
): void {
  const change = countChange(before, after);
  if (change) writeUsage(sql, after.id, change, now);
}

function addRun(sql: Statements, run: RunRecord, now: Ms): void {
  sql.run(`INSERT ${INSERT_RUN}`, ...runValues(run));
  countRun(sql, undefined, run, now);
}

/** Adds the run of an accepted action, unless there is one with its id. */
export function insertRunOnce(sql: Statements, run: RunRecord, now: Ms): boolean {
  const isNew = sql.run(`INSERT OR IGNORE ${INSERT_RUN}`, ...runValues(run)) === 1;
  if (isNew) countRun(sql, undefined, run, now);
  return isNew;
}

export interface SqliteWrites extends Writes {
  /** Kinds of jobs that may have become ready. */
  touched: Set<JobKind>;
}

const ADD_RESULT = "INSERT INTO tool_results (id, run_id, at, record) VALUES (?, ?, ?, ?)";
const SET_VALUE =
  "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
const RUN_CHANGE = "UPDATE runs SET status = ?, ended = ?, record = ? WHERE seq = ?";
const ADD_SESSION = `INSERT INTO sessions (session, agent, origin, key, path, credential, turns, created, used) VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?)
  ON CONFLICT (session) DO UPDATE SET turns = turns + 1, used = excluded.used`;
const SET_ROUTE = `INSERT INTO last_routes (agent, channel, recipient, thread, at) VALUES (?, ?, ?, ?, ?)
  ON CONFLICT (agent, channel) DO UPDATE SET recipient = excluded.recipient, thread = excluded.thread, at = excluded.at`;

const USE_CONFIG = `INSERT INTO configs (id, first_used, last_used, content) VALUES (?1, ?2, ?2, ?3)
  ON CONFLICT (id) DO UPDATE SET last_used = max(last_used, excluded.last_used)`;

function addTurn(sql: Statements, ref: SessionRef, turn: NewTurn): void {
  const session = sessionId(ref);
  const { agentId, origin, key, via } = ref;
  const covered = turn.checkpoint?.covered ?? null;
  sql.run(
    "INSERT INTO turns (session, record, covered) VALUES (?, ?, ?)",
    session,
    JSON.stringify(turn),
    covered,
  );
  sql.run(
    ADD_SESSION,
    session,
    agentId,
    origin,
    key,
    via?.path ?? null,
    via?.credential ?? null,
    turn.at,
    turn.at,
  );
}

function addSystemEvent(sql: Statements, event: NewSystemEvent): void {
  const text =
    "INSERT OR IGNORE INTO system_events (id, agent, at, state, record) VALUES (?, ?, ?, 'queued', ?)";
  sql.run(text, event.id, event.agentId, event.at, JSON.stringify(event));
}

function addDelivery(sql: Statements, delivery: NewDelivery): void {
  const record = newDeliveryRecord(delivery);
  sql.run(
    "INSERT INTO deliveries (id, status, channel, created, ended, record) VALUES (?, ?, ?, ?, ?, ?)",
    record.id,
    deliveryState(record),
    record.route.channel,
    record.createdAt,
    record.endedAt ?? null,
    JSON.stringify(record),
  );
}

function updateEvent(sql: Statements, id: string, change: EventChange): void {
  const row = sql.get<{ seq: number; head: string }>(
    "SELECT seq, head FROM events WHERE id = ?",
    id,
  );
  if (row)
    sql.run("UPDATE events SET head = ? WHERE seq = ?", withEventChange(row.head, change), row.seq);
}

function updateRun(
  sql: Statements,
  id: string,
  { spec, ...change }: RunChange,
  expected: ExpectedRun | undefined,
  now: Ms,
): void {
  const row = sql.get<{ seq: number; record: string }>(
    "SELECT seq, record FROM runs WHERE id = ?",
    id,
  );
  if (!row && expected) throw new RouseError(RUN_CHANGED);
  if (!row) return;
  const before = JSON.parse(row.record) as Omit<RunRecord, "spec">;
  if (expected && !isAsExpected(before, expected)) throw new RouseError(RUN_CHANGED);
  const run = withChange(before, change);
  sql.run(RUN_CHANGE, run.status, run.endedAt ?? null, JSON.stringify(run), row.seq);
  countRun(sql, before, run, now);
  if (spec)
    sql.run(
      "UPDATE runs SET session_key = ?, spec = ? WHERE seq = ?",
      spec.session.key,
      JSON.stringify(spec),
      row.seq,
    );
}

function updateDelivery(sql: Statements, id: string, change: DeliveryChange): void {
  const row = sql.get<{ seq: number; record: string }>(
    "SELECT seq, record FROM deliveries WHERE id = ?",
    id,
  );
  if (!row) return;
  const record = withChange(JSON.parse(row.record) as DeliveryRecord, change);
  sql.run(
    "UPDATE deliveries SET status = ?, channel = ?, ended = ?, record = ? WHERE seq = ?",
    deliveryState(record),
    record.route.channel,
    record.endedAt ?? null,
    JSON.stringify(record),
    row.seq,
  );
}

function addStep(sql: Statements, step: StepRecord): void {
  const { runId, index, at, record, calls } = toStepRow(step);
  sql.run(
    "INSERT INTO steps (run_id, step, at, record) VALUES (?, ?, ?, ?)",
    runId,
    index,
    at,
    record,
  );
  const text =
    "INSERT INTO tool_calls (run_id, step, position, id, at, record) VALUES (?, ?, ?, ?, ?, ?)";
  for (const call of calls) sql.run(text, runId, index, call.position, call.id, at, call.record);
}

function updateToolCall(
  sql: Statements,
  runId: string,
  callId: string,
  change: ToolCallChange,
): void {
  const row = sql.get<{ seq: number; record: string }>(
    "SELECT seq, record FROM tool_calls WHERE run_id = ? AND id = ?",
    runId,
    callId,
  );
  if (!row) return;
  const record = withChange(JSON.parse(row.record) as ToolCallRecord, change);
  sql.run("UPDATE tool_calls SET record = ? WHERE seq = ?", JSON.stringify(record), row.seq);
}

function addApproval(sql: Statements, approval: ApprovalRecord): void {
  const { id, runId, code, at, state, record } = toApprovalRow(approval);
  const text =
    "INSERT INTO approvals (id, run_id, code, at, state, record) VALUES (?, ?, ?, ?, ?, ?)";
  sql.run(text, id, runId, code, at, state, record);
}

function decide(sql: Statements, id: string, decision: ApprovalDecision): void {
  const row = sql.get<{ seq: number; record: string }>(
    "SELECT seq, record FROM approvals WHERE id = ? AND state = 'open'",
    id,
  );
  if (!row) throw new RouseError(NOT_OPEN);
  const { state, record } = toApprovalRow({
    ...(JSON.parse(row.record) as ApprovalRecord),
    decision,
  });
  sql.run("UPDATE approvals SET state = ?, record = ? WHERE seq = ?", state, record, row.seq);
}

function addRefused(sql: Statements, id: string, refused: RefusedDecision): void {
  const row = sql.get<{ seq: number; record: string }>(
    "SELECT seq, record FROM approvals WHERE id = ?",
    id,
  );
  if (!row) return;
  const { record } = toApprovalRow(withRefused(JSON.parse(row.record) as ApprovalRecord, refused));
  sql.run("UPDATE approvals SET record = ? WHERE seq = ?", record, row.seq);
}

/** Writes of one commit, inside its transaction: each is written immediately. */
export function createWrites({
  sql,
  jobs,
  now,
}: {
  sql: Statements;
  jobs: SqliteJobs;
  now: () => Ms;
}): SqliteWrites {
  const touched = new Set<JobKind>();
  const writes = toWrites({
    add: {
      run: (run) => addRun(sql, run, now()),
      turn: (session, turn) => addTurn(sql, session, turn),
      systemEvent: (event) => addSystemEvent(sql, event),
      delivery: (delivery) => addDelivery(sql, delivery),
      job: (job) => void (jobs.enqueue(job, now()) && touched.add(job.kind)),
      step: (step) => addStep(sql, step),
      toolResult: (result) =>
        void sql.run(ADD_RESULT, result.id, result.runId, now(), JSON.stringify(result)),
      approval: (approval) => addApproval(sql, approval),
      decision: (id, decision) => decide(sql, id, decision),
      refusedDecision: (id, refused) => addRefused(sql, id, refused),
    },
    set: {
      lastRoute: ({ agentId, channel, to, thread, at }) =>
        void sql.run(SET_ROUTE, agentId, channel, to, thread ?? null, at),
      value: (key, value) => void sql.run(SET_VALUE, key, JSON.stringify(value)),
      config: ({ id, usedAt, content }) => void sql.run(USE_CONFIG, id, usedAt, content),
    },
    update: {
      event: (id, change) => updateEvent(sql, id, change),
      run: (id, change, expected) => updateRun(sql, id, change, expected, now()),
      delivery: (id, change) => updateDelivery(sql, id, change),
      systemEvents(ids, { state, failed }) {
        const text =
          "UPDATE system_events SET state = coalesce(?, state), failures = failures + ? WHERE id = ?";
        for (const id of ids) sql.run(text, state ?? null, failed ? 1 : 0, id);
      },
      job(kind, id, runAt, key) {
        if (key === undefined) jobs.reschedule(kind, id, runAt, now());
        else jobs.move(kind, id, { key, runAt, now: now() });
        touched.add(kind);
      },
      toolCall: (runId, callId, change) => updateToolCall(sql, runId, callId, change),
    },
    delete: {
      session(ref) {
        sql.run("DELETE FROM turns WHERE session = ?", sessionId(ref));
        sql.run("DELETE FROM sessions WHERE session = ?", sessionId(ref));
      },
      turns(ref) {
        sql.run("DELETE FROM turns WHERE session = ?", sessionId(ref));
        sql.run("UPDATE sessions SET turns = 0 WHERE session = ?", sessionId(ref));
      },
      collected: (runId) => void sql.run("DELETE FROM collected WHERE run_id = ?", runId),
      job(kind, id) {
        jobs.remove(kind, id, now());
        touched.add(kind);
      },
    },
    settle(job, retryAt, options) {
      if (retryAt === undefined) jobs.complete(job, now());
      else if (options?.key !== undefined)
        jobs.moveHeld(job, { key: options.key, runAt: retryAt, now: now() });
      else jobs.retry(job, retryAt, options?.resetAttempts ?? false, now());
      touched.add(job.kind);
    },
  });
  return { ...writes, touched };
}
