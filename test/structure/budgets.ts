/** The comparison of `budgets.json` with what is there. `scripts/budgets.ts` counts, prints and lowers. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** A number that must be met; one of many lines or words within `getSlack`. One that was raised by hand has the reason beside it. */
type Budget = number | { budget: number; reason: string };
/** By group and name: the form of `budgets.json`. */
export type Budgets = Record<string, Record<string, Budget>>;
/** By group and name. */
export type Counts = Record<string, Record<string, number>>;

export const BUDGETS_FILE = join(import.meta.dirname, "budgets.json");
/** The group of the lines by folder. */
export const LINES = "lines of code";
/** The group of the comments that begin with a question word, by top folder. */
export const QUESTIONS = "comments that begin with a question word";
/** The group of the files that a request executes. */
export const EXECUTED = "executed files";

export const readBudgets = (): Budgets =>
  existsSync(BUDGETS_FILE) ? (JSON.parse(readFileSync(BUDGETS_FILE, "utf8")) as Budgets) : {};

/**
 * The difference that passes: 1 %, at most 15. A mend of two lines does not refuse a landing, and
 * nothing grows by it, as the budget stays where it is.
 */
const getSlack = (budget: number): number => Math.min(15, Math.floor(budget / 100));

const getNumber = (budget: Budget): number => (typeof budget === "number" ? budget : budget.budget);

/** The budgets as numbers, without their reasons. */
export const toNumbers = (budgets: Budgets): Counts =>
  Object.fromEntries(
    Object.entries(budgets).map(([group, entries]) => [
      group,
      Object.fromEntries(
        Object.entries(entries).map(([name, budget]) => [name, getNumber(budget)]),
      ),
    ]),
  );

export interface BudgetRow {
  group: string;
  name: string;
  /** Absent if the name is new. */
  budget?: number;
  /** Absent if the name is no longer there. */
  actual?: number;
  /** The step to take; absent if the budget is met. */
  problem?: string;
}

function findProblem(
  name: string,
  entry: Budget | undefined,
  actual: number | undefined,
): string | undefined {
  const raise = `write "${name}": { "budget": ${actual}, "reason": "…" } into test/structure/budgets.json`;
  if (entry === undefined) return `${actual}, and no budget: ${raise}`;
  const budget = getNumber(entry);
  if (actual === undefined)
    return `a budget of ${budget}, but nothing to count: run \`npm run budgets -- --lower\``;
  if (actual > budget + getSlack(budget))
    return `${actual}, ${actual - budget} over the budget of ${budget}: take something out, or ${raise}`;
  if (actual < budget - getSlack(budget))
    return `${actual}, ${budget - actual} less than the budget of ${budget}: run \`npm run budgets -- --lower\``;
  // The reason that a message proposes is a placeholder, without a letter.
  if (typeof entry === "object" && !/\p{L}/u.test(entry.reason ?? ""))
    return `${actual}, raised without a reason: write why`;
  return undefined;
}

/** All budgets beside what was counted, by group. */
export function compareBudgets(budgets: Budgets, counts: Counts): BudgetRow[] {
  const groups = [...new Set([...Object.keys(counts), ...Object.keys(budgets)])];
  return groups.flatMap((group) => {
    const [entries = {}, counted = {}] = [budgets[group], counts[group]];
    return [...new Set([...Object.keys(entries), ...Object.keys(counted)])]
      .toSorted()
      .map((name) => {
        const [entry, actual] = [entries[name], counted[name]];
        const problem = findProblem(name, entry, actual);
        return {
          group,
          name,
          ...(entry !== undefined && { budget: getNumber(entry) }),
          ...(actual !== undefined && { actual }),
          ...(problem !== undefined && { problem }),
        };
      });
  });
}

/** The budgets without what is no longer there, none above its count. If there are none yet, every count becomes one. */
export function lowerBudgets(budgets: Budgets, counts: Counts): Budgets {
  if (Object.keys(budgets).length === 0) return counts;
  const lower = (entry: Budget, actual: number): Budget =>
    actual >= getNumber(entry)
      ? entry
      : typeof entry === "number"
        ? actual
        : { ...entry, budget: actual };
  return Object.fromEntries(
    Object.entries(budgets).flatMap(([group, entries]) => {
      const kept = Object.entries(entries).flatMap(([name, entry]) => {
        const actual = counts[group]?.[name];
        return actual === undefined ? [] : [[name, lower(entry, actual)] as const];
      });
      return kept.length === 0 ? [] : [[group, Object.fromEntries(kept)] as const];
    }),
  );
}

/** Adds the lines of folders up by the first part of their paths: `src/`, `plugins/`. */
export function sumByRoot(lines: Readonly<Record<string, number>>): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const [folder, count] of Object.entries(lines)) {
    const root = `${folder.split("/")[0]}/`;
    sums[root] = (sums[root] ?? 0) + count;
  }
  return sums;
}
