import {
  countChange,
  DAY_WINDOW,
  HOUR_WINDOW,
  type Ms,
  noAmounts,
  type RunRecord,
  toBucket,
  type UsageChange,
} from "#store-kit";
import type { Statement } from "./lane.ts";

type RunState = Omit<RunRecord, "spec">;
type Sums = Omit<UsageChange, "counters">;

/** What a group adds to the counters of limits, summed up. */
export class UsagePlan {
  readonly sums = new Map<string, Sums>();
  readonly unparked = new Set<string>();

  add(before: RunState | undefined, after: RunState): void {
    const change = countChange(before, after);
    if (!change) return;
    const { counters, running, waiting, parked, inLine, used } = change;
    if (parked < 0) this.unparked.add(after.id);
    if (parked > 0) this.unparked.delete(after.id);
    for (const counter of counters) {
      const sum = this.sums.get(counter) ?? {
        running: 0,
        waiting: 0,
        parked: 0,
        inLine: 0,
        used: noAmounts(),
      };
      this.sums.set(counter, {
        running: sum.running + running,
        waiting: sum.waiting + waiting,
        parked: sum.parked + parked,
        inLine: sum.inLine + inLine,
        used: {
          starts: sum.used.starts + used.starts,
          places: sum.used.places + used.places,
          tokens: sum.used.tokens + used.tokens,
          micros: sum.used.micros + used.micros,
        },
      });
    }
  }
}

type Counted = Sums & { counter: string };

const COUNT: readonly (readonly [name: string, value: (sum: Counted) => number])[] = [
  ["running", ({ running }) => running],
  ["waiting", ({ waiting }) => waiting],
  ["parked", ({ parked }) => parked],
  ["in_line", ({ inLine }) => inLine],
  ["starts", ({ used }) => used.starts],
  ["places", ({ used }) => used.places],
  ["tokens", ({ used }) => used.tokens],
  ["micros", ({ used }) => used.micros],
];
const COUNTS = COUNT.map(([name]) => name);

/** Part of a statement that adds sums to the counters' rows of one part of them; `first`: the place of its first value. */
export const ADD_COUNTS = (first: number): string => `
  counts_added AS (INSERT INTO run_counts AS known (counter, part, ${COUNTS.join(", ")})
    SELECT counter, $${first}::text, ${COUNTS.join(", ")}
    FROM unnest($${first + 1}::text[], ${COUNTS.map((_, n) => `$${first + 2 + n}::bigint[]`).join(", ")}) AS given (counter, ${COUNTS.join(", ")})
    ORDER BY counter
    ON CONFLICT (counter, part) DO UPDATE SET ${COUNTS.map((name) => `${name} = known.${name} + excluded.${name}`).join(", ")})`;

/** Values of `ADD_COUNTS`; none where nothing is to be counted. */
export function toCountValues({ sums }: UsagePlan, part: string): unknown[] {
  const counted = [...sums]
    .map(([counter, sum]): Counted => ({ counter, ...sum }))
    .filter((sum) => COUNT.some(([, value]) => value(sum) !== 0));
  if (counted.length === 0) return [];
  return [
    part,
    counted.map(({ counter }) => counter),
    ...COUNT.map(([, value]) => counted.map(value)),
  ];
}

const ADD_USAGE = `
  INSERT INTO usage AS known (counter, width, at, part, starts, tokens, micros)
  SELECT counter, width, at, $1, starts, tokens, micros
  FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])
    AS given (counter, width, at, starts, tokens, micros) ORDER BY counter, width, at
  ON CONFLICT (counter, width, at, part) DO UPDATE SET
    starts = known.starts + excluded.starts, tokens = known.tokens + excluded.tokens, micros = known.micros + excluded.micros`;

/** Adds what was used to the buckets of this part, at the database's time. */
export function* usageStatements(
  { sums, unparked }: UsagePlan,
  part: string,
  now: Ms,
): Generator<Statement> {
  const buckets = [...sums].flatMap(
    ([
      counter,
      {
        used: { starts, tokens, micros },
      },
    ]) => [
      ...(starts > 0 ? [{ counter, window: HOUR_WINDOW, starts, tokens: 0, micros: 0 }] : []),
      ...(tokens + micros > 0 ? [{ counter, window: DAY_WINDOW, starts: 0, tokens, micros }] : []),
    ],
  );
  if (buckets.length > 0) {
    yield {
      text: ADD_USAGE,
      values: [
        part,
        buckets.map(({ counter }) => counter),
        buckets.map(({ window }) => window.widthMs),
        buckets.map(({ window }) => toBucket(window, now)),
        buckets.map(({ starts }) => starts),
        buckets.map(({ tokens }) => tokens),
        buckets.map(({ micros }) => micros),
      ],
    };
  }
  if (unparked.size > 0)
    yield { text: "DELETE FROM parked WHERE run = ANY($1::text[])", values: [[...unparked]] };
}
