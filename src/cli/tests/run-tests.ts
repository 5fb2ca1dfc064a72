import { relative, resolve } from "node:path";
import { loadConfig } from "../../config/load.ts";
import { RouseError } from "../../core/errors.ts";
import { NO_NETWORK } from "../../core/http/no-network.ts";
import type { Snapshot } from "../../intake/types.ts";
import {
  checkBudget,
  planAgents,
  runAgents,
  testFixtures,
  type AgentReport,
  type TestBudget,
  type TestResult,
} from "../../operate/tests/agent-tests.ts";
import { readFixtures } from "../../operate/tests/fixture-files.ts";
import { isAgentCase, type TestCase } from "../../operate/tests/fixture.ts";
import type { Given } from "../command.ts";
import { usage } from "../failure.ts";
import { withFiles } from "../gateway/offline.ts";
import type { CliIo } from "../io.ts";
import { withProgress } from "../progress.ts";
import { configInvalid } from "../settings.ts";
import { renderPlan } from "./print-tests.ts";

export const TEST_OPTIONS = {
  "--filter <text>": "those with this text in their name",
  "--agents":
    "also run the agents: a recording answers their tools, and only model providers are called",
  "--budget <amount>":
    'with --agents, stop before more is used: tokens such as "200000", or money such as "2 USD"',
  "--against <config>": "compare with another config: before and now",
  "--junit <file>": "also write the results as JUnit XML",
  "--update": "show each difference, and write it into the fixture: it is expected from then on",
} as const;
type TestRequest = Given<typeof TEST_OPTIONS>;

/** The results by the config, and by the one that it is compared with. */
export interface Tested {
  results: TestResult[];
  before: TestResult[] | undefined;
  /** Undefined if no agent was to be run. */
  agents: AgentReport | undefined;
}

/**
 * Reads the fixtures of `hooks.testsDir`, or of a folder.
 * @throws RouseError `config_invalid` with all problems of the fixtures, `not_found` if there is none.
 */
function readChosen(testsDir: string, filter: string | undefined, io: CliIo): TestCase[] {
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
  { budget: given, json }: TestRequest,
  io: CliIo,
): Promise<AgentReport> {
  const budget = readBudget(given);
  const plan = await planAgents(fixtures.filter(isAgentCase), snapshots);
  for (const snapshot of snapshots) await checkSecrets(snapshot, plan.needed, io);
  checkBudget(plan, budget);
  if (!json) io.err(`${renderPlan(plan, budget)}\n`);
  const stop = new AbortController();
  const release = io.onInterrupt?.(() => stop.abort());
  return withProgress(io, "testing", plan.runs.length, (progress) =>
    runAgents(plan, {
      budget,
      signal: stop.signal,
      onRun: (done, passed) => progress.update(done, `${passed} passed`),
    }),
  ).finally(() => release?.());
}

/**
 * Runs the fixtures of a folder on the files of the config, and on those of the one that it is compared with: without gateway,
 * store and secrets, and without network if no agent is run.
 * @param folder in place of `hooks.testsDir`.
 * @throws RouseError `config_invalid` with all problems of a config or of the fixtures, `not_found` if there is no fixture.
 */
export function testFolder(
  folder: string | undefined,
  wanted: TestRequest,
  io: CliIo,
): Promise<Tested> {
  const { filter, against, agents: isAsked, config } = wanted;
  const network = isAsked ? {} : { fetch: NO_NETWORK };
  return withFiles({ config, ...network }, io, async ({ snapshot: now }) => {
    const testsDir = folder === undefined ? now.config.hooks.testsDir : resolve(io.cwd, folder);
    const fixtures = readChosen(testsDir, filter, io);
    const testAll = async (before?: Snapshot): Promise<Tested> => {
      const snapshots: [Snapshot, ...Snapshot[]] = before ? [now, before] : [now];
      const agents = isAsked ? await askAgents(fixtures, snapshots, wanted, io) : undefined;
      return {
        results: await testFixtures(fixtures, now, agents?.runs),
        before: before && (await testFixtures(fixtures, before, agents?.runs)),
        agents,
      };
    };
    if (against === undefined) return testAll();
    const other = { config: resolve(io.cwd, against), title: "the config of --against" };
    return withFiles({ ...other, ...network }, io, ({ snapshot }) => testAll(snapshot));
  });
}
