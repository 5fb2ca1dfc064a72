import {
  addColumns,
  type Kept,
  type Ms,
  type SetTable,
  USAGE_NUMBERS,
  type WrittenTable,
} from "#store-kit";
import type { NewDedupeKey } from "./keys.ts";
import { readyAt, NEXT_PLACE } from "../queue/jobs.ts";
import {
  type Batch,
  deleteFrom,
  insertInto,
  type ListStatement,
  listStatement,
  renderAt,
  toPart,
  toStatements,
  update,
} from "./list-statements.ts";
import type { Statement } from "../client/lane.ts";

const JOB = "kind text, id text";

export const DELETED_JOBS = deleteFrom("jobs", JOB);

/** Lets the first of each key start that nobody holds: at the end of the line, so that a busy key lets others through. */
const createPromoted = () =>
  listStatement(
    "kind text, key bytea, now bigint",
    (given) => `
      UPDATE jobs SET ready = CASE WHEN jobs.run_at > freed.now THEN jobs.run_at ELSE ${NEXT_PLACE} END
      FROM (SELECT kind, key, now FROM ${given} ORDER BY kind, key) AS freed
        CROSS JOIN LATERAL (SELECT seq FROM jobs WHERE jobs.kind = freed.kind AND jobs.key = freed.key ORDER BY seq LIMIT 1) AS first
      WHERE jobs.seq = first.seq AND jobs.ready IS NULL AND jobs.holder IS NULL
      RETURNING jobs.kind`,
  );
/** Keys of jobs that are gone. */
export const FREED_KEYS = createPromoted();
/** Keys that jobs were moved from, and to. */
export const MOVED_KEYS = createPromoted();

export const RETRIED_JOBS = listStatement(
  `${JOB}, run_at bigint, reset boolean`,
  (given) => `
    UPDATE jobs SET holder = NULL, run_at = given.run_at, ready = ${readyAt("given.run_at")},
      attempts = CASE WHEN given.reset THEN 0 ELSE jobs.attempts END
    FROM ${given} WHERE jobs.kind = given.kind AND jobs.id = given.id RETURNING jobs.kind`,
);

/**
 * Locks jobs that get another key, as a DELETE would: who adds a job behind one of them has committed by then, or adds it to a key
 * without it.
 */
export const LOCKED_JOBS = listStatement(
  JOB,
  (given) => `
    SELECT FROM (SELECT seq FROM jobs JOIN ${given} ON jobs.kind = given.kind AND jobs.id = given.id) AS known
      JOIN jobs ON jobs.seq = known.seq ORDER BY jobs.seq FOR UPDATE OF jobs`,
);

export const MOVED_JOBS = listStatement(
  `${JOB}, key bytea, name text, run_at bigint`,
  (given) => `
    UPDATE jobs SET key = given.key, name = given.name, run_at = given.run_at, ready = NULL, holder = NULL, attempts = 0, starts = 0
    FROM ${given} WHERE jobs.kind = given.kind AND jobs.id = given.id`,
);

/**
 * Takes the place in the line from jobs that others were moved before. A limit keeps no place for a run that cannot start; it is
 * parked once more when it is the first of its key again.
 */
export const DEMOTED_KEYS = listStatement(
  "kind text, key bytea",
  (given) => `
    WITH demoted AS (
      UPDATE jobs SET ready = NULL FROM ${given}
      WHERE jobs.kind = given.kind AND jobs.key = given.key AND jobs.ready IS NOT NULL AND jobs.starts = 0
        AND jobs.seq > (SELECT first.seq FROM jobs AS first WHERE first.kind = given.kind AND first.key = given.key ORDER BY first.seq LIMIT 1)
      RETURNING jobs.id)
    DELETE FROM parked USING demoted WHERE parked.run = demoted.id`,
);

export const RESCHEDULED_JOBS = listStatement(
  `${JOB}, run_at bigint`,
  (given) => `
    UPDATE jobs SET run_at = given.run_at, ready = CASE WHEN jobs.ready IS NULL THEN NULL ELSE ${readyAt("given.run_at")} END
    FROM ${given} WHERE jobs.kind = given.kind AND jobs.id = given.id AND jobs.holder IS NULL RETURNING jobs.kind`,
);

/**
 * Binds keys that are free, or expired. The unique index decides: if another gateway is binding the same key at this moment, this
 * waits for it. All gateways bind in the same order, so that no two wait for each other.
 */
export const KEYS = listStatement(
  "id bytea, scope text, key text, expires bigint, record text, now bigint",
  (given, list) => `
    bound AS (
      INSERT INTO dedupe AS known (id, scope, key, expires, record)
      SELECT id, scope, key, expires, record FROM ${given} ORDER BY id
      ON CONFLICT (id) DO UPDATE SET expires = excluded.expires, record = excluded.record
        WHERE known.expires <= (${list("now")})[1]
      RETURNING id)`,
);

/** Adds a key that has to be free. */
export function addKey(batch: Batch, key: NewDedupeKey, now: Ms): void {
  batch.add(KEYS, key.name, { ...key, now });
}

