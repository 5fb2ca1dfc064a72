import { relative } from "node:path";
import { RouseError, type ErrorCode } from "../../core/errors.ts";
import type { ProposalPlan } from "../../operate/proposals/prepare.ts";
import type { ProposalRequest } from "../../operate/proposals/proposal-request.ts";
import type { Proposal, ProposalLine } from "../../operate/proposals/proposals.ts";
import { doing } from "../command.ts";
import { connected, readLines, type GatewayConnection } from "../gateway/connect.ts";
import { usage } from "../failure.ts";
import { resolveId } from "../ids.ts";
import type { CliIo } from "../io.ts";
import { printBlock, printJson } from "../print.ts";
import { printReport } from "./print-what-if.ts";
import { cell } from "../text.ts";
import { plural } from "../../core/text.ts";

const PROPOSE_OPTIONS = {
  "--event <id...>": "the events, of one hook",
  "--say <text>": "what the mapping is for",
  "--model <model>": "the model that proposes (default: that of the default agent)",
  "--no-model": "ask no model: draft from the fields that the events have",
  "--agent <id>": "the agent that takes the turns of the mapping",
  "--deliver <route>": "where replies go: <channel>:<recipient>, <channel> or none",
} as const;

const number = (value: number): string => value.toLocaleString("en");

function readDeliver(text: string | undefined): ProposalRequest["deliver"] {
  if (text === undefined) return undefined;
  if (text === "none") return false;
  const [, channel, to] = /^([^:]+)(?::(.+))?$/.exec(text) ?? [];
  if (channel === undefined)
    throw usage(`--deliver ${text}: write <channel>:<recipient>, <channel> or none`);
  return { channel, ...(to !== undefined && { to }) };
}

/** Prints what will be done, and what it may cost, before a model is asked. */
function printPlan(
  { name, path, events, model, masked, leftOut, notes }: ProposalPlan,
  io: CliIo,
): void {
  io.out(`${name}, from ${plural(events, "event")} of ${path}\n`);
  for (const { eventId, reason } of leftOut) io.out(`left out: ${eventId}, ${cell(reason)}\n`);
  for (const note of notes) io.out(`note: ${cell(note)}\n`);
  if (masked.length > 0) io.out(`masked: ${cell(masked.join(", "))}\n`);
  if (!model) return;
  const { ref, shown, maxRounds, maxTokens, estimatedTokens, estimatedUsd, maxUsd } = model;
  const cost =
    estimatedUsd === null || maxUsd === null
      ? "the price is not known"
      : `about $${estimatedUsd}, and at most $${maxUsd} in all`;
  io.out(
    `${ref} gets the fields, ${plural(shown.length, "masked body", "masked bodies")} and your words; it has no tools\n`,
  );
  io.out(
    `at most ${maxRounds} rounds and ${number(maxTokens)} tokens; a round takes about ${number(estimatedTokens)} (${cost})\n\n`,
  );
}

function printLine(line: ProposalLine, io: CliIo): void {
  if (line.type === "plan") printPlan(line.plan, io);
  if (line.type !== "round") return;
  const tokens =
    line.usage.totalTokens === undefined ? "" : ` (${plural(line.usage.totalTokens, "token")})`;
  io.out(`round ${line.round}: takes ${line.taken} of ${plural(line.events, "event")}${tokens}\n`);
  for (const problem of line.problems) io.out(`  ${cell(problem)}\n`);
}

function printEvents({ events, mapping }: Proposal, io: CliIo): void {
  for (const { eventId, isTaken, takenBefore, missing } of events) {
    const before = takenBefore === null ? "" : `, but ${takenBefore} takes it before`;
    const without = missing.length === 0 ? "" : `, without ${missing.join(", ")}`;
    io.out(
      `${eventId}  ${cell(`${isTaken ? `${mapping} takes it` : `${mapping} does not take it`}${before}${without}`)}\n`,
    );
  }
}

function printWritten(proposal: Proposal, io: CliIo): void {
  const { file, text, mapping, fixtures, whatIf, unwritten } = proposal;
  const shown = (one: string): string => relative(io.cwd, one);
  if (unwritten) {
    io.err(`nothing was written: ${unwritten.reason}\nThe file as a patch, for \`git apply\`:\n\n`);
    return io.out(unwritten.patch);
  }
  io.out(`\nWrote ${shown(file)}. ${mapping} is in shadow: it starts nothing.\n`);
  for (const fixture of fixtures)
    io.out(
      `Wrote ${shown(fixture.file)}: ${fixture.outcome}${fixture.mapping === null ? "" : ` by ${fixture.mapping}`}\n`,
    );
  printBlock(io, "mapping", text);
  printEvents(proposal, io);
  for (const problem of proposal.problems) io.out(`problem: ${cell(problem)}\n`);
  for (const note of proposal.notes) io.out(`note: ${cell(note)}\n`);
  if (whatIf) {
    io.out("\nonce it is live:\n");
    printReport(whatIf, io);
  }
  io.out(`\nRead it, and let it run:\n  rouse test\n  rouse hooks enable ${mapping}\n`);
}

/** Makes a proposal, and prints how it goes. */
async function make(
  to: GatewayConnection,
  wanted: Omit<ProposalRequest, "write">,
  io: CliIo,
): Promise<Proposal> {
  const json = { ...wanted, events: [...wanted.events] };
  for await (const line of readLines<ProposalLine>(to.api.proposals.$post({ json }))) {
    printLine(line, io);
    if (line.type !== "end") continue;
    if (line.ok) return line.proposal;
    throw new RouseError({ code: line.code as ErrorCode, message: line.message });
  }
  throw new RouseError({
    code: "internal",
    message: "the gateway ended before the proposal was made",
  });
}

export const proposeCommand = doing({
  usage: "propose <name>",
  about:
    "write a mapping with its fixtures from up to 20 recorded events of a hook, in shadow until `rouse hooks enable`. A model sees the fields, at most 5 bodies with masked values and your words, and cannot choose who may call, where replies go, agent, model or code",
  examples: [
    'rouse propose tickets --event evt_… evt_… --say "page me when a P1 ticket opens" --agent ops',
    "rouse propose tickets --event latest --no-model",
  ],
  options: PROPOSE_OPTIONS,
  json: true,
  async run(io, options, name) {
    const { event: named = [], say, agent, json } = options;
    const model = options.model === true ? undefined : options.model;
    if (named.length === 0)
      throw usage("name the events: --event evt_… (`rouse events --outcome unmatched` shows some)");
    const deliver = readDeliver(options.deliver);
    // With --json standard output has the proposal alone.
    const shown = json ? { ...io, out: io.err } : io;
    const proposal = await connected(options, io, async (to) => {
      const events: string[] = [];
      for (const id of named) events.push(await resolveId(to, "events", id));
      return make(to, { name, events, say, model, agent, deliver }, shown);
    });
    if (json) printJson(io, { proposal });
    else printWritten(proposal, io);
  },
});
