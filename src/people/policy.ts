import type { CallVerdict, JudgedCall } from "../agent/types.ts";
import type { ToolHints } from "../agent/tools/offered-tool.ts";
import { type UNTRUSTED, OPERATOR } from "../config/schema/tools.ts";
import { coversTool, REMEMBER_TOOL_NAME, SCHEDULE_TOOL_NAME } from "../vocabulary/tool-names.ts";
import { checkToolList, type ToolCheck } from "../agent/tools/tool-checks.ts";
import type { Config } from "../config/schema/index.ts";
import { didYouMean } from "../config/suggest.ts";
import type { Issue } from "../core/errors.ts";

/** Returns what is wrong with an entry of `approve`. */
function findApproveProblem(entry: string, check: ToolCheck): string | undefined {
  const { pattern, trait } = parseApprove(entry);
  if (trait !== undefined && !TRAIT_NAMES.includes(trait))
    return `":${trait.slice(0, 30)}" is none of ${TRAIT_NAMES.map((name) => `":${name}"`).join(" and ")}.${didYouMean(trait, TRAIT_NAMES)}`;
  return pattern === "*" ? undefined : check(pattern);
}

function checkApproveList(entries: readonly string[], path: string, check: ToolCheck): Issue[] {
  return entries.flatMap((entry, index): Issue[] => {
    const message = findApproveProblem(entry, check);
    return message === undefined ? [] : [{ path: `${path}[${index}]`, message }];
  });
}

/** Returns what is wrong with a mapping's `tools` or `approve`. */
export const findToolProblems = (
  field: "tools" | "approve",
  entries: readonly string[],
  check: ToolCheck,
): Issue[] =>
  field === "approve"
    ? checkApproveList(entries, field, check)
    : checkToolList(entries, field, check);

/** The channels of a snapshot, as far as approvers are checked. */
interface ApproverChannels {
  resolve(name: string): { id: string; loaded: boolean } | undefined;
  readonly names: readonly string[];
  readonly loaded: readonly { id: string; channel: { allowFrom?: readonly string[] } }[];
}

/** `<channel>:<person>`: both may have colons, and the longest name of a channel counts. */
export function splitPerson(
  approver: string,
  { resolve }: ApproverChannels,
): { channel: string; loaded: boolean; person: string } | undefined {
  const ends = [...approver.matchAll(/:/g)].map(({ index }) => index).toReversed();
  for (const end of ends) {
    const found = resolve(approver.slice(0, end));
    const person = approver.slice(end + 1);
    if (found && person !== "") return { channel: found.id, loaded: found.loaded, person };
  }
  return undefined;
}

/** Converts an entry of `tools.approvers` to the form of `by` in decisions, with the id of the channel. Undefined if the entry names no approver. */
function normalizeApprover(approver: string, channels: ApproverChannels): string | undefined {
  if (approver === OPERATOR || /^api:[^:]+$/.test(approver)) return approver;
  const split = splitPerson(approver, channels);
  return split && `${split.channel}:${split.person}`;
}

const FORMS = `write "${OPERATOR}", "api:<key id>" or "<channel>:<id of the person>"`;

function checkPerson(
  approver: string,
  channels: ApproverChannels,
): { issue?: string; warning?: string } {
  const split = splitPerson(approver, channels);
  const [name = ""] = approver.split(":");
  if (!split) {
    const known = [OPERATOR, "api", ...channels.names];
    return { issue: `names no approver: ${FORMS}.${didYouMean(name, known)}` };
  }
  if (!split.loaded)
    return { warning: `the channel "${name}" is not configured: this person cannot be asked` };
  const allowed = channels.loaded.find(({ id }) => id === split.channel)?.channel.allowFrom ?? [];
  if (allowed.includes(split.person)) return {};
  return {
    warning: `"${split.person}" is not in allowFrom of channels.${split.channel}, so this person may decide, but not write to the agent.${didYouMean(split.person, allowed)}`,
  };
}

/** Checks `approve` of agents and `tools.approvers`. `issues` are config errors; `approvers` are in the form of decisions. */
export function checkApprovals(
  config: Config,
  channels: ApproverChannels,
  check: ToolCheck,
): { issues: Issue[]; warnings: Issue[]; approvers: string[] } {
  const issues: Issue[] = [];
  const warnings: Issue[] = [];
  const { defaults, list } = config.agents;
  const lists = [
    ["agents.defaults.approve", defaults.approve] as const,
    ...list.map(({ approve = [] }, index) => [`agents.list[${index}].approve`, approve] as const),
  ];
  for (const [path, entries] of lists) issues.push(...checkApproveList(entries, path, check));
  const keys = config.platform.apiKeys.map(({ id }) => id);
  for (const [index, approver] of config.tools.approvers.entries()) {
    const path = `tools.approvers[${index}]`;
    const key = /^api:(.*)$/.exec(approver)?.[1];
    if (approver === OPERATOR || (key !== undefined && keys.includes(key))) continue;
    if (key !== undefined) {
      const message = `platform.apiKeys has no "${key}"; only a key of \`rouse keys create ${key}\` would count.${didYouMean(key, keys)}`;
      if (key === "") issues.push({ path, message: `names no key: ${FORMS}` });
      else warnings.push({ path, message });
      continue;
    }
    const { issue, warning } = checkPerson(approver, channels);
    if (issue !== undefined) issues.push({ path, message: issue });
    if (warning !== undefined) warnings.push({ path, message: warning });
  }
  const approvers = config.tools.approvers.flatMap(
    (approver) => normalizeApprover(approver, channels) ?? [],
  );
  return { issues, warnings, approvers };
}

