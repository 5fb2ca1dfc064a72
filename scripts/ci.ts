/**
 * Runs all tests and the other checks, as a fresh machine does after the installation. The files of tests that failed run once
 * more, each alone: what fails again has failed; what passes is counted as passed and listed under `unsteady:`, with its first
 * error. The last line is `N passed, N failed`: tests, and one for each further check.
 */
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { FileReport, Report } from "./ci-reporter.ts";

/** More files that fail are no noise: they are not run again. */
const MAX_RERUN_FILES = 12;
const REPORTER = join(import.meta.dirname, "ci-reporter.ts");

type Command = readonly [program: string, ...args: string[]];

export interface Plan {
  /** Runs of Vitest. Arguments are appended. */
  suites: Readonly<Record<string, Command>>;
  /** Commands that end with 0 if all is well. */
  checks: Readonly<Record<string, Command>>;
  cwd: string;
  write: (text: string) => void;
}

type Run = Pick<Plan, "cwd" | "write">;

/** Runs a command to its end and passes on what it prints. Resolves to its exit code. */
function execute(
  [program, ...args]: Command,
  { cwd, write }: Run,
  env: Record<string, string> = {},
): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      cwd,
      env: { ...process.env, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", write);
    child.on("error", reject);
    child.on("close", (code) => resolve(code ?? 1));
  });
}

/** Runs a suite, or one of its files. A run that ended badly, or in which no test ran, has a failure that belongs to no file. */
async function runSuite(command: Command, run: Run): Promise<Report> {
  const folder = mkdtempSync(join(tmpdir(), "rouse-ci-"));
  const path = join(folder, "report.json");
  try {
    const code = await execute([...command, "--reporter=default", `--reporter=${REPORTER}`], run, {
      CI_REPORT: path,
    });
    let report: Report;
    try {
      report = JSON.parse(readFileSync(path, "utf8")) as Report;
    } catch {
      return {
        files: {},
        outside: [
          `${command.join(" ")} ended with ${code} and without a report: its output is above.`,
        ],
      };
    }
    const results = Object.values(report.files);
    const failed = results.some(({ failures }) => failures.length > 0) || report.outside.length > 0;
    if (results.every(({ passed }) => passed === 0) && !failed)
      report.outside.push(`${command.join(" ")} ran no test.`);
    else if (code !== 0 && !failed)
      report.outside.push(`${command.join(" ")} ended with ${code}, though no test failed.`);
    return report;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const indent = (text: string): string => text.replaceAll(/^/gm, "    ");

/** Runs a plan and prints its result. Returns the exit code: 0 if nothing failed. */
export async function runCi({ suites, checks, cwd, write }: Plan): Promise<number> {
  const run = { cwd, write };
  const files: { file: string; command: Command; result: FileReport }[] = [];
  const outside: string[] = [];
  for (const [name, command] of Object.entries(suites)) {
    write(`── ${name}\n`);
    const report = await runSuite(command, run);
    files.push(
      ...Object.entries(report.files).map(([file, result]) => ({ file, command, result })),
    );
    outside.push(...report.outside);
  }
  let passed = 0;
  for (const [name, command] of Object.entries(checks)) {
    write(`── ${name}\n`);
    if ((await execute(command, run)) === 0) passed++;
    else outside.push(`${name}: its output is above.`);
  }

  const failed = files.filter(({ result }) => result.failures.length > 0);
  const unsteady: string[] = [];
  if (failed.length <= MAX_RERUN_FILES)
    for (const entry of failed) {
      write(`── once more, alone: ${entry.file}\n`);
      const again = await runSuite([...entry.command, entry.file], run);
      const [first] = entry.result.failures;
      const result = again.files[entry.file] ?? { passed: 0, failures: [] };
      result.failures.push(...again.outside);
      if (result.failures.length === 0) unsteady.push(`  ${entry.file}\n${indent(first ?? "")}\n`);
      entry.result = result;
    }
  else write(`${failed.length} files failed: they are not run again.\n`);

  const failures = [
    ...files.flatMap(({ file, result }) =>
      result.failures.map((failure) => `${file}\n${indent(failure)}`),
    ),
    ...outside,
  ];
  for (const failure of failures) write(`✗ ${failure}\n`);
  if (unsteady.length > 0) write(`unsteady:\n${unsteady.join("")}`);
  passed += files.reduce((sum, { result }) => sum + result.passed, 0);
  write(`${passed} passed, ${failures.length} failed\n`);
  return failures.length === 0 ? 0 : 1;
}

if (import.meta.main) {
  const npm = (script: string, ...args: string[]): Command => ["npm", "run", "-s", script, ...args];
  process.exitCode = await runCi({
    suites: { "npm test": npm("test", "--"), "npm run test:soak": npm("test:soak", "--") },
    checks: {
      types: npm("typecheck"),
      lint: npm("lint"),
      format: npm("format:check"),
      "unused code": npm("unused"),
      "attacks, short form": npm("attack", "--", "--seconds", "4", "--shared"),
    },
    cwd: join(import.meta.dirname, ".."),
    write: (text) => process.stdout.write(text),
  });
}
