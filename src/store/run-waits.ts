/** A wait of a run that is over. Times are milliseconds since the epoch. */
export type PastWait = { since: number; until: number } & (
  | { kind: "limit"; scope: string; limit: string }
  /** `of`: the provider and model, such as `openai/gpt-5`. */
  | { kind: "model"; of: string }
  /** The wait before another try. */
  | { kind: "delay" }
  /** Further events could join its batch. */
  | { kind: "batch" }
  /** A person had to decide about calls: the first ten. */
  | { kind: "approval"; approvalIds: string[] }
  /** It was ready, and waited for a free worker or for a run of its session that went first. */
  | { kind: "queue" }
);

/** The waits of a run, apart from the one for people. Times are milliseconds since the epoch. */
export interface RunWaits {
  /** Time in which it waited for people and limits, in milliseconds: `runs.maxAge` does not count it. */
  waitedMs?: number;
  /** Since when it waits for a limit. */
  pausedAt?: number;
  /** Since when it waits for its model, for another try, or in the queue if that is not since it was made. */
  waitSince?: number;
  /** Its waits that are over, oldest first: the newest 20. */
  waits?: PastWait[];
}
