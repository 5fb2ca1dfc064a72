/** What the overview and the list of failures show. Apart from what makes it, since the console reads these types in a browser's terms. */
import type { EventOutcome } from "../../vocabulary/outcomes.ts";
import type { Percentiles } from "../../core/metrics.ts";

/** The newest answers, waits for a worker, and runs of this gateway since its start; null if there was none. */
export interface Latencies {
  answers: Percentiles | null;
  waits: Percentiles | null;
  runs: Percentiles | null;
}

/** Work that waits, and the age of the oldest. */
export interface Waiting {
  count: number;
  oldestSeconds: number;
}

/** Parked runs that wait for the same: a limit of `of`, or the model `of`. `until`: when the first may start, if that is known. */
export interface ParkedFor {
  reason: "limit" | "away";
  of: string;
  limit: string | null;
  /** What they wait for. */
  text: string;
  count: number;
  until: string | null;
}

/** Hooks over time, how long things took, and what waits. Times are ISO 8601. */
export interface ActivityView {
  since: string;
  hooks: {
    stepSeconds: number;
    /** When each step begins. */
    times: string[];
    /** Hooks in each step. */
    outcomes: Record<EventOutcome, number[]>;
    total: number;
    /** False if only the newest hooks were counted. */
    isComplete: boolean;
  };
  latencies: Latencies;
  waiting: {
    runs: Waiting;
    deliveries: Waiting;
    approvals: number;
    collecting: number;
    /** `by`: of the newest 500. */
    parked: { count: number; by: ParkedFor[] };
  };
}

/** One thing about the config and its mappings that should be looked at. */
export interface Finding {
  /** `config`: the file on disk cannot be used. `lint`: mappings. `shape`: bodies have changed. `shadow`: a mapping that starts nothing. */
  from: "config" | "lint" | "shape" | "shadow";
  /** The field of the config; null if the message names it. */
  path: string | null;
  message: string;
  /** The id of the mapping that it is about; null if it is about another thing. */
  mapping: string | null;
  /** The file and its line, if they are known. */
  file: string | null;
  line: number | null;
}

export const GROUP_STATUSES = ["open", "snoozed", "resolved"] as const;
export type GroupStatus = (typeof GROUP_STATUSES)[number];

/** Failures of one group that are of the same sender. */
export interface FailureSender {
  /** Who it is in words: `hook shop (hooks.token)`, `API key front`. */
  name: string;
  path: string | null;
  mapping: string | null;
  /** The name of a credential: `hooks.token`, `path:shop`, `api:front`, `channel:<id>`. */
  sender: string | null;
  count: number;
  lastSeen: string;
}

/** Failures with the same error. Times are ISO 8601; what is not there is null. */
export interface FailureGroup {
  id: string;
  /** What the failures have in common, in a sentence. */
  title: string;
  kind: "event" | "run" | "delivery";
  /** `failed`, `unmatched`, `rejected`, `timed_out` or `no_route`. */
  state: string;
  /** The path of events that no mapping is for. */
  path: string | null;
  /** The mapping that events failed at. */
  mapping: string | null;
  /** The error code. */
  code: string | null;
  /** Why events failed, without what differs each time. */
  reason: string | null;
  /** The provider whose models gave no answer. */
  provider: string | null;
  channel: string | null;
  /** Who sent what failed, in words: the sender, or how many there are; null for deliveries. */
  from: string | null;
  /** Who sent what failed, the most failures first; none for deliveries. */
  senders: FailureSender[];
  /** The message of one of the failures. */
  message: string | null;
  count: number;
  firstSeen: string;
  lastSeen: string;
  /** Failures in each of the last 24 hours, the current one last. */
  hours: number[];
  /** The id of the newest one. */
  example: string;
  status: GroupStatus;
  snoozedUntil: string | null;
  /** `version`: the number of the config that resolved it. */
  resolved: { at: string; version: number | null } | null;
  /** Whether it came back after it had been resolved. */
  isReopened: boolean;
}
