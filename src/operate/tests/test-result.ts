import type { AgentRun } from "./agent-run.ts";
import type { AgentReport } from "./agent-tests.ts";
import { isAgentCase, type TestCase } from "./fixture.ts";
import type { FixtureResult } from "./fixture-run.ts";

/** What a fixture gave by one config. */
export interface TestResult {
  fixture: TestCase;
  ok: boolean;
  /** What the mappings made of it; undefined without a request. */
  mapping: FixtureResult | undefined;
  /** Runs of its agent. */
  runs: AgentRun[];
}

/** Whether nothing was found out about a fixture: it needs a model, and no run was made. */
export const isSkipped = ({ mapping, runs }: TestResult): boolean => !mapping && runs.length === 0;

/** Joins what the mappings and the agents made of fixtures. `agents` is undefined if no model was asked. */
export function toResults(
  fixtures: readonly TestCase[],
  mappings: readonly FixtureResult[],
  agents: ReturnType<AgentReport["runs"]["get"]> | undefined,
): TestResult[] {
  const byFixture = new Map<TestCase, FixtureResult>(mappings.map((one) => [one.fixture, one]));
  return fixtures.map((fixture) => {
    const mapping = byFixture.get(fixture);
    const runs = (isAgentCase(fixture) && agents?.get(fixture)) || [];
    const { repeat = 1, passes = repeat } = fixture.reply ?? {};
    const passed = runs.filter((run) => run.passed).length;
    const isGood = runs.length === 0 || passed >= Math.min(passes, repeat);
    return { fixture, mapping, runs, ok: (mapping?.ok ?? true) && isGood };
  });
}
