import { renderIssue } from "../../config/issues.ts";
import { RouseError } from "../../core/errors.ts";
import {
  CONFIRMATION_NAMES,
  CONFIRMATIONS,
  renderOpenConfirmations,
  type Confirmation,
} from "../../operate/edits/confirmation-names.ts";
import type { LandingCheck } from "../../operate/edits/landing.ts";
import type { Landed } from "../../operate/edits/landing-write.ts";
import type { MappingChange } from "../../operate/edits/planned-change.ts";
import type { Given } from "../command.ts";
import { usage } from "../failure.ts";
import { EXIT, printExact, type CliIo } from "../io.ts";
import type { LANDING_OPTIONS } from "../options.ts";
import { printJson } from "../print.ts";
import { cell, printable } from "../text.ts";
import { withChanges } from "./changes.ts";
import { printReport } from "./print-what-if.ts";

/** The values of the options of a command that changes files. */
type LandOptions = Given<typeof LANDING_OPTIONS>;

function printTests(
  { passed, failed, issues }: NonNullable<LandingCheck["tests"]>,
  io: CliIo,
): void {
  for (const issue of issues) io.out(`\nnot a test: ${printable(renderIssue(issue, io.cwd))}\n`);
  if (passed + failed.length === 0) return;
  io.out(`\ntests: ${passed} pass, ${failed.length} fail\n`);
  for (const { name, differences } of failed)
    io.out(`  ${cell(name)}: ${differences.map(({ field }) => field).join(", ")}\n`);
}

/** Prints what a change would do: to standard error if the change comes as a patch, which has standard output for itself. */
function printCheck(check: LandingCheck, given: CliIo): void {
  const io = check.obstacle === null ? given : { ...given, out: given.err };
  io.out(`${check.diff === "" ? "the files have this change already\n" : printable(check.diff)}\n`);
  if (check.whatIf) printReport(check.whatIf, io);
  if (check.tests) printTests(check.tests, io);
  for (const issue of check.problems) io.out(`problem: ${printable(renderIssue(issue, io.cwd))}\n`);
  for (const issue of check.warnings) io.out(`warning: ${printable(renderIssue(issue, io.cwd))}\n`);
}

const isConfirmation = (name: string): name is Confirmation => Object.hasOwn(CONFIRMATIONS, name);

function readConfirmations(text: string): Confirmation[] {
  return text.split(",").map((part) => {
    const name = part.trim();
    if (isConfirmation(name)) return name;
    throw usage(`--confirm ${name}: the names are ${CONFIRMATION_NAMES.join(", ")}`);
  });
}

async function askConfirmations(
  check: LandingCheck,
  given: Confirmation[],
  io: CliIo,
): Promise<Confirmation[]> {
  const open = check.confirm.filter((name) => !given.includes(name));
  if (open.length === 0) return given;
  const { prompts } = io;
  if (!prompts) throw usage(renderOpenConfirmations(open, given));
  for (const name of open) {
    const what =
      name === "failing-tests" ? "Tests fail with the change" : `The change sets ${name}`;
    const typed = await prompts.text({ message: `${what}. Type "${name}" to confirm` });
    if (typed.trim() !== name) throw usage("stopped; nothing was written");
  }
  return [...given, ...open];
}

async function askAgreement(options: LandOptions, io: CliIo): Promise<void> {
  if (options.yes) return;
  if (!io.prompts) throw usage("nothing was written: read the change above, and add --yes");
  const choices = [
    { value: "yes", label: "Write it" },
    { value: "no", label: "Stop" },
  ];
  if ((await io.prompts.select({ message: "Make this change?", options: choices })) !== "yes")
    throw usage("stopped; nothing was written");
}

function printLanded(result: Landed, done: string, io: CliIo): void {
  if (result.landed) {
    io.out(`\n${done}: ${result.file}${result.inUse ? ", in use" : ""}\n`);
    return;
  }
  io.err(`nothing was written: ${result.reason}\nThe change as a patch, for \`git apply\`:\n\n`);
  printExact(io, result.patch);
}

/** Shows a change, asks, and makes it. `done`: what is printed when it has been made. */
export function makeChange(
  change: MappingChange,
  done: string,
  options: LandOptions,
  io: CliIo,
): Promise<void> {
  const given = options.confirm === undefined ? [] : readConfirmations(options.confirm);
  return withChanges(options, io, async (changes) => {
    const check = await changes.check(change);
    if (options.patch) return printExact(io, check.diff);
    if (!options.json) printCheck(check, io);
    if (check.problems.length > 0) {
      if (options.json) {
        io.exitCode = EXIT.failure;
        return printJson(io, { check });
      }
      throw new RouseError({
        code: "not_landed",
        message: "the change has problems, so nothing was written",
      });
    }
    const confirm = await askConfirmations(check, given, io);
    if (check.obstacle === null) await askAgreement(options, io);
    const result = await changes.land(change, { base: check.base, confirm });
    if (options.json) return printJson(io, { check, result });
    printLanded(result, done, io);
  });
}
