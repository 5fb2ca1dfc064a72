import { testInput } from "../records/test-hook.ts";
import type { Snapshot } from "../../intake/types.ts";
import type { ConditionTrace, MappingTrace } from "../../mapping/types.ts";
import { isFixture, type TestCase } from "./fixture.ts";
import { readFixtureInput } from "./fixture-run.ts";

/** What of the mappings no fixture reaches. */
export interface FixtureCoverage {
  /** Enabled mappings, and how many of them take a fixture. */
  mappings: { all: number; reached: number };
  /** Mappings that take no fixture. */
  unreached: string[];
  /** Conditions that come out the same for all fixtures. `never`: what they never do. */
  conditions: { mapping: string; condition: string; never: "holds" | "fails" }[];
  /** Expressions of templates that give a value for no fixture. */
  expressions: { mapping: string; field: string; expression: string }[];
}

interface Seen {
  held: boolean;
  failed: boolean;
}

class Coverage {
  readonly #reached = new Set<string>();
  readonly #conditions = new Map<string, Seen & { mapping: string; condition: string }>();
  readonly #expressions = new Map<
    string,
    { mapping: string; field: string; expression: string; given: boolean }
  >();

  #addCondition(
    mapping: string,
    { condition, wants, field, result, children = [] }: ConditionTrace,
  ): void {
    const shown =
      wants === undefined || condition.endsWith(wants) ? condition : `${condition} ${wants}`;
    const key = JSON.stringify([mapping, condition, wants, field]);
    const before = this.#conditions.get(key) ?? {
      mapping,
      condition: shown,
      held: false,
      failed: false,
    };
    this.#conditions.set(key, {
      ...before,
      held: before.held || result === true,
      failed: before.failed || result !== true,
    });
    for (const child of children) this.#addCondition(mapping, child);
  }

  add({ mapping, verdict, conditions, fields = [] }: MappingTrace): void {
    if (verdict === "disabled") return;
    if (verdict === "first" || verdict === "also") this.#reached.add(mapping);
    // The path alone brings a fixture to the mapping.
    for (const condition of conditions)
      if (condition.condition !== "match.path") this.#addCondition(mapping, condition);
    for (const { field, pieces } of fields)
      for (const { expression, missing } of pieces) {
        if (expression === undefined) continue;
        const key = JSON.stringify([mapping, field, expression]);
        const given = missing !== true || this.#expressions.get(key)?.given === true;
        this.#expressions.set(key, { mapping, field, expression, given });
      }
  }

  report({ mappings }: Snapshot): FixtureCoverage {
    const enabled = mappings.mappings.filter((mapping) => mapping.enabled).map(({ id }) => id);
    const unreached = enabled.filter((id) => !this.#reached.has(id));
    return {
      mappings: { all: enabled.length, reached: enabled.length - unreached.length },
      unreached,
      conditions: [...this.#conditions.values()]
        .filter(({ held, failed }) => !held || !failed)
        .map(({ mapping, condition, held }) => ({
          mapping,
          condition,
          never: held ? ("fails" as const) : ("holds" as const),
        })),
      expressions: [...this.#expressions.values()]
        .filter(({ given }) => !given)
        .map(({ mapping, field, expression }) => ({ mapping, field, expression })),
    };
  }
}

/** Finds mappings, conditions and expressions of templates that no fixture reaches. */
export async function findCoverage(
  fixtures: readonly TestCase[],
  snapshot: Snapshot,
): Promise<FixtureCoverage> {
  const coverage = new Coverage();
  for (const fixture of fixtures.filter(isFixture)) {
    const read = await readFixtureInput(fixture, snapshot);
    if (!read.ok) continue;
    const { traces } = await testInput(read.input, snapshot);
    // The first condition is the path.
    for (const trace of traces) if (trace.conditions[0]?.result === true) coverage.add(trace);
  }
  return coverage.report(snapshot);
}
