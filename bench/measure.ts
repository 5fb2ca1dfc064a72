/** Rows of the benchmark, and how two or more servers are measured in turn. */
import type { LoadJob } from "./load.ts";
import { load, TOKEN, type Server } from "./servers.ts";

export interface Row {
  row: string;
  /** So many callers wait for their answers at the same time. */
  connections?: number;
  value: number;
  /** Absent for ratios. */
  unit?: "ms" | "s" | "MB" | "bytes" | "µs" | "a second";
  /** The ratio to the plain echo, if `value` is the one to the durable echo. */
  plain?: number;
  /** Requests or runs a second, the subject's and the reference's: only for comparison inside one run. */
  perSecond?: [number, number?];
  /** CPU time of one request, in microseconds. */
  cpuMicros?: [number, number?];
  /** Milliseconds. */
  p99?: [number, number?];
  /** Answers that were no 2xx, and requests without an answer. */
  errors?: number;
  /** The measured thing, for the line below the table. */
  note?: string;
}

/** The time for which each side is measured in a round, and the number of rounds. */
export interface Timing {
  ms: number;
  rounds: number;
}

export const CONNECTIONS = 16;

export const median = (numbers: readonly number[]): number =>
  numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0;

export const medianBy = <T>(list: readonly T[], read: (one: T) => number): number =>
  median(list.map(read));

/** The median of the ratios of each round. */
export const medianRatio = <T>(
  ours: readonly T[],
  theirs: readonly T[],
  read: (one: T) => number,
): number => median(ours.map((one, round) => read(one) / read(theirs[round] as T)));

/** The medians of the subject and of the reference. */
export const medians = <T>(
  ours: readonly T[],
  theirs: readonly T[],
  read: (one: T) => number,
): [number, number] => [medianBy(ours, read), medianBy(theirs, read)];

export const countErrors = (...sides: readonly (readonly { errors: number }[])[]): number =>
  sides.flat().reduce((sum, { errors }) => sum + errors, 0);

/**
 * Measures each in turn, round by round, after one round to warm up. Every second round goes backwards, so that none is
 * always measured after the same one. Returns what was measured of each, by round.
 */
export async function alternate<T>(
  sides: readonly (() => Promise<T>)[],
  rounds: number,
): Promise<T[][]> {
  const measured: T[][] = sides.map(() => []);
  for (let round = 0; round <= rounds; round++)
    for (const [index, measure] of round % 2 === 0
      ? sides.entries()
      : [...sides.entries()].toReversed()) {
      const one = await measure();
      if (round > 0) measured[index]?.push(one);
    }
  return measured;
}

/** A server, and what is posted to it. */
export interface Side extends Pick<LoadJob, "path" | "body" | "sign" | "perSecond"> {
  server: Server;
  connections?: number;
  /** Resolves when nothing is left to do of so many more hooks, so that the next side has the machine for itself. */
  settle?(hooks: number): Promise<void>;
}

interface Flooded {
  perSecond: number;
  cpu: number;
  p50: number;
  p99: number;
  errors: number;
}

async function flood({ server, settle, ...side }: Side, ms: number): Promise<Flooded> {
  const before = server.cpuMicros();
  const result = await load({
    connections: CONNECTIONS,
    ...side,
    port: server.port,
    token: TOKEN,
    ms,
  });
  const cpu = (server.cpuMicros() - before) / Math.max(1, result.requests);
  await settle?.(result.requests - result.errors);
  return { ...result, perSecond: (result.requests / result.ms) * 1000, cpu };
}

/** Floods servers in turn. Returns what was measured of each, by round. */
export const floodInTurn = (sides: readonly Side[], { ms, rounds }: Timing): Promise<Flooded[][]> =>
  alternate(
    sides.map((side) => () => flood(side, ms)),
    rounds,
  );

/** The row of a server against its reference, and against the plain echo if that was measured too. */
export function toRow(
  row: Omit<Row, "value">,
  ours: readonly Flooded[],
  theirs: readonly Flooded[],
  plain?: readonly Flooded[],
): Row {
  const rate = ({ perSecond }: Flooded): number => perSecond;
  return {
    ...row,
    value: medianRatio(ours, theirs, rate),
    ...(plain && { plain: medianRatio(ours, plain, rate) }),
    perSecond: medians(ours, theirs, rate),
    cpuMicros: medians(ours, theirs, ({ cpu }) => cpu),
    p99: medians(ours, theirs, ({ p99 }) => p99),
    errors: countErrors(ours, theirs, plain ?? []),
  };
}
