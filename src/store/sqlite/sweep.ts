import type { SQLInputValue } from "node:sqlite";
import { getSweepSteps, oldestBody, type Slice, type SweepStep } from "../sql/sweep.ts";
import type { Ms, Retention } from "../types.ts";
import type { Statements } from "./connection.ts";
import { createSqliteSource } from "./records.ts";

const HAS_BODY = "typeof(body) <> 'null'";

/** Runs the statements of a step immediately, inside the caller's transaction. */
function runStep(sql: Statements, step: SweepStep): Slice {
  const statements = step();
  for (let rows: unknown[] = []; ;) {
    const { done, value } = statements.next(rows);
    if (done) return value;
    const [text, ...values] = value;
    rows = sql.all(text, ...(values as SQLInputValue[]));
  }
}

/**
 * The steps that delete what retention does not keep; each runs inside a transaction until it asks for no more. `upTo` is the
 * newest event that has become runs: younger ones stay as they are.
 */
export const sweepSteps = (
  sql: Statements,
  now: Ms,
  keep: Retention,
  upTo: number,
): (() => Slice)[] =>
  getSweepSteps(now, keep, {
    source: createSqliteSource(sql),
    hasBody: HAS_BODY,
    upTo,
    settledUpTo: Infinity,
    dedupeKey: "seq",
    lock: "",
  }).map((step) => () => runStep(sql, step));

/** When the oldest body that retention lets go of came in. */
export const readOldestBody = (sql: Statements, at: Ms): Ms | undefined =>
  sql.get<{ at: Ms }>(oldestBody(HAS_BODY, "?1"), at)?.at;
