import type { MappingConfig } from "../config/schema/mapping.ts";
import type { Issue } from "../core/errors.ts";
import { sessionKeyProblem } from "../vocabulary/session-key.ts";
import { type CompiledMapping, UNUSED_KEYS, type TEMPLATE_FIELDS } from "./compiled.ts";
import type { Template } from "./template.ts";
import { THINKING_LEVELS } from "../config/schema/common.ts";
import { didYouMean } from "../config/suggest.ts";
import { isCredentialName } from "../core/http/credential-name.ts";
import { createHostList } from "../core/http/address.ts";
import { callbackKey } from "../core/secret.ts";
import type { MappingSource } from "./source.ts";
import type { SourceOptions } from "./sources.ts";
import type { MappingSettings } from "./types.ts";

type Kind = "headers" | "query";

/** A header or parameter that an expression names: `headers.x`, headers.`x`, `headers."x"`, `$lookup(headers, "x")`. */
const IN_TEXT: Record<Kind, RegExp> = { headers: naming("headers"), query: naming("query") };

function naming(kind: Kind): RegExp {
  return new RegExp(
    `\\b${kind}(?:\\s*\\.\\s*(?:\`([^\`]+)\`|"([^"]+)"|([\\w-]+))|\\s*,\\s*(?:"([^"]+)"|'([^']+)'))`,
    "g",
  );
}

/** Fields whose texts are no expressions. */
const NO_EXPRESSIONS = new Set<keyof MappingConfig>([
  "auth",
  "validate",
  "instructions",
  "callback",
]);

