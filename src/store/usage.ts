import type { Ms } from "./records.ts";
import type { RunRecord } from "./runs.ts";
import { HOUR_MS } from "./sums.ts";

export interface Spent {
  startedLastHour: number;
  running: number;
  tokensLastDay: number;
  /** In US dollars, as far as prices are known. */
  costLastDay: number;
}

/** The resources that limits count: starts within an hour, places of runs at the same time, tokens and millionths of a dollar within a day. */
export const RESOURCES = ["starts", "places", "tokens", "micros"] as const;
export type Resource = (typeof RESOURCES)[number];
export type Amounts = Record<Resource, number>;
/** The amounts that a run takes when it starts. Tokens and money are counted when they are used. */
export type StartAmounts = Pick<Amounts, "starts" | "places">;
export const noStart = (): StartAmounts => ({ starts: 0, places: 0 });

/** Millionths of a dollar. */
export const MICRO = 1e6;

/** A sliding window: its length, and the width of the buckets by which it is counted. */
export interface Window {
  lengthMs: Ms;
  widthMs: Ms;
}
export const HOUR_WINDOW: Window = { lengthMs: HOUR_MS, widthMs: 60_000 };
export const DAY_WINDOW: Window = { lengthMs: 24 * HOUR_MS, widthMs: 900_000 };
/** Longer than any time: the one bucket of all times has the width 0 and the start 0. */
export const ALL_TIMES: Window = { lengthMs: 1e15, widthMs: 0 };
/** By which window a limit of a resource counts. */
const WINDOWS: Record<Resource, Window> = {
  starts: HOUR_WINDOW,
  places: ALL_TIMES,
  tokens: DAY_WINDOW,
  micros: DAY_WINDOW,
};
/** The windows that are needed to count runs, and to check limits of these resources. */
export const getWindows = (resources: readonly Resource[] = RESOURCES): Window[] => [
  ...new Set([ALL_TIMES, ...resources.map((name) => WINDOWS[name])]),
];
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

/** The counts of one scope. Buckets are in order of time. */
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

/** Asks one budget for room. Resources without a limit are absent from `limits` and from the answer. */
export interface ReservationRequest extends CountedScope {
  limits: Partial<Amounts>;
  /** Reserved earlier for runs whose start is not on disk: it replaces what the store knows of that. */
  pending: StartAmounts;
  /** For runs that are about to start. */
  wanted: StartAmounts;
}

export interface Reservation extends Counted {
  scope: string;
  /** Reserved by this request: what was wanted, as far as there was room. */
  reserved: Partial<StartAmounts>;
  /** The amounts that are neither used nor reserved after this request. */
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
 * The counters of limits. The commits that start and end runs keep them. A gateway reserves room before it starts runs; the room
 * that a gateway has reserved is free again when the gateway is gone.
 */
export interface UsageStore {
  /** True if other gateways may use the same budgets. */
  readonly shared: boolean;
  /** Reserves room in budgets. A scope in which another gateway reserves room at this moment is absent from the answer. */
  reserve(requests: readonly ReservationRequest[]): Promise<Reservation[]>;
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

/** The numbers of a row of `usage`: how many runs there are, and what they have used. `places` counts each time that a run takes one. */
export const USAGE_NUMBERS = [
  ...(["running", "waiting", "parked", "in_line"] as const),
  ...RESOURCES,
] as const;
type UsageNumbers = Record<(typeof USAGE_NUMBERS)[number], number>;
const NO_COUNTS = { running: 0, waiting: 0, parked: 0, in_line: 0 };
const NO_NUMBERS: UsageNumbers = { ...NO_COUNTS, ...noStart(), tokens: 0, micros: 0 };

/** The numbers that a change of a run adds to a row of `usage`: to that of all times, whose `width` and `at` are 0, or to a bucket of a window. */
export type UsageRow = { counter: string; width: Ms; at: Ms } & UsageNumbers;

/** Converts the sums of counters, one for each bucket, in order of time. `skew`: the time by which the clock of the store is ahead of ours. */
export function toCounted(sums: readonly Omit<UsageRow, "counter">[], skew: Ms = 0): Counted {
  const select = ({ widthMs }: Window) =>
    sums.filter(({ width }) => width === widthMs).map((sum) => ({ ...sum, at: sum.at - skew }));
  const { running, waiting, parked, in_line: inLine } = select(ALL_TIMES)[0] ?? NO_NUMBERS;
  return { running, waiting, parked, inLine, hour: select(HOUR_WINDOW), day: select(DAY_WINDOW) };
}

/** SQL behind DO UPDATE SET: adds the numbers of a row to those of the row that is there. */
export const addColumns = (table: string, names: readonly string[]): string =>
  names.map((name) => `${name} = ${table}.${name} + excluded.${name}`).join(", ");

type CountedRun = Pick<
  RunRecord,
  "id" | "kind" | "status" | "attempts" | "usage" | "mapping" | "hold"
>;
/** The statuses of runs that wait for their turn, for a limit, for a model or for the end of their batch. */
export const WAITING: readonly string[] = ["parked", "collecting", "queued"];

/** Returns true if a limit holds a run back. */
export const isLimited = ({ status, hold }: Pick<RunRecord, "status" | "hold">): boolean =>
  status === "parked" && hold?.reason === "limit";

/** Returns true for a run that has not started and may do so as soon as its limits have room and its turn comes. */
export const isInLine = (run: Pick<RunRecord, "status" | "attempts" | "hold">): boolean =>
  run.attempts === 0 && (run.status === "queued" || isLimited(run));

/** The tokens that a run or a turn has used. */
export function countUsedTokens({ usage }: Pick<RunRecord, "usage">): number {
  return usage?.totalTokens ?? (usage?.inputTokens ?? 0) + (usage?.outputTokens ?? 0);
}

/**
 * Returns the rows that a change of a run adds to the counters of its scopes. A start is counted once for all tries; usage is the
 * total of the run.
 */
export function countChange(
  before: CountedRun | undefined,
  after: CountedRun,
  now: Ms,
): UsageRow[] {
  if (after.kind !== "hook") return [];
  const step = (is: (run: CountedRun) => boolean): number =>
    Number(is(after)) - Number(before !== undefined && is(before));
  const running = step(({ status }) => status === "running");
  const numbers: UsageNumbers = {
    running,
    waiting: step(({ status }) => WAITING.includes(status)),
    parked: step(isLimited),
    in_line: step(isInLine),
    starts: running > 0 && (before?.attempts ?? 0) === 0 ? 1 : 0,
    places: Math.max(0, running),
    tokens: Math.max(0, countUsedTokens(after) - (before ? countUsedTokens(before) : 0)),
    micros: Math.max(
      0,
      Math.round(((after.usage?.costUsd ?? 0) - (before?.usage?.costUsd ?? 0)) * MICRO),
    ),
  };
  if (Object.values(numbers).every((n) => n === 0)) return [];
  const { starts, tokens, micros } = numbers;
  const toRow = (window: Window, used: Partial<Amounts>) => ({
    width: window.widthMs,
    at: toBucket(window, now),
    ...NO_NUMBERS,
    ...used,
  });
  const rows = [
    { width: 0, at: 0, ...numbers },
    ...(starts > 0 ? [toRow(HOUR_WINDOW, { starts })] : []),
    ...(tokens + micros > 0 ? [toRow(DAY_WINDOW, { tokens, micros })] : []),
  ];
  const counters = after.mapping === undefined ? [ALL_RUNS] : [ALL_RUNS, toCounter(after.mapping)];
  return counters.flatMap((counter) => rows.map((row) => ({ counter, ...row })));
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
