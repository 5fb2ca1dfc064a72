import {
  countChange,
  DAY_WINDOW,
  HOUR_WINDOW,
  type Ms,
  noAmounts,
  RUN_COUNTS,
  type RunRecord,
  toBucket,
  type UsageChange,
} from "#store-kit";
import type { Statement } from "./db.ts";

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
      const sum = this.sums.get(counter) ?? { running: 0, waiting: 0, parked: 0, inLine: 0, used: noAmounts() };
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

const ADD_COUNTS = `
  INSERT INTO run_counts AS known (counter, part, running, waiting, parked, in_line, starts, places, tokens, micros)
  SELECT counter, $1, running, waiting, parked, in_line, starts, places, tokens, micros
  FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[])
    AS given (counter, running, waiting, parked, in_line, starts, places, tokens, micros) ORDER BY counter
  ON CONFLICT (counter, part) DO UPDATE SET running = known.running + excluded.running, waiting = known.waiting + excluded.waiting,
    parked = known.parked + excluded.parked, in_line = known.in_line + excluded.in_line, starts = known.starts + excluded.starts, places = known.places + excluded.places,
    tokens = known.tokens + excluded.tokens, micros = known.micros + excluded.micros`;

const ADD_USAGE = `
  INSERT INTO usage AS known (counter, width, at, part, starts, tokens, micros)
  SELECT counter, width, at, $1, starts, tokens, micros
  FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])
    AS given (counter, width, at, starts, tokens, micros) ORDER BY counter, width, at
  ON CONFLICT (counter, width, at, part) DO UPDATE SET
    starts = known.starts + excluded.starts, tokens = known.tokens + excluded.tokens, micros = known.micros + excluded.micros`;

/** Adds the sums to the counters' rows of this part, at the database's time. */
export function* usageStatements({ sums, unparked }: UsagePlan, part: string, now: Ms): Generator<Statement> {
  const counts = [...sums].filter(([, sum]) => RUN_COUNTS.some((name) => sum[name] !== 0) || Object.values(sum.used).some(Boolean));
  if (counts.length > 0) {
    const numbers = [
      ...RUN_COUNTS.map((name) => counts.map(([, sum]) => sum[name])),
      ...(["starts", "places", "tokens", "micros"] as const).map((name) => counts.map(([, { used }]) => used[name])),
    ];
    yield { text: ADD_COUNTS, values: [part, counts.map(([counter]) => counter), ...numbers] };
  }
  const buckets = counts.flatMap(
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
  if (unparked.size > 0) yield { text: "DELETE FROM parked WHERE run = ANY($1::text[])", values: [[...unparked]] };
}
