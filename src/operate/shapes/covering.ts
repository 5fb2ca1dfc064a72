import { isRecord } from "../../core/json.ts";
import { getEqualValues } from "../../mapping/condition.ts";
import type { NamedMapping } from "../../mapping/source.ts";
import type { MappingInfo } from "../../mapping/types.ts";

/** A mapping as it is written, with its place. */
export interface LintedMapping {
  config: NamedMapping;
  info: MappingInfo;
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
export function findCovered(
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
