import { afterEach, describe, expect, it } from "vitest";
import { describePostgres, newSchema } from "../store/postgres.ts";
import { scale } from "../soak.ts";
import {
  createLoad,
  pause,
  RUN_TOKENS,
  RUN_USD,
  type Limits,
  type Load,
  type Order,
} from "./limits-load.ts";
import type { Program } from "./program.ts";

const KILL_EVERY_MS = scale(3000, 4000);
const KILLS = scale(2, 4);
/** A gateway that is killed keeps what it held until its lease ends and another gateway has looked: that takes 15 seconds. */
const PATIENCE_MS = 90_000;

const BIG = 1_000_000;
/** Of what hooks send, some limit binds every mapping; `flood` and `calm` share the places of all hooks. */
const LIMITS = {
  hooks: {
    concurrent: 6,
    runsPerHour: BIG,
    tokensPerDay: BIG,
    budget: { perDay: "1000 USD" },
    queue: 5000,
  },
  flood: {},
  calm: {},
  narrow: { concurrent: 2 },
  hourly: { runsPerHour: 25 },
  tokens: { tokensPerDay: 20 * RUN_TOKENS },
  money: { budget: { perDay: `${20 * RUN_USD} USD` } },
  every: {
    concurrent: 2,
    runsPerHour: 15,
    tokensPerDay: 1000 * RUN_TOKENS,
    budget: { perDay: "100 USD" },
    queue: 500,
  },
  short: { concurrent: 1, queue: 4 },
} satisfies Limits;
/** The number of runs that use up a limit of an hour or a day. */
const USED_UP = { hourly: 25, every: 15, tokens: 20, money: 20 };
/** The same with room for all that waits. */
const RAISED: Limits = {
  ...LIMITS,
  hourly: { runsPerHour: BIG },
  tokens: { tokensPerDay: BIG },
  money: { budget: { perDay: "1000 USD" } },
  every: { ...LIMITS.every, runsPerHour: BIG },
};
/** The number of hooks for each mapping, and the interval between them. Limits of an hour or a day are reached between two kills. */
const TRAFFIC: Record<string, [count: number, everyMs: number]> = scale(
  {
    flood: [90, 10],
    calm: [6, 800],
    narrow: [10, 400],
    hourly: [32, 150],
    tokens: [26, 180],
    money: [26, 180],
    every: [20, 250],
  },
  {
    flood: [220, 10],
    calm: [16, 900],
    narrow: [30, 400],
    hourly: [45, 300],
    tokens: [40, 350],
    money: [40, 350],
    every: [30, 450],
  },
);
/** So many senders at once of so many hooks each: more than have room in the queue. */
const SHORT = { senders: 8, count: scale(10, 25) };

let load: Load;
let programs: (Program | undefined)[] = [];
afterEach(async () => {
  await Promise.all(programs.splice(0).map((program) => program?.kill().catch(() => undefined)));
  await load.close();
});

async function killInTurn(): Promise<void> {
  for (let turn = 0; turn < KILLS; turn++) {
    await pause(KILL_EVERY_MS);
    // A start that is cut off is counted already.
    for (let waited = 0; !load.overlap.isUnderWay("hourly") && waited < 1000; waited += 5)
      await pause(5);
    const victim = turn % programs.length;
    const program = programs[victim];
    programs[victim] = undefined;
    await program?.kill();
    programs[victim] = await load.start();
  }
}

async function until(
  what: string,
  ms: number,
  isSo: () => boolean | Promise<boolean>,
): Promise<void> {
  for (const end = performance.now() + ms; !(await isSo()); await pause(200)) {
    if (performance.now() > end)
      throw new Error(
        `${what} within ${ms / 1000} s; started: ${JSON.stringify(Object.keys(USED_UP).map((name) => [name, load.started(name)]))}`,
      );
  }
}

const accepted = (): Order[] => load.orders.filter(({ acceptedAt }) => acceptedAt !== undefined);
const left = (): Record<string, number> =>
  Object.fromEntries(
    [...Map.groupBy(accepted(), ({ mapping }) => mapping)].map(([mapping, those]) => [
      mapping,
      those.filter(({ answers }) => answers === 0).length,
    ]),
  );
const countRuns = async (status: string): Promise<number> =>
  ((await load.admin(`runs?limit=500&status=${status}`))["runs"] as unknown[]).length;

function expectPlacesKept(): void {
  for (const name of ["hooks", "narrow", "every", "short"] as const)
    expect([name, load.overlap.most.get(name) ?? 0]).toSatisfy(
      ([, most]) => most <= LIMITS[name].concurrent,
    );
}

