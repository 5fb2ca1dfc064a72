import { RouseError } from "../../core/errors.ts";
import { plural } from "../../core/text.ts";
import type { ApprovalView } from "../../operate/people/approvals.ts";
import type { NoteView } from "../../operate/people/memory.ts";
import type { ScheduleView } from "../../operate/people/schedules.ts";
import type { ToolView } from "../../operate/people/tools.ts";
import { unknownId } from "../../vocabulary/unknown-id.ts";
import { asking, LIMIT_OPTION, listing, paging, type AskedGateway, type Noun } from "../command.ts";
import { read, withId, type GatewayConnection } from "../gateway/connect.ts";
import { usage } from "../failure.ts";
import { readOne, requireYes } from "../options.ts";
import { renderOutput } from "./print-run.ts";
import { printBlock, printDetail, printLines, printRecord } from "../print.ts";
import { cell, localTime, localZone, printable, zonedTime } from "../text.ts";

export const agentsCommand = listing({
  usage: "agents",
  about: "the agents of the config, with their models and tools",
  examples: ["rouse agents"],
  ask: ({ api }) => read(api.agents.$get()),
  rows: ({ agents: all }) => all,
  columns: [
    "id",
    "name",
    "model",
    "thinking",
    "tools",
    ["main", ({ standard }) => standard],
    "description",
  ],
});

/** Says who is offered a tool: hook runs, with the mappings that differ, chats and the API. A reason is given once. */
function renderOffered({ hooks, exceptions, chats, api }: ToolView): string[] {
  const render = (why: string | null) => (why === null ? "yes" : `no: ${why}`);
  const others = exceptions.map((id) => `; ${hooks === null ? "no" : "yes"} in ${id}`);
  const rest = [chats, api].map((why) => (why !== null && why === hooks ? "no" : render(why)));
  return [render(hooks) + others.join(""), ...rest];
}

const toolsList = listing({
  about: "tools of servers and plugins, built-in ones, and where agents are offered them",
  examples: ["rouse tools --agent main"],
  options: { "--agent <id>": "of one agent" },
  ask: ({ api }, { agent }) => read(api.tools.$get({ query: { agent } })),
  rows: (answer) =>
    answer.agents.flatMap(({ agentId, tools: all }) => all.map((tool) => ({ agentId, ...tool }))),
  columns: [
    "agentId",
    "tool",
    "from",
    ["hook runs", (tool) => renderOffered(tool)[0]],
    ["chats", (tool) => renderOffered(tool)[1]],
    ["api", (tool) => renderOffered(tool)[2]],
    "approval",
  ],
  after({ warnings }, io) {
    for (const warning of warnings) io.out(`warning: ${cell(warning)}\n`);
  },
});

function readArguments(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value))
      return value as Record<string, unknown>;
  } catch {
    // Said below.
  }
  throw usage(`the arguments are a JSON object, such as '{"town":"Ulm"}'`);
}

/** Asks before a call that changes something, or that an agent would have to ask for. */
async function confirmCall({ api, io }: AskedGateway, name: string): Promise<void> {
  const answer = await read(api.tools.$get({ query: {} }));
  const found = answer.agents.flatMap(({ tools: all }) => all).filter(({ tool }) => tool === name);
  if (found.every(({ readOnly, approval }) => readOnly && approval === null)) return;
  const why = `${cell(name)} changes something, or needs an approval`;
  await requireYes(io, {
    question: `${why}. Call it?`,
    unasked: `${why}: add --yes if this is no terminal`,
    refused: "the tool was not called",
  });
}

const toolsTest = asking({
  usage: "test <tool> [arguments]",
  about: "call a tool of a server or a plugin once, and print its answer",
  examples: [`rouse tools test town.weather '{"town":"Ulm"}'`],
  options: { "--yes": "do not ask before a call that may change something" },
  async ask(to, { yes }, name, text) {
    const json = { arguments: readArguments(text ?? "{}") };
    if (!yes) await confirmCall(to, name);
    return read(to.api.tools[":id"].test.$post({ ...withId(name), json }));
  },
  isFailure: ({ output }) => output.isError,
  print: (answer, io) => io.out(`${printable(renderOutput(answer).join("\n"))}\n`),
});