/** A condition that ends the statement with an error (`isUnbound`) unless all of `KEYS` were bound. */
const ALL_BOUND = (ids: string): string =>
  `1 / (CASE WHEN (SELECT count(*) FROM bound) = cardinality(${ids}) THEN 1 ELSE 0 END) = 1`;

const EVENT =
  "id text, at bigint, path text, credential text, outcome text, mapping text, head text";
const ADD_EVENTS = insertInto("events", `${EVENT}, actions text, body bytea`, {
  end: "RETURNING outcome",
});
const EVENTS: ListStatement = {
  columns: ADD_EVENTS.columns,
  render: (given, list) => `
    added AS (${ADD_EVENTS.render(given, list)}),
    counted AS (INSERT INTO count_deltas (name, n) SELECT 'events.' || outcome, count(*) FROM added GROUP BY outcome)`,
};

const RUN_STATE = "status text, ended bigint, record text";
const RUN_SPEC = "session_key text, spec text";
const RUN = `id text, event_id text, created bigint, mapping text, ${RUN_STATE}, ${RUN_SPEC}`;
const RUNS = toPart("runs_added", insertInto("runs", RUN));
export const CHANGED_SPECS = update("runs", "id text", RUN_SPEC);

/**
 * Adds jobs. The first of a key is ready, and those behind it are not: what is there already is locked against being
 * deleted until this commits (KEY SHARE, which others that add may take as well), so that whoever deletes it sees what
 * stands behind it. Two gateways that open a key at the same moment both make theirs ready; `TAKE` keeps to the order.
 */
export const JOBS = listStatement(
  `${JOB}, key bytea, name text, data text, enqueued bigint, run_at bigint`,
  (given) => `
    new_jobs AS MATERIALIZED (
      SELECT *, row_number() OVER (PARTITION BY kind, key ORDER BY nth) AS place FROM ${given}
      WHERE (SELECT seq FROM jobs WHERE jobs.kind = given.kind AND jobs.id = given.id) IS NULL),
    behind AS MATERIALIZED (
      SELECT g.kind, g.key FROM (SELECT kind, key FROM new_jobs WHERE place = 1 ORDER BY kind, key) AS g CROSS JOIN LATERAL (
        SELECT seq FROM jobs WHERE jobs.kind = g.kind AND jobs.key = g.key ORDER BY seq DESC LIMIT 1 FOR KEY SHARE) AS last),
    jobs_added AS (
      INSERT INTO jobs (kind, id, key, name, data, enqueued, run_at, ready)
      SELECT kind, id, key, name, data, enqueued, run_at,
        CASE WHEN place = 1 AND NOT EXISTS (SELECT 1 FROM behind WHERE behind.kind = new_jobs.kind AND behind.key = new_jobs.key)
          THEN ${readyAt("run_at")} END
      FROM new_jobs ORDER BY nth
      RETURNING kind, ready IS NOT NULL AS ready)`,
);

const SYSTEM_EVENTS = toPart(
  "system_events_added",
  insertInto("system_events", "id text, agent text, at bigint, state text, record text", {
    end: "ON CONFLICT (id) DO NOTHING",
  }),
);

const NUMBERS = USAGE_NUMBERS.map((name) => `${name} bigint`).join(", ");
/** Adds the use of runs to the counters of limits. */
export const USAGE = toPart(
  "usage_added",
  insertInto("usage", `counter text, width bigint, at bigint, part text, ${NUMBERS}`, {
    orderBy: "counter, width, at",
    end: `ON CONFLICT (counter, width, at, part) DO UPDATE SET ${addColumns("usage", USAGE_NUMBERS)}`,
  }),
);
/** Runs that are not parked any more. */
export const UNPARKED = deleteFrom("parked", "run text");

export const DROPPED_COLLECTED = deleteFrom("collected", "run_id text");

export const DROPPED_TURNS = deleteFrom("turns", "session bytea");
export const EMPTIED_SESSIONS = update("sessions", "id bytea", "turns int");
export const DROPPED_SESSIONS = deleteFrom("sessions", "id bytea");
const SESSION =
  "id bytea, session text, agent text, origin text, key text, path text, credential text";
/** Sessions with the turns that they get. */
export const SESSIONS = insertInto(
  "sessions AS known",
  `${SESSION}, created bigint, used bigint, turns int`,
  {
    orderBy: "id",
    end: "ON CONFLICT (id) DO UPDATE SET turns = known.turns + excluded.turns, used = excluded.used",
  },
);

export const CHANGED_SYSTEM_EVENTS = listStatement(
  "id text, state text, failures int",
  (given) => `
    UPDATE system_events SET state = coalesce(given.state, system_events.state), failures = system_events.failures + given.failures
    FROM ${given} WHERE system_events.id = given.id`,
);

const DELIVERY = "status text, channel text, ended bigint, record text";
const CALL = "run_id text, step int, position int";
const APPROVAL = "state text, record text";

