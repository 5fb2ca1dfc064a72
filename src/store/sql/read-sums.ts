/** Reads what is added up over many records, by SQL that both drivers know. */
import {
  CAUSE_FIELDS,
  HOUR_MS,
  PARTLY_FAILED,
  mergeActivity,
  mergeUsage,
  type ActivityQuery,
  type ActivitySum,
  type FailureQuery,
  type FailureSum,
  type UsageKey,
  type UsageQuery,
  type UsageSum,
} from "../sums.ts";
import type { JsonValue } from "./read-table.ts";
import { DISORDER_MS, type ListSource } from "./search.ts";
import type { Ms } from "../records.ts";

/**
 * Goes through a table by the numbers of its rows, from the newest back to the rows of a time: `read` gets the bounds of each
 * window. Other work is done between two windows.
 */
async function eachWindow(
  source: ListSource,
  {
    table,
    at,
    since,
    rows,
    most = Infinity,
  }: {
    table: string;
    at: string;
    since: Ms;
    rows: number;
    most?: number;
  },
  read: (below: number, from: number) => Promise<void>,
): Promise<void> {
  const before = `SELECT seq, ${at} AS at FROM ${table} WHERE seq < ? ORDER BY seq DESC LIMIT 1`;
  let below = Number.MAX_SAFE_INTEGER;
  for (let looked = 0; looked < most; looked += rows) {
    const [newest] = await source.query<{ seq: number; at: Ms }>(before, [below]);
    if (!newest || (looked > 0 && newest.at < since - DISORDER_MS)) return;
    below = newest.seq + 1 - rows;
    await read(newest.seq + 1, below);
    await source.pause?.();
  }
}

/** Reads the sums of each window of a table, and adds them up. `text` gets the bounds of the window and `since`. */
async function sumWindows<T>(
  source: ListSource,
  walk: Parameters<typeof eachWindow>[1],
  text: string,
  merge: (sums: T[]) => T[],
): Promise<T[]> {
  let sums: T[] = [];
  await eachWindow(source, walk, async (below, from) => {
    sums = merge([...sums, ...(await source.query<T>(text, [below, from, walk.since]))]);
  });
  return sums;
}

/** Counts events by time and outcome. */
export function sumActivity(
  source: ListSource,
  { since, step: asked, limit }: ActivityQuery,
): Promise<ActivitySum[]> {
  const step = Math.floor(asked);
  const text = `SELECT at / ${step} * ${step} AS at, outcome, count(*) AS count FROM events
    WHERE seq < ? AND seq >= ? AND at >= ? GROUP BY 1, 2`;
  const walk = { table: "events", at: "at", since, rows: source.window, most: limit };
  return sumWindows(source, walk, text, mergeActivity);
}

/** The columns of a `UsageSum` over rows of `runs`, which are to be grouped by the first one. */
function renderUsageColumns(by: UsageKey, { json, usage }: ListSource): string {
  const { field, number, day } = usage;
  const keys: Record<UsageKey, string> = {
    mapping: `coalesce(${field("mapping")}, '(' || ${field("kind")} || ')')`,
    agent: json("spec", "session", "agentId"),
    model: `coalesce(${field("model")}, '(no model)')`,
    day: day("ended"),
  };
  const cost = number("costUsd");
  const sum = (name: string): string => `coalesce(sum(${number(name)}), 0) AS "${name}"`;
  return [
    `${keys[by]} AS key`,
    "count(*) AS runs",
    ...["inputTokens", "cachedInputTokens", "cacheWriteTokens", "outputTokens"].map(sum),
    `sum(${cost}) AS "costUsd"`,
    `sum(CASE WHEN ${cost} IS NULL AND coalesce(${field("usage")}, '{}') <> '{}' THEN 1 ELSE 0 END) AS "unpricedRuns"`,
  ].join(", ");
}

/** Adds up what runs have used. */
export function sumUsage(source: ListSource, { by, since }: UsageQuery): Promise<UsageSum[]> {
  const { from: table, rows } = source.usage;
  const text = `SELECT ${renderUsageColumns(by, source)} FROM ${table}
    WHERE seq < ? AND seq >= ? AND created >= ? AND ended IS NOT NULL GROUP BY 1`;
  const walk = { table: "runs", at: "created", since, rows };
  return sumWindows(source, walk, text, mergeUsage);
}

interface Failures {
  table: string;
  index: string;
  where: string;
  at: string;
  columns: Record<(typeof CAUSE_FIELDS)[number] | "message", string>;
}

const none = "CAST(NULL AS text)";

