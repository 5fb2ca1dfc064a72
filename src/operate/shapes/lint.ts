import type { LintRule } from "../../config/schema/lint.ts";
import type { Issue } from "../../core/errors.ts";
import type { Snapshot } from "../../intake/types.ts";
import { findCovered, type LintedMapping } from "./covering.ts";
import { getConditionReads } from "./read-fields.ts";

/** A warning of lint, if the mapping does not silence its rule. `field`: in the mapping; empty for the mapping itself. */
export function lintIssue(
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
  const conditions = getConditionReads(mapping.config).flatMap(({ at, condition }) =>
    getOrdered(condition, at),
  );
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
