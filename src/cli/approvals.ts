import { Option, type Command } from "commander";
import type { ApprovalView } from "../admin/approvals.ts";
import { connected, read, withId, type GatewayConnection } from "./connect.ts";
import { usage } from "./failure.ts";
import { askYes, type CliIo } from "./io.ts";
import { listing, reading, type CommonOptions, type PageOptions } from "./options.ts";
import { printBlock, printFields, printJson, printMore, printTable } from "./print.ts";
import { readListPage } from "./search.ts";
import { cell, localTime, shortTime } from "./text.ts";

interface ListOptions extends PageOptions {
  run?: string;
  all?: boolean;
}

interface DecideOptions extends CommonOptions {
  note?: string;
  always?: boolean;
  any?: string;
  yes?: boolean;
}

const describeState = ({ decision }: ApprovalView): string =>
  decision ? `${decision.verdict} by ${decision.by}` : "open";

async function list({ run: runId, all, ...options }: ListOptions, io: CliIo): Promise<void> {
  const { since, limit, before } = options;
  const state = all ? undefined : "open";
  const answer = await connected(options, io, ({ api }) =>
    readListPage(
      io,
      { before, limit },
      (page) => read(api.approvals.$get({ query: { state, runId, since, ...page } })),
      ({ approvals }) => approvals,
    ),
  );
  if (options.json) return printJson(io, answer);
  const { approvals } = answer;
  const rows = approvals.map((approval) => [
    approval.code,
    shortTime(approval.askedAt, io.now()),
    shortTime(approval.expiresAt, io.now()),
    approval.agentId,
    approval.tool,
    ...(all ? [describeState(approval)] : []),
    approval.why,
  ]);
  printTable(
    io,
    ["CODE", "ASKED", "UNTIL", "AGENT", "TOOL", ...(all ? ["STATE"] : []), "WHY"],
    rows,
  );
  printMore(io, `rouse approvals list${all ? " --all" : ""}`, answer);
}

function printApproval(approval: ApprovalView, io: CliIo): void {
  const { decision } = approval;
  printFields(io, {
    approval: approval.code,
    id: approval.id,
    agent: approval.agentId,
    tool: approval.tool,
    why: approval.why,
    "asked by": approval.askedBy,
    run: approval.runId,
    asked: localTime(approval.askedAt),
    until: decision ? null : localTime(approval.expiresAt),
    decision: decision && `${decision.verdict} by ${decision.by}, ${localTime(decision.at)}`,
    note: decision?.note,
  });
  printBlock(io, "arguments (what the model wrote)", JSON.stringify(approval.input, null, 2));
  if (approval.refused.length > 0)
    printBlock(
      io,
      "refused decisions",
      approval.refused
        .map(({ verdict, by, at, code }) => `${localTime(at)}  ${verdict} by ${by}: ${code}`)
        .join("\n"),
    );
  if (!decision)
    io.out(
      `\ndecide: ${approval.verdicts.map((verdict) => `rouse approvals ${toCommand(verdict)} ${approval.code}`).join("\n        ")}\n`,
    );
}

async function show(code: string, options: CommonOptions, io: CliIo): Promise<void> {
  const answer = await connected(options, io, ({ api }) =>
    read(api.approvals[":id"].$get(withId(code))),
  );
  if (options.json) return printJson(io, answer);
  printApproval(answer.approval, io);
}

type Verdict = ApprovalView["verdicts"][number];
const toCommand = (verdict: Verdict): string => verdict.replace("_", "-");
const toNames = (text = ""): string[] =>
  text
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");

/** Shows the rule that is to be saved, and asks. */
async function confirmRule(
  { api }: GatewayConnection,
  code: string,
  any: string[],
  yes: boolean,
  io: CliIo,
): Promise<void> {
  const { rule } = await read(api.approvals[":id"].rule.$post({ ...withId(code), json: { any } }));
  io.err(`From now on these calls are made without asking:\n  ${cell(rule)}\n`);
  if (yes) return;
  const isMeant = await askYes(io, "Save this rule?");
  if (isMeant === undefined)
    throw usage("--always saves a rule: look at it, and add --yes if this is no terminal");
  if (!isMeant) throw usage("nothing was decided and no rule was saved");
}

