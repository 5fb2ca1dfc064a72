import { deliveryState, type Ms, toApprovalRow } from "#store-kit";
import { addRows, addWork, type AddedColumn, valuesOf } from "./add.ts";
import { jobStatements } from "./jobs.ts";
import type { NewDedupeKey } from "./keys.ts";
import type { Statement } from "./lane.ts";
import type { PlannedCall, PlannedResult, PlannedStep } from "./step-plan.ts";
import type { UnitOfWork } from "./unit-of-work.ts";
import { usageStatements } from "./usage-plan.ts";

const statement = (text: string, values: readonly unknown[]): Statement => ({ text, values });

const UPDATE_RUNS = `
  UPDATE runs SET status = given.status, ended = given.ended, record = given.record
  FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[]) AS given (id, status, ended, record) WHERE runs.id = given.id`;

const UPDATE_SPECS = `
  UPDATE runs SET session_key = given.session_key, spec = given.spec
  FROM unnest($1::text[], $2::text[], $3::text[]) AS given (id, session_key, spec) WHERE runs.id = given.id`;

function* runs({ runs }: UnitOfWork): Generator<Statement> {
  const known = [...runs.values()].filter((run) => run.changed && !run.fresh);
  if (known.length > 0) {
    yield statement(UPDATE_RUNS, [
      known.map(({ state }) => state.id),
      known.map(({ state }) => state.status),
      known.map(({ state }) => state.endedAt),
      known.map(({ state }) => JSON.stringify(state)),
    ]);
  }
  const specs = known.filter((run) => run.row);
  if (specs.length > 0) {
    yield statement(UPDATE_SPECS, [
      specs.map(({ state }) => state.id),
      specs.map(({ row }) => row?.sessionKey),
      specs.map(({ row }) => row?.spec),
    ]);
  }
}

function* collected({ collected, dropped }: UnitOfWork): Generator<Statement> {
  if (dropped.size > 0)
    yield statement("DELETE FROM collected WHERE run_id = ANY($1::text[])", [[...dropped]]);
  if (collected.length === 0) return;
  yield statement(
    `INSERT INTO collected (run_id, record) SELECT run_id, record
      FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS given (run_id, record, nth) ORDER BY nth`,
    [collected.map((one) => one.runId), collected.map((one) => one.record)],
  );
}

const UPSERT_SESSIONS = `
  INSERT INTO sessions AS known (id, session, agent, origin, key, path, credential, turns, created, used)
  SELECT * FROM unnest($1::bytea[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::int[], $9::bigint[], $10::bigint[])
    AS given (id, session, agent, origin, key, path, credential, turns, created, used)
  ORDER BY id
  ON CONFLICT (id) DO UPDATE SET turns = known.turns + excluded.turns, used = excluded.used`;

function* sessions({ sessions }: UnitOfWork): Generator<Statement> {
  const planned = [...sessions.planned.values()];
  const wiped = planned.filter((one) => one.wiped !== "nothing").map((one) => one.id);
  const gone = planned.filter((one) => one.wiped === "all").map((one) => one.id);
  if (wiped.length > 0) {
    yield statement("DELETE FROM turns WHERE session = ANY($1::bytea[])", [wiped]);
    yield statement("UPDATE sessions SET turns = 0 WHERE id = ANY($1::bytea[])", [wiped]);
  }
  if (gone.length > 0) yield statement("DELETE FROM sessions WHERE id = ANY($1::bytea[])", [gone]);
  const used = planned.flatMap((one) => (one.used ? [{ ...one, used: one.used }] : []));
  if (used.length === 0) return;
  yield statement(UPSERT_SESSIONS, [
    used.map((one) => one.id),
    used.map((one) => one.session),
    used.map((one) => one.ref.agentId),
    used.map((one) => one.ref.origin),
    used.map((one) => one.ref.key),
    used.map((one) => one.ref.via?.path),
    used.map((one) => one.ref.via?.credential),
    used.map((one) => one.turns.length),
    used.map((one) => one.used.first),
    used.map((one) => one.used.last),
  ]);
  const turns = used.flatMap(({ id, turns }) => turns.map((turn) => ({ id, ...turn })));
  yield statement(
    `INSERT INTO turns (session, record, covered) SELECT session, record, covered
      FROM unnest($1::bytea[], $2::text[], $3::bigint[]) WITH ORDINALITY AS given (session, record, covered, nth) ORDER BY nth`,
    [
      turns.map((turn) => turn.id),
      turns.map((turn) => turn.record),
      turns.map((turn) => turn.covered),
    ],
  );
}

