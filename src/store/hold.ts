/** A limit without room, whose it is (`hooks`, `mapping:<id>`, `preset:<name>`), and until when if that is known. */
export interface LimitReason {
  scope: string;
  limit: "runsPerHour" | "concurrent" | "tokensPerDay" | "budget.perDay";
  until?: number;
}

/** Why a run does not start, and until when at the latest, or when that is looked at again. Times are milliseconds since the epoch. */
export type HoldReason =
  | ({ reason: "limit" } & LimitReason)
  /** Its models are away. `of`: the provider and model that is tested next, such as `openai/gpt-5`. */
  | { reason: "away"; of: string; until: number }
  /** People have to decide about calls; `until` is when the first of the approvals expires. */
  | { reason: "person"; approvalIds: readonly string[]; until: number }
  /** Further events may join its batch. */
  | { reason: "batch"; until: number }
  /** The wait before another try. */
  | { reason: "delay"; until: number };

/**
 * What holds a run back. It is written by the commit that puts the run back, and is over when the run starts. `reason` comes
 * first: PostgreSQL looks for it in the text of the record.
 */
export type Hold = HoldReason & { since: number };

/** A wait of a run that is over. `queue`: it was ready, and waited for a free worker or for a run of its session that went first. */
export type PastWait = (Hold | { reason: "queue"; since: number }) & { until: number };

/** The waits of a run. */
export interface RunWaits {
  hold?: Hold;
  /** Since when it is ready, if that is not since it was made. */
  queuedAt?: number;
  /** Time in which it waited for people and limits, in milliseconds: `runs.maxAge` does not count it. */
  waitedMs?: number;
  /** Its waits that are over, oldest first: the newest 20. */
  waits?: PastWait[];
}
