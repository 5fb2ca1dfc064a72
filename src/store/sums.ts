/** Sums over many records. */
import type { EventOutcome } from "./event-record.ts";
import type { Ms } from "./records.ts";
import { RUN_STATUSES } from "../vocabulary/outcomes.ts";

/** The events that are counted: those since then. After the newest `limit` the count may stop. */
export interface ActivityQuery {
  since: Ms;
  /** The length of a time that is counted together, in milliseconds. */
  step: Ms;
  limit: number;
}

/** The number of events of an outcome that came in within one step. */
export interface ActivitySum {
  /** The beginning of the step: a multiple of it. */
  at: Ms;
  outcome: EventOutcome;
  count: number;
}

/** Adds up counts of the same step and outcome. */
export function mergeActivity(sums: Iterable<ActivitySum>): ActivitySum[] {
  const merged = new Map<string, ActivitySum>();
  for (const { at, outcome, count } of sums) {
    const key = `${at} ${outcome}`;
    merged.set(key, { at, outcome, count: (merged.get(key)?.count ?? 0) + count });
  }
  return [...merged.values()];
}

export const HOUR_MS = 3_600_000;

/** The failures that are added up: those since then, and of each kind and state the newest `limit` only. */
export interface FailureQuery {
  since: Ms;
  limit: number;
}

/** The cause that a failure has in common with others; null if it has none. */
export interface FailureCause {
  kind: "event" | "run" | "delivery";
  /** `failed`, `unmatched`, `rejected`, `timed_out`, `no_route`; `accepted` if only some actions of an event failed. */
  state: string;
  path: string | null;
  mapping: string | null;
  /** The error code of a run or a delivery, or the condition of the nearest mapping that did not hold. */
  code: string | null;
  /** The reason that an event failed or was rejected. */
  reason: string | null;
  /** The provider whose models gave a run no answer. */
  provider: string | null;
  channel: string | null;
  /**
   * The sender, by the name of a configured credential and never by what a caller writes: `hooks.token`, `path:shop`, `api:<key>`,
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

/** The pattern of the JSON of events of which some actions failed: an index finds them by it, without reading the JSON. */
export const PARTLY_FAILED = '%"failedActions":%';

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

/** By what usage can be added up. */
export const USAGE_KEYS = ["mapping", "agent", "model", "day"] as const;
export type UsageKey = (typeof USAGE_KEYS)[number];

/** The runs that are added up: those that were created since then and have ended. */
export interface UsageQuery {
  by: UsageKey;
  since: Ms;
}

/** The usage of several runs together. */
export interface UsageSum {
  /** The mapping, agent, model or day (`2026-03-21`, UTC). What has none is named in parentheses: `(api)`, `(no model)`. */
  key: string;
  runs: number;
  inputTokens: number;
  cachedInputTokens: number;
  cacheWriteTokens: number;
  outputTokens: number;
  /** The known costs in US dollars; null if none is known. */
  costUsd: number | null;
  /** Runs that used tokens whose price is unknown: `costUsd` lacks them. */
  unpricedRuns: number;
}

/** Sums of dollars get digits that no price has. */
const addCosts = (a: number | null, b: number | null): number | null =>
  a === null ? b : b === null ? a : Math.round((a + b) * 1e8) / 1e8;

/** The sum of no runs. */
export const NO_USAGE: Omit<UsageSum, "key"> = {
  runs: 0,
  inputTokens: 0,
  cachedInputTokens: 0,
  cacheWriteTokens: 0,
  outputTokens: 0,
  costUsd: null,
  unpricedRuns: 0,
};

/** Adds up sums that have the same key. */
export function mergeUsage(sums: Iterable<UsageSum>): UsageSum[] {
  const merged = new Map<string, UsageSum>();
  for (const one of sums) {
    const found = merged.get(one.key) ?? NO_USAGE;
    merged.set(one.key, {
      key: one.key,
      runs: found.runs + one.runs,
      inputTokens: found.inputTokens + one.inputTokens,
      cachedInputTokens: found.cachedInputTokens + one.cachedInputTokens,
      cacheWriteTokens: found.cacheWriteTokens + one.cacheWriteTokens,
      outputTokens: found.outputTokens + one.outputTokens,
      costUsd: addCosts(
        found.costUsd,
        one.costUsd === null ? null : Math.round(one.costUsd * 1e8) / 1e8,
      ),
      unpricedRuns: found.unpricedRuns + one.unpricedRuns,
    });
  }
  return [...merged.values()];
}

/** The names of `counts`: a kind of record and a state. */
export const COUNTED: readonly string[] = [
  ...["accepted", "skipped", "unmatched", "duplicate", "rejected", "failed", "parked"].map(
    (name) => `events.${name}`,
  ),
  ...RUN_STATUSES.map((name) => `runs.${name}`),
  ...["pending", "delivered", "failed", "no_route", "unknown"].map((name) => `deliveries.${name}`),
  ...["queued", "done", "parked"].map((name) => `systemEvents.${name}`),
  ...["main", "hook", "api", "channel", "schedule"].map((name) => `sessions.${name}`),
  "approvals.open",
  "approvals.decided",
  "jobs.turn",
  "jobs.delivery",
  "jobs.command",
];
