import { checkToolList, type ToolCheck } from "../agent/tool-checks.ts";
import { OPERATOR } from "../config/schema/tools.ts";
import type { Config } from "../config/schema/index.ts";
import { didYouMean } from "../config/suggest.ts";
import type { Issue } from "../core/errors.ts";
import { parseApprove, TRAIT_NAMES } from "./policy.ts";

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