async function decide(
  code: string,
  verdict: Verdict,
  { note, always, any, yes = false, ...options }: DecideOptions,
  io: CliIo,
): Promise<void> {
  if (any !== undefined && !always)
    throw usage("--any names arguments of a rule: it needs --always");
  const names = toNames(any);
  const { live, ...answer } = await connected(options, io, async (to) => {
    if (always) await confirmRule(to, code, names, yes, io);
    const json = { verdict, note, always: always ? { any: names } : undefined };
    return {
      live: to.live,
      ...(await read(to.api.approvals[":id"].$post({ ...withId(code), json }))),
    };
  });
  if (options.json) return printJson(io, answer);
  const { approval, rule } = answer;
  io.out(`${approval.code}  ${approval.tool}  ${describeState(approval)}\n`);
  if (rule) io.out(`${rule.id}  saved: ${cell(rule.text)}\n`);
  if (!live) io.out("no gateway runs just now: the run goes on with the next `rouse start`\n");
}

async function listRules(options: CommonOptions, io: CliIo): Promise<void> {
  const answer = await connected(options, io, ({ api }) => read(api.approvals.rules.$get()));
  if (options.json) return printJson(io, answer);
  const rows = answer.rules.map((rule) => [
    rule.id,
    shortTime(rule.createdAt, io.now()),
    rule.by,
    rule.text,
  ]);
  printTable(io, ["RULE", "MADE", "BY", "CALLS THAT ARE NOT ASKED ABOUT"], rows);
}

async function removeRule(id: string, options: CommonOptions, io: CliIo): Promise<void> {
  await connected(options, io, ({ api }) => api.approvals.rules[":id"].$delete(withId(id)));
  if (options.json) printJson(io, { removed: id });
  else io.out(`${cell(id)}  removed: such calls are asked about again\n`);
}

/** The commands that decide, and what each means. */
const DECISIONS: readonly (readonly [verdict: Verdict, summary: string])[] = [
  ["approve", "let the agent make the call"],
  ["deny", "keep the agent from making the call; it learns that, and goes on"],
  ["repeat", "make a call again whose outcome is unknown"],
  ["done", "treat a call whose outcome is unknown as done, and go on"],
  ["give_up", "end the run of a call whose outcome is unknown"],
];

export function register(program: Command, io: CliIo): void {
  const approvals = program
    .command("approvals")
    .description("calls of tools that wait for a person");
  listing(
    approvals
      .command("list")
      .description("calls that wait, newest first")
      .option("--run <id>", "of one run")
      .option("--all", "those that were decided too"),
    "rouse approvals list",
  ).action((options: ListOptions) => list(options, io));
  reading(
    approvals
      .command("show <code>")
      .description("one call with its arguments, and what made it ask"),
    "rouse approvals show 7f3",
  ).action((code: string, options: CommonOptions) => show(code, options, io));
  for (const [verdict, summary] of DECISIONS) {
    const name = toCommand(verdict);
    const command = approvals.command(`${name} <code>`).description(summary);
    if (verdict === "deny") command.option("--note <text>", "words for the agent");
    if (verdict === "approve")
      command
        .option(
          "--always",
          "save a rule, so that such calls are not asked about again: the same tool with the same arguments",
        )
        .option("--any <names>", "arguments that may differ in later calls, with commas between")
        .addOption(new Option("--yes", "save the rule without asking"));
    const more =
      verdict === "approve" ? ["rouse approvals approve 7f3 --always --any amount,memo"] : [];
    reading(
      command,
      `rouse approvals ${name} 7f3${verdict === "deny" ? ' --note "Ask Ann first."' : ""}`,
      ...more,
    ).action((code: string, options: DecideOptions) => decide(code, verdict, options, io));
  }
  const rules = approvals.command("rules").description("rules that --always has saved");
  reading(
    rules.command("list", { isDefault: true }).description("rules, oldest first"),
    "rouse approvals rules",
  ).action((options: CommonOptions) => listRules(options, io));
  reading(
    rules.command("remove <rule>").description("remove a rule: such calls are asked about again"),
    "rouse approvals rules remove rul_…",
  ).action((id: string, options: CommonOptions) => removeRule(id, options, io));
}
