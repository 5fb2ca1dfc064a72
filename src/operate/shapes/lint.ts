import type { LintRule } from "../../config/schema/lint.ts";
import type { Issue } from "../../core/errors.ts";
import { isRecord } from "../../core/json.ts";
import type { Snapshot } from "../../intake/types.ts";
import { getEqualValues } from "../../mapping/condition.ts";
import type { NamedMapping } from "../../mapping/source.ts";
import type { MappingInfo } from "../../mapping/types.ts";

/** A mapping as it is written, with its place. */
interface LintedMapping {
  config: NamedMapping;
  info: MappingInfo;
}

/** A warning of lint, if the mapping does not silence its rule. `field`: in the mapping; empty for the mapping itself. */
function lintIssue(
  { config, info }: LintedMapping,
  rule: LintRule,
  field: string,
  message: string,
): Issue[] {
  if (config.lint?.off.includes(rule)) return [];
  return [
    {
      path: field === "" ? info.at : `${info.at}.${field}`,
      message: `${message} (lint: ${rule})`,
      rule,
    },
  ];
}

/** The demand of a condition: for a plain equality the values, else the condition as text. */
type Wanted = { values: Set<unknown> } | { text: string };
/** By the field or expression that a condition is about. */
type Wants = ReadonlyMap<string, Wanted>;

/** Comparisons in all: lint ends in time however many mappings there are. */
const MAX_STEPS = 1_000_000;
const ANYWHERE = "";

/** The values of a condition that is an equality and nothing else. */
function getPlainValues(condition: unknown): Set<unknown> | undefined {
  if (
    isRecord(condition) &&
    (Object.keys(condition).length !== 1 || !("$eq" in condition || "$in" in condition))
  )
    return undefined;
  const values = getEqualValues(condition);
  return values && new Set(values);
}

function toWants({ match }: NamedMapping): Wants {
  const groups = { headers: match.headers, query: match.query, payload: match.payload };
  const conditions = Object.entries(groups).flatMap(([group, fields = {}]) =>
    Object.entries(fields).map(([name, condition]): [string, unknown] => [
      `${group}.${group === "headers" ? name.toLowerCase() : name}`,
      condition,
    ]),
  );
  if (match.source !== undefined) conditions.push(["source", match.source]);
  const wants = new Map<string, Wanted>();
  for (const [name, condition] of conditions) {
    const values = getPlainValues(condition);
    wants.set(name, values ? { values } : { text: JSON.stringify(condition) });
  }
  return match.when === undefined ? wants : wants.set("when", { text: match.when });
}

/** Returns whether a condition holds whenever the other one does: the same text, or an equality with more values. */
function isImplied(wide: Wanted, narrow: Wanted): boolean {
  if ("text" in wide) return "text" in narrow && wide.text === narrow.text;
  if ("text" in narrow || narrow.values.size > wide.values.size) return false;
  for (const value of narrow.values) if (!wide.values.has(value)) return false;
  return true;
}

function covers(wide: Wants, narrow: Wants): boolean {
  for (const [name, wanted] of wide) {
    const other = narrow.get(name);
    if (!other || !isImplied(wanted, other)) return false;
  }
  return true;
}

/** The paths that a mapping is on; a single empty one if it names none. */
const getPaths = ({ info }: LintedMapping): readonly string[] =>
  info.paths.length === 0 ? [ANYWHERE] : info.paths;

/**
 * Finds mappings that get nothing, since on each of their paths an earlier one ends the search for all that they want. With a
 * great many mappings on one path not all are found.
 */
function findCovered(
  mappings: readonly LintedMapping[],
): { mapping: LintedMapping; by: LintedMapping[] }[] {
  const before = new Map<string, { mapping: LintedMapping; wants: Wants }[]>();
  let steps = 0;
  return mappings.flatMap((mapping) => {
    const { enabled, continue: goesOn, shadow } = mapping.config;
    if (!enabled) return [];
    const wants = toWants(mapping.config);
    const takers = getPaths(mapping).map((path) => {
      const earlier = before.get(path) ?? [];
      before.set(path, earlier);
      const taker = earlier.find((one) => ++steps <= MAX_STEPS && covers(one.wants, wants));
      if (!goesOn && !shadow) earlier.push({ mapping, wants });
      return taker?.mapping;
    });
    const by = takers.filter((taker) => taker !== undefined);
    return by.length === takers.length ? [{ mapping, by }] : [];
  });
}