export const toolsCommand: Noun = { list: toolsList, commands: [toolsTest] };

const describeState = ({ decision }: ApprovalView): string =>
  decision ? `${decision.verdict} by ${decision.by}` : "open";

const approvalsList = paging({
  noun: "approvals",
  about: "tool calls that wait for a person to decide, newest first",
  examples: ["rouse approvals"],
  options: { "--run <id>": "of one run", "--all": "also calls that were decided about" },
  ask: ({ api }, page, { run: runId, all }) =>
    read(api.approvals.$get({ query: { state: all ? undefined : "open", runId, ...page } })),
  rows: ({ approvals: found }) => found,
  columns: ["code", "askedAt", "expiresAt", "agentId", "tool", ["state", describeState], "why"],
});

type Verdict = ApprovalView["verdicts"][number];
const VERDICTS: readonly Verdict[] = ["approve", "deny", "repeat", "done", "give_up"];
const toWord = (verdict: Verdict): string => verdict.replace("_", "-");

const approvalsShow = asking({
  usage: "<code>",
  about: "one call with its arguments, and the reason that a person is asked",
  examples: ["rouse approvals 7f3"],
  ask: ({ api }, _, code) => read(api.approvals[":id"].$get(withId(code))),
  print({ approval }, io) {
    const { input, verdicts, refused, ...rest } = approval;
    const { decision, code } = approval;
    const state = describeState(approval);
    printDetail(io, { ...rest, state, arguments: JSON.stringify(input, null, 2) });
    const lines = refused.map(
      ({ verdict, by, at, code: reason }) => `${localTime(at)}  ${verdict} by ${by}: ${reason}`,
    );
    printLines(io, "refused decisions", lines);
    const decide = verdicts.map((verdict) => `rouse approvals decide ${code} ${toWord(verdict)}`);
    if (!decision) io.out(`\ndecide: ${decide.join("\n        ")}\n`);
  },
});

/** Shows the rule that is to be saved, and asks. */
async function confirmRule(
  { api, io }: AskedGateway,
  code: string,
  any: string[],
  yes: boolean,
): Promise<void> {
  const { rule } = await read(api.approvals[":id"].rule.$post({ ...withId(code), json: { any } }));
  io.err(`From now on these calls are made without asking:\n  ${cell(rule)}\n`);
  if (yes) return;
  await requireYes(io, {
    question: "Save this rule?",
    unasked: "--always saves a rule: look at it, and add --yes if this is no terminal",
    refused: "nothing was decided and no rule was saved",
  });
}

const approvalsDecide = asking({
  usage: "decide <code> <verdict>",
  about:
    "approve or deny a tool call; if a call was started and its outcome is unknown, repeat makes it again, done continues the run without it, and give-up ends the run",
  examples: [
    "rouse approvals decide 7f3 approve",
    "rouse approvals decide 7f3 approve --always --any amount,memo",
    'rouse approvals decide 7f3 deny --note "Ask Ann first."',
    "rouse approvals decide 7f3 give-up",
  ],
  options: {
    "--note <text>": "words for the agent, with deny",
    "--always":
      "save a rule with approve, so that such calls are not asked about again: the same tool with the same arguments",
    "--any <names>": "arguments that may differ in later calls, with commas between",
    "--yes": "save the rule without asking",
  },
  async ask(to, { note, always, any, yes = false }, code, word) {
    const verdict = VERDICTS.find((known) => toWord(known) === word);
    if (!verdict) throw usage(`"${word}": write ${VERDICTS.map(toWord).join(", ")}`);
    if (any !== undefined && !always)
      throw usage("--any names arguments of a rule: it needs --always");
    if (always && verdict !== "approve") throw usage("--always goes with approve");
    if (note !== undefined && verdict !== "deny") throw usage("--note goes with deny");
    const names = (any ?? "").split(",").map((name) => name.trim());
    const differing = names.filter((name) => name !== "");
    if (always) await confirmRule(to, code, differing, yes);
    const json = { verdict, note, always: always ? { any: differing } : undefined };
    return read(to.api.approvals[":id"].$post({ ...withId(code), json }));
  },
  print({ approval, rule }, io) {
    io.out(`${approval.code}  ${approval.tool}  ${describeState(approval)}\n`);
    if (rule) io.out(`${rule.id}  saved: ${cell(rule.text)}\n`);
  },
  later: "the run goes on with the next `rouse start`",
});