function* systemEvents({ systemEventChanges }: UnitOfWork): Generator<Statement> {
  const changed = [...systemEventChanges].toSorted(([a], [b]) => (a < b ? -1 : 1));
  if (changed.length === 0) return;
  yield statement(
    `UPDATE system_events SET state = coalesce(given.state, system_events.state), failures = system_events.failures + given.failures
      FROM unnest($1::text[], $2::text[], $3::int[]) AS given (id, state, failures) WHERE system_events.id = given.id`,
    [
      changed.map(([id]) => id),
      changed.map(([, change]) => change.state),
      changed.map(([, change]) => change.failures),
    ],
  );
}

function* events({ heads }: UnitOfWork): Generator<Statement> {
  if (heads.size === 0) return;
  yield statement(
    "UPDATE events SET head = given.head FROM unnest($1::text[], $2::text[]) AS given (id, head) WHERE events.id = given.id",
    [[...heads.keys()], [...heads.values()]],
  );
}

function* deliveries({ deliveries }: UnitOfWork): Generator<Statement> {
  const planned = [...deliveries.values()].filter((one) => one.changed);
  const fresh = planned.filter((one) => one.fresh).map((one) => one.record);
  if (fresh.length > 0) {
    yield statement(
      `INSERT INTO deliveries (id, status, channel, created, ended, record) SELECT id, status, channel, created, ended, record
        FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[])
          WITH ORDINALITY AS given (id, status, channel, created, ended, record, nth) ORDER BY nth`,
      [
        fresh.map((one) => one.id),
        fresh.map(deliveryState),
        fresh.map((one) => one.route.channel),
        fresh.map((one) => one.createdAt),
        fresh.map((one) => one.endedAt),
        fresh.map((one) => JSON.stringify(one)),
      ],
    );
  }
  const known = planned.filter((one) => !one.fresh).map((one) => one.record);
  if (known.length === 0) return;
  yield statement(
    `UPDATE deliveries SET status = given.status, channel = given.channel, ended = given.ended, record = given.record
      FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[]) AS given (id, status, channel, ended, record)
      WHERE deliveries.id = given.id`,
    [
      known.map((one) => one.id),
      known.map(deliveryState),
      known.map((one) => one.route.channel),
      known.map((one) => one.endedAt),
      known.map((one) => JSON.stringify(one)),
    ],
  );
}

/** An update first: an insert that finds the row takes a number all the same. */
const USE_CONFIG = `
  WITH used AS (UPDATE configs SET last_used = greatest(last_used, $2::bigint) WHERE id = $1::text RETURNING 1)
  INSERT INTO configs AS known (id, first_used, last_used, content)
    SELECT $1::text, $2::bigint, $2::bigint, $3::text WHERE NOT EXISTS (SELECT FROM used)
    ON CONFLICT (id) DO UPDATE SET last_used = greatest(known.last_used, excluded.last_used)`;

function* rest({ routes, values, configs }: UnitOfWork): Generator<Statement> {
  if (routes.size > 0) {
    const given = [...routes.values()];
    yield statement(
      `INSERT INTO last_routes (agent, channel, recipient, thread, at)
        SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[]) AS given (agent, channel, recipient, thread, at)
        ORDER BY agent, channel
        ON CONFLICT (agent, channel) DO UPDATE SET recipient = excluded.recipient, thread = excluded.thread, at = excluded.at`,
      [
        given.map((one) => one.agentId),
        given.map((one) => one.channel),
        given.map((one) => one.to),
        given.map((one) => one.thread),
        given.map((one) => one.at),
      ],
    );
  }
  if (values.size > 0) {
    yield statement(
      `INSERT INTO meta (key, value) SELECT * FROM unnest($1::text[], $2::text[]) AS given (key, value) ORDER BY key
        ON CONFLICT (key) DO UPDATE SET value = excluded.value`,
      [[...values.keys()], [...values.values()]],
    );
  }
  for (const { id, usedAt, content } of configs.values())
    yield statement(USE_CONFIG, [id, usedAt, content]);
}

