import { rm } from "node:fs/promises";
import { relative } from "node:path";
import type { Command } from "commander";
import { renderIssue } from "../config/issues.ts";
import { draftTexts, findDraft } from "../workbench/drafts.ts";
import { readFixtures } from "../workbench/fixture-run.ts";
import { listWrittenMappings } from "../workbench/mapping-text.ts";
import type { Trial } from "../workbench/trials.ts";
import { checkDrafts, loadForDrafts, toPlaces, type CheckedDraft } from "./checked-drafts.ts";
import { connectRunning, read, type GatewayConnection } from "./connect.ts";
import { usage } from "./failure.ts";
import type { DiffOptions } from "./hooks-diff.ts";
import type { TestOptions } from "./hooks-test.ts";
import type { CliIo } from "./io.ts";
import { makeChange, type LandOptions } from "./landing.ts";
import { addCommonOptions, hookInput, landing, reading, type CommonOptions } from "./options.ts";
import { printFields, printJson, printTable } from "./print.ts";
import { localTime, printable } from "./text.ts";

function describeState({ plan, problems }: CheckedDraft): string {
  if (problems.length > 0)
    return problems.length === 1 ? "1 problem" : `${problems.length} problems`;
  if (plan?.landed) return "landed: `rouse drafts drop` removes the draft";
  return plan && plan.replaces.length > 0 ? `fine, replaces ${plan.replaces.join(", ")}` : "fine";
}

const toView = ({ draft, plan, problems }: CheckedDraft) => ({
  name: draft.name,
  file: draft.file,
  landsIn: plan?.file ?? null,
  replaces: plan?.replaces ?? [],
  landed: plan?.landed ?? false,
  problems,
});

async function list(options: CommonOptions, io: CliIo): Promise<void> {
  const drafts = await checkDrafts(await loadForDrafts(options, io), io);
  if (options.json) return printJson(io, { drafts: drafts.map(toView) });
  if (drafts.length === 0)
    return io.out("there are no drafts; `rouse presets new` writes one from an event\n");
  const rows = drafts.map((one) => [
    one.draft.name,
    one.plan ? relative(io.cwd, one.plan.file) : "–",
    describeState(one),
  ]);
  printTable(io, ["DRAFT", "LANDS IN", "STATE"], rows);
  for (const issue of drafts.flatMap(({ problems }) => problems))
    io.out(`\n${printable(renderIssue(issue, io.cwd))}\n`);
}

async function show(name: string, options: CommonOptions, io: CliIo): Promise<void> {
  const loaded = await loadForDrafts(options, io);
  const draft = findDraft(name, loaded.config.hooks.mappingsDir);
  if (options.json)
    return printJson(io, {
      name,
      file: draft.file,
      text: draft.text,
      problem: draft.problem ?? null,
    });
  // Mapping files are JSON5: what is printed can be copied as it is.
  io.out(`// A draft, not live: ${draft.file}\n${printable(draft.text)}`);
}

async function test(name: string, options: TestOptions, io: CliIo): Promise<void> {
  const loaded = await loadForDrafts(options, io);
  const { mappingsDir, configFile } = toPlaces(loaded);
  const draft = findDraft(name, mappingsDir);
  const texts = draftTexts(draft, mappingsDir, configFile);
  const match = (draft.problem === undefined ? listWrittenMappings(draft.text, "mappings") : [])[0]
    ?.value["match"];
  const [path] = [(match as { path?: string | string[] } | undefined)?.path ?? []].flat();
  const named = path === undefined || options.event !== undefined ? {} : { path };
  const { printHookTest } = await import("./hooks-test.ts");
  if (!options.json) io.out(`a test of the draft ${name}, which is not live\n\n`);
  await printHookTest(undefined, { ...named, ...options, texts }, io);
}

function printTrial(trial: Trial, io: CliIo): void {
  io.out(`trial of the draft ${trial.draft}: nothing was run or sent\n`);
  printFields(io, {
    since: localTime(trial.since),
    ended: trial.ended && `${localTime(trial.ended.at)}: ${trial.ended.reason}`,
    hooks: trial.events,
    "would match": trial.matched,
    "would run": trial.runs,
    "would wake": trial.wakes,
    "would skip": trial.skipped,
    "would refuse": trial.refused,
    "left out": trial.dropped,
    "last match": trial.last && `${trial.last.eventId} ${localTime(trial.last.at)}`,
  });
}

interface TryOptions extends CommonOptions {
  stop?: boolean;
}

async function requireLive(options: CommonOptions, io: CliIo): Promise<GatewayConnection> {
  const live = await connectRunning(options, io);
  if (live) return live;
  throw usage(
    "no gateway runs, so there is no live traffic: `rouse drafts diff` compares with recorded events",
  );
}