/** Mappings that get nothing, since earlier ones end the search for all that they want. */
const findNeverReached = (mappings: readonly LintedMapping[]): Issue[] =>
  findCovered(mappings).flatMap(({ mapping, by }) => {
    const names = [...new Set(by.map(({ config }) => `"${config.id}"`))].join(" and ");
    const message = `can never match: ${names} before it takes all that it wants; put it first, or set \`continue\` there`;
    return lintIssue(mapping, "never-reached", "", message);
  });

const ORDERED = ["$gt", "$gte", "$lt", "$lte"];

/** The comparisons of a condition with their operators, inside `$and`, `$or` and `$not` too. */
function getOrdered(
  condition: unknown,
  at: string,
): { at: string; operator: string; operand: unknown }[] {
  if (typeof condition !== "object" || condition === null) return [];
  return Object.entries(condition).flatMap(([operator, operand]: [string, unknown]) => {
    const here = Array.isArray(condition) ? `${at}[${operator}]` : `${at}.${operator}`;
    return ORDERED.includes(operator)
      ? [{ at: here, operator, operand }]
      : getOrdered(operand, here);
  });
}

/** Numbers that are written as text: they are compared as text, and with texts only. */
function findTextNumbers(mapping: LintedMapping): Issue[] {
  const conditions = getOrdered(mapping.config.match.payload, "match.payload");
  return conditions.flatMap(({ at, operator, operand }) => {
    if (typeof operand !== "string" || !/^-?\d+(?:\.\d+)?$/.test(operand)) return [];
    const message = `\`${operator}: "${operand}"\` compares texts sign by sign and holds for no number: write ${operand} without quotes`;
    return lintIssue(mapping, "wrong-type", at, message);
  });
}

const ROUTED = ["to", "channel", "agentId", "model"] as const;

/** Text of senders without its boundary, beside what that text could make use of. */
function findUnsafe(mapping: LintedMapping, hooksTools: readonly string[]): Issue[] {
  const { config } = mapping;
  if (!config.allowUnsafeExternalContent || config.action !== "agent" || !config.enabled) return [];
  const tools = (config.tools ?? hooksTools).filter((pattern) => !pattern.startsWith("!"));
  const routed = ROUTED.filter(
    (field) =>
      config[field]?.includes("{{") &&
      (config.deliver !== false || field === "agentId" || field === "model"),
  );
  const beside = [
    ...(tools.length > 0 ? [`its runs may use tools (${tools.slice(0, 3).join(", ")})`] : []),
    ...(routed.length > 0
      ? [`${routed.map((field) => `\`${field}\``).join(", ")} may come out of the payload`]
      : []),
  ];
  if (beside.length === 0) return [];
  const message = `lets senders instruct the model, and ${beside.join("; ")}: take it out, or remove what stands beside it`;
  return lintIssue(mapping, "unsafe-content", "allowUnsafeExternalContent", message);
}

/** A signature of the body alone does not cover the headers: a caller can send the same body with others. */
function findUnsignedHeaders(mapping: LintedMapping, verifiers: Snapshot["verifiers"]): Issue[] {
  const { paths, headers } = mapping.info;
  const signing = paths
    .flatMap((path) => verifiers.get(path) ?? [])
    .filter((verifier) => !verifier.coversNothing);
  const open = headers.filter(
    (name) =>
      name !== "content-type" &&
      signing.some((verifier) => !verifier.coveredHeaders.includes(name)),
  );
  return open.flatMap((name) => {
    const message = `reads the header "${name}", which the signature of its path does not cover: decide by a field of the body`;
    return lintIssue(mapping, "unsigned-header", "", message);
  });
}

/**
 * Looks for what the mappings of a config probably do not mean, as far as the config alone shows it. Takes some milliseconds
 * for a thousand mappings on one path.
 */
export function lintMappings(
  mappings: readonly LintedMapping[],
  { verifiers, hooksTools }: { verifiers: Snapshot["verifiers"]; hooksTools: readonly string[] },
): Issue[] {
  return [
    ...findNeverReached(mappings),
    ...mappings.flatMap((mapping) => [
      ...findTextNumbers(mapping),
      ...findUnsignedHeaders(mapping, verifiers),
      ...findUnsafe(mapping, hooksTools),
    ]),
  ];
}
