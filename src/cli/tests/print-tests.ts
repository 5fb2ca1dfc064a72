import { relative } from "node:path";
import { plural } from "../../core/text.ts";
import type { AgentRun } from "../../operate/tests/agent-run.ts";
import {
  isSkipped,
  type AgentPlan,
  type TestBudget,
  type TestResult,
} from "../../operate/tests/agent-tests.ts";
import type { FixtureDifference } from "../../operate/tests/fixture-run.ts";
import type { CliIo } from "../io.ts";
import { printTable } from "../print.ts";
import { renderDiff, showValue } from "../hooks/print-what-if.ts";
import { cell, fit } from "../text.ts";

const MAX_SHOWN = 300;

const count = (value: number): string => Math.round(value).toLocaleString("en-US");
const usd = (value: number): string => `$${value.toFixed(value < 0.1 ? 4 : 2)}`;
const seconds = (ms: number): string => `${(ms / 1000).toFixed(ms < 9_950 ? 1 : 0)} s`;

function printDifference({ field, expected, actual, words }: FixtureDifference, io: CliIo): void {
  io.out(`  ${cell(field)}\n`);
  if (words && words.some(({ kind }) => kind === "same"))
    return io.out(`    ${renderDiff(words)}\n`);
  io.out(`    expected  ${showValue(expected)}\n`);
  io.out(`    actual    ${showValue(actual)}\n`);
}

function printMisses(runs: readonly AgentRun[], io: CliIo): void {
  const failed = runs.filter(({ passed }) => !passed);
  const [first] = failed;
  if (!first) return;
  for (const { field, reason } of first.misses)
    io.out(`  ${cell(field)}: ${fit(cell(reason), 3 * MAX_SHOWN)}\n`);
  if (first.reply !== null) io.out(`  reply: ${fit(cell(first.reply), MAX_SHOWN)}\n`);
  if (failed.length > 1) io.out(`  and ${plural(failed.length - 1, "further run")} of this test\n`);
}

/** Prints a test that is not as expected, with each field that differs. */
export function printResult({ fixture, mapping, runs }: TestResult, io: CliIo): void {
  io.out(`✗ ${cell(fixture.name)}  (${cell(relative(io.cwd, fixture.file))})\n`);
  for (const difference of mapping?.differences ?? []) printDifference(difference, io);
  if (mapping && !mapping.ok && mapping.reason !== null)
    io.out(`  because: ${cell(mapping.reason)}\n`);
  printMisses(runs, io);
  io.out("\n");
}

/** Says how many runs of agents will be made, and what they will use by the recordings. */
export function renderPlan({ runs, tokens, usd: cost }: AgentPlan, budget: TestBudget): string {
  const amount = tokens === null ? "an unknown number of tokens" : `about ${count(tokens)} tokens`;
  const money = cost === null ? "" : `, about ${usd(cost)}`;
  const limits = [
    ...(budget.tokens === undefined ? [] : [`budget ${count(budget.tokens)} tokens`]),
    ...(budget.usd === undefined ? [] : [`budget ${usd(budget.usd)}`]),
  ];
  return `${plural(runs.length, "run")} of agents. By the recordings ${amount}${money}; ${limits[0] ?? "no budget"}.`;
}

/** `1,200 (1,100–1,300)`: the mean with the least and the most, where they differ. */
function renderSpread(values: readonly (number | null)[], render: (value: number) => string) {
  const known = values.filter((value) => value !== null);
  if (known.length === 0) return "–";
  const mean = render(known.reduce((sum, value) => sum + value, 0) / known.length);
  const [least, most] = [Math.min(...known), Math.max(...known)].map(render);
  return least === most ? mean : `${mean} (${least}–${most})`;
}

function renderSum(values: readonly (number | null)[], render: (value: number) => string): string {
  return values.includes(null) || values.length === 0
    ? "–"
    : render(values.reduce<number>((sum, value) => sum + (value ?? 0), 0));
}

