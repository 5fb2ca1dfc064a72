import { getEqualValues } from "../mapping/condition.ts";
import type { NamedMapping } from "../mapping/source.ts";
import type { MappingInfo } from "../mapping/types.ts";

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

/** Mappings whose conditions are about the same fields, by the values that these want. */
interface Group {
  names: string[];
  byKey: Map<string, Candidate[]>;
  /** Those with too many combinations of values for the map. */
  wide: Candidate[];
}

/** The groups of a path: by all of their names, and by the first. */
interface PathGroups {
  byNames: Map<string, Group>;
  byFirst: Map<string, Group[]>;
}

const MAX_COMBINATIONS = 64;
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

/** Each combination of what the fields may be, as text; undefined if there are too many. */
function toCombinations({ names, conditions }: Wants): string[] | undefined {
  let combinations = [""];
  for (const name of names) {
    const keys = toKeys(conditions.get(name) as Wanted);
    if (combinations.length * keys.length > MAX_COMBINATIONS) return undefined;
    combinations = combinations.flatMap((before) => keys.map((key) => `${before}\n${key}`));
  }
  return combinations;
}

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

function getGroup({ byNames, byFirst }: PathGroups, names: string[]): Group {
  const all = names.join("\n");
  const known = byNames.get(all);
  if (known) return known;
  const group: Group = { names, byKey: new Map(), wide: [] };
  byNames.set(all, group);
  const [first = NO_NAME] = names;
  byFirst.set(first, [...(byFirst.get(first) ?? []), group]);
  return group;
}

/** Finds the mappings of a path that take all that another mapping wants there. */
export class CoveringIndex {
  readonly #paths = new Map<string, PathGroups>();
  readonly #wants = new Map<LintedMapping, Wants>();
  #steps = 0;

  constructor(mappings: readonly LintedMapping[]) {
    for (const [order, mapping] of mappings.entries()) {
      if (!mapping.config.enabled) continue;
      const wants = toWants(mapping.config);
      this.#wants.set(mapping, wants);
      for (const path of this.paths(mapping)) this.#add(path, { mapping, order, wants });
    }
  }

  /** The paths that a mapping is on; a single empty one if it names none. */
  paths({ info }: LintedMapping): readonly string[] {
    return info.paths.length === 0 ? [ANYWHERE] : info.paths;
  }

  #add(path: string, candidate: Candidate): void {
    const groups: PathGroups = this.#paths.get(path) ?? { byNames: new Map(), byFirst: new Map() };
    this.#paths.set(path, groups);
    const group = getGroup(groups, candidate.wants.names);
    const combinations = toCombinations(candidate.wants);
    if (!combinations) group.wide.push(candidate);
    for (const key of combinations ?? []) {
      const known = group.byKey.get(key);
      if (known) known.push(candidate);
      else group.byKey.set(key, [candidate]);
    }
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
    if (!wants) return undefined;
    const groups = [NO_NAME, ...wants.names].flatMap(
      (name) => this.#paths.get(path)?.byFirst.get(name) ?? [],
    );
    for (const { names, byKey, wide } of groups) {
      if (++this.#steps > MAX_STEPS) return undefined;
      if (!names.every((name) => wants.conditions.has(name))) continue;
      const key = names
        .map((name) => `\n${toKeys(wants.conditions.get(name) as Wanted)[0] ?? ""}`)
        .join("");
      for (const candidates of [byKey.get(key) ?? [], wide]) {
        for (const { mapping: other, order, wants: others } of candidates) {
          if (++this.#steps > MAX_STEPS) return undefined;
          if (other !== mapping && isMeant(other, order) && covers(others, wants)) return other;
        }
      }
    }
    return undefined;
  }
}
