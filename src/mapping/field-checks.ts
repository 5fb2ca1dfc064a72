/** What can be said of a mapping's fields before anything in it is compiled, and of fields that hold no expression. */
import { THINKING_LEVELS } from "../config/schema/common.ts";
import type { MappingConfig } from "../config/schema/mapping.ts";
import { didYouMean } from "../config/suggest.ts";
import { isCredentialName } from "../core/credential-name.ts";
import type { Issue } from "../core/errors.ts";
import { UNUSED_KEYS, type TEMPLATE_FIELDS } from "./compiled.ts";
import type { SourceOptions } from "./sources.ts";

/** What is loaded: agents, channels (and `last`), models that a mapping may name. */
export interface Known {
  agents: ReadonlySet<string>;
  channels: (name: string) => boolean;
  model: (name: string) => { ok: true } | { ok: false; message: string };
  /** Why replies can have no route; `to` is null if it is known only with the event. */
  routeProblem: (target: { channel: string; to?: string | null }) => { field: string; message: string } | undefined;
  /** Problems of a list of tool patterns, with their places below `path`. Default: none. */
  toolProblems?(patterns: readonly string[], path: string): readonly Issue[];
}

/** A problem, and the field of the mapping that has it. */
export interface FieldProblem {
  field: string;
  message: string;
}

/** The field that says what an action is about. */
export const CONTENT_FIELD = { wake: "textTemplate", agent: "messageTemplate" } as const;

/** Finds fields that are missing, have no effect, or cannot stand together. */
export function checkUse(config: MappingConfig): FieldProblem[] {
  const problems: FieldProblem[] = [];
  const add = (field: string, message: string): void => void problems.push({ field, message });
  const content = CONTENT_FIELD[config.action];
  if (config[content] === undefined && config.transform === undefined)
    add(content, `is required for action "${config.action}", unless a transform makes it`);
  if (config.coalesce && config.forEach !== undefined)
    add("coalesce", "cannot stand beside `forEach`: collect the events, or make one action for each item");
  if (config.methods?.includes("GET") && config.dedupeKey === undefined) add("dedupeKey", "is required where `methods` has GET");
  if (config.transform === undefined)
    for (const useless of UNUSED_KEYS[config.action])
      if (config[useless] !== undefined) add(useless, `has no effect for action "${config.action}"`);
  for (const field of ["keepHeaders", "keepQuery"] as const)
    for (const [index, name] of config[field].entries())
      if (isCredentialName(name)) add(`${field}[${index}]`, "may carry a credential: such a value is never kept");
  return problems;
}

/** Checks a field that holds no expression against what is loaded. */
export function checkLiteral(
  field: (typeof TEMPLATE_FIELDS)[number],
  text: string,
  { known, hooks }: { known: Known } & Pick<SourceOptions, "hooks">,
): FieldProblem[] {
  const problem = (message: string): FieldProblem[] => [{ field, message }];
  if (field === "agentId") {
    if (!known.agents.has(text)) return problem(`names no agent.${didYouMean(text, known.agents)}`);
    return hooks.allowedAgentIds && !hooks.allowedAgentIds.includes(text) ? problem("is not in hooks.allowedAgentIds") : [];
  }
  if (field === "channel") return known.channels(text) ? [] : problem("names no channel; use `last` or one that is loaded");
  if (field === "model") {
    const model = known.model(text);
    return model.ok ? [] : problem(model.message);
  }
  if (field === "thinking" && !(THINKING_LEVELS as readonly string[]).includes(text))
    return problem(`use one of ${THINKING_LEVELS.join(", ")}`);
  return [];
}
