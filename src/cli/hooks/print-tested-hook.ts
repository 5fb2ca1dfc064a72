import type { PlacedTrace, TestedAction, TestedHook } from "../../operate/records/test-hook.ts";
import { renderIssue } from "../../config/issues.ts";
import type { Failure } from "../../core/errors.ts";
import { markOutside, plainText } from "../../core/text.ts";
import type { ConditionTrace, FieldTrace } from "../../mapping/types.ts";
import type { CliIo } from "../io.ts";
import { printBlock, printDebug, printFields } from "../print.ts";
import { cell, width } from "../text.ts";

const MARK = { true: "✓", false: "✗", unknown: "?" } as const;

/** The conditions of a mapping with those of their groups, each with its depth. */
function flatten(
  conditions: readonly ConditionTrace[],
  depth = 1,
): { depth: number; trace: ConditionTrace }[] {
  return conditions.flatMap((trace) => [
    { depth, trace },
    ...flatten(trace.children ?? [], depth + 1),
  ]);
}

function printConditions(conditions: readonly ConditionTrace[], io: CliIo): void {
  const lines = flatten(conditions).map(
    ({ depth, trace: { condition, wants, result, reason, saw, children } }) => {
      const near = saw?.near ? ` (there is ${saw.near.join(", ")})` : "";
      // The condition of a group ends with its operator.
      const operator = wants === undefined || children ? "" : `  ${cell(wants)}`;
      return {
        left: `${"  ".repeat(depth)}${MARK[`${result}`]} ${cell(condition)}${operator}`,
        reason: cell(`${reason}${near}`),
      };
    },
  );
  const widest = Math.min(60, Math.max(0, ...lines.map(({ left }) => width(left))));
  for (const { left, reason } of lines)
    io.out(`${left}${" ".repeat(Math.max(0, widest - width(left)))}  ${reason}\n`);
}

function printPieces({ field, item, pieces, failure }: FieldTrace, io: CliIo): void {
  const given = pieces.filter(({ expression }) => expression !== undefined);
  if (failure === undefined && given.length === 0) return;
  io.out(`    ${field}${item === undefined ? "" : `, item ${item}`}\n`);
  if (failure !== undefined) io.out(`      ✗ ${cell(failure)}\n`);
  for (const { expression = "", text, missing } of given)
    io.out(
      `      ${cell(`{{ ${expression} }}`)}  ${missing ? "is missing" : `gave ${JSON.stringify(cell(text).slice(0, 100))}`}\n`,
    );
}

/** Prints each mapping in the order in which they are tried, with its conditions and what it rendered. */
function printTraces(traces: readonly PlacedTrace[], io: CliIo): void {
  for (const trace of traces) {
    io.out(`${trace.mapping}  (${cell(trace.place)})  ${trace.text}\n`);
    printConditions(trace.conditions, io);
    for (const field of trace.fields ?? []) printPieces(field, io);
  }
}

function printFailure(failure: Failure, io: CliIo): void {
  io.out(`  ${failure.code}: ${cell(failure.message)}\n`);
  for (const issue of failure.issues ?? []) io.out(`    ${cell(renderIssue(issue))}\n`);
}

/** The content as the agent is given it: what a caller said is marked, since it goes inside the boundary. */
function printAction(action: TestedAction, index: number, io: CliIo, mark = ""): void {
  io.out(
    `\n${mark}action ${index + 1}: ${action.ok ? `${action.action} by ${action.mapping}` : `none, by ${action.mapping}`}\n`,
  );
  if (!action.ok) return printFailure(action.failure, io);
  const fields = Object.fromEntries(
    Object.entries(action.fields).map(([name, value]) => [
      `  ${name}`,
      typeof value === "string" ? value : JSON.stringify(value),
    ]),
  );
  printFields(io, {
    ...fields,
    "  dedupeKey": action.dedupeKey,
    "  missing": action.missing.join(", "),
    "  warnings": action.warnings.join("; "),
  });
  const { content } = action;
  if (!content.some((part) => part.outside))
    printBlock(io, action.action === "wake" ? "  text" : "  message", plainText(content));
  else {
    const marked = markOutside(content);
    printBlock(
      io,
      `  ${action.action === "wake" ? "text" : "message"} (⟦ ⟧ marks what the caller said${action.unsafe ? "; allowUnsafeExternalContent: it goes in without the boundary" : ""})`,
      marked,
    );
  }
  if (!action.problem) return;
  io.out("\n  the gateway would reject it:\n");
  printFailure(action.problem, io);
}

function printOutcome({ text, actions, failure, missing }: TestedHook, io: CliIo): void {
  for (const [index, action] of actions.entries()) printAction(action, index, io);
  if (text !== null) io.out(`\n${cell(text)}\n`);
  if (failure) printFailure(failure, io);
  if (missing.length > 0) io.out(`  missing: ${cell(missing.join(", "))}\n`);
}

/** Prints how each mapping decided about a hook, and what would be done. */
export function printTestedHook(tested: TestedHook, io: CliIo): void {
  printTraces(tested.traces, io);
  printOutcome(tested, io);
  for (const [index, action] of tested.would.entries())
    printAction(action, index, io, "in shadow, ");
  if (tested.takenBefore)
    io.out(
      `\n${tested.takenBefore.mapping} (${cell(tested.takenBefore.place)}) stands before it and would take this hook\n`,
    );
  printDebug(io, tested.debug);
}
