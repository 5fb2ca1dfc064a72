import { relative } from "node:path";
import type { FixtureCoverage } from "../workbench/fixture-coverage.ts";
import type { FixtureDifference, FixtureResult } from "../workbench/fixture-run.ts";
import type { CliIo } from "./io.ts";
import { renderDiff, showValue } from "./print-what-if.ts";
import { cell } from "./text.ts";

function printDifference({ field, expected, actual, words }: FixtureDifference, io: CliIo): void {
  io.out(`  ${cell(field)}\n`);
  if (words && words.some(({ kind }) => kind === "same"))
    return io.out(`    ${renderDiff(words)}\n`);
  io.out(`    expected  ${showValue(expected)}\n`);
  io.out(`    actual    ${showValue(actual)}\n`);
}

/** Prints a fixture that the mappings do not meet, with each field that differs. */
export function printResult({ fixture, differences, reason }: FixtureResult, io: CliIo): void {
  io.out(`✗ ${cell(fixture.name)}  (${cell(relative(io.cwd, fixture.file))})\n`);
  for (const difference of differences) printDifference(difference, io);
  if (reason !== null) io.out(`  because: ${cell(reason)}\n`);
  io.out("\n");
}

function printList(title: string, lines: readonly string[], io: CliIo): void {
  if (lines.length === 0) return;
  io.out(`${title}\n`);
  for (const line of lines) io.out(`  ${cell(line)}\n`);
}

/** Prints what no fixture reaches. */
export function printCoverage(
  { mappings, unreached, conditions, expressions }: FixtureCoverage,
  io: CliIo,
): void {
  io.out(`fixtures reach ${mappings.reached} of ${mappings.all} mappings\n`);
  printList("mappings that take no fixture", unreached, io);
  printList(
    "conditions that come out the same for every fixture",
    conditions.map(({ mapping, condition, never }) => `${mapping} ${condition} never ${never}`),
    io,
  );
  printList(
    "expressions that never give a value",
    expressions.map(({ mapping, field, expression }) => `${mapping} ${field} {{ ${expression} }}`),
    io,
  );
  io.out("\n");
}

/** Prints the last line: `3 fixtures: 2 as expected, 1 differs`. */
export function printTestSum(results: readonly FixtureResult[], io: CliIo): void {
  const failed = results.filter(({ ok }) => !ok).length;
  const passed = results.length - failed;
  const counts = [
    passed > 0 || failed === 0 ? `${passed} as expected` : "",
    failed > 0 ? `${failed} ${failed === 1 ? "differs" : "differ"}` : "",
  ];
  io.out(
    `${results.length} ${results.length === 1 ? "fixture" : "fixtures"}: ${counts.filter(Boolean).join(", ")}\n`,
  );
}