const STEP: readonly AddedColumn<PlannedStep>[] = [
  ["run_id", "text", ({ runId }) => runId],
  ["step", "int", ({ index }) => index],
  ["at", "bigint", ({ at }) => at],
  ["record", "text", ({ record }) => record],
];

const CALL: readonly AddedColumn<PlannedCall>[] = [
  ["run_id", "text", ({ runId }) => runId],
  ["step", "int", ({ step }) => step],
  ["position", "int", ({ position }) => position],
  ["id", "text", ({ record }) => record.id],
  ["at", "bigint", ({ at }) => at],
  ["record", "text", ({ record }) => JSON.stringify(record)],
];

const RESULT: readonly AddedColumn<PlannedResult & { at: Ms }>[] = [
  ["id", "text", ({ id }) => id],
  ["run_id", "text", ({ runId }) => runId],
  ["at", "bigint", ({ at }) => at],
  ["record", "text", ({ record }) => record],
];

const APPROVAL: readonly AddedColumn<ReturnType<typeof toApprovalRow>>[] = [
  ["id", "text", ({ id }) => id],
  ["run_id", "text", ({ runId }) => runId],
  ["code", "text", ({ code }) => code],
  ["at", "bigint", ({ at }) => at],
  ["state", "text", ({ state }) => state],
  ["record", "text", ({ record }) => record],
];

const inserting = <T>(
  table: string,
  columns: readonly AddedColumn<T>[],
  rows: readonly T[],
): Statement[] =>
  rows.length === 0 ? [] : [{ text: addRows(table, columns, 1), values: valuesOf(rows, columns) }];

function* steps({ steps: plan }: UnitOfWork, now: Ms): Generator<Statement> {
  const calls = [...plan.calls.values()];
  yield* inserting("steps", STEP, [...plan.steps.values()]);
  yield* inserting(
    "tool_calls",
    CALL,
    calls.filter((call) => call.fresh),
  );
  yield* inserting(
    "tool_results",
    RESULT,
    [...plan.results.values()].map((result) => ({ ...result, at: now })),
  );
  const known = calls.filter((call) => !call.fresh);
  if (known.length > 0) {
    yield statement(
      `UPDATE tool_calls SET record = given.record
        FROM unnest($1::text[], $2::int[], $3::int[], $4::text[]) AS given (run_id, step, position, record)
        WHERE tool_calls.run_id = given.run_id AND tool_calls.step = given.step AND tool_calls.position = given.position`,
      [
        known.map((call) => call.runId),
        known.map((call) => call.step),
        known.map((call) => call.position),
        known.map((call) => JSON.stringify(call.record)),
      ],
    );
  }
}

function* approvals({ steps }: UnitOfWork): Generator<Statement> {
  const changed = [...steps.approvals.values()].filter((one) => one.changed);
  const rows = (fresh: boolean) =>
    changed.filter((one) => one.fresh === fresh).map((one) => toApprovalRow(one.approval));
  const decided = rows(false);
  // First, since the code of an approval that is decided may be used again.
  if (decided.length > 0) {
    yield statement(
      `UPDATE approvals SET state = given.state, record = given.record
        FROM unnest($1::text[], $2::text[], $3::text[]) AS given (id, state, record) WHERE approvals.id = given.id`,
      [
        decided.map(({ id }) => id),
        decided.map(({ state }) => state),
        decided.map(({ record }) => record),
      ],
    );
  }
  yield* inserting("approvals", APPROVAL, rows(true));
}

/**
 * What a plan comes to: all of it goes to PostgreSQL one statement behind the other, table by table, in an order that is
 * the same for every gateway. Rows that come back name kinds of jobs; with `ready`, whether one of them is. `keys`: see `addWork`.
 */
export function planStatements(
  plan: UnitOfWork,
  now: Ms,
  parts: { part: string; dbTime: (at: Ms) => Ms },
  keys: readonly NewDedupeKey[] = [],
): Statement[] {
  const { before, after } = jobStatements(plan.jobs, now, parts.dbTime);
  const tables = [
    events,
    runs,
    collected,
    sessions,
    systemEvents,
    deliveries,
    rest,
    steps,
    approvals,
  ];
  const written = tables.flatMap((statements) => [...statements(plan, now)]);
  const used = usageStatements(plan.usage, parts.part, parts.dbTime(now));
  return [...before, ...addWork(plan, now, parts, keys), ...after, ...written, ...used];
}
