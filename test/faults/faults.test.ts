import { expect, it } from "vitest";
import { findProblems } from "./invariants.ts";
import { createPlan } from "./plan.ts";
import { renderFailure, runSeeds } from "./seeds.ts";
import { simulate } from "./simulate.ts";

const SEEDS = 20;
/** Those that the program bears. */
const FAULTS =
  "kill,kill at commit,suspend,hanging provider,slow provider,provider limits once,channel away,channel loses answers,channel hangs";

it(`keeps its promises through ${SEEDS} seeds of faults`, { timeout: 120_000 }, async () => {
  const failures = await runSeeds({ count: SEEDS, fault: FAULTS });
  expect(failures.map(renderFailure)).toEqual([]);
});

it("runs a seed the same way twice", { timeout: 60_000 }, async () => {
  const [first, second] = [await simulate(createPlan(3, "sqlite", "kill")), await simulate(createPlan(3, "sqlite", "kill"))];
  const [trace, again] = [first, second].map(({ outside }) => outside.trace.map((line) => line.replace(/(?:run|dlv)_\w+/, "an id")));
  expect(again).toEqual(trace);
  expect(trace?.length).toBeGreaterThan(50);
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
