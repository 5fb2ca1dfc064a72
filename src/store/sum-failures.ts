import { CAUSE_FIELDS, HOUR_MS, type FailureQuery, type FailureSum } from "./failure-sums.ts";
import type { ListSource } from "./search.ts";

/** Renders a text inside a JSON column as SQL. */
export type JsonText = (column: "head" | "spec" | "record", ...path: string[]) => string;

interface Failures {
  table: string;
  index: string;
  where: string;
  at: string;
  columns: Record<(typeof CAUSE_FIELDS)[number] | "message", string>;
}

const none = "CAST(NULL AS text)";

function eventFailures(outcome: string, text: JsonText): Failures {
  return {
    table: "events",
    index: "events_outcome",
    // What was replayed or discarded is dealt with.
    where: `outcome <> 'accepted' AND outcome = '${outcome}' AND ${text("head", "handled", "as")} IS NULL`,
    at: "at",
    columns: {
      kind: "'event'",
      state: "outcome",
      path: "path",
      mapping: `coalesce(mapping, ${text("head", "nearest", "mapping")})`,
      code: text("head", "nearest", "condition"),
      reason: text("head", "reason"),
      provider: none,
      channel: none,
      sender: "credential",
      message: text("head", "reason"),
    },
  };
}

function runFailures(status: string, text: JsonText): Failures {
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

const deliveryFailures = (text: JsonText): Failures => ({
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
  text: JsonText,
  { since, limit }: FailureQuery,
): Promise<FailureSum[]> {
  const all = [
    ...["failed", "unmatched", "rejected"].map((outcome) => eventFailures(outcome, text)),
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
