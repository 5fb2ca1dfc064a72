import { relative } from "node:path";
import type { Command } from "commander";
import type { EventDetail } from "../admin/views.ts";
import { recordFixture } from "../workbench/fixture-record.ts";
import { freezeEvent, type FrozenEvent } from "../workbench/freeze.ts";
import type { FixtureFile } from "../workbench/fixture.ts";
import { findRunMasks, getMaskableRun, maskRun, prepareReply } from "../workbench/run-record.ts";
import type { MaskOptions } from "../workbench/masks.ts";
import type { Snapshot } from "../intake/types.ts";
import { connected } from "./connect.ts";
import { fetchEvent } from "./events.ts";
import { usage } from "./failure.ts";
import { fetchRun, type FetchedRun } from "./fixtures-run.ts";
import { checkFixtureName, writeFixture } from "../workbench/fixture-files.ts";
import { EXIT, type CliIo } from "./io.ts";
import { withFiles } from "./offline.ts";
import { reading, type CommonOptions } from "./options.ts";
import { printFields, printJson } from "./print.ts";

interface AddOptions extends CommonOptions {
  run?: string;
  name?: string;
  /** False with `--no-mask`. */
  mask?: string[] | boolean;
  keep?: string[];
}

function print(
  { written, expect, masked, reason }: FrozenEvent,
  event: EventDetail,
  io: CliIo,
): void {
  const count = expect.actions?.length ?? 0;
  const by = expect.mapping === undefined ? "" : ` by ${expect.mapping}`;
  printFields(io, {
    fixture: written && relative(io.cwd, written),
    expects: `${expect.outcome}${by}${count === 0 ? "" : `, ${count} ${count === 1 ? "action" : "actions"}`}`,
    reason,
    missing: expect.missing?.join(", "),
    masked: masked.join(", "),
  });
  if (event.outcome !== expect.outcome && event.outcome !== "duplicate")
    io.out(
      `\nthe event itself was ${event.outcome}: the fixture expects what today's mappings make of it\n`,
    );
  io.out(
    "\nread the file before you share it: only values that look private were masked (--mask PATH masks more)\n",
  );
}

/** Says by which fields masking changes the outcome. */
function refuse(changedBy: readonly string[], isJson: boolean, io: CliIo): void {
  io.err(
    `rouse: masking changes what the mappings do, by ${changedBy.join(", ")}; nothing was written\n`,
  );
  io.err(`  --keep ${changedBy.join(" ")} leaves these values as they are, --no-mask leaves all\n`);
  io.exitCode = EXIT.failure;
  if (isJson) printJson(io, { written: null, changedBy });
}

const toMasking = ({ mask, keep = [] }: AddOptions): MaskOptions | false =>
  mask === false ? false : { mask: Array.isArray(mask) ? mask : [], keep };

async function addEvent(id: string, options: AddOptions, io: CliIo): Promise<void> {
  if (options.name !== undefined) checkFixtureName(options.name);
  const { event } = await connected({ ...options, json: true }, io, (to) => fetchEvent(to, id));
  await withFiles({ config: options.config }, io, async ({ snapshot }) => {
    const masking = toMasking(options);
    const frozen = await freezeEvent(event, snapshot, {
      name: options.name,
      mask: masking ? (masking.mask ?? []) : false,
      keep: options.keep ?? [],
    });
    if (frozen.changedBy) return refuse(frozen.changedBy, options.json === true, io);
    if (options.json)
      return printJson(io, {
        written: frozen.written,
        masked: frozen.masked,
        expect: frozen.expect,
      });
    print(frozen, event, io);
  });
}

interface RecordedCase {
  content: FixtureFile;
  masked: string[];
  changedBy: string[] | null;
  path: string;
}

/** Makes a case of a run: with the request of its event, or with its prompt. */
async function recordCase(
  { run, event, createdAt }: FetchedRun,
  snapshot: Snapshot,
  masking: MaskOptions | false,
): Promise<RecordedCase> {
  const listFields = (masks: readonly { fields: string[] }[]): string[] => [
    ...new Set(masks.flatMap(({ fields }) => fields)),
  ];
  if (!event) {
    const masks = findRunMasks(run, masking);
    const masked = maskRun(run, masks);
    const content = { receivedAt: createdAt, run: masked, expect: { reply: prepareReply(masked) } };
    return {
      content,
      masked: listFields(masks),
      changedBy: null,
      path: `runs/${run.agent ?? "main"}`,
    };
  }
  const { file, masks, changedBy } = await recordFixture(
    event,
    snapshot,
    masking,
    getMaskableRun(run),
  );
  const { expect, ...request } = file;
  const masked = maskRun(run, masks);
  const content = { ...request, run: masked, expect: { ...expect, reply: prepareReply(masked) } };
  return { content, masked: listFields(masks), changedBy, path: event.path };
}

async function addRun(id: string, options: AddOptions, io: CliIo): Promise<void> {
  const name = options.name === undefined ? undefined : checkFixtureName(options.name);
  const fetched = await connected({ ...options, json: true }, io, (to) => fetchRun(to, id));
  await withFiles({ config: options.config }, io, async ({ snapshot }) => {
    const { content, masked, changedBy, path } = await recordCase(
      fetched,
      snapshot,
      toMasking(options),
    );
    if (changedBy) return refuse(changedBy, options.json === true, io);
    const base = fetched.mapping ?? "run";
    const file = await writeFixture(content, {
      testsDir: snapshot.config.hooks.testsDir,
      path,
      name,
      base,
    });
    if (options.json)
      return printJson(io, { written: file, masked, run: content.run, expect: content.expect });
    const { calls = [], reply, prompt } = content.run ?? {};
    printFields(io, {
      case: relative(io.cwd, file),
      asks:
        prompt === undefined ? "what the mappings make of the request" : "the prompt of the run",
      calls: calls.length === 0 ? "none" : calls.map(({ tool }) => tool).join(", "),
      expects:
        reply === undefined
          ? "nothing: the run has no reply; fill in expect.reply"
          : "a judge compares with the recorded reply",
      masked: masked.join(", "),
    });
    io.out(
      "\nread the file before you share it: only values that look private were masked (--mask PATH masks more)\n",
    );
    io.out(
      "expect.reply.contains names words that the reply must have; `rouse eval` runs the agent on the case\n",
    );
  });
}

async function add(
  id: string | undefined,
  { run, ...options }: AddOptions,
  io: CliIo,
): Promise<void> {
  if ((id === undefined) === (run === undefined)) throw usage("name an event, or a run with --run");
  return run === undefined ? addEvent(id as string, options, io) : addRun(run, options, io);
}

export function register(program: Command, io: CliIo): void {
  const fixtures = program
    .command("fixtures")
    .description("turn events and runs into fixtures for `rouse test` and `rouse eval`");
  reading(
    fixtures
      .command("add [event]")
      .description(
        "write a recorded event with what today's mappings make of it into hooks.testsDir; secrets, mail addresses, phone numbers and names are masked. With --run: a run of an agent with the answers of its tools, for `rouse eval`",
      )
      .option("--run <id>", "a run in place of an event")
      .option("--name <name>", "the file's name (default: the mapping's)")
      .option("--mask <path...>", "further fields to mask, such as payload.note")
      .option("--keep <path...>", "fields whose values stay")
      .option("--no-mask", "mask nothing"),
    "rouse fixtures add latest",
    "rouse fixtures add evt_… --name big-order --mask payload.note",
    "rouse fixtures add evt_… --keep payload.sender.login",
    "rouse fixtures add --run latest --name refund",
  ).action((id: string | undefined, options: AddOptions) => add(id, options, io));
}