/** For each run of `calm`, the number of runs of `flood` that started while it waited. */
function countOvertaken(): number[] {
  const flood = load.orders.filter(({ mapping }) => mapping === "flood");
  return load.orders
    .filter(({ mapping }) => mapping === "calm")
    .map(
      ({ acceptedAt = 0, startedAt = Infinity }) =>
        flood.filter((one) => (one.startedAt ?? 0) > acceptedAt && (one.startedAt ?? 0) < startedAt)
          .length,
    )
    .toSorted((a, b) => a - b);
}

async function testLoad(gateways: number, storeUrl: string | undefined): Promise<string> {
  const began = performance.now();
  load = await createLoad({
    places: LIMITS.hooks.concurrent,
    storeUrl,
    urls: () => programs.flatMap((program) => program?.url ?? []),
  });
  load.configure(LIMITS);
  programs = [await load.start()];
  programs.push(...(await Promise.all(Array.from({ length: gateways - 1 }, () => load.start()))));

  await Promise.all([
    killInTurn(),
    ...Object.entries(TRAFFIC).map(([mapping, [count, everyMs]]) =>
      load.send(mapping, count, everyMs),
    ),
    ...Array.from({ length: SHORT.senders }, () => load.send("short", SHORT.count, 0)),
  ]);
  const lastKill = performance.now();
  // All that no limit of an hour or a day holds back is done.
  await until("the queue drains", PATIENCE_MS, () =>
    ["flood", "calm", "narrow", "short"].every((mapping) => (left()[mapping] ?? 0) === 0),
  );
  // The reservations of killed gateways are free again.
  await until("limits are used up", PATIENCE_MS, () =>
    Object.entries(USED_UP).every(([mapping, count]) => load.started(mapping) >= count),
  );
  await until(
    "what may start has ended",
    PATIENCE_MS,
    async () => (await countRuns("running")) === 0,
  );
  const drainedMs = performance.now() - lastKill;
  await pause(1500);
  expectPlacesKept();
  expect(load.overlap.most.get("hooks")).toBe(LIMITS.hooks.concurrent);
  // Each run counts once for all its tries, so that kills neither give starts away nor use any up.
  for (const mapping of ["hourly", "every"] as const)
    expect([mapping, load.started(mapping)]).toEqual([mapping, USED_UP[mapping]]);
  // Runs under way when a limit is reached exceed it, at most as many as may run at the same time.
  for (const mapping of ["tokens", "money"] as const)
    expect(load.started(mapping)).toBeLessThan(USED_UP[mapping] + LIMITS.hooks.concurrent);
  expect(load.refused.get("short")).toBeGreaterThan(0);
  expect([...load.refused.keys()]).toEqual(["short"]);
  const overtaken = countOvertaken();
  // Some were with a gateway that was killed.
  expect(overtaken[Math.floor(overtaken.length / 2)]).toBeLessThanOrEqual(
    2 * LIMITS.hooks.concurrent,
  );

  load.overlap.most.clear();
  load.configure(RAISED);
  await until("the queue drains after limits are raised", PATIENCE_MS, () =>
    Object.values(left()).every((count) => count === 0),
  );
  await until(
    "all runs end",
    PATIENCE_MS,
    async () =>
      (await countRuns("running")) + (await countRuns("parked")) + (await countRuns("queued")) ===
      0,
  );
  expectPlacesKept();
  // The places of killed gateways are free again.
  expect(load.overlap.most.get("hooks")).toBe(LIMITS.hooks.concurrent);
  await until("no place stays taken", PATIENCE_MS, async () => {
    const { checks } = (await load.admin("doctor")) as {
      checks: { id: string; message: string }[];
    };
    return (
      checks
        .find(({ id }) => id === "limits")
        ?.message.includes(`0 of ${LIMITS.hooks.concurrent} at the same time`) ?? false
    );
  });
  expect(load.odd).toEqual([]);
  const calls = load.orders.reduce((sum, order) => sum + order.calls, 0);
  return `${accepted().length} runs, ${calls} calls, ${KILLS} kills; drained ${(drainedMs / 1000).toFixed(1)} s after the load, overtaken ${overtaken.join(" ")}; ${((performance.now() - began) / 1000).toFixed(0)} s`;
}

describe("limits of every kind, while a gateway is killed", () => {
  it("are kept and starve no run on SQLite", { timeout: 400_000 }, async () => {
    console.log(await testLoad(1, undefined));
  });
});

describePostgres("limits of every kind, while gateways are killed", () => {
  it(
    "are kept and starve no run with three gateways on one PostgreSQL",
    { timeout: 400_000 },
    async () => {
      const schema = newSchema();
      try {
        console.log(await testLoad(3, schema.url));
      } finally {
        await Promise.all(
          programs.splice(0).map((program) => program?.kill().catch(() => undefined)),
        );
        await schema.drop();
      }
    },
  );
});
