import type { Snapshot } from "../../intake/types.ts";
import type { AgentRun } from "./agent-run.ts";
import type { PlannedRun } from "./agent-tests.ts";
import { isFixture, type TestCase } from "./fixture.ts";
import { runFixture, type FixtureResult } from "./fixture-run.ts";

/** The result of a fixture with one config. */
export interface TestResult {
  fixture: TestCase;
  ok: boolean;
  /** The result of the mappings; undefined without a request. */
  mapping: FixtureResult | undefined;
  /** Runs of its agent. */
  runs: AgentRun[];
}

/** True if nothing was found out about a fixture: it needs a model, and no run was made. */
export const isSkipped = ({ mapping, runs }: TestResult): boolean => !mapping && runs.length === 0;

/**
 * Runs fixtures by the mappings of a snapshot, one after the other. Starts nothing and stores nothing; never throws.
 * @param planned the runs of agents; those of the snapshot that were made are part of the results.
 */
export async function testFixtures(
  fixtures: readonly TestCase[],
  snapshot: Snapshot,
  planned: readonly PlannedRun[] = [],
): Promise<TestResult[]> {
  const own = planned.filter((run) => run.snapshot === snapshot);
  const byFixture = Map.groupBy(own, (run): TestCase => run.fixture);
  const results: TestResult[] = [];
  for (const fixture of fixtures) {
    const mapping = isFixture(fixture) ? await runFixture(fixture, snapshot) : undefined;
    const runs = byFixture.get(fixture)?.flatMap(({ made }) => made ?? []) ?? [];
    const { repeat = 1, passes = repeat } = fixture.reply ?? {};
    const passed = runs.filter((run) => run.passed).length;
    const isGood = runs.length === 0 || passed >= Math.min(passes, repeat);
    results.push({ fixture, mapping, runs, ok: (mapping?.ok ?? true) && isGood });
  }
  return results;
}
