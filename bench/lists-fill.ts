/** SQL that fills a store with events and what came of them, as a gateway has them after some weeks. */
import { toApprovalRow, toEventRow, toRunRow } from "../src/store/sql/rows.ts";
import type { ApprovalRecord, RunRecord } from "../src/store/types.ts";
import { event, run } from "../test/store/suite/make.ts";

const SLICE = 500_000;
const DAYS = 30;

/** The differences between SQL of the two databases. */
export interface Dialect {
  /** A table of the numbers from `first` to `last`, named `n(i)`. */
  numbers(first: number, last: number): string;
  /** A number as text with so many digits. */
  digits(number: string, count: number): string;
  body(bytes: number): string;
  /** The column of a session's key in the table, and its value. */
  sessionId: string | undefined;
}

/** An id that has the length of a real one, and that comes after the ids of smaller numbers. */
const toId = (prefix: string, number: string, { digits }: Dialect): string =>
  `'${prefix}_' || ${digits(number, 9)} || ${digits(`${number} * 7919`, 26)}`;

const quote = (text: string): string => `'${text.replaceAll("'", "''")}'`;

/** SQL of a JSON text in which marks are replaced by SQL values. */
function fill(json: string, values: Record<string, string>): string {
  return Object.entries(values).reduce(
    (sql, [mark, value]) => `replace(${sql}, '${mark}', CAST(${value} AS text))`,
    quote(json),
  );
}

const AT = 1_234_567_890_123;

function eventSlice(now: number, step: number, dialect: Dialect): string {
  const row = toEventRow(event({ mapping: "MAPPING" }), now);
  // One path and its mapping are at the oldest event only.
  return `SELECT i, ${toId("evt", "i", dialect)}, ${now} - ${DAYS * 86_400_000} + i * ${step},
    CASE WHEN i = 1 THEN 'rare' ELSE 'path-' || (i * i % 23) END, 'hooks.token',
    CASE WHEN i % 1000 < 940 THEN 'accepted' WHEN i % 1000 < 970 THEN 'unmatched' WHEN i % 1000 < 985 THEN 'skipped'
      WHEN i % 1000 < 995 THEN 'duplicate' WHEN i % 1000 < 999 THEN 'rejected' ELSE 'failed' END,
    CASE WHEN i = 1 THEN 'rare' WHEN i % 1000 < 940 THEN 'mapping-' || (i * i % 23) END, ${quote(row.head)}, NULL, ${dialect.body(300)}`;
}

function runSlice(now: number, step: number, dialect: Dialect): string {
  const record = {
    ...run({ id: "RUN_ID", eventId: "EVENT_ID", createdAt: AT, mapping: "MAPPING" }),
    status: "STATUS",
  };
  const { spec, record: json } = toRunRow(record as unknown as RunRecord);
  const at = `(${now} - ${DAYS * 86_400_000} + i * 3 * ${step})`;
  // One run was cancelled, and it is the oldest; nothing else is found by its state and its session at once.
  const status =
    "CASE WHEN i = 1 THEN 'cancelled' WHEN i % 1000 < 975 THEN 'succeeded' WHEN i % 1000 < 995 THEN 'failed' ELSE 'timed_out' END";
  const key =
    "CASE WHEN i = 1 THEN 'hook:rare' WHEN i % 2 = 0 THEN 'hook:' || i ELSE 'hook:shared-' || (i % 199) END";
  const [id, eventId] = [toId("run", "i", dialect), toId("evt", "i * 3", dialect)];
  const text = fill(json, {
    RUN_ID: id,
    EVENT_ID: eventId,
    STATUS: status,
    MAPPING: "'mapping-' || (i % 23)",
    [String(AT)]: at,
  });
  return `SELECT i, ${id}, ${eventId}, ${key}, ${status}, ${at}, ${at} + 4000, ${quote(spec)}, ${text}`;
}

function deliverySlice(now: number, step: number, dialect: Dialect): string {
  const record = {
    id: "DELIVERY_ID",
    runId: "RUN_ID",
    route: { channel: "CHANNEL", to: "x" },
    chunks: ["done"],
    createdAt: AT,
    nextChunk: 0,
  };
  const state = { status: "STATUS", attempts: 1, messageIds: [], nextAt: AT };
  const at = `(${now} - ${DAYS * 86_400_000} + i * 30 * ${step})`;
  const status =
    "CASE WHEN i = 1 THEN 'unknown' WHEN i % 1000 < 990 THEN 'delivered' WHEN i % 1000 < 997 THEN 'failed' ELSE 'no_route' END";
  const channel = "CASE WHEN i = 1 THEN 'rare' ELSE 'channel-' || (i % 3) END";
  const [id, runId] = [toId("dlv", "i", dialect), toId("run", "i * 10", dialect)];
  const values = {
    DELIVERY_ID: id,
    RUN_ID: runId,
    STATUS: status,
    CHANNEL: channel,
    [String(AT)]: at,
  };
  return `SELECT i, ${id}, ${status}, ${channel}, ${at}, ${at} + 4000, ${fill(JSON.stringify({ ...record, ...state }), values)}`;
}

