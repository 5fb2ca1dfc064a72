import { deliveryState, type DeliveryRecord } from "./deliveries.ts";
import type { EventRecord } from "./event-record.ts";
import type { Ms, RunRecord } from "./records.ts";

export const HOUR_MS = 3_600_000;

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
  /** The error code of a run or a delivery, or the condition of the nearest mapping that did not hold. */
  code: string | null;
  /** Why an event failed or was rejected. */
  reason: string | null;
  /** The provider whose models gave a run no answer. */
  provider: string | null;
  channel: string | null;
  /**
   * Who sent it, by the name of a configured credential and never by what a caller writes: `hooks.token`, `path:shop`, `api:<key>`,
   * or `channel:<id>`. So no one without a credential adds to the number of causes.
   */
  sender: string | null;
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

/** The fields of a cause. */
export const CAUSE_FIELDS = [
  "kind",
  "state",
  "path",
  "mapping",
  "code",
  "reason",
  "provider",
  "channel",
  "sender",
] as const;

const toHour = (at: Ms): number => Math.floor(at / HOUR_MS);

const toSum = (
  cause: FailureCause,
  at: Ms,
  example: string,
  message: string | undefined,
): FailureSum => ({
  ...cause,
  hour: toHour(at),
  count: 1,
  first: at,
  last: at,
  example,
  message: message ?? null,
});

const CAUSELESS = {
  path: null,
  mapping: null,
  code: null,
  reason: null,
  provider: null,
  channel: null,
  sender: null,
};

/** Returns the failure that an event is; undefined if it is none. For stores that have records, and no SQL. */
export function toEventFailure(event: EventRecord): FailureSum | undefined {
  const {
    id,
    receivedAt,
    outcome,
    path,
    mapping,
    nearest,
    reason,
    handled,
    credential: sender,
  } = event;
  if (!["failed", "unmatched", "rejected"].includes(outcome) || handled) return undefined;
  const cause = {
    path,
    mapping: mapping ?? nearest?.mapping ?? null,
    code: nearest?.condition ?? null,
    reason: reason ?? null,
    sender,
  };
  return toSum({ ...CAUSELESS, kind: "event", state: outcome, ...cause }, receivedAt, id, reason);
}

function getRunSender({ kind, spec: { session, hook, channel } }: RunRecord): string | null {
  if (session.via) return session.via.credential;
  if (kind === "api") return hook;
  return kind === "channel" ? `channel:${channel}` : null;
}

/** Returns the failure that a run is; undefined if it is none. */
export function toRunFailure(run: RunRecord): FailureSum | undefined {
  const { id, status, spec, mapping, error, createdAt, endedAt } = run;
  if (status !== "failed" && status !== "timed_out") return undefined;
  const path = spec.session.via?.path ?? null;
  const cause = {
    path,
    mapping: mapping ?? null,
    code: error?.code ?? null,
    provider: error?.provider ?? null,
    sender: getRunSender(run),
  };
  return toSum(
    { ...CAUSELESS, kind: "run", state: status, ...cause },
    endedAt ?? createdAt,
    id,
    error?.message,
  );
}

/** Returns the failure that a delivery is; undefined if it is none. */
export function toDeliveryFailure(delivery: DeliveryRecord): FailureSum | undefined {
  const { id, status, error, route, createdAt, endedAt } = delivery;
  if (status !== "failed") return undefined;
  const cause = { code: error?.code ?? null, channel: route.channel };
  return toSum(
    { ...CAUSELESS, kind: "delivery", state: deliveryState(delivery), ...cause },
    endedAt ?? createdAt,
    id,
    error?.message,
  );
}

/** Adds up failures that have the same cause and hour. */
export function mergeFailures(sums: Iterable<FailureSum>): FailureSum[] {
  const merged = new Map<string, FailureSum>();
  for (const one of sums) {
    const key = JSON.stringify([...CAUSE_FIELDS.map((name) => one[name]), one.hour]);
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
    message:
      one.message === null || (other.message !== null && other.message > one.message)
        ? other.message
        : one.message,
  };
}
