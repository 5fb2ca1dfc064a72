import { expect, it } from "vitest";
import { findProblems } from "./invariants.ts";
import { Outside } from "./outside.ts";
import { createPlan } from "./plan.ts";
import { runProgram } from "./program.ts";
import { simulate } from "./simulate.ts";
import { Time } from "./time.ts";

const SEEDS = 5;
/** Those that the program bears. */
const FAULTS =
  "kill,kill at commit,suspend,hanging provider,slow provider,channel away,channel loses answers,channel hangs";

it(`faults: ${SEEDS} seeds break no promise`, async () => {
  const { isClean, output } = await runProgram("--seeds", String(SEEDS), "--fault", FAULTS);
  expect(isClean, output).toBe(true);
});

it("faults: a seed has the same run twice, alone or after others", async () => {
  const trace = async (...args: string[]): Promise<string[]> =>
    (await runProgram("--fault", "kill", "--trace", ...args)).output
      .split("\n")
      .filter((line) => /^ +\d+\.\d{3} /.test(line))
      .map((line) => line.replace(/(?:run|dlv)_\w+/, "an id"));
  const [alone, after] = await Promise.all([trace("--seed", "2"), trace("--seeds", "2")]);
  expect(alone.length).toBeGreaterThan(50);
  expect(after.slice(-alone.length)).toEqual(alone);
});

it("faults: runs that wait for a limit and for a provider that comes back do not loop", async () => {
  const { isClean, output } = await runProgram("--seed", "53", "--fault", "partial outage,outage");
  expect(isClean, output).toBe(true);
});

it("faults: the invariants find wrong entries in the ledgers", async () => {
  const outcome = await simulate(createPlan(4, "channel hangs"));
  const { effects, messages, calls } = outcome.outside.ledgers;
  effects.push({ ...(effects[0] as (typeof effects)[0]) });
  messages.push({ ...(messages[0] as (typeof messages)[0]), key: "another" });
  calls.push({ ...(calls[0] as (typeof calls)[0]) });
  const found = findProblems({ ...outcome, drainedAt: undefined });
  for (const name of [
    "each side effect happens once",
    "each reply arrives once",
    "nothing overlaps",
    "is kept",
    "the queue drains",
  ])
    expect(found).toContainEqual(expect.stringContaining(name));
});

it("faults: the invariants find late entries in the ledgers", () => {
  const order = {
    n: 0,
    at: 100_000,
    session: "work-0",
    path: "work" as const,
    calls: 0,
    poison: false,
    repeats: 0,
  };
  const plan = { ...createPlan(3, "kill"), orders: [order], faults: [] };
  const outside = new Outside(plan, new Time(3));
  outside.ledgers.answers.push({ at: 100_000, end: 100_100, order: 0, result: 202, runId: "run" });
  outside.ledgers.calls.push({
    at: 105_000,
    end: 106_000,
    how: "answered",
    order: 0,
    step: 0,
    provider: "alpha",
    by: "gateway",
  });
  outside.ledgers.sends.push({ at: 106_000, end: 107_000, how: "refused", order: 0 });
  const found = findProblems({
    plan,
    outside,
    runs: new Map(),
    drainedAt: undefined,
    endedAt: 200_000,
    errors: [],
  });
  for (const name of ["work that may start is started", "a refused reply is sent again in time"])
    expect(found).toContainEqual(expect.stringContaining(name));
});
