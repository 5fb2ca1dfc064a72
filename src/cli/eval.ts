import { existsSync, statSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import type { Command } from "commander";
import { RouseError } from "../core/errors.ts";
import { createLogger } from "../core/log.ts";
import { renderEvalJunit } from "../workbench/eval-junit.ts";
import { checkPlan, planEvaluation, type EvalPlan } from "../workbench/eval-plan.ts";
import { createSide, type EvalSide } from "../workbench/eval-side.ts";
import { checkAgentName, type EvalChange } from "../workbench/eval-task.ts";
import { runEvaluation, type EvalBudget, type EvalReport } from "../workbench/eval.ts";
import { readFixtures } from "../workbench/fixture-run.ts";
import type { EvalCase } from "../workbench/fixture.ts";
import { usage } from "./failure.ts";
import { EXIT, SYSTEM, type CliIo } from "./io.ts";
import { findTodaysConfig, withFiles, type Offline } from "./offline.ts";
import { proposing, readInput, type CommonOptions } from "./options.ts";
import { printEvalReport, renderPlan, toJsonReport } from "./print-eval.ts";
import { printJson } from "./print.ts";
import { createProgress } from "./progress.ts";
import { connected, read, type AdminClient } from "./connect.ts";
import { checkKeys } from "./eval-keys.ts";

interface EvalOptions extends CommonOptions {
  today?: string;
  agent?: string;
  model?: string;
  prompt?: string;
  documents?: boolean;
  judgeModel?: string;
  sandbox?: string;
  repeat: string;
  concurrency: string;
  budget?: string;
  junit?: string;
}

function readCount(option: string, value: string, most: number): number {
  const count = Number(value);
  if (Number.isInteger(count) && count >= 1 && count <= most) return count;
  throw usage(`${option} ${value}: write a number from 1 to ${most}`);
}

function readBudget(text: string | undefined): EvalBudget {
  if (text === undefined) return {};
  const [, usd] = /^(\d+(?:\.\d+)?) ?USD$/i.exec(text.trim()) ?? [];
  const [, tokens] = /^(\d+)(?: ?tokens)?$/i.exec(text.trim().replaceAll(/[,_]/g, "")) ?? [];
  if (Number(usd) > 0) return { usd: Number(usd) };
  if (Number(tokens) > 0) return { tokens: Number(tokens) };
  throw usage(`--budget ${text}: write tokens such as "200000", or money such as "2 USD"`);
}

/** The cases of a set: those in a folder of `hooks.testsDir`, of another folder, or with a text in their name. */
function readCases(set: string | undefined, testsDir: string, io: CliIo): EvalCase[] {
  const isFolder = (path: string): boolean => existsSync(path) && statSync(path).isDirectory();
  const folder =
    set === undefined ? undefined : [join(testsDir, set), resolve(io.cwd, set)].find(isFolder);
  const { cases, issues } = readFixtures(folder ?? testsDir);
  if (issues.length > 0)
    throw new RouseError({ code: "config_invalid", message: "cases have problems:", issues });
  const chosen =
    folder === undefined && set !== undefined
      ? cases.filter(({ name }) => name.includes(set))
      : cases;
  if (chosen.length > 0) return chosen;
  const shown = relative(io.cwd, folder ?? testsDir) || ".";
  const named = folder === undefined && set !== undefined ? ` with "${set}" in its name` : "";
  const message = `there is no case${named} in ${shown}; \`rouse fixtures add --run latest\` makes one`;
  throw new RouseError({ code: "not_found", message });
}

const toSearch = ({ knowledge }: AdminClient): NonNullable<EvalChange["documents"]> => ({
  search: async ({ agentId, ...query }) =>
    (await read(knowledge.search.$post({ json: { ...query, agent: agentId } }))).passages,
});

async function readChange(
  { agent, model, prompt }: EvalOptions,
  io: CliIo,
  knowledge: AdminClient | undefined,
): Promise<EvalChange> {
  const text =
    prompt === undefined ? undefined : (await readInput(prompt, io)).toString("utf8").trim();
  if (text === "") throw usage(`--prompt ${prompt}: the file is empty`);
  return { agent, model, prompt: text, documents: knowledge && toSearch(knowledge) };
}

/** The sides of an evaluation: today's config alone, or with the change beside it. */
function createSides(
  today: Offline,
  proposed: Offline,
  change: EvalChange,
  { config }: EvalOptions,
  io: CliIo,
): EvalSide[] {
  const environment = ({ baseDir }: Offline) => ({
    ...SYSTEM,
    log: createLogger("silent"),
    cwd: baseDir,
    env: io.env,
  });
  const isChanged =
    config !== undefined || Object.values(change).some((value) => value !== undefined);
  const before = createSide(isChanged ? "before" : "now", today.snapshot, {}, environment(today));
  if (!isChanged) return [before];
  if (change.agent !== undefined) checkAgentName(change.agent, proposed.snapshot);
  return [before, createSide("after", proposed.snapshot, change, environment(proposed))];
}

/** Runs what was planned, with progress on a terminal. Ctrl-C ends it with what is known by then. */
async function run(
  plan: EvalPlan,
  options: EvalOptions,
  budget: EvalBudget,
  io: CliIo,
): Promise<EvalReport> {
  const { cases, sides, set, repeat, runs } = plan;
  const concurrency = readCount("--concurrency", options.concurrency, 64);
  const stop = new AbortController();
  const release = io.onInterrupt?.(() => stop.abort());
  const progress = createProgress(io, "evaluating", runs);
  try {
    return await runEvaluation({
      cases,
      sides,
      set,
      repeat,
      concurrency,
      budget,
      signal: stop.signal,
      onRun: (done, passed) => progress.update(done, `${passed} passed`),
    });
  } finally {
    progress.end();
    release?.();
  }
}

/** Whether all runs were made, and each case of the last side passed in each of them. */
function isGood({ cases, stopped }: EvalReport, { name }: EvalSide): boolean {
  return (
    stopped === null && cases.every(({ sides }) => sides[name]?.passed === sides[name]?.runs.length)
  );
}

interface Evaluated {
  today: Offline;
  proposed: Offline;
  cases: EvalCase[];
  /** The documents of the side after the change. */
  knowledge: AdminClient | undefined;
}

async function evaluate(
  { today, proposed, cases, knowledge }: Evaluated,
  options: EvalOptions,
  io: CliIo,
): Promise<void> {
  const { json, junit, judgeModel, sandbox } = options;
  const budget = readBudget(options.budget);
  const sides = createSides(today, proposed, await readChange(options, io, knowledge), options, io);
  try {
    const repeat = readCount("--repeat", options.repeat, 100);
    const plan = await planEvaluation({ cases, sides, repeat, judgeModel, sandbox });
    await checkKeys(plan, [today, proposed], io);
    checkPlan(plan, budget);
    if (!json) io.err(`${renderPlan(plan, budget)}\n`);
    const report = await run(plan, options, budget, io);
    const last = sides.at(-1) as EvalSide;
    if (junit !== undefined)
      await writeFile(resolve(io.cwd, junit), renderEvalJunit(report, last.name));
    if (json) printJson(io, toJsonReport(report));
    else printEvalReport(report, sides, io);
    if (!isGood(report, last)) io.exitCode = EXIT.failure;
  } finally {
    await Promise.all(sides.map((side) => side.close()));
  }
}

async function evaluateSet(
  set: string | undefined,
  options: EvalOptions,
  io: CliIo,
): Promise<void> {
  const todays = await findTodaysConfig(options.today, io);
  await withFiles({ config: todays, title: "today's config" }, io, (today) => {
    const cases = readCases(set, today.snapshot.config.hooks.testsDir, io);
    const config = options.config === undefined ? undefined : resolve(io.cwd, options.config);
    const chosen = config ?? todays;
    const withDocuments = (proposed: Offline): Promise<void> =>
      options.documents
        ? connected(chosen === undefined ? {} : { config: chosen }, io, ({ api }) =>
            evaluate({ today, proposed, cases, knowledge: api }, options, io),
          )
        : evaluate({ today, proposed, cases, knowledge: undefined }, options, io);
    if (config === undefined) return withDocuments(today);
    return withFiles({ config, title: "the proposed config" }, io, withDocuments);
  });
}

export function register(program: Command, io: CliIo): void {
  proposing(
    program
      .command("eval [set]")
      .description(
        "run agents on recorded cases of hooks.testsDir: all, those in a folder, or those with a text in their name. The recording answers the calls of tools, and nothing is sent or stored; only the model provider is called. With --agent, --model, --prompt, --documents or --config: before and after. Exit code 1 if a case does not pass (after the change, if there is one), 3 if the config or a case has problems",
      )
      .option("--agent <id>", "after: this agent takes every case")
      .option("--model <name>", "after: this model answers")
      .option(
        "--prompt <file>",
        "after: the text of this file in place of the agent's instructions",
      )
      .option(
        "--documents",
        "after: searches find documents as they are now, in place of what was found when the run was recorded",
      )
      .option("--today <file>", "today's config, if it is not in one of the usual places")
      .option(
        "--judge-model <name>",
        "the model that judges replies (default: agents.defaults.model)",
      )
      .option(
        "--sandbox <server>",
        "a server of mcp.servers that answers calls that were not recorded; they fail the case otherwise",
      )
      .option("--repeat <n>", "run each case so often, for the spread", "1")
      .option("--concurrency <n>", "runs at the same time", "4")
      .option(
        "--budget <amount>",
        'stop before more is used: tokens such as "200000", or money such as "2 USD"',
      )
      .option("--junit <file>", "also write the results as JUnit XML"),
    "rouse eval",
    "rouse eval shop --prompt shorter.md --budget 200000",
    "rouse eval --model openai/gpt-5-mini --repeat 3",
    "rouse eval refund --config proposed.json5 --junit results.xml",
  ).action((set: string | undefined, options: EvalOptions) => evaluateSet(set, options, io));
}