/** All texts of a value, at any depth. */
function textsIn(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

function conditionNames(conditions: object): string[] {
  return Object.entries(conditions).flatMap(([name, value]) => {
    if (!name.startsWith("$")) return [name];
    return [value as unknown]
      .flat()
      .flatMap((inner) =>
        typeof inner === "object" && inner !== null ? conditionNames(inner) : [],
      );
  });
}

/**
 * Returns the headers (lower-case) and query parameters that a mapping decides by, renders, or keeps for its module. What
 * an expression takes from `headers` or `query` as a whole is not seen.
 */
export function namesUsed(config: MappingConfig): Record<Kind, string[]> {
  const texts = Object.entries(config).flatMap(([field, value]) =>
    NO_EXPRESSIONS.has(field as keyof MappingConfig)
      ? []
      : textsIn(field === "match" ? config.match.when : value),
  );
  const named = (kind: Kind, conditions: object | undefined, kept: readonly string[]): string[] => {
    const found = texts.flatMap((text) =>
      [...text.matchAll(IN_TEXT[kind])].flatMap((one) =>
        one.slice(1).filter((name) => name !== undefined),
      ),
    );
    return [...conditionNames(conditions ?? {}), ...found, ...kept];
  };
  const headers = named("headers", config.match.headers, config.keepHeaders).map((name) =>
    name.toLowerCase(),
  );
  return {
    headers: [...new Set(headers)],
    query: [...new Set(named("query", config.match.query, config.keepQuery))],
  };
}

/**
 * Returns whether a prefix allows some key of a template: what follows its first expression is not known before an
 * event comes.
 */
function canStart({ literal, source, start }: Template, prefix: string): boolean {
  return literal ? source.startsWith(prefix) : prefix.startsWith(start) || start.startsWith(prefix);
}

/**
 * Finds mappings whose session key no event could ever use. The mappings of one preset usually share their prefix: each
 * preset and prefix is one issue.
 * @param prefixes `hooks.allowedSessionKeyPrefixes`
 */
export function sessionKeyIssues(
  mappings: readonly CompiledMapping[],
  prefixes: readonly string[] | undefined,
): Issue[] {
  const issues = new Map<string, Issue>();
  for (const { info, fields } of mappings) {
    const key = fields.find(({ field }) => field === "sessionKey")?.template;
    if (!key) continue;
    const path = `${info.at}.sessionKey`;
    // More text follows the start of a template.
    const problem = sessionKeyProblem(key.literal ? key.source : `${key.start}…`, undefined);
    if (problem !== undefined) {
      issues.set(path, { path, message: problem });
      continue;
    }
    if (!prefixes || prefixes.some((prefix) => canStart(key, prefix))) continue;
    const isPreset = info.origin.startsWith("preset:");
    const id = isPreset ? `${info.origin} ${key.start}` : path;
    const other = isPreset ? "change a copy of the preset in hooks.mappingsDir" : "change the key";
    const message = `starts with "${key.start}", which hooks.allowedSessionKeyPrefixes does not allow: add it there, or ${other}`;
    if (!issues.has(id)) issues.set(id, { path, message });
  }
  return [...issues.values()];
}

/** The loaded agents, channels (and `last`) and models that a mapping may name. */
export interface Known {
  agents: ReadonlySet<string>;
  channels: (name: string) => boolean;
  model: (name: string) => { ok: true } | { ok: false; message: string };
  /** Returns the reason that replies can have no route; `to` is null if it is known only with the event. */
  routeProblem: (target: {
    channel: string;
    to?: string | null;
  }) => { field: string; message: string } | undefined;
  /** Problems of `tools` or `approve`, with their places in the mapping. Default: none. */
  toolProblems?(field: "tools" | "approve", patterns: readonly string[]): readonly Issue[];
}

/** The field that says what an action is about. */
export const CONTENT_FIELD = { wake: "textTemplate", agent: "messageTemplate" } as const;

/** Finds fields that are missing, have no effect, or cannot stand together. Paths of issues are those in the mapping. */
export function checkUse(config: MappingConfig): Issue[] {
  const issues: Issue[] = [];
  const add = (path: string, message: string): void => void issues.push({ path, message });
  const content = CONTENT_FIELD[config.action];
  if (config[content] === undefined && config.transform === undefined)
    add(content, `is required for action "${config.action}", unless a transform makes it`);
  if (config.coalesce && config.forEach !== undefined)
    add(
      "coalesce",
      "cannot stand beside `forEach`: collect the events, or make one action for each item",
    );
  if (config.dedupeKey?.includes("{{") === false)
    add("dedupeKey", "is the same for all events, and takes the first alone: write `{{ id }}`");
  if (config.methods?.includes("GET") && config.dedupeKey === undefined)
    add("dedupeKey", "is required where `methods` has GET");
  if (config.transform === undefined)
    for (const useless of UNUSED_KEYS[config.action])
      if (config[useless] !== undefined)
        add(useless, `has no effect for action "${config.action}"`);
  for (const field of ["keepHeaders", "keepQuery"] as const)
    for (const [index, name] of config[field].entries())
      if (isCredentialName(name))
        add(`${field}[${index}]`, "may carry a credential: such a value is never kept");
  return issues;
}

/** Compiles the settings of a mapping for its runs. What is wrong is added to `issues`. */
export function compileSettings(
  { config, origin, options, budget }: MappingSource,
  { known, hooks }: { known: Known } & Pick<SourceOptions, "hooks">,
  issues: Issue[],
): MappingSettings {
  const { id, limits, callback, tools, approve } = config;
  const add = (path: string, message: string): void => void issues.push({ path, message });
  if (tools) issues.push(...(known.toolProblems?.("tools", tools) ?? []));
  if (approve) issues.push(...(known.toolProblems?.("approve", approve) ?? []));
  // The operator decides what a hook may do: the file of a preset comes from other people.
  if (tools && origin.startsWith("preset:") && !options?.fields.includes("tools"))
    add(
      "tools",
      "the file of a preset names no tools: set `tools` where hooks.presets uses it, or hooks.tools",
    );
  if (callback && !createHostList(hooks.callbackHosts).allows(new URL(callback.url).hostname))
    add("callback.url", "goes to a host that is not in hooks.callbackHosts");
  if (callback && callbackKey(callback.secret) === undefined)
    add(
      "callback.secret",
      "must be base64 of at least 24 bytes, such as `openssl rand -base64 32` gives",
    );
  const own = limits ? { scope: `mapping:${id}`, limits } : budget;
  return {
    ...(own && { budget: own }),
    ...(callback && { callback }),
    ...(tools && { tools }),
    ...(approve && { approve }),
  };
}

/** Checks a field that holds no expression against what is loaded. */
export function checkLiteral(
  field: (typeof TEMPLATE_FIELDS)[number],
  text: string,
  { known, hooks }: { known: Known } & Pick<SourceOptions, "hooks">,
): Issue[] {
  const problem = (message: string): Issue[] => [{ path: field, message }];
  if (field === "agentId") {
    if (!known.agents.has(text)) return problem(`names no agent.${didYouMean(text, known.agents)}`);
    return hooks.allowedAgentIds && !hooks.allowedAgentIds.includes(text)
      ? problem("is not in hooks.allowedAgentIds")
      : [];
  }
  if (field === "channel")
    return known.channels(text)
      ? []
      : problem("names no channel; use `last` or one that is loaded");
  if (field === "model") {
    const model = known.model(text);
    return model.ok ? [] : problem(model.message);
  }
  if (field === "thinking" && !(THINKING_LEVELS as readonly string[]).includes(text))
    return problem(`use one of ${THINKING_LEVELS.join(", ")}`);
  return [];
}
