import {
  type AgentReport,
  type TestBudget,
  checkBudget,
  planAgents,
  runAgents,
} from "../../operate/tests/agent-tests.ts";
import type { Snapshot } from "../../intake/types.ts";
import { type TestCase, isAgentCase } from "../../operate/tests/fixture.ts";
import { writeFile } from "node:fs/promises";
import { relative, resolve } from "node:path";
import { editConfigFile } from "../../config/edit.ts";
import { loadConfig } from "../../config/load.ts";
import { RouseError } from "../../core/errors.ts";
import { NO_NETWORK } from "../../core/http/no-network.ts";
import { withSnapshot } from "../../gateway/validate-config.ts";
import { readFixtures, runFixtures } from "../../operate/tests/fixture-run.ts";
import { renderJunit } from "../../operate/tests/junit.ts";
import { isSkipped, toResults, type TestResult } from "../../operate/tests/test-result.ts";
import { doing, type Given, type Noun } from "../command.ts";
import { usage } from "../failure.ts";
import { EXIT, type CliIo } from "../io.ts";
import { printJson } from "../print.ts";
import {
  printResult,
  printRuns,
  printTestSum,
  renderPlan,
  renderComparison,
} from "./print-tests.ts";
import { createProgress } from "../progress.ts";
import { configInvalid, toSnapshotOptions } from "../settings.ts";
import { testAdd } from "./test-add.ts";

const TEST_OPTIONS = {
  "--filter <text>": "those with this text in their name",
  "--agents":
    "also run the agents: a recording answers their tools, and only model providers are called",
  "--budget <amount>":
    'with --agents, stop before more is used: tokens such as "200000", or money such as "2 USD"',
  "--against <config>": "compare with another config: before and now",
  "--junit <file>": "also write the results as JUnit XML",
  "--update": "show each difference, and write it into the fixture: it is expected from then on",
} as const;
type RunOptions = Given<typeof TEST_OPTIONS>;

/** The results by the config, and by the one that it is compared with. */
interface Tested {
  results: TestResult[];
  before: TestResult[] | undefined;
  /** Why runs of agents were not made. */
  agents: Pick<AgentReport, "stopped" | "notRun"> | undefined;
}

type Run = RunOptions & { folder: string | undefined };

const toFiles = (config: string | undefined, { agents }: RunOptions, io: CliIo) => ({
  ...toSnapshotOptions({ config }, io),
  ...(!agents && { fetch: NO_NETWORK }),
  withoutSecrets: true,
});

/**
 * Reads the fixtures of `hooks.testsDir`, or of a folder.
 * @throws RouseError `config_invalid` with all problems of the fixtures, `not_found` if there is none.
 */
function readChosen(testsDir: string, { filter }: RunOptions, io: CliIo): TestCase[] {
  const { fixtures, issues } = readFixtures(testsDir);
  if (issues.length > 0)
    throw new RouseError({ code: "config_invalid", message: "fixtures have problems:", issues });
  const chosen = fixtures.filter(({ name }) => name.includes(filter ?? ""));
  if (chosen.length > 0) return chosen;
  const shown = relative(io.cwd, testsDir) || ".";
  const message =
    fixtures.length === 0
      ? `there are no fixtures in ${shown}; \`rouse test add latest\` writes one`
      : `--filter ${filter}: no fixture in ${shown} is named so`;
  throw new RouseError({ code: "not_found", message });
}

function readBudget(text: string | undefined): TestBudget {
  if (text === undefined) return {};
  const [, usd] = /^(\d+(?:\.\d+)?) ?USD$/i.exec(text.trim()) ?? [];
  const [, tokens] = /^(\d+)(?: ?tokens)?$/i.exec(text.trim().replaceAll(/[,_]/g, "")) ?? [];
  if (Number(usd) > 0) return { usd: Number(usd) };
  if (Number(tokens) > 0) return { tokens: Number(tokens) };
  throw usage(`--budget ${text}: write tokens such as "200000", or money such as "2 USD"`);
}

/** Checks that a config has the secrets that runs of agents need. All others may be missing. */
async function checkSecrets(
  { configFile: file }: Snapshot,
  needed: readonly string[],
  { cwd, env }: CliIo,
): Promise<void> {
  if (file === undefined) return;
  const loaded = await loadConfig({ cwd, env, file });
  const issues = loaded.ok
    ? []
    : loaded.issues.filter(({ path }) => needed.some((prefix) => path.startsWith(prefix)));
  if (issues.length > 0) throw configInvalid({ issues, file });
}

/** Runs the agents of fixtures, with progress on a terminal. Ctrl-C ends it with what is known by then. */
async function askAgents(
  fixtures: readonly TestCase[],
  snapshots: [Snapshot, ...Snapshot[]],
  options: RunOptions,
  io: CliIo,
): Promise<AgentReport> {
  const budget = readBudget(options.budget);
  const plan = await planAgents(fixtures.filter(isAgentCase), snapshots);
  for (const snapshot of snapshots) await checkSecrets(snapshot, plan.needed, io);
  checkBudget(plan, budget);
  if (!options.json) io.err(`${renderPlan(plan, budget)}\n`);
  const stop = new AbortController();
  const release = io.onInterrupt?.(() => stop.abort());
  const progress = createProgress(io, "testing", plan.runs.length);
  try {
    return await runAgents(plan, {
      budget,
      signal: stop.signal,
      onRun: (done, passed) => progress.update(done, `${passed} passed`),
    });
  } finally {
    progress.end();
    release?.();
  }
}

/**
 * Runs the fixtures of a folder on the files of the config, and on those of the one that it is compared with: without gateway,
 * store and secrets, and without network if no agent is run.
 * @throws RouseError `config_invalid` with all problems of a config or of the fixtures, `not_found` if there is no fixture.
 */
function runTests({ folder, ...options }: Run, io: CliIo): Promise<Tested> {
  const withConfig = <T>(
    config: string | undefined,
    title: string | undefined,
    use: (snapshot: Snapshot) => Promise<T>,
  ): Promise<T> =>
    withSnapshot(toFiles(config, options, io), (built) => {
      if (!built.ok) throw configInvalid(built, title);
      return use(built.loaded.snapshot);
    });
  return withConfig(options.config, undefined, async (now) => {
    const testsDir = folder === undefined ? now.config.hooks.testsDir : resolve(io.cwd, folder);
    const fixtures = readChosen(testsDir, options, io);
    const testAll = async (before?: Snapshot): Promise<Tested> => {
      const mappings = await runFixtures(fixtures, now);
      const earlier = before && (await runFixtures(fixtures, before));
      const snapshots: [Snapshot, ...Snapshot[]] = before ? [now, before] : [now];
      const agents = options.agents ? await askAgents(fixtures, snapshots, options, io) : undefined;
      return {
        results: toResults(fixtures, mappings, agents?.runs.get(now)),
        before: before && earlier && toResults(fixtures, earlier, agents?.runs.get(before)),
        agents,
      };
    };
    if (options.against === undefined) return testAll();
    return withConfig(resolve(io.cwd, options.against), "the config of --against", testAll);
  });
}

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
  options: RunOptions,
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
    const options = { ...given, folder };
    await report(await runTests(options, io), options, io);
  },
});

export const testCommand: Noun = { list: run, commands: [testAdd] };