/** The events that failed, by their state. */
function eventFailures(text: JsonValue): Failures[] {
  const outcomes = ["failed", "unmatched", "rejected"].map((state) => ({
    state,
    index: "events_outcome",
    where: `outcome <> 'accepted' AND outcome = '${state}'`,
  }));
  // A header or a parameter of the request may have that name, too.
  const where = `head LIKE '${PARTLY_FAILED}' AND ${text("head", "failedActions")} IS NOT NULL`;
  const all = [...outcomes, { state: "accepted", index: "events_partly", where }];
  return all.map((one) => ({
    table: "events",
    index: one.index,
    // An event that was replayed or discarded is dealt with.
    where: `${one.where} AND ${text("head", "handled", "as")} IS NULL`,
    at: "at",
    columns: {
      kind: "'event'",
      state: `'${one.state}'`,
      path: "path",
      mapping: `coalesce(mapping, ${text("head", "nearest", "mapping")})`,
      code: text("head", "nearest", "condition"),
      reason: text("head", "reason"),
      provider: none,
      channel: none,
      sender: "credential",
      message: text("head", "reason"),
    },
  }));
}

function runFailures(status: string, text: JsonValue): Failures {
  return {
    table: "runs",
    index: "runs_status",
    where: `status = '${status}'`,
    at: "coalesce(ended, created)",
    columns: {
      kind: "'run'",
      state: "status",
      path: text("spec", "session", "via", "path"),
      mapping: text("record", "mapping"),
      code: text("record", "error", "code"),
      reason: none,
      provider: text("record", "error", "provider"),
      channel: none,
      sender: `coalesce(${text("spec", "session", "via", "credential")}, CASE ${text("record", "kind")}
        WHEN 'api' THEN ${text("spec", "hook")} WHEN 'channel' THEN 'channel:' || (${text("spec", "channel")}) END)`,
      message: text("record", "error", "message"),
    },
  };
}

const deliveryFailures = (text: JsonValue): Failures => ({
  table: "deliveries",
  index: "deliveries_failed",
  where: "status IN ('failed', 'no_route')",
  at: "coalesce(ended, created)",
  columns: {
    kind: "'delivery'",
    state: "status",
    path: none,
    mapping: none,
    code: text("record", "error", "code"),
    reason: none,
    provider: none,
    channel: "channel",
    sender: none,
    message: text("record", "error", "message"),
  },
});

/** Rows back to which a table without the index is looked at. */
const LOOK_BACK = 100_000;

/** Adds up failures by cause and hour. An index leads to them; each statement reads `limit` rows at most. */
export async function sumFailures(
  source: ListSource,
  { since, limit }: FailureQuery,
): Promise<FailureSum[]> {
  const text = source.json;
  const all = [
    ...eventFailures(text),
    ...["failed", "timed_out"].map((status) => runFailures(status, text)),
    deliveryFailures(text),
  ];
  const sums: FailureSum[] = [];
  for (const { table, index, where, at, columns } of all) {
    const named = Object.entries(columns).map(([name, sql]) => `${sql} AS "${name}"`);
    const from = source.lacks.has(index) ? table : (source.byIndex?.(table, index) ?? table);
    const near = source.lacks.has(index)
      ? ` AND seq > (SELECT coalesce(max(seq), 0) FROM ${table}) - ${LOOK_BACK}`
      : "";
    const newest = `SELECT id, ${at} AS failed_at, ${named.join(", ")} FROM ${from} WHERE ${where}${near} ORDER BY seq DESC LIMIT ${Math.floor(limit)}`;
    const grouped = [...CAUSE_FIELDS.map((name) => `"${name}"`), `failed_at / ${HOUR_MS}`];
    sums.push(
      ...(await source.query<FailureSum>(
        `SELECT ${grouped.join(", ")} AS hour, count(*) AS count, min(failed_at) AS first, max(failed_at) AS last, max(id) AS example, max(message) AS message
        FROM (${newest}) AS newest WHERE failed_at >= ? GROUP BY ${grouped.join(", ")}`,
        [since],
      )),
    );
    await source.pause?.();
  }
  return sums;
}

/** Runs that one statement reads. */
const OLDEST = 1000;

/**
 * Reads since when the run waits that has waited longest for a worker or for its session. What a limit or a batch held back before
 * does not count, and neither does a wait for the next try. Of a longer queue, the runs that were made first are looked at.
 */
export async function readQueuedSince(source: ListSource): Promise<Ms | undefined> {
  const table = source.byIndex?.("runs", "runs_status") ?? "runs";
  const [row] = await source.query<{ since: Ms | null }>(
    `SELECT min(since) AS since FROM (
      SELECT CASE WHEN ${source.json("record", "hold")} IS NULL THEN coalesce(CAST(${source.json("record", "queuedAt")} AS bigint), created) END AS since FROM ${table} WHERE status = 'queued' ORDER BY seq LIMIT ${OLDEST}
    ) AS oldest`,
    [],
  );
  return row?.since ?? undefined;
}