const approvalsRules = listing({
  about: "rules that --always has saved, oldest first",
  examples: ["rouse approvals --rules", "rouse approvals --rules --remove rul_…"],
  options: { "--remove <rule>": "remove this rule: such calls are asked about again" },
  async ask({ api }, { remove }) {
    if (remove !== undefined) await api.approvals.rules[":id"].$delete(withId(remove));
    return read(api.approvals.rules.$get());
  },
  rows: ({ rules }) => rules,
  none: "no rules; `rouse approvals decide <code> approve --always` saves one",
  columns: ["id", "createdAt", "by", "text"],
});

export const approvalsCommand: Noun = {
  list: approvalsList,
  show: approvalsShow,
  views: { "--rules": approvalsRules },
  commands: [approvalsDecide],
};

/** The zone whose hours a schedule keeps. An interval has none, and is shown in that of the machine. */
const getZone = ({ timezone }: ScheduleView): string => timezone ?? localZone();

/** The newest firing, as `2026-01-31 08:00 succeeded`. */
function renderLast(schedule: ScheduleView): string | null {
  const { last } = schedule;
  if (!last) return null;
  const at = zonedTime(last.firedAt, getZone(schedule));
  return [at, last.status ?? "fired", ...(last.error ? [last.error.code] : [])].join(" ");
}

const schedulesList = listing({
  about: "schedules of all agents, when they fire next, and how they ended last",
  examples: ["rouse schedules"],
  ask: ({ api }) => read(api.schedules.$get()),
  rows: ({ schedules: all }) => all,
  columns: [
    "name",
    "when",
    ["zone", getZone],
    ["next", (one) => zonedTime(one.next[0] ?? null, getZone(one))],
    ["last", renderLast],
    "skipped",
    ["what", ({ text, action }) => (text === null ? "heartbeat" : `${action}: ${text}`)],
  ],
});

/** Finds the schedule that a name means: `<agent>/<id>`, or the id if one agent alone has it. */
async function find({ api }: GatewayConnection, name: string): Promise<ScheduleView> {
  const { schedules: all } = await read(api.schedules.$get());
  const exact = all.find((schedule) => schedule.name === name);
  const same = all.filter(({ id }) => id === name);
  const [only] = same;
  if (exact) return exact;
  if (only && same.length === 1) return only;
  if (only)
    throw usage(
      `several agents have a schedule "${cell(name)}": write ${same.map((one) => one.name).join(" or ")}`,
    );
  throw new RouseError(unknownId("schedule", name));
}

/** The parameters of a schedule's routes. */
const toParam = ({ agentId, id }: ScheduleView): { param: { agent: string; id: string } } => ({
  param: { agent: encodeURIComponent(agentId), id: encodeURIComponent(id) },
});

const schedulesShow = asking({
  usage: "<schedule>",
  about: "one schedule: its next times, its last firing, and what was skipped",
  examples: ["rouse schedules main/morning"],
  ask: async (to, _, name) =>
    read(to.api.schedules[":agent"][":id"].$get(toParam(await find(to, name)))),
  print({ schedule: { text, next, ...schedule } }, io) {
    const { action, outside } = schedule;
    const zone = getZone({ ...schedule, text, next });
    printDetail(io, { ...schedule, next: next.map((time) => `${zonedTime(time, zone)} ${zone}`) });
    if (text !== null) printBlock(io, outside ? `${action} (text from outside)` : action, text);
  },
});

