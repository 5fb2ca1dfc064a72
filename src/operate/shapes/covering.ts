import { getEqualValues } from "../../mapping/condition.ts";
import type { NamedMapping } from "../../mapping/source.ts";
import type { MappingInfo } from "../../mapping/types.ts";

/** A mapping as it is written, with its place. */
export interface LintedMapping {
  config: NamedMapping;
  info: MappingInfo;
}

/** What a mapping wants: a condition by the field or expression that it is about. */
interface Wants {
  /** Sorted names, which mappings with the same fields share. */
  names: string[];
  /** For a plain equality the values, else the condition as text. */
  conditions: Map<string, { values: Set<unknown> } | { text: string }>;
}

interface Candidate {
  mapping: LintedMapping;
  order: number;
  wants: Wants;
}

/** Comparisons in all: lint ends in time however the mappings are written. */
const MAX_STEPS = 200_000;
const ANYWHERE = "";
const NO_NAME = "";

/** The values of a condition that is an equality and nothing else. */
function getPlainValues(condition: unknown): Set<unknown> | undefined {
  const isObject = typeof condition === "object" && condition !== null && !Array.isArray(condition);
  if (
    isObject &&
    (Object.keys(condition).length !== 1 || !("$eq" in condition || "$in" in condition))
  )
    return undefined;
  const values = getEqualValues(condition);
  return values && new Set(values);
}

function toWants({ match }: NamedMapping): Wants {
  const conditions: Wants["conditions"] = new Map();
  const add = (name: string, condition: unknown): void => {
    const values = getPlainValues(condition);
    conditions.set(name, values ? { values } : { text: JSON.stringify(condition) });
  };
  if (match.source !== undefined) add("source", match.source);
  for (const [name, condition] of Object.entries(match.headers ?? {}))
    add(`headers.${name.toLowerCase()}`, condition);
  for (const [name, condition] of Object.entries(match.query ?? {}))
    add(`query.${name}`, condition);
  for (const [name, condition] of Object.entries(match.payload ?? {}))
    add(`payload.${name}`, condition);
  if (match.when !== undefined) conditions.set("when", { text: match.when });
  return { names: [...conditions.keys()].toSorted(), conditions };
}

type Wanted = NonNullable<ReturnType<Wants["conditions"]["get"]>>;

const toKeys = (wanted: Wanted): string[] =>
  "text" in wanted
    ? [`t${wanted.text}`]
    : [...wanted.values].map((value) => `v${JSON.stringify(value)}`);

/** Whether a condition holds whenever the other one does: the same text, or an equality with more values. */
function isImplied(wide: Wanted, narrow: Wanted): boolean {
  if ("text" in wide) return "text" in narrow && wide.text === narrow.text;
  return "values" in narrow && [...narrow.values].every((value) => wide.values.has(value));
}

const covers = (wide: Wants, narrow: Wants): boolean =>
  wide.names.every((name) => {
    const other = narrow.conditions.get(name);
    return other !== undefined && isImplied(wide.conditions.get(name) as Wanted, other);
  });

/** The key of each value that a condition wants of a field. */
const toFieldKeys = (name: string, { conditions }: Wants): string[] =>
  toKeys(conditions.get(name) as Wanted).map((key) => `${name}\n${key}`);

/** Finds the mappings of a path that take all that another mapping wants there. */
export class CoveringIndex {
  /** By path, then by each value of the condition that fewest mappings of the path share. */
  readonly #paths: Map<string, Map<string, Candidate[]>>;
  readonly #wants = new Map<LintedMapping, Wants>();
  #steps = 0;

  constructor(mappings: readonly LintedMapping[]) {
    const candidates = mappings.flatMap((mapping, order) => {
      if (!mapping.config.enabled) return [];
      const wants = toWants(mapping.config);
      this.#wants.set(mapping, wants);
      return this.paths(mapping).map((path) => ({ path, mapping, order, wants }));
    });
    const byPath = Map.groupBy(candidates, ({ path }) => path);
    this.#paths = new Map([...byPath].map(([path, own]) => [path, indexCandidates(own)]));
  }

  /** The paths that a mapping is on; a single empty one if it names none. */
  paths({ info }: LintedMapping): readonly string[] {
    return info.paths.length === 0 ? [ANYWHERE] : info.paths;
  }

  /**
   * Returns a mapping on the path that takes all that `mapping` wants, and for which `isMeant` holds. Undefined if there is
   * none, or if too many comparisons were made before.
   */
  find(
    path: string,
    mapping: LintedMapping,
    isMeant: (other: LintedMapping, order: number) => boolean,
  ): LintedMapping | undefined {
    const wants = this.#wants.get(mapping);
    const candidates = this.#paths.get(path);
    if (!wants || !candidates) return undefined;
    const keys = wants.names.flatMap((name) => toFieldKeys(name, wants).slice(0, 1));
    for (const key of [NO_NAME, ...keys]) {
      for (const { mapping: other, order, wants: others } of candidates.get(key) ?? []) {
        if (++this.#steps > MAX_STEPS) return undefined;
        if (other !== mapping && isMeant(other, order) && covers(others, wants)) return other;
      }
    }
    return undefined;
  }
}

function indexCandidates(candidates: readonly Candidate[]): Map<string, Candidate[]> {
  const counts = new Map<string, number>();
  const all = candidates.map((candidate) => ({
    candidate,
    fields: candidate.wants.names.map((name) => toFieldKeys(name, candidate.wants)),
  }));
  for (const key of all.flatMap(({ fields }) => fields.flat()))
    counts.set(key, (counts.get(key) ?? 0) + 1);
  const countKeys = (keys: readonly string[]): number =>
    keys.reduce((sum, key) => sum + (counts.get(key) ?? 0), 0);
  const entries = all.flatMap(({ candidate, fields }) => {
    const [keys = [NO_NAME]] = fields.toSorted((a, b) => countKeys(a) - countKeys(b));
    return keys.map((key) => [key, candidate] as const);
  });
  const byKey = Map.groupBy(entries, ([key]) => key);
  return new Map([...byKey].map(([key, found]) => [key, found.map(([, candidate]) => candidate)]));
}
