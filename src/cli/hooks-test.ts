import { renderIssue } from "../config/issues.ts";
import { plainText } from "../core/text.ts";
import type { Failure } from "../core/errors.ts";
import type { TestedAction, TestedHook } from "../http/admin-types.ts";
import { connected } from "./connect.ts";
import { usage } from "./failure.ts";
import { EXIT, type CliIo } from "./io.ts";
import { readInput, type CommonOptions } from "./options.ts";
import { printBlock, printFields, printJson } from "./print.ts";
import { cell } from "./text.ts";

export interface TestOptions extends CommonOptions {
  payload: string;
  header?: Record<string, string>;
  query?: Record<string, string>;
  path?: string;
}

const MARK = { true: "✓", false: "✗", unknown: "?" } as const;
const MEANS = { true: "", false: "  does not hold", unknown: "  the field is missing" } as const;

function printTraces({ traces }: TestedHook, io: CliIo): void {
  for (const trace of traces) {
    io.out(`${trace.mapping}  ${trace.matched ? "matches" : "does not match"}\n`);
    if (trace.conditions.length === 0) io.out("  no conditions: matches everything that comes here\n");
    for (const { condition, result } of trace.conditions) {
      const key = String(result) as keyof typeof MARK;
      io.out(`  ${MARK[key]} ${cell(condition)}${MEANS[key]}\n`);
    }
  }
}

function printFailure(failure: Failure, io: CliIo): void {
  io.out(`  ${failure.code}: ${cell(failure.message)}\n`);
  for (const issue of failure.issues ?? []) io.out(`    ${cell(renderIssue(issue))}\n`);
}

/** The content as the agent is given it: what a caller said is marked, since it goes inside the boundary. */
function printAction(action: TestedAction, index: number, io: CliIo): void {
  io.out(`\naction ${index + 1}: ${action.ok ? `${action.action} by ${action.mapping}` : `none, by ${action.mapping}`}\n`);
  if (!action.ok) return printFailure(action.failure, io);
  const fields = Object.fromEntries(
    Object.entries(action.fields).map(([name, value]) => [`  ${name}`, typeof value === "string" ? value : JSON.stringify(value)]),
  );
  printFields(io, { ...fields, "  dedupeKey": action.dedupeKey, "  missing": action.missing.join(", ") });
  const { content } = action;
  if (!content.some((part) => part.outside)) printBlock(io, action.action === "wake" ? "  text" : "  message", plainText(content));
  else {
    const marked = content.map((part) => (part.outside ? `⟦${part.text}⟧` : part.text)).join("");
    printBlock(
      io,
      `  ${action.action === "wake" ? "text" : "message"} (⟦ ⟧ marks what the caller said${action.unsafe ? "; allowUnsafeExternalContent: it goes in without the boundary" : ""})`,
      marked,
    );
  }
  if (!action.problem) return;
  io.out("\n  the gateway would refuse it:\n");
  printFailure(action.problem, io);
}

function printOutcome(tested: TestedHook, io: CliIo): void {
  switch (tested.outcome) {
    case "actions":
      for (const [index, action] of tested.actions.entries()) printAction(action, index, io);
      return;
    case "skipped":
      io.out(`\nskipped by ${tested.mapping}: ${cell(tested.reason ?? "")}\n`);
      return;
    case "unmatched":
      io.out("\nno mapping matches\n");
      if (tested.nearest) io.out(`  nearest: ${tested.nearest.mapping}, but for ${cell(tested.nearest.condition)}\n`);
      return;
    default:
      io.out(`\n${tested.outcome} by ${tested.mapping}\n`);
      if (tested.failure) printFailure(tested.failure, io);
      if (tested.missing.length > 0) io.out(`  missing: ${cell(tested.missing.join(", "))}\n`);
  }
}

/** True when the gateway would take the hook and do something, or skip it on purpose. */
function isWell({ outcome, actions }: TestedHook): boolean {
  if (outcome === "skipped") return true;
  return outcome === "actions" && actions.every((action) => action.ok && action.problem === null);
}

/** `rouse hooks test`. Exit code 1 where the hook would come to nothing. */
export async function testHook(mapping: string | undefined, options: TestOptions, io: CliIo): Promise<void> {
  if (mapping === undefined && options.path === undefined)
    throw usage("name a mapping, or a path with --path; `rouse hooks list` shows both");
  const text = (await readInput(options.payload, io)).toString("utf8");
  let payload: unknown;
  try {
    payload = JSON.parse(text);
  } catch {
    throw usage(`${options.payload}: is not JSON`);
  }
  const body = { mapping, path: options.path, payload, headers: options.header ?? {}, query: options.query ?? {} };
  const tested = await connected(options, io, (to) => to.request("test", "POST", "hooks/test", body));
  if (!isWell(tested)) io.exitCode = EXIT.failure;
  if (options.json) return printJson(io, tested);
  printTraces(tested, io);
  printOutcome(tested, io);
}
