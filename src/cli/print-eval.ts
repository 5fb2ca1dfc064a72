import { relative } from "node:path";
import type { EvalPlan } from "../workbench/eval-plan.ts";
import type { EvalSide, SideName } from "../workbench/eval-side.ts";
import type {
  CaseReport,
  CaseResult,
  EvalBudget,
  EvalReport,
  SideSum,
  Spread,
} from "../workbench/eval.ts";
import type { CliIo } from "./io.ts";
import { printTable } from "./print.ts";
import { cell, fit } from "./text.ts";

const MAX_SHOWN = 300;

const count = (value: number): string => Math.round(value).toLocaleString("en-US");
const usd = (value: number): string => `$${value.toFixed(value < 0.1 ? 4 : 2)}`;
const seconds = (ms: number): string => `${(ms / 1000).toFixed(ms < 9_950 ? 1 : 0)} s`;
const plural = (value: number, one: string): string =>
  `${count(value)} ${one}${value === 1 ? "" : "s"}`;

/** `1,200 (1,100–1,300)`: the mean with the least and the most, where they differ. */
function renderSpread(
  spread: Spread | null | undefined,
  render: (value: number) => string,
): string {
  if (!spread) return "–";
  const [mean, min, max] = [spread.mean, spread.min, spread.max].map(render) as [
    string,
    string,
    string,
  ];
  return min === max ? mean : `${mean} (${min}–${max})`;
}

/** Says what an evaluation will use, before it begins. */
export function renderPlan(plan: EvalPlan, budget: EvalBudget): string {
  const { cases, sides, repeat, runs, tokens, usd: cost, isJudged } = plan;
  const times = [
    ...(sides.length > 1 ? ["before and after"] : []),
    ...(repeat > 1 ? [`${repeat} times each`] : []),
  ];
  const amount = tokens === null ? "an unknown number of tokens" : `about ${count(tokens)} tokens`;
  const money = cost === null ? "" : `, about ${usd(cost)}`;
  const judged = isJudged ? ", and what the judge uses" : "";
  const { tokens: most, usd: mostUsd } = budget;
  const limit =
    most === undefined
      ? mostUsd === undefined
        ? "no budget"
        : `budget ${usd(mostUsd)}`
      : `budget ${count(most)} tokens`;
  const made = [plural(cases.length, "case"), ...times].join(", ");
  return `${made}: ${plural(runs, "run")}. By the recordings ${amount}${money}${judged}; ${limit}.`;
}

function renderResult({ passed, runs }: CaseResult): string {
  if (runs.length === 0) return "not run";
  if (runs.length === 1) return passed === 1 ? "passed" : "failed";
  return `${passed} of ${runs.length}`;
}

const renderCase =
  (names: readonly SideName[]) =>
  ({ evalCase, sides }: CaseReport): string[] => {
    const results = names.flatMap((name) => sides[name] ?? []);
    const figure = (read: (result: CaseResult) => string): string => results.map(read).join(" → ");
    return [
      evalCase.name,
      ...results.map(renderResult),
      figure(({ tokens }) => renderSpread(tokens, count)),
      figure(({ costUsd }) => renderSpread(costUsd, usd)),
      figure(({ ms }) => renderSpread(ms, seconds)),
    ];
  };

function printFailures({ cases }: EvalReport, name: SideName, io: CliIo): void {
  for (const { evalCase, sides } of cases) {
    const failed = sides[name]?.runs.filter(({ passed }) => !passed) ?? [];
    const [first] = failed;
    if (!first) continue;
    io.out(`\n✗ ${cell(evalCase.name)}  (${cell(relative(io.cwd, evalCase.file))})\n`);
    for (const { field, reason } of first.misses)
      io.out(`  ${cell(field)}: ${fit(cell(reason), 3 * MAX_SHOWN)}\n`);
    if (first.reply !== null) io.out(`  reply: ${fit(cell(first.reply), MAX_SHOWN)}\n`);
    if (failed.length > 1)
      io.out(`  and ${plural(failed.length - 1, "further run")} of this case\n`);
  }
}

function printSums(
  { sums, judge }: EvalReport,
  names: readonly SideName[],
  repeat: number,
  io: CliIo,
): void {
  const all = names.flatMap((name) => sums[name] ?? []);
  const row = (title: string, read: (sum: SideSum) => string): string[] => [
    title,
    ...all.map(read),
  ];
  const rows = [
    row("passed", ({ passed, runs }) => `${count(passed)} of ${count(runs)}`),
    ...(repeat > 1
      ? [
          row("passed a repetition", ({ perRepetition }) =>
            renderSpread(perRepetition, (value) => value.toFixed(1)),
          ),
        ]
      : []),
    row("tokens", ({ tokens }) => (tokens === null ? "–" : count(tokens))),
    row("cost", ({ costUsd }) => (costUsd === null ? "–" : usd(costUsd))),
    row("time of a run", ({ ms }) => renderSpread(ms, seconds)),
  ];
  io.out("\n");
  printTable(io, ["in sum", ...names], rows);
  if (judge.runs === 0) return;
  const used = [
    ...(judge.tokens === null ? [] : [`${count(judge.tokens)} tokens`]),
    ...(judge.costUsd === null ? [] : [usd(judge.costUsd)]),
  ];
  io.out(`${["judge", plural(judge.runs, "verdict"), ...used].join("  ")}\n`);
}

const getShare = (result: CaseResult | undefined): number =>
  result && result.runs.length > 0 ? result.passed / result.runs.length : 0;

/** `worse: 3 cases pass less often than before, 1 more often`. */
function renderVerdict({ cases }: EvalReport): string {
  const both = cases.filter(({ sides }) => sides.before?.runs.length && sides.after?.runs.length);
  const changes = both.map(({ sides }) => getShare(sides.after) - getShare(sides.before));
  const worse = changes.filter((change) => change < 0).length;
  const better = changes.filter((change) => change > 0).length;
  const sum = changes.reduce((total, change) => total + change, 0);
  if (worse + better === 0) return "the same: each case passes as often as before";
  const word = sum < 0 ? "worse" : sum > 0 ? "better" : "mixed";
  return `${word}: ${plural(worse, "case")} ${worse === 1 ? "passes" : "pass"} less often than before, ${count(better)} more often`;
}

/** Prints a report: a line for each case, what failed on the last side, and the sums. */
export function printEvalReport(report: EvalReport, sides: readonly EvalSide[], io: CliIo): void {
  const names = sides.map(({ name }) => name);
  const heads = names.length === 1 ? ["result"] : names;
  printTable(io, ["case", ...heads, "tokens", "cost", "time"], report.cases.map(renderCase(names)));
  printFailures(report, names.at(-1) as SideName, io);
  const repeat = Math.max(
    1,
    ...report.cases.flatMap(({ sides: of }) => names.map((name) => of[name]?.runs.length ?? 0)),
  );
  printSums(report, names, repeat, io);
  if (names.length > 1) io.out(`\n${renderVerdict(report)}\n`);
  if (report.stopped === null) return;
  const why = report.stopped === "budget" ? "the budget is spent" : "it was interrupted";
  io.err(
    `rouse: ${why}: ${plural(report.notRun, "run")} of the evaluation ${report.notRun === 1 ? "was" : "were"} not made\n`,
  );
}

/** The report as JSON: cases by their names, without what their files have. */
export function toJsonReport({ cases, ...report }: EvalReport): object {
  return {
    ...report,
    cases: cases.map(({ evalCase: { name, file }, sides }) => ({ name, file, ...sides })),
  };
}
