import { deliveryState, type DeliveryRecord } from "./deliveries.ts";
import type { EventRecord } from "./event-record.ts";
import type { Ms, RunRecord } from "./records.ts";
import type { ListSource } from "./search.ts";

const HOUR_MS = 3_600_000;

/** The failures that are added up: those since then, and of each kind and state the newest `limit` only. */
export interface FailureQuery {
  since: Ms;
  limit: number;
}

/** What a failure has in common with others of its cause; null if it has none. */
export interface FailureCause {
  kind: "event" | "run" | "delivery";
  /** `failed`, `unmatched`, `rejected`, `timed_out`, `no_route`. */
  state: string;
  path: string | null;
  mapping: string | null;
  /** The error code of a run or a delivery, or the condition that did not hold. */
  code: string | null;
  /** Why an event failed or was rejected. */
  reason: string | null;
  channel: string | null;
}

/** Failures of one cause within one hour. */
export interface FailureSum extends FailureCause {
  /** Hours since the epoch. */
  hour: number;
  count: number;
  first: Ms;
  last: Ms;
  /** The id of the newest one. */
  example: string;
  /** The message of one of them. */
  message: string | null;
}

/** Renders a text inside a JSON column as SQL. */
export type JsonText = (column: "head" | "spec" | "record", ...path: string[]) => string;

const CAUSE = ["kind", "state", "path", "mapping", "code", "reason", "channel"] as const;

interface Failures {
  table: string;
  index: string;
  where: string;
  at: string;
  columns: Record<(typeof CAUSE)[number] | "message", string>;
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
      channel: none,
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
      channel: none,
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
    channel: "channel",
    message: text("record", "error", "message"),
  },
});

/** Rows back to which a table without the index is looked at. */
const LOOK_BACK = 100_000;

/** Adds up failures by cause and hour. An index leads to them; each statement reads `limit` rows at most. */
export async function sumFailures(source: ListSource, text: JsonText, { since, limit }: FailureQuery): Promise<FailureSum[]> {
  const all = [
    ...["failed", "unmatched", "rejected"].map((outcome) => eventFailures(outcome, text)),
    ...["failed", "timed_out"].map((status) => runFailures(status, text)),
    deliveryFailures(text),
  ];
  const sums: FailureSum[] = [];
  for (const { table, index, where, at, columns } of all) {
    const named = Object.entries(columns).map(([name, sql]) => `${sql} AS "${name}"`);
    const from = source.lacks.has(index) ? table : (source.byIndex?.(table, index) ?? table);
    const near = source.lacks.has(index) ? ` AND seq > (SELECT coalesce(max(seq), 0) FROM ${table}) - ${LOOK_BACK}` : "";
    const newest = `SELECT id, ${at} AS failed_at, ${named.join(", ")} FROM ${from} WHERE ${where}${near} ORDER BY seq DESC LIMIT ${Math.floor(limit)}`;
    const grouped = [...CAUSE.map((name) => `"${name}"`), `failed_at / ${HOUR_MS}`];
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

const toHour = (at: Ms): number => Math.floor(at / HOUR_MS);

const toSum = (cause: FailureCause, at: Ms, example: string, message: string | undefined): FailureSum => ({
  ...cause,
  hour: toHour(at),
  count: 1,
  first: at,
  last: at,
  example,
  message: message ?? null,
});

const CAUSELESS = { path: null, mapping: null, code: null, reason: null, channel: null };

/** Returns the failure that an event is; undefined if it is none. For stores that have records, and no SQL. */
export function toEventFailure({ id, receivedAt, outcome, path, mapping, nearest, reason, handled }: EventRecord): FailureSum | undefined {
  if (!["failed", "unmatched", "rejected"].includes(outcome) || handled) return undefined;
  const cause = { path, mapping: mapping ?? nearest?.mapping ?? null, code: nearest?.condition ?? null, reason: reason ?? null };
  return toSum({ ...CAUSELESS, kind: "event", state: outcome, ...cause }, receivedAt, id, reason);
}

/** Returns the failure that a run is; undefined if it is none. */
export function toRunFailure({ id, status, spec, mapping, error, createdAt, endedAt }: RunRecord): FailureSum | undefined {
  if (status !== "failed" && status !== "timed_out") return undefined;
  const cause = { path: spec.session.via?.path ?? null, mapping: mapping ?? null, code: error?.code ?? null };
  return toSum({ ...CAUSELESS, kind: "run", state: status, ...cause }, endedAt ?? createdAt, id, error?.message);
}

/** Returns the failure that a delivery is; undefined if it is none. */
export function toDeliveryFailure(delivery: DeliveryRecord): FailureSum | undefined {
  const { id, status, error, route, createdAt, endedAt } = delivery;
  if (status !== "failed") return undefined;
  const cause = { code: error?.code ?? null, channel: route.channel };
  return toSum({ ...CAUSELESS, kind: "delivery", state: deliveryState(delivery), ...cause }, endedAt ?? createdAt, id, error?.message);
}

/** Adds up failures that have the same cause and hour. */
export function mergeFailures(sums: Iterable<FailureSum>): FailureSum[] {
  const merged = new Map<string, FailureSum>();
  for (const one of sums) {
    const key = JSON.stringify([...CAUSE.map((name) => one[name]), one.hour]);
    const found = merged.get(key);
    merged.set(key, found ? addFailures(found, one) : one);
  }
  return [...merged.values()];
}

/** Adds one sum to another; the cause and the hour are those of the first. */
export function addFailures(one: FailureSum, other: FailureSum): FailureSum {
  return {
    ...one,
    count: one.count + other.count,
    first: Math.min(one.first, other.first),
    last: Math.max(one.last, other.last),
    example: one.example > other.example ? one.example : other.example,
    message: one.message === null || (other.message !== null && other.message > one.message) ? other.message : one.message,
  };
}
