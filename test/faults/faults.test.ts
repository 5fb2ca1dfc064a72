import { expect, it } from "vitest";
import { findProblems } from "./invariants.ts";
import { createPlan } from "./plan.ts";
import { runProgram } from "./program.ts";
import { simulate } from "./simulate.ts";

const SEEDS = 20;
/** Those that the program bears. */
const FAULTS = "kill,kill at commit,suspend,hanging provider,slow provider,channel away,channel loses answers,channel hangs";

it(`keeps its promises through ${SEEDS} seeds of faults`, { timeout: 120_000 }, async () => {
  const { isClean, output } = await runProgram("--seeds", String(SEEDS), "--fault", FAULTS);
  expect(isClean, output).toBe(true);
});

it("runs a seed the same way twice, alone or after others", { timeout: 120_000 }, async () => {
  const trace = async (...args: string[]): Promise<string[]> =>
    (await runProgram("--fault", "kill", "--trace", ...args)).output
      .split("\n")
      .filter((line) => /^ +\d+\.\d{3} /.test(line))
      .map((line) => line.replace(/(?:run|dlv)_\w+/, "an id"));
  const [alone, after] = await Promise.all([trace("--seed", "3"), trace("--seeds", "3")]);
  expect(alone.length).toBeGreaterThan(50);
  expect(after.slice(-alone.length)).toEqual(alone);
});

it("sees in the ledgers what is not as it has to be", { timeout: 60_000 }, async () => {
  const outcome = await simulate(createPlan(3, "sqlite", "channel hangs"));
  const { effects, messages, calls } = outcome.outside.ledgers;
  effects.push({ ...(effects[0] as (typeof effects)[0]) });
  messages.push({ ...(messages[0] as (typeof messages)[0]), key: "another" });
  calls.push({ ...(calls[0] as (typeof calls)[0]) });
  const found = findProblems({ ...outcome, drainedAt: undefined });
  for (const name of ["each side effect happens once", "each reply arrives once", "nothing overlaps", "is kept", "the queue drains"])
    expect(found).toContainEqual(expect.stringContaining(name));
});