function renderRuns(runs: readonly AgentRun[]): string {
  const passed = runs.filter((run) => run.passed).length;
  if (runs.length === 1) return passed === 1 ? "passed" : "failed";
  return runs.length === 0 ? "not run" : `${passed} of ${runs.length}`;
}

/** Prints a line for each fixture whose agent was run, by each config, and the sums. */
export function printRuns(sides: ReadonlyMap<string, readonly TestResult[]>, io: CliIo): void {
  const all = [...sides.values()];
  const figures = (lists: AgentRun[][], render: typeof renderSpread): string[] => {
    const show = (get: (run: AgentRun) => number | null, as: (value: number) => string): string =>
      lists.map((runs) => render(runs.map(get), as)).join(" → ");
    return [
      show(({ tokens }) => tokens, count),
      show(({ costUsd }) => costUsd, usd),
      show(({ ms }) => ms, seconds),
    ];
  };
  const rows = (all[0] ?? []).flatMap(({ fixture }, index) => {
    const lists = all.map((results) => results[index]?.runs ?? []);
    if (!fixture.run) return [];
    return [[fixture.name, ...lists.map(renderRuns), ...figures(lists, renderSpread)]];
  });
  const sums = all.map((results) => results.flatMap(({ runs }) => runs));
  const heads = all.length === 1 ? ["result"] : [...sides.keys()];
  const last = ["in sum", ...sums.map(renderRuns), ...figures(sums, renderSum)];
  printTable(io, ["fixture", ...heads, "tokens", "cost", "time"], [...rows, last]);
  const judged = sums.flat().flatMap(({ judge }) => judge ?? []);
  const tokens = judged.map((judge) => judge.tokens);
  const costs = judged.map(({ costUsd }) => costUsd);
  if (judged.length > 0)
    io.out(
      `judge  ${plural(judged.length, "verdict")}  ${renderSum(tokens, count)} tokens  ${renderSum(costs, usd)}\n`,
    );
  io.out("\n");
}

/** The share of a fixture's runs that pass; 0 if its mappings differ. */
function getShare({ mapping, runs }: TestResult): number {
  if (mapping && !mapping.ok) return 0;
  return runs.length === 0 ? 1 : runs.filter(({ passed }) => passed).length / runs.length;
}

/** `worse: 3 fixtures pass less often than before, 1 more often`. */
export function renderComparison(
  before: readonly TestResult[],
  now: readonly TestResult[],
): string {
  const changes = now.flatMap((result, index) => {
    const other = before[index];
    return other && !isSkipped(result) && !isSkipped(other)
      ? [getShare(result) - getShare(other)]
      : [];
  });
  const worse = changes.filter((change) => change < 0).length;
  const better = changes.filter((change) => change > 0).length;
  const sum = changes.reduce((total, change) => total + change, 0);
  if (worse + better === 0) return "the same: each fixture passes as often as before";
  const word = sum < 0 ? "worse" : sum > 0 ? "better" : "mixed";
  return `${word}: ${plural(worse, "fixture")} ${worse === 1 ? "passes" : "pass"} less often than before, ${count(better)} more often`;
}

/** Prints the last line: `3 fixtures: 2 as expected, 1 differs`. */
export function printTestSum(results: readonly TestResult[], io: CliIo): void {
  const failed = results.filter(({ ok }) => !ok).length;
  const skipped = results.filter(isSkipped).length;
  const passed = results.length - failed - skipped;
  const counts = [
    passed > 0 || failed + skipped === 0 ? `${passed} as expected` : "",
    failed > 0 ? `${failed} ${failed === 1 ? "differs" : "differ"}` : "",
    skipped > 0 ? `${skipped} not run (${skipped === 1 ? "needs" : "need"} a model: --agents)` : "",
  ];
  io.out(`${plural(results.length, "fixture")}: ${counts.filter(Boolean).join(", ")}\n`);
}