function approvalSlice(now: number, step: number, dialect: Dialect): string {
  const asked = {
    id: "APPROVAL_ID",
    code: "CODE",
    runId: "RUN_ID",
    callId: "call",
    agentId: "AGENT",
    tool: "shop.pay",
    askedAt: AT,
    expiresAt: AT,
  };
  const decided = {
    ...asked,
    input: {},
    reason: "listed",
    why: "listed",
    verdicts: [],
    decision: { verdict: "approve", by: "operator", at: AT },
  };
  const { record } = toApprovalRow(decided as unknown as ApprovalRecord);
  const at = `(${now} - ${DAYS * 86_400_000} + i * 100 * ${step})`;
  const [id, runId, agent] = [
    toId("apr", "i", dialect),
    toId("run", "i * 30", dialect),
    "CASE WHEN i = 1 THEN 'rare' ELSE 'main' END",
  ];
  const text = fill(record, {
    APPROVAL_ID: id,
    RUN_ID: runId,
    AGENT: agent,
    CODE: dialect.digits("i", 9),
    [String(AT)]: at,
  });
  return `SELECT i, ${id}, ${runId}, ${dialect.digits("i", 9)}, ${at}, CASE WHEN i = 1 THEN 'open' ELSE 'decided' END, ${text}`;
}

function sessionSlice(now: number, step: number, { sessionId }: Dialect): string {
  const origin = "CASE WHEN i = 1 THEN 'channel' WHEN i % 10 = 0 THEN 'api' ELSE 'hook' END";
  const agent = "CASE WHEN i = 1 THEN 'rare' ELSE 'main' END";
  const at = `${now} - ${DAYS * 86_400_000} + i * 20 * ${step}`;
  const session = `${agent} || '/' || ${origin} || '/key-' || i`;
  return `SELECT ${sessionId === undefined ? "" : `${sessionId.replace("?", session)}, `}${session}, ${agent}, ${origin}, 'key-' || i, 1, ${at}, ${at}`;
}

const TABLES = {
  events: {
    every: 1,
    columns: "seq, id, at, path, credential, outcome, mapping, head, actions, body",
    slice: eventSlice,
  },
  runs: {
    every: 3,
    columns: "seq, id, event_id, session_key, status, created, ended, spec, record",
    slice: runSlice,
  },
  deliveries: {
    every: 30,
    columns: "seq, id, status, channel, created, ended, record",
    slice: deliverySlice,
  },
  approvals: {
    every: 100,
    columns: "seq, id, run_id, code, at, state, record",
    slice: approvalSlice,
  },
  sessions: {
    every: 20,
    columns: "session, agent, origin, key, turns, created, used",
    slice: sessionSlice,
  },
};

/** The tables that are filled, and the column by which their rows are counted. */
const COUNTED = {
  events: "outcome",
  runs: "status",
  deliveries: "status",
  approvals: "state",
  sessions: "origin",
};

/** Statements that insert `events` events and their work, in the order of time up to `now`. */
export function* fillStatements(events: number, now: number, dialect: Dialect): Generator<string> {
  const step = Math.floor((DAYS * 86_400_000) / events);
  for (const [table, { every, columns, slice }] of Object.entries(TABLES)) {
    const last = Math.floor(events / every);
    const into =
      table === "sessions" && dialect.sessionId !== undefined ? `id, ${columns}` : columns;
    for (let first = 1; first <= last; first += SLICE)
      yield `INSERT INTO ${table} (${into}) ${slice(now, step, dialect)} FROM ${dialect.numbers(first, Math.min(last, first + SLICE - 1))}`;
  }
}

/** Statements that set the counts. */
export const countStatements = (): string[] =>
  Object.entries(COUNTED).map(
    ([table, column]) =>
      `INSERT INTO counts SELECT '${table}.' || ${column}, count(*) FROM ${table} WHERE true GROUP BY 1 ON CONFLICT (name) DO UPDATE SET n = excluded.n`,
  );