/** The statements that add rows. */
export const INSERTS: Record<WrittenTable, ListStatement> = {
  events: EVENTS,
  runs: RUNS,
  deliveries: insertInto("deliveries", `id text, created bigint, ${DELIVERY}`),
  steps: insertInto("steps", "run_id text, step int, at bigint, record text"),
  tool_calls: insertInto("tool_calls", `${CALL}, id text, at bigint, record text`),
  tool_results: insertInto("tool_results", "id text, run_id text, at bigint, record text"),
  approvals: insertInto("approvals", `id text, run_id text, code text, at bigint, ${APPROVAL}`),
  system_events: SYSTEM_EVENTS,
  turns: insertInto("turns", "session bytea, record text, covered bigint"),
  collected: insertInto("collected", "run_id text, record text"),
};
/** Those that change rows. */
export const CHANGES: Record<keyof Kept, ListStatement> = {
  events: update("events", "id text", "head text"),
  runs: update("runs", "id text", RUN_STATE),
  deliveries: update("deliveries", "id text", DELIVERY),
  tool_calls: update("tool_calls", CALL, "record text"),
  approvals: update("approvals", "id text", APPROVAL),
};
/** Those that set a row, whether it is there or not. */
export const SETS: Record<SetTable, ListStatement> = {
  last_routes: insertInto(
    "last_routes",
    "agent text, channel text, recipient text, thread text, at bigint",
    {
      orderBy: "agent, channel",
      end: "ON CONFLICT (agent, channel) DO UPDATE SET recipient = excluded.recipient, thread = excluded.thread, at = excluded.at",
    },
  ),
  meta: insertInto("meta", "key text, value text", {
    orderBy: "key",
    end: "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
  }),
  // Those that are there are updated first: an insert that finds its row takes a number all the same.
  configs: listStatement(
    "id text, used bigint, content text",
    (given) => `
    WITH known AS (UPDATE configs SET last_used = greatest(last_used, given.used) FROM ${given} WHERE configs.id = given.id RETURNING configs.id)
    INSERT INTO configs AS old (id, first_used, last_used, content)
      SELECT id, used, used, content FROM ${given} WHERE NOT EXISTS (SELECT FROM known WHERE known.id = given.id) ORDER BY id
      ON CONFLICT (id) DO UPDATE SET last_used = greatest(old.last_used, excluded.last_used)`,
  ),
};

/** A flood of hooks is nothing else than these: they are one statement, because each statement has its price. */
const JOINED = [KEYS, EVENTS, RUNS, JOBS, SYSTEM_EVENTS, USAGE];
const BEFORE = [DELETED_JOBS, FREED_KEYS, RETRIED_JOBS];
const AFTER = [
  LOCKED_JOBS,
  MOVED_JOBS,
  DEMOTED_KEYS,
  MOVED_KEYS,
  RESCHEDULED_JOBS,
  CHANGES.events,
  CHANGES.runs,
  CHANGED_SPECS,
  DROPPED_COLLECTED,
  INSERTS.collected,
  DROPPED_TURNS,
  EMPTIED_SESSIONS,
  DROPPED_SESSIONS,
  SESSIONS,
  INSERTS.turns,
  CHANGED_SYSTEM_EVENTS,
  INSERTS.deliveries,
  CHANGES.deliveries,
  SETS.last_routes,
  SETS.meta,
  SETS.configs,
  INSERTS.steps,
  INSERTS.tool_calls,
  INSERTS.tool_results,
  CHANGES.tool_calls,
  // Decided before others are added: the code of an approval that is decided may be used again.
  CHANGES.approvals,
  INSERTS.approvals,
  UNPARKED,
];

/** Texts of `joinStatements` by the statements in them: the same text stays prepared. */
const joinedTexts = new Map<string, string>();

function joinStatements(batch: Batch): Statement[] {
  const joined = JOINED.filter((statement) => batch.has(statement));
  if (joined.length === 0) return [];
  const name = joined.map((statement) => JOINED.indexOf(statement)).join();
  let text = joinedTexts.get(name);
  if (text === undefined) {
    let first = 1;
    const parts = joined.map((statement) => {
      const part = renderAt(statement, first);
      first += Object.keys(statement.columns).length;
      return part;
    });
    const answer = joined.includes(JOBS)
      ? "kind, ready FROM jobs_added"
      : "'' AS kind, false AS ready";
    // Keys are the first of them.
    const where = joined.includes(KEYS) ? ` WHERE ${ALL_BOUND("$1::bytea[]")}` : "";
    text = `WITH ${parts.join(",")}\n  SELECT ${answer}${where}`;
    joinedTexts.set(name, text);
  }
  return [{ text, values: joined.flatMap((statement) => batch.toLists(statement)) }];
}

/**
 * Plans the statements of a batch, in an order that is the same for every gateway. Rows that come back name kinds of
 * jobs, and `ready` says whether one of them is.
 */
export const planStatements = (batch: Batch): Statement[] => [
  ...toStatements(batch, BEFORE),
  ...joinStatements(batch),
  ...toStatements(batch, AFTER),
];