type Untrusted = (typeof UNTRUSTED)[number];

/** The facts about the turn on which a call is judged. */
export interface JudgedTurn {
  /** Patterns of calls that wait for a person. */
  approve: readonly string[];
  untrusted: Untrusted;
  /** The policy for links that only outside text has named, and whether this call has such links. */
  links?: { policy: Untrusted; isFound: boolean };
  /** The same for e-mail addresses, telephone numbers and names on channels. */
  recipients?: { policy: Untrusted; isFound: boolean };
  /** The place of the outside text that the model sees; undefined if it sees none. */
  outside: OutsidePlace | undefined;
  /** Of a call that notes something: where the model sees text from outside that is more than what people have written in this conversation. */
  beyondPeople?: OutsidePlace | undefined;
  /** True if the operator has named the tool for hook runs and heartbeats, and this is one. */
  isNamed: boolean;
  /** True if a person can be asked. */
  canAsk: boolean;
  /** True if a saved rule covers the call. */
  isAllowed: boolean;
}

type Call = Pick<JudgedCall, "tool" | "hints" | "input">;

/** The traits that narrow a pattern. */
const TRAITS: Record<string, (hints: ToolHints) => boolean> = {
  changing: ({ readOnly }) => !readOnly,
  destructive: ({ destructive }) => destructive,
};
const TRAIT_NAMES = Object.keys(TRAITS);

/** Parses an entry of `approve`: `!bank.*:destructive`. */
function parseApprove(text: string): {
  isExcluded: boolean;
  pattern: string;
  trait: string | undefined;
} {
  const [, excluded = "", pattern = "", trait] = /^(!?)(.*?)(?::([^:]*))?$/s.exec(text) ?? [];
  return { isExcluded: excluded !== "", pattern, trait };
}

/** Returns the first entry of `approve` that demands approval of a call. Entries with `!` exclude tools, at any position of the list. */
function findApprove(approve: readonly string[], { tool, hints }: Call): string | undefined {
  const fits = (entry: string): boolean => {
    const { pattern, trait } = parseApprove(entry);
    return (
      (pattern === "*" || coversTool([pattern], tool)) &&
      (trait === undefined || (TRAITS[trait]?.(hints) ?? true))
    );
  };
  const [included, excluded] = [false, true].map((which) =>
    approve.filter((entry) => parseApprove(entry).isExcluded === which),
  );
  return excluded?.some(fits) ? undefined : included?.find(fits);
}

/** The place of the outside text that the model sees. */
export type OutsidePlace = "input" | "history" | "context" | "results" | "messages";

const SEEN: Record<OutsidePlace, string> = {
  input: "what the agent was given contains text from outside",
  history: "earlier turns of this conversation contain text from outside",
  context: "passages of documents, or other text from outside, were added to the turn",
  results: "a tool returned text from outside in this turn",
  messages: "the conversation that the caller sent contains results of tools",
};

const RECIPIENT = "an e-mail address, a telephone number or a name on a channel";
const UNNAMED = "that neither the operator, the owner nor the caller has named";

/** Decides whether a tool call is made, needs approval or is withheld. */
export function judgeCall(call: Call, turn: JudgedTurn): CallVerdict {
  const { tool, hints } = call;
  const ask = (reason: "rule" | "untrusted", why: string): CallVerdict =>
    turn.canAsk
      ? { kind: "ask", reason, why }
      : { kind: "withhold", why: `${why} No approver can be asked here.` };
  if (tool === SCHEDULE_TOOL_NAME) {
    const why = "A schedule always needs approval.";
    return turn.outside === undefined
      ? ask("rule", why)
      : ask("untrusted", `${why} When it was proposed, ${SEEN[turn.outside]}.`);
  }
  const isNote = tool === REMEMBER_TOOL_NAME;
  // The text would come back in later turns, in which nothing else shows that it is from outside.
  if (isNote && turn.beyondPeople !== undefined)
    return ask(
      "untrusted",
      `Notes of text from outside always need approval, and ${SEEN[turn.beyondPeople]}.`,
    );
  if (turn.isAllowed) return { kind: "run" };
  const entry = findApprove(turn.approve, call);
  if (entry !== undefined)
    return ask("rule", `Calls of ${tool} need approval: \`approve\` has "${entry}".`);
  if (isNote || hints.readOnly || turn.outside === undefined) return { kind: "run" };
  const { links, recipients } = turn;
  const concerns: { policy: Untrusted; why: string }[] = [
    // Naming a tool is consent to the tool, not to whom outside text has it reach.
    {
      policy: turn.isNamed ? "allow" : turn.untrusted,
      why: `${tool} may change something, and ${SEEN[turn.outside]}.`,
    },
    ...(recipients?.isFound
      ? [{ policy: recipients.policy, why: `${tool} would reach ${RECIPIENT} ${UNNAMED}.` }]
      : []),
    ...(links?.isFound
      ? [{ policy: links.policy, why: `${tool} would pass on a link to a host ${UNNAMED}.` }]
      : []),
  ];
  const raised = concerns.filter(({ policy }) => policy !== "allow");
  if (raised.length === 0) return { kind: "run" };
  const why = raised.map((concern) => concern.why).join(" ");
  return raised.some(({ policy }) => policy === "withhold")
    ? { kind: "withhold", why }
    : ask("untrusted", why);
}
