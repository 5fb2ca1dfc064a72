/** Rows of the benchmark, and how two or more servers are measured in turn. */
import type { LoadJob } from "./load.ts";
import { load, TOKEN, type Server } from "./servers.ts";

export type Section =
  | "Hooks on SQLite"
  | "Hooks on PostgreSQL"
  | "Other programs"
  | "Runs"
  | "Limits"
  | "Chats"
  | "What if"
  | "Start and memory";

export interface Row {
  section: Section;
  row: string;
  value: number;
  /** Absent for ratios. */
  unit?: "ms" | "s" | "MB" | "µs" | "a second";
  target?: { least: number } | { most: number };
  /** Beyond the target, in its direction. */
  moonshot?: number;
  /** Requests or runs a second, the subject's and the reference's: only for comparison inside one run. */
  perSecond?: [number, number?];
  /** CPU time of one request, in microseconds. */
  cpuMicros?: [number, number?];
  /** Milliseconds. */
  p99?: [number, number?];
  /** Answers that were no 2xx. */
  errors?: number;
  /** What is measured, for the line below the table. */
  note?: string;
}

/** How long each side is measured in a round, and how often. */
export interface Timing {
  ms: number;
  rounds: number;
}

export const CONNECTIONS = 16;

export const median = (numbers: readonly number[]): number => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0;

export const medianBy = <T>(list: readonly T[], read: (one: T) => number): number => median(list.map(read));

/** The median of the ratios of each round. */
export const medianRatio = <T>(ours: readonly T[], theirs: readonly T[], read: (one: T) => number): number =>
  median(ours.map((one, round) => read(one) / read(theirs[round] as T)));

/** The medians of the subject and of the reference. */
export const medians = <T>(ours: readonly T[], theirs: readonly T[], read: (one: T) => number): [number, number] => [
  medianBy(ours, read),
  medianBy(theirs, read),
];

export const countErrors = (...sides: readonly (readonly { errors: number }[])[]): number =>
  sides.flat().reduce((sum, { errors }) => sum + errors, 0);

/** Measures each in turn, round by round, after one round to warm up. Returns what was measured of each, by round. */
export async function alternate<T>(sides: readonly (() => Promise<T>)[], rounds: number): Promise<T[][]> {
  const measured: T[][] = sides.map(() => []);
  for (let round = 0; round <= rounds; round++)
    for (const [index, measure] of sides.entries()) {
      const one = await measure();
      if (round > 0) measured[index]?.push(one);
    }
  return measured;
}

/** A server, and what is posted to it. */
export interface Side {
  server: Server;
  path: string;
  body: string;
  sign?: NonNullable<LoadJob["sign"]>;
  /** Resolves when nothing is left to do of so many more hooks, so that the next side has the machine for itself. */
  settle?(hooks: number): Promise<void>;
}

interface Measured {
  perSecond: number;
  cpu: number;
  p99: number;
  errors: number;
}

async function flood({ server, settle, ...side }: Side, ms: number): Promise<Measured> {
  const before = server.cpuMicros();
  const result = await load({ ...side, port: server.port, token: TOKEN, connections: CONNECTIONS, ms });
  const cpu = (server.cpuMicros() - before) / Math.max(1, result.requests);
  await settle?.(result.requests - result.errors);
  return { perSecond: (result.requests / result.ms) * 1000, cpu, p99: result.p99, errors: result.errors };
}

/** Against the reference. */
interface Compared extends Required<Pick<Row, "perSecond" | "cpuMicros" | "p99" | "errors">> {
  ratio: number;
  p99Ratio: number;
}

/** Floods the reference and the subjects in turn. Returns each subject against the reference. */
export async function compare(reference: Side, subjects: readonly Side[], { ms, rounds }: Timing): Promise<Compared[]> {
  const sides = [reference, ...subjects].map((side) => () => flood(side, ms));
  const [theirs = [], ...others] = await alternate(sides, rounds);
  return others.map((ours) => ({
    ratio: medianRatio(ours, theirs, ({ perSecond }) => perSecond),
    p99Ratio: medianRatio(ours, theirs, ({ p99 }) => p99),
    perSecond: medians(ours, theirs, ({ perSecond }) => perSecond),
    cpuMicros: medians(ours, theirs, ({ cpu }) => cpu),
    p99: medians(ours, theirs, ({ p99 }) => p99),
    errors: countErrors(ours, theirs),
  }));
}

/** The row of one comparison. */
export function toRow({ ratio, perSecond, cpuMicros, p99, errors }: Compared, row: Omit<Row, "value">): Row {
  return { ...row, value: ratio, perSecond, cpuMicros, p99, errors };
}
