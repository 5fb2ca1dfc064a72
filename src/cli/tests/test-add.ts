import { relative } from "node:path";
import { plural } from "../../core/text.ts";
import type { EventDetail, RunDetail } from "../../operate/records/views.ts";
import { WITHOUT_MAPPINGS } from "../../intake/authenticate.ts";
import { checkFixtureName } from "../../operate/tests/fixture-files.ts";
import { freezeTest, type Freezable, type FrozenTest } from "../../operate/tests/freeze.ts";
import { getCutResults, recordRun } from "../../operate/tests/run-record.ts";
import { doing } from "../command.ts";
import { connected, read, withId, type GatewayConnection } from "../gateway/connect.ts";
import { fetchEvent, resolveId } from "../ids.ts";
import { EXIT, type CliIo } from "../io.ts";
import { withFiles } from "../gateway/offline.ts";
import { printFields, printJson } from "../print.ts";

/** The event whose request leads to the run: not if several events do, no mapping decides, or its body is no longer kept. */
async function findEvent(
  to: GatewayConnection,
  { eventId, collected, mapping }: RunDetail,
): Promise<EventDetail | undefined> {
  if (eventId === null || collected !== null || mapping === null) return undefined;
  const { event } = await read(to.api.events[":id"].$get(withId(eventId)));
  const {
    path,
    request: { body },
  } = event;
  return body === null || WITHOUT_MAPPINGS.has(path) ? undefined : event;
}

/**
 * Reads a run that has ended with all that a fixture needs of it.
 * @throws RouseError `not_found`, or `usage` if it has not ended.
 */
async function fetchRun(to: GatewayConnection, id: string): Promise<Freezable> {
  const found = withId(await resolveId(to, "runs", id));
  const { runs } = to.api;
  const [{ run }, { steps }] = await Promise.all([
    read(runs[":id"].$get(found)),
    read(runs[":id"].steps.$get(found)),
  ]);
  const results = new Map<string, string>();
  for (const result of getCutResults(steps)) {
    const answer = await read(
      runs[":id"].results[":result"].$get({
        param: { ...found.param, result: encodeURIComponent(result) },
      }),
    );
    results.set(result, answer.result.text);
  }
  const event = await findEvent(to, run);
  const action = event?.actions.findIndex((one) => one.id === run.id);
  const count = event?.actions.length ?? 0;
  const { createdAt, mapping } = run;
  const recording = { run, steps, results };
  const recorded = recordRun(recording, event !== undefined, count > 1 ? action : undefined);
  return { event, recorded: { run: recorded, createdAt, mapping } };
}

function renderMapping({ outcome, mapping, actions = [] }: FrozenTest["expect"]): string {
  const by = mapping === undefined ? "" : ` by ${mapping}`;
  const count = actions.length === 0 ? "" : `, ${plural(actions.length, "action")}`;
  return `${outcome}${by}${count}`;
}

function renderReply({ reply }: NonNullable<FrozenTest["run"]>): string {
  return reply === undefined
    ? "nothing: the run has no reply; fill in expect.reply"
    : "a judge compares with the recorded reply";
}

function print({ written, expect, masked, reason, run }: FrozenTest, io: CliIo): void {
  const calls = run?.calls.map(({ tool }) => tool).join(", ");
  printFields(io, {
    fixture: written && relative(io.cwd, written),
    expects: expect.outcome === undefined ? null : renderMapping(expect),
    reason,
    missing: expect.missing?.join(", "),
    calls: calls === "" ? "none" : calls,
    reply: run && renderReply(run),
    masked: masked.join(", "),
  });
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

export const testAdd = doing({
  usage: "add <id>",
  about:
    "write a recorded event with what today's mappings make of it, or a run of an agent with the answers of its tools, into hooks.testsDir; secrets, mail addresses, phone numbers and names are masked",
  examples: [
    "rouse test add latest",
    "rouse test add evt_… --name big-order --mask payload.note",
    "rouse test add evt_… --keep payload.sender.login",
    "rouse test add latest --run --name refund",
  ],
  options: {
    "--run": "the id is that of a run: `latest` is the newest one",
    "--name <name>": "the file's name (default: the mapping's)",
    "--mask <path...>": "further fields to mask, such as payload.note",
    "--keep <path...>": "fields whose values stay",
    "--no-mask": "mask nothing",
  },
  json: true,
  async run(io, options, id) {
    const { name, mask, keep = [], json = false } = options;
    if (name !== undefined) checkFixtureName(name);
    const isRun = options.run === true || id.startsWith("run_");
    const source = await connected({ ...options, json: true }, io, async (to): Promise<Freezable> =>
      isRun ? fetchRun(to, id) : { event: (await fetchEvent(to, id)).event },
    );
    await withFiles({ config: options.config }, io, async ({ snapshot }) => {
      const fields = mask === false ? false : Array.isArray(mask) ? mask : [];
      const frozen = await freezeTest(source, snapshot, { name, mask: fields, keep });
      if (frozen.changedBy) return refuse(frozen.changedBy, json, io);
      const { reason: _reason, changedBy: _changedBy, ...written } = frozen;
      if (json) return printJson(io, written);
      print(frozen, io);
      const { outcome } = source.event ?? {};
      if (outcome !== undefined && outcome !== frozen.expect.outcome && outcome !== "duplicate")
        io.out(
          `\nthe event itself was ${outcome}: the fixture expects what today's mappings make of it\n`,
        );
      io.out(
        "\nread the file before you share it: only values that look private were masked (--mask PATH masks more)\n",
      );
      if (frozen.run)
        io.out(
          "expect.reply.contains names words that the reply must have; `rouse test --agents` runs the agent\n",
        );
    });
  },
});