const schedulesSet = asking({
  usage: "set <schedule>",
  about: "fire a schedule immediately, or remove one that an agent has proposed",
  examples: ["rouse schedules set morning --run", "rouse schedules set main/sch_… --remove"],
  options: {
    "--run": "fire it immediately; its next times stay as they are",
    "--remove": "delete it",
  },
  async ask(to, given, name) {
    const change = readOne(given, ["run", "remove"]);
    const found = await find(to, name);
    const routes = to.api.schedules[":agent"][":id"];
    if (change === "run")
      return { fires: found.name, ...(await read(routes.run.$post(toParam(found)))) };
    await read(routes.$delete(toParam(found)));
    return { removed: found.name };
  },
  print(answer, io) {
    if ("removed" in answer) return io.out(`${answer.removed}  removed\n`);
    const { fires, fired } = answer;
    io.out(`${fires}  fired${fired?.runId ? `: ${fired.runId}` : ""}\n`);
    if (!io.live) io.out("no gateway runs just now: the work begins with the next `rouse start`\n");
  },
});

export const schedulesCommand: Noun = {
  list: schedulesList,
  show: schedulesShow,
  commands: [schedulesSet],
};

const describeWords = ({ wordsOf, by }: NoteView): string =>
  wordsOf + (by === null ? "" : ` (${cell(by)})`);

const memoryList = listing({
  about: "notes, newest first",
  examples: ["rouse memory --session main"],
  options: {
    "--agent <id>": "of one agent",
    "--session <key>": "of one conversation, by the key that `rouse sessions` shows",
    ...LIMIT_OPTION,
  },
  ask: ({ api }, { agent, session, limit }) =>
    read(api.memory.$get({ query: { agent, session, limit } })),
  rows: ({ notes }) => notes,
  none: "no notes",
  columns: [
    "id",
    ["changed", ({ changedAt, createdAt }, time) => time(changedAt ?? createdAt)],
    "agentId",
    ["session", ({ session }) => session.key],
    ["words of", describeWords],
    "text",
  ],
  after({ notes, total }, io) {
    if (total > notes.length)
      io.out(`\n${total - notes.length} more: choose an agent or a session, or raise --limit\n`);
  },
});

const memorySet = asking({
  usage: "set <note> <text>",
  about: "correct a note: it counts as your words from then on",
  examples: ['rouse memory set mem_… "Ann is a vegetarian."'],
  ask: ({ api }, _, id, text) => read(api.memory[":id"].$patch({ ...withId(id), json: { text } })),
  print: ({ note }, io) =>
    printRecord(io, note, [
      "id",
      "agentId",
      ["session", ({ session }) => session.key],
      "text",
      ["words", describeWords],
      "runId",
    ]),
});

const memoryRemove = asking({
  usage: "remove [note]",
  about: "delete a note, or all notes of a conversation",
  examples: ["rouse memory remove mem_…", "rouse memory remove --session hook:shop:42"],
  options: {
    "--session <key>": "all notes of this conversation",
    "--agent <id>": "of this agent alone (default: of all agents)",
  },
  async ask({ api }, { session, agent }, id) {
    if (id === undefined && session !== undefined)
      return read(api.memory.$delete({ query: { session, agent } }));
    if (id === undefined || session !== undefined || agent !== undefined)
      throw usage("name one note, or choose all of a conversation with --session");
    return read(api.memory[":id"].$delete(withId(id)));
  },
  print(answer, io, { session = "" }) {
    if ("note" in answer) return io.out(`${answer.note.id}  deleted\n`);
    const count = plural(answer.deleted, "note");
    io.out(`${cell(session)}  ${count} deleted\n`);
  },
});

export const memoryCommand: Noun = { list: memoryList, commands: [memorySet, memoryRemove] };