async function tryDraft(name: string | undefined, options: TryOptions, io: CliIo): Promise<void> {
  const { api } = await requireLive(options, io);
  if (name === undefined) {
    if (options.stop) throw usage("name the draft whose trial ends");
    const answer = await read(api.trials.$get());
    if (options.json) return printJson(io, answer);
    if (answer.trials.length === 0) io.out("no draft is being tried\n");
    for (const trial of answer.trials) printTrial(trial, io);
    return;
  }
  const param = { draft: encodeURIComponent(name) };
  const answer = await read(
    options.stop ? api.trials[":draft"].$delete({ param }) : api.trials[":draft"].$post({ param }),
  );
  if (options.json) return printJson(io, answer);
  if (options.stop) return printTrial(answer.trial, io);
  io.out(
    `The draft ${name} is evaluated beside live traffic from now on. It runs and sends nothing; the counts are in memory.\n` +
      `\`rouse drafts try\` shows what it would have done, \`rouse drafts try ${name} --stop\` ends the trial.\n`,
  );
}

async function drop(name: string, options: CommonOptions, io: CliIo): Promise<void> {
  const { config } = await loadForDrafts(options, io);
  const { file } = findDraft(name, config.hooks.mappingsDir);
  const { fixtures } = readFixtures(config.hooks.testsDir);
  const files = [
    file,
    ...fixtures.filter(({ draft }) => draft === name).map((fixture) => fixture.file),
  ];
  for (const one of files) await rm(one);
  if (options.json) return printJson(io, { dropped: file, fixtures: files.slice(1) });
  for (const one of files) io.out(`removed ${one}\n`);
}

function registerReading(drafts: Command, io: CliIo): void {
  reading(
    drafts.command("list").description("the drafts with their problems, and where each would land"),
    "rouse drafts list",
    "rouse drafts list --json | jq '.drafts[].problems'",
  ).action((options: CommonOptions) => list(options, io));
  reading(
    drafts.command("show <name>").description("print a draft"),
    "rouse drafts show acme",
  ).action((name: string, options: CommonOptions) => show(name, options, io));
  reading(
    hookInput(
      drafts
        .command("test <name>")
        .description(
          "show what the mappings would make of a hook with the draft in place, as `rouse hooks test` does; sends nothing",
        ),
    ).option("--path <path>", "the hook's path (default: the event's, or the draft's first)"),
    "rouse drafts test acme --event evt_…",
    "rouse drafts test acme --payload order.json",
  ).action((name: string, options: TestOptions) => test(name, options, io));
  reading(
    drafts
      .command("diff <name>")
      .description(
        "compare today's mappings with those that have the draft in place, over recorded events; runs and sends nothing",
      )
      .option("--since <time>", 'only newer events: an age such as "7d", or a date')
      .option("--last <n>", "how many events, newest first (default 10000)")
      .option("--path <path>", "only hooks of this path"),
    "rouse drafts diff acme",
    "rouse drafts diff acme --since 7d --path acme --json",
  ).action(async (name: string, { config, ...options }: DiffOptions) =>
    (await import("./hooks-diff.ts")).diffHooks(
      { ...options, draft: name, ...(config !== undefined && { today: config }) },
      io,
    ),
  );
  reading(
    drafts
      .command("try [name]")
      .description(
        "evaluate a draft beside live traffic and count what it would do; without a name, show the counts",
      )
      .option("--stop", "end the trial, and show its counts"),
    "rouse drafts try acme",
    "rouse drafts try",
    "rouse drafts try acme --stop",
  ).action((name: string | undefined, options: TryOptions) => tryDraft(name, options, io));
}

/** `rouse drafts`. */
export function register(program: Command, io: CliIo): void {
  const drafts = program
    .command("drafts")
    .description("mappings that are not live yet: test, compare, try and accept them");
  registerReading(drafts, io);
  addCommonOptions(
    landing(
      drafts
        .command("accept <name>")
        .description(
          "make a draft live: shows the change, checks the whole config with it, writes it, and removes the draft",
        )
        .option(
          "--into <file>",
          "add its mappings to this live file instead of a file of its own: rouse.json5, or one of mappings/",
        ),
    ).option("--json", "print JSON"),
    "rouse drafts accept acme",
    "rouse drafts accept acme --into rouse.json5 --yes",
    "rouse drafts accept acme --patch | git apply",
  ).action((name: string, { into, ...options }: LandOptions & { into?: string }) =>
    makeChange(
      { kind: "draft", name, into },
      `The draft ${name} is live (\`rouse config undo\` takes it back)`,
      options,
      io,
    ),
  );
  addCommonOptions(
    drafts
      .command("drop <name>")
      .description("remove a draft's file, and the fixtures that were proposed with it")
      .option("--json", "print JSON"),
    "rouse drafts drop acme",
  ).action((name: string, options: CommonOptions) => drop(name, options, io));
}
