import type { Ms } from "./records.ts";
import type { RunRecord } from "./runs.ts";

export interface Spent {
  startedLastHour: number;
  running: number;
  tokensLastDay: number;
  /** In US dollars, as far as prices are known. */
  costLastDay: number;
}

/** What limits count: starts within an hour, places of runs at the same time, tokens and millionths of a dollar within a day. */
export const RESOURCES = ["starts", "places", "tokens", "micros"] as const;
export type Resource = (typeof RESOURCES)[number];
export type Amounts = Record<Resource, number>;
export const noAmounts = (): Amounts => ({ starts: 0, places: 0, tokens: 0, micros: 0 });

/** Millionths of a dollar. */
export const MICRO = 1e6;

/** A sliding window: its length, and the width of the buckets by which it is counted. */
export interface Window {
  lengthMs: Ms;
  widthMs: Ms;
}
const HOUR_MS = 3_600_000;
export const HOUR_WINDOW: Window = { lengthMs: HOUR_MS, widthMs: 60_000 };
export const DAY_WINDOW: Window = { lengthMs: 24 * HOUR_MS, widthMs: 900_000 };
/** The start of the bucket that a moment falls into. */
export const toBucket = ({ widthMs }: Window, at: Ms): Ms => Math.floor(at / widthMs) * widthMs;
/** Buckets count from this moment on, this one not included: the oldest is counted whole until its end is out of the window. */
export const countsAfter = ({ lengthMs, widthMs }: Window, now: Ms): Ms => now - lengthMs - widthMs;
/** Buckets further ahead are of a clock that was wrong. */
export const countsUntil = ({ lengthMs }: Window, now: Ms): Ms => now + lengthMs;

/** The counter of all hooks' runs. */
export const ALL_RUNS = "hooks";
/** The counter of a mapping's runs. */
export const toCounter = (mapping: string): string => `mapping:${mapping}`;

/** What is counted of one scope. Buckets are in order of time. */
export interface Counted {
  running: number;
  /** Accepted and neither under way nor ended; `parked` of them are held back by a limit. */
  waiting: number;
  parked: number;
  /** Of those that wait: runs before their first start that wait neither for a model nor for further events of their batch. */
  inLine: number;
  /** Starts, by `HOUR_WINDOW`. */
  hour: readonly { at: Ms; starts: number }[];
  /** By `DAY_WINDOW`. */
  day: readonly { at: Ms; tokens: number; micros: number }[];
}

/** A budget's scope, and the counters that sum up to it. */
export interface CountedScope {
  scope: string;
  counters: readonly string[];
}

/** What a gateway asks of one budget. Resources without a limit are absent from all three. */
export interface LoanRequest extends CountedScope {
  limits: Partial<Amounts>;
  /** What it has left of earlier loans, and what is about to be counted: it replaces what is known of that. */
  held: Amounts;
  /** For runs that are about to start; and what it would borrow ahead of need, of which it gets a share. */
  needed: Amounts;
  ahead: Amounts;
}

export interface Loan extends Counted {
  scope: string;
  /** Lent by this request. */
  lent: Partial<Amounts>;
  /** What is neither used nor held, after it. */
  left: Partial<Amounts>;
}

/** Parked runs of one mapping that may be released: the first of their session keys. */
export interface ParkedMapping {
  /** The mapping; empty for runs without one. */
  mapping: string;
  /** False if all of them have been released. */
  waits: boolean;
  /** Released and not started. */
  released: number;
}

/**
 * What runs have used of limits, as counters: they are kept by the commits that start and end runs. A gateway borrows a share
 * of what is left and spends it by itself; what a gateway that is gone has borrowed is everybody's again.
 */
