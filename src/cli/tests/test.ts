import { writeFile } from "node:fs/promises";
import { relative, resolve } from "node:path";
import { editConfigFile } from "../../config/edit.ts";
import { renderJunit } from "../../operate/tests/junit.ts";
import { isSkipped, type TestResult } from "../../operate/tests/agent-tests.ts";
import { doing, type Given, type Noun } from "../command.ts";
import { usage } from "../failure.ts";
import { EXIT, type CliIo } from "../io.ts";
import { printJson } from "../print.ts";
import { printResult, printRuns, printTestSum, renderComparison } from "./print-tests.ts";
import { TEST_OPTIONS, testFolder, type Tested } from "./run-tests.ts";
import { testAdd } from "./test-add.ts";

/** A result as JSON: its fixture by name, without what the file has. */
const toJson = ({ fixture: { name, file }, ok, mapping, runs }: TestResult) => ({
  name,
  file,
  ok,
  differences: mapping?.differences ?? [],
  actual: mapping?.actual ?? null,
  reason: mapping?.reason ?? null,
  runs,
});

/**
 * Writes what the mappings make into the fixtures that differ; the rest of each file stays as it is.
 * @returns the results that still differ.
 */
async function updateFixtures(failed: readonly TestResult[], io: CliIo): Promise<TestResult[]> {
  const open: TestResult[] = [];
  for (const result of failed) {
    const { fixture, mapping, runs } = result;
    const { file, reply } = fixture;
    if (!mapping || mapping.ok) {
      open.push(result);
      continue;
    }
    await editConfigFile(file, [
      { path: ["expect"], value: { ...mapping.actual, ...(reply && { reply }) } },
    ]);
    io.err(`${relative(io.cwd, file)}: changed\n`);
    if (runs.some(({ passed }) => !passed)) open.push(result);
  }
  return open;
}

async function report(
  { results, before, agents }: Tested,
  options: Given<typeof TEST_OPTIONS>,
  io: CliIo,
): Promise<void> {
  const failed = results.filter(({ ok }) => !ok);
  if (options.junit !== undefined)
    await writeFile(resolve(io.cwd, options.junit), renderJunit(results));
  if (options.json) {
    const skipped = results.filter(isSkipped).length;
    printJson(io, {
      passed: results.length - failed.length - skipped,
      failed: failed.length,
      skipped,
      fixtures: results.map((result, index) => {
        const other = before?.[index];
        return { ...toJson(result), ...(other && { before: toJson(other) }) };
      }),
      ...(agents && { stopped: agents.stopped, notRun: agents.notRun }),
    });
  } else {
    for (const result of failed) printResult(result, io);
    if (agents)
      printRuns(new Map([...(before ? [["before", before] as const] : []), ["now", results]]), io);
  }
  const open = options.update ? await updateFixtures(failed, io) : failed;
  if (!options.json) printTestSum(results, io);
  if (!options.json && before) io.out(`${renderComparison(before, results)}\n`);
  io.exitCode = open.length > 0 || agents?.stopped ? EXIT.failure : EXIT.ok;
  if (!agents?.stopped) return;
  const why = agents.stopped === "budget" ? "the budget is spent" : "it was interrupted";
  io.err(`rouse: ${why}: runs of agents that were not made: ${agents.notRun}\n`);
}

const run = doing({
  usage: "[folder]",
  about:
    "run the fixtures of hooks.testsDir, or of a folder, on the config file: recorded requests and runs with what you expect. Needs no gateway and no store, sends nothing, and writes nothing; without --agents it needs no network and no secrets. Exit code 1 if one differs, 3 if a config or a fixture has problems",
  examples: [
    "rouse test",
    "rouse test --filter shop/",
    "rouse test --agents --budget 200000 --against before.json5",
    "rouse test --junit results.xml",
    "rouse test --update",
  ],
  options: TEST_OPTIONS,
  json: true,
  async run(io, given, folder) {
    if (given.budget !== undefined && !given.agents) throw usage("--budget goes with --agents");
    await report(await testFolder(folder, given, io), given, io);
  },
});

export const testCommand: Noun = { list: run, commands: [testAdd] };
