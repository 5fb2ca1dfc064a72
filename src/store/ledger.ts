import type { Ms, Parked } from "./records.ts";

/** What one budget allows; undefined: any. */
export interface Allowance {
  scope: string;
  runsPerHour?: number | undefined;
  concurrent?: number | undefined;
  tokensPerDay?: number | undefined;
}

export interface Spent {
  startedLastHour: number;
  running: number;
  tokensLastDay: number;
}

export interface Joining {
  /** The mapping and the key of its window. */
  name: string;
  /** The run that a new window would get. */
  runId: string;
  at: Ms;
  windowMs: Ms;
  maxMs: Ms;
  maxEvents: number;
  chars: number;
  maxChars: number;
}

/** What runs spend from budgets, and the windows that collect events, where several gateways share them. */
export interface Ledger {
  /** Lets a run start, or says what it waits for: decided for all gateways, under a lock of its budgets. */
  start(runId: string, allowances: readonly Allowance[]): Promise<Parked | undefined>;
  /** A run that was parked is on disk as such: where it has been called meanwhile, it starts. */
  parked(runId: string): Promise<void>;
  /** The run is over, or back in the queue, or given up before it began; whoever waits for it is called. */
  over(runId: string, allowances: readonly Allowance[], tokens: number): Promise<void>;
  /** Limits may have changed: those that wait for a moment of the old ones get theirs afresh. All budgets have to be given. */
  reopen(allowances: readonly Allowance[]): Promise<void>;
  /** Ids of runs that are counted as begun or waiting though they have ended: their gateway died before it said so. */
  strays(): Promise<string[]>;
  spent(scope: string): Promise<Spent>;
  /** How many runs wait, by mapping. */
  waiting(): Promise<ReadonlyMap<string, number>>;
  /** Joins the window that is open, or opens one. */
  join(joining: Joining): Promise<{ runId: string; closesAt: Ms; opened: boolean }>;
  /** Closes the window of a run once its time has come; returns when it closes instead. */
  close(runId: string, at: Ms): Promise<Ms | undefined>;
}
