import { type CopiedTable, FIRST_TIME, sameTable, toColumns } from "#store-kit";
import { digest } from "../digest.ts";
import { COUNT_RUNS } from "../usage-tidy.ts";

const seq = { order: "seq", numbered: "seq" };
const text = (row: Record<string, unknown>, name: string): string => String(row[name]);
const recordOf = (row: Record<string, unknown>): Record<string, unknown> =>
  JSON.parse(text(row, "record")) as Record<string, unknown>;

/** All that a store keeps. Nothing holds a job while it is copied: no gateway runs on the source. */
export const STORE_TABLES: readonly CopiedTable[] = [
  sameTable(
    "events",
    "n:seq t:id n:at t:path t:credential t:outcome t:mapping t:head t:actions b:body",
    seq,
  ),
  {
    name: "dedupe",
    columns: toColumns("b:id t:scope t:key n:expires n:restarts t:event_id t:record"),
    // Of two with one key the newer one holds.
    select:
      "SELECT scope, key, expires, restarts, record FROM dedupe WHERE seq IN (SELECT max(seq) FROM dedupe GROUP BY scope, key) ORDER BY seq",
    count: "SELECT count(*) AS n FROM (SELECT DISTINCT scope, key FROM dedupe)",
    values: (row) => [
      digest(text(row, "scope"), text(row, "key")),
      row["scope"],
      row["key"],
      row["expires"],
      row["restarts"],
      recordOf(row)["eventId"],
      row["record"],
    ],
  },
  {
    name: "runs",
    columns: toColumns(
      "n:seq t:id t:event_id t:session_key t:status n:created n:ended t:spec t:record t:mapping",
    ),
    select:
      "SELECT seq, id, event_id, session_key, status, created, ended, spec, record FROM runs ORDER BY seq",
    count: "SELECT count(*) AS n FROM runs",
    // By its column a run that waits is counted for the limits of its mapping.
    values: (row) => [
      ...[
        "seq",
        "id",
        "event_id",
        "session_key",
        "status",
        "created",
        "ended",
        "spec",
        "record",
      ].map((column) => row[column]),
      recordOf(row)["mapping"],
    ],
    numbered: "seq",
  },
  sameTable("collected", "n:seq t:run_id t:record", seq),
  sameTable("steps", "n:seq t:run_id n:step n:at t:record", seq),
  sameTable("tool_calls", "n:seq t:run_id n:step n:position t:id n:at t:record", seq),
  sameTable("tool_results", "n:seq t:id t:run_id n:at t:record", seq),
  sameTable("approvals", "n:seq t:id t:run_id t:code n:at t:state t:record", seq),
  {
    name: "sessions",
    columns: toColumns(
      "b:id t:session t:agent t:origin t:key t:path t:credential n:turns n:created n:used",
    ),
    select:
      "SELECT session, agent, origin, key, path, credential, turns, created, used FROM sessions ORDER BY session",
    count: "SELECT count(*) AS n FROM sessions",
    values: (row) => [
      digest(text(row, "session")),
      ...[
        "session",
        "agent",
        "origin",
        "key",
        "path",
        "credential",
        "turns",
        "created",
        "used",
      ].map((column) => row[column]),
    ],
  },
  {
    name: "turns",
    columns: toColumns("n:seq b:session t:record n:covered"),
    select: "SELECT seq, session, record, covered FROM turns ORDER BY seq",
    count: "SELECT count(*) AS n FROM turns",
    values: (row) => [row["seq"], digest(text(row, "session")), row["record"], row["covered"]],
    numbered: "seq",
  },
  {
    name: "system_events",
    columns: toColumns("n:seq t:id t:agent n:at t:mode t:state n:failures t:record"),
    select: "SELECT seq, id, agent, at, state, failures, record FROM system_events ORDER BY seq",
    count: "SELECT count(*) AS n FROM system_events",
    values: (row) => [
      row["seq"],
      row["id"],
      row["agent"],
      row["at"],
      recordOf(row)["mode"],
      row["state"],
      row["failures"],
      row["record"],
    ],
    numbered: "seq",
  },
  sameTable("deliveries", "n:seq t:id t:status t:channel n:created n:ended t:record", seq),
  sameTable("last_routes", "t:agent t:channel t:recipient t:thread n:at", {
    order: "agent, channel",
  }),
  {
    name: "jobs",
    columns: toColumns(
      "n:seq t:kind t:id b:key t:name t:data n:attempts n:starts n:enqueued n:run_at n:ready",
    ),
    // Those that may start at once stand before all that comes later, in their order.
    select: `SELECT seq, kind, id, key, data, attempts, starts, enqueued, run_at,
        iif(ready < ${FIRST_TIME}, ready - ${FIRST_TIME}, ready) AS ready
      FROM jobs ORDER BY seq`,
    count: "SELECT count(*) AS n FROM jobs",
    values: (row) => [
      row["seq"],
      row["kind"],
      row["id"],
      digest(text(row, "key")),
      row["key"],
      ...["data", "attempts", "starts", "enqueued", "run_at", "ready"].map((column) => row[column]),
    ],
    numbered: "seq",
  },
  sameTable("usage", "t:counter n:width n:at n:starts n:tokens n:micros", {
    order: "counter, width, at",
  }),
  sameTable("configs", "n:seq t:id n:first_used n:last_used t:content", seq),
  sameTable("meta", "t:key t:value", { order: "key" }),
  // How far retention has come. The other marks are of the embedded store alone: its intake has come to its end, and it has a clock and a disk of its own.
  sameTable("marks", "t:name n:seq", {
    order: "name",
    where: "name NOT IN ('intake', 'written', 'clock')",
  }),
];

/** What is counted by and by is counted once, and tables go on numbering after what they have, and after what they once had. */
export const STORE_FINISH: readonly string[] = [
  "DELETE FROM count_deltas",
  "DELETE FROM counts",
  `INSERT INTO counts (name, n)
    SELECT 'events.' || outcome, count(*) FROM events GROUP BY outcome
    UNION ALL SELECT 'runs.' || status, count(*) FROM runs GROUP BY status
    UNION ALL SELECT 'sessions.' || origin, count(*) FROM sessions GROUP BY origin
    UNION ALL SELECT 'systemEvents.' || state, count(*) FROM system_events GROUP BY state
    UNION ALL SELECT 'deliveries.' || status, count(*) FROM deliveries GROUP BY status
    UNION ALL SELECT 'approvals.' || state, count(*) FROM approvals GROUP BY state
    UNION ALL SELECT 'jobs.' || kind, count(*) FROM jobs GROUP BY kind`,
  COUNT_RUNS,
];