export interface UsageStore {
  /** Whether other gateways may use the same budgets. */
  readonly shared: boolean;
  /** Borrows from budgets, or gives back. A scope that another gateway borrows from at this moment is absent from the answer. */
  lend(requests: readonly LoanRequest[]): Promise<Loan[]>;
  count(scopes: readonly CountedScope[]): Promise<Map<string, Counted>>;
  /** Mappings of which runs are parked, and how many runs are parked in all, also those behind others of their session keys. */
  lanes(): Promise<{ lanes: ParkedMapping[]; parked: number }>;
  /** Releases as many runs of each mapping as it says, in their order. Returns how many there were, in the same order. */
  release(wanted: readonly { mapping: string; count: number }[]): Promise<number[]>;
  /** Deletes what counts no more, and counts runs again. */
  tidy(): Promise<void>;
}

/**
 * When the job of a run that a limit holds back may start by itself: never. It is released.
 * Also the lowest such time: stores add the difference of their clock to it.
 */
export const PARKED_UNTIL = 8e15;
export const PARKED_FROM = 4e15;

/** What a change of a run adds to counters. */
export interface UsageChange {
  counters: readonly string[];
  running: number;
  waiting: number;
  parked: number;
  inLine: number;
  /** What is used up: `places` counts each time that a run takes one. */
  used: Amounts;
}

/** The counts of `Counted` that change with a run's status. */
export const RUN_COUNTS = ["running", "waiting", "parked", "inLine"] as const;

type CountedRun = Pick<
  RunRecord,
  "id" | "kind" | "status" | "attempts" | "usage" | "mapping" | "hold"
>;
/** The statuses of runs that wait for their turn, for a limit, for a model or for the end of their batch. */
export const WAITING: readonly string[] = ["parked", "collecting", "queued"];

/** Whether a limit holds a run back. */
export const isLimited = ({ status, hold }: Pick<RunRecord, "status" | "hold">): boolean =>
  status === "parked" && hold?.reason === "limit";

/** Whether a run has not started and may do so as soon as its limits have room and its turn comes. */
export const isInLine = (run: Pick<RunRecord, "status" | "attempts" | "hold">): boolean =>
  run.attempts === 0 && (run.status === "queued" || isLimited(run));

/** The tokens that a run or a turn has used. */
export function countUsedTokens({ usage }: Pick<RunRecord, "usage">): number {
  return usage?.totalTokens ?? (usage?.inputTokens ?? 0) + (usage?.outputTokens ?? 0);
}

/**
 * What a change of a run adds to the counters of its scopes; undefined if nothing. A start is counted once for all tries;
 * usage is what the run has used in all.
 */
export function countChange(
  before: CountedRun | undefined,
  after: CountedRun,
): UsageChange | undefined {
  if (after.kind !== "hook") return undefined;
  const step = (is: (run: CountedRun) => boolean): number =>
    Number(is(after)) - Number(before !== undefined && is(before));
  const running = step(({ status }) => status === "running");
  const used = {
    starts: running > 0 && (before?.attempts ?? 0) === 0 ? 1 : 0,
    places: Math.max(0, running),
    tokens: Math.max(0, countUsedTokens(after) - (before ? countUsedTokens(before) : 0)),
    micros: Math.max(
      0,
      Math.round(((after.usage?.costUsd ?? 0) - (before?.usage?.costUsd ?? 0)) * MICRO),
    ),
  };
  const waiting = step(({ status }) => WAITING.includes(status));
  const parked = step(isLimited);
  const inLine = step(isInLine);
  if ([running, waiting, parked, inLine, ...Object.values(used)].every((n) => n === 0))
    return undefined;
  const counters = after.mapping === undefined ? [ALL_RUNS] : [ALL_RUNS, toCounter(after.mapping)];
  return { counters, running, waiting, parked, inLine, used };
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

/** The batches that collect events, if several gateways share them. */
export interface SharedBatches {
  /** Joins the batch that is open, or opens one. */
  join(event: BatchJoin): Promise<{ runId: string; closesAt: Ms; opened: boolean }>;
  /** Closes the batch of a run once its time has come; returns when it closes instead. */
  close(runId: string, at: Ms): Promise<Ms | undefined>;
}
