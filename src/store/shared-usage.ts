import type { Ms, ParkedByLimit } from "./records.ts";

/** What one budget allows; undefined: any. */
export interface BudgetLimits {
  scope: string;
  limits: {
    runsPerHour?: number | undefined;
    concurrent?: number | undefined;
    tokensPerDay?: number | undefined;
    /** In US dollars. */
    budget?: { perDay: number } | undefined;
  };
}

/** What one budget has spent, apart from the run that asks. */
export interface BudgetUsage {
  /** Starts within the last hour, and moments to come that other runs were given. */
  starts: number;
  /** When `starts` falls below `runsPerHour` again, if that is known. */
  nextStartAt?: Ms | undefined;
  /** The moment to start that an earlier decision gave the run that asks. */
  notBefore?: Ms | undefined;
  /** Tokens used within the last day. */
  tokens: number;
  /** When `tokens` falls below `tokensPerDay` again, if that is known. */
  tokensFreeAt?: Ms | undefined;
  /** US dollars spent within the last day, as far as prices are known. */
  costUsd?: number;
  /** When `costUsd` falls below `budget.perDay` again, if that is known. */
  costFreeAt?: Ms | undefined;
  /** Places of `concurrent` that are taken. */
  busy: number;
  /** True if other runs wait for a place before this one. */
  isQueued: boolean;
}

export type Decision = { start: true } | { start: false; reason: ParkedByLimit };

/** Decides whether a run may start, given the usage of each of its budgets by scope. */
export type Decide = (usage: ReadonlyMap<string, BudgetUsage>, budgets: readonly BudgetLimits[], now: Ms) => Decision;

export interface Spent {
  startedLastHour: number;
  running: number;
  tokensLastDay: number;
  /** In US dollars, as far as prices are known. */
  costLastDay: number;
}

export interface BatchJoin {
  /** The mapping and the key of its batch. */
  name: string;
  /** The run that a new batch would get. */
  runId: string;
  at: Ms;
  windowMs: Ms;
  maxMs: Ms;
  maxEvents: number;
  chars: number;
  maxChars: number;
}

/** What runs spend from budgets, and the batches that collect events, if several gateways share them. */
export interface SharedUsage {
  /** Lets a run start, or returns what it waits for: `decide` is asked under a lock that all gateways respect. */
  start(runId: string, budgets: readonly BudgetLimits[], decide: Decide): Promise<ParkedByLimit | undefined>;
  /** A run that was parked is on disk as such: if it has been released meanwhile, it starts. */
  parked(runId: string): Promise<void>;
  /**
   * The run has ended, waits for a person, is back in the queue, or was given up before it began; runs that wait for it are
   * released. `tokens` and `costUsd` are what the run has used in all: they replace what was counted of it before.
   */
  release(runId: string, budgets: readonly BudgetLimits[], tokens: number, costUsd?: number): Promise<void>;
  /** Limits may have changed: runs that wait for a moment of the old ones get a new one. All budgets have to be given. */
  reopen(budgets: readonly BudgetLimits[]): Promise<void>;
  /** Ids of runs that are counted as begun or waiting though they have ended, or wait for a person: their gateway died before it said so. */
  strays(): Promise<string[]>;
  spent(scope: string): Promise<Spent>;
  /** How many runs wait, by mapping. */
  waiting(): Promise<ReadonlyMap<string, number>>;
  /** Joins the batch that is open, or opens one. */
  join(event: BatchJoin): Promise<{ runId: string; closesAt: Ms; opened: boolean }>;
  /** Closes the batch of a run once its time has come; returns when it closes instead. */
  close(runId: string, at: Ms): Promise<Ms | undefined>;
}
