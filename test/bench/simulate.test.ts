import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { getLoads, planFor, price, buildScenario } from "../../bench/simulate/arithmetic.ts";
import { getCost, COSTS_FILE, parseCosts, type CostsFile } from "../../bench/simulate/costs.ts";
import {
  createArrivals,
  createCalendar,
  createFlusher,
  createStation,
  createTimes,
  type Times,
} from "../../bench/simulate/engine.ts";
import { overfullKeys, simulate, type Scenario } from "../../bench/simulate/model.ts";
import { createRandom, createZipf, toPartition } from "../../bench/simulate/random.ts";
import { main } from "../../bench/simulate.ts";

const SEED = 7;

/** A line before `servers`: arrivals at random, service as drawn. How long each customer waits, and is there in all. */
function queue(
  rate: number,
  service: () => number,
  servers = 1,
  customers = 400_000,
): { waits: Times; stays: Times } {
  const random = createRandom(SEED);
  const arrivals = createArrivals(rate, undefined, random);
  const station = createStation(servers);
  const waits = createTimes();
  const stays = createTimes();
  for (let n = 0, now = 0; n < customers; n++) {
    now = arrivals.next(now);
    const seconds = service();
    const done = station.serve(now, seconds);
    waits.add(done - seconds - now);
    stays.add(done - now);
  }
  return { waits, stays };
}

const within = (value: number, wanted: number, share: number): void => {
  expect(value).toBeGreaterThan(wanted * (1 - share));
  expect(value).toBeLessThan(wanted * (1 + share));
};

describe("stations wait as theory says", () => {
  it.each([0.3, 0.85])("M/M/1 at %f: mean and 99th percentile", (load) => {
    const random = createRandom(SEED + 1);
    const { waits, stays } = queue(load * 100, () => random.exponential(0.01));
    within(waits.mean(), (load * 0.01) / (1 - load), 0.05);
    // The stay is exponential with rate μ − λ.
    within(stays.quantile(0.99), Math.log(100) / (100 - load * 100), 0.06);
    within(stays.quantile(0.5), Math.log(2) / (100 - load * 100), 0.05);
  });

  it.each([0.3, 0.85])("M/D/1 at %f: half the wait of M/M/1", (load) => {
    within(queue(load * 100, () => 0.01).waits.mean(), (load * 0.01) / (2 * (1 - load)), 0.05);
  });

  it("M/M/4: Erlang's C formula", () => {
    const random = createRandom(SEED + 2);
    const { waits } = queue(300, () => random.exponential(0.01), 4);
    const offered = 3;
    const terms = [1, offered, offered ** 2 / 2, offered ** 3 / 6].reduce(
      (sum, term) => sum + term,
      0,
    );
    const last = offered ** 4 / 24 / (1 - offered / 4);
    within(waits.mean(), last / (terms + last) / (400 - 300), 0.05);
  });

  it("a service time that doubles shows", () => {
    const [one, two] = [0.004, 0.008].map((mean) => {
      const random = createRandom(SEED + 3);
      return queue(100, () => random.exponential(mean)).waits.mean();
    });
    // 0.4·4/0.6 ms against 0.8·8/0.2 ms.
    within((two ?? 0) / (one ?? 1), 12, 0.1);
  });
});

describe("the log", () => {
  it("takes what came during a flush in one: a lone entry waits one flush, a crowd never more than two", () => {
    const calendar = createCalendar<number>();
    const log = createFlusher<number>(0.01, 1e6);
    const times = createTimes();
    const random = createRandom(SEED);
    const arrivals = createArrivals(5_000, undefined, random);
    const came: number[] = [];
    const FLUSHED = -1;
    calendar.at(arrivals.next(0), 0);
    let flushes = 0;
    for (
      let item = calendar.next();
      item !== undefined && came.length < 50_000;
      item = calendar.next()
    ) {
      if (item === FLUSHED) {
        const { items, next } = log.ended(calendar.now);
        flushes++;
        for (const entry of items) times.add(calendar.now - (came[entry] ?? 0));
        if (next !== undefined) calendar.at(next, FLUSHED);
        continue;
      }
      came.push(calendar.now);
      const ends = log.add(calendar.now, item, 0);
      if (ends !== undefined) calendar.at(ends, FLUSHED);
      calendar.at(arrivals.next(calendar.now), item + 1);
    }
    // Ten seconds of 10 ms flushes: 50 entries each, where one by one would have taken 500 s.
    within(flushes, 1_000, 0.02);
    within(times.mean(), 0.015, 0.03);
    expect(times.quantile(1)).toBeLessThanOrEqual(0.0203);
    const alone = createFlusher<number>(0.01, 1e6);
    expect(alone.add(5, 0, 10_000)).toBeCloseTo(5.02, 9);
    expect(alone.writingSeconds()).toBeCloseTo(0.01, 9);
  });
});

describe("randomness", () => {
  it("bursts leave the mean rate as it is, and make it less even", () => {
    const counts = (bursts: Scenario["bursts"]): { mean: number; spread: number } => {
      const arrivals = createArrivals(1_000, bursts, createRandom(SEED));
      const bySecond = new Float64Array(2_000);
      for (let now = arrivals.next(0); now < 2_000; now = arrivals.next(now))
        bySecond[Math.floor(now)] = (bySecond[Math.floor(now)] as number) + 1;
      const mean = bySecond.reduce((sum, one) => sum + one, 0) / 2_000;
      return {
        mean,
        spread: bySecond.reduce((sum, one) => sum + (one - mean) ** 2, 0) / 2_000 / mean,
      };
    };
    const even = counts(undefined);
    within(even.mean, 1_000, 0.01);
    within(even.spread, 1, 0.1);
    const bursting = counts({ factor: 4, seconds: 0.5, share: 0.05 });
    within(bursting.mean, 1_000, 0.04);
    expect(bursting.spread).toBeGreaterThan(50);
  });

  it("keys are as frequent as Zipf's law says, and partitions share them evenly but for the hottest", () => {
    const zipf = createZipf(10_000, 1);
    const random = createRandom(SEED);
    const harmonic = Array.from({ length: 10_000 }, (_, rank) => 1 / (rank + 1)).reduce(
      (sum, one) => sum + one,
      0,
    );
    for (const rank of [0, 1, 9]) within(zipf.share(rank), 1 / (rank + 1) / harmonic, 1e-9);
    const direct = new Float64Array(10);
    for (let n = 0; n < 500_000; n++) {
      const key = zipf.draw(random);
      if (key < 10) direct[key] = (direct[key] as number) + 1;
    }
    for (const rank of [0, 1, 9])
      within((direct[rank] as number) / 500_000, zipf.share(rank), 0.05);
    const parts = new Float64Array(16);
    for (let key = 0; key < 160_000; key++)
      parts[toPartition(key, 16)] = (parts[toPartition(key, 16)] as number) + 1;
    for (const count of parts) within(count, 10_000, 0.04);
  });
});

const SMALL: Scenario = {
  seed: SEED,
  rate: 500,
  seconds: 60,
  warmUp: 10,
  bursts: undefined,
  gateways: 1,
  partitions: 4,
  cores: 2,
  service: "exponential",
  acceptCpu: 0.001,
  commitCpu: 0.002,
  keyCpu: 0.0005,
  runCpu: 0.004,
  commitBytes: 4_000,
  keyBytes: 300,
  runBytes: 9_000,
  flushSeconds: 0.001,
  logBytesPerSecond: 1e7,
  roundTrip: 0.0005,
  keys: 10_000,
  skew: 0.6,
  keyedShare: 0.5,
  runsPerHook: 0.2,
  turnSeconds: 0.5,
  places: 40,
  retryAfter: 2,
  failure: undefined,
};

describe("the whole", () => {
  it("is busy as arithmetic says, loses no hook and keeps each key's order", () => {
    const outcome = simulate(SMALL);
    const { rate, partitions, cores } = SMALL;
    within(outcome.gatewayBusy, rate * SMALL.acceptCpu, 0.05);
    const database =
      (rate / partitions) * (SMALL.commitCpu + 0.75 * SMALL.keyCpu + 0.2 * SMALL.runCpu);
    within(
      outcome.databaseBusy.reduce((sum, one) => sum + one, 0) / partitions,
      database / cores,
      0.05,
    );
    const log =
      (rate / partitions) * (SMALL.commitBytes + 0.75 * SMALL.keyBytes + 0.2 * SMALL.runBytes);
    within(
      outcome.logBusy.reduce((sum, one) => sum + one, 0) / partitions,
      log / SMALL.logBytesPerSecond,
      0.05,
    );
    expect([outcome.arrived, outcome.disorder, outcome.refusals]).toEqual([
      outcome.accepted + outcome.underWay,
      0,
      0,
    ]);
    expect(outcome.runsStarted).toBeGreaterThan(4000);
  });

  it("a gateway in front of a database that costs nothing is M/M/1", () => {
    const free = {
      commitCpu: 0,
      keyCpu: 0,
      runCpu: 0,
      commitBytes: 0,
      keyBytes: 0,
      runBytes: 0,
      flushSeconds: 0,
      roundTrip: 0,
    };
    const outcome = simulate({ ...SMALL, ...free, partitions: 1, rate: 700, seconds: 120 });
    within(outcome.accept.mean(), 1 / (1000 - 700), 0.06);
    const fixed = simulate({
      ...SMALL,
      ...free,
      partitions: 1,
      rate: 700,
      seconds: 120,
      service: "fixed",
    });
    within(fixed.accept.mean(), 0.001 + (0.7 * 0.001) / (2 * 0.3), 0.06);
  });

  it("a database that costs twice as much shows in its load and in the answers", () => {
    const [once, twice] = [0.004, 0.008].map((commitCpu) =>
      simulate({ ...SMALL, commitCpu, runsPerHook: 0 }),
    );
    const busy = (list: readonly number[] = []): number => list.reduce((sum, one) => sum + one, 0);
    within(busy(twice?.databaseBusy) / busy(once?.databaseBusy), 8.375 / 4.375, 0.03);
    expect(twice?.accept.quantile(0.99)).toBeGreaterThan(
      (once?.accept.quantile(0.99) ?? Infinity) * 1.7,
    );
  });

  it("refuses while a partition is away what is its own or has its event's key there, and takes all of it later", () => {
    const failure = { partition: 1, from: 40, seconds: 30 };
    // Enough gateways for those who come again and again, too.
    const outcome = simulate({ ...SMALL, seconds: 90, keyedShare: 0, gateways: 10, failure });
    within((outcome.failure?.refused ?? 0) / (outcome.failure?.arrived ?? 1), 1 - 0.75 ** 2, 0.05);
    expect(outcome.arrived).toBe(outcome.accepted + outcome.underWay);
    expect(outcome.failure?.recovered).toBeGreaterThan(0);
    expect([outcome.disorder, outcome.underWay < 20]).toEqual([0, true]);
  });

  it("a key with more turns than one after the other can be has a line that grows; others do not", () => {
    const crowded: Scenario = {
      ...SMALL,
      skew: 1.2,
      runsPerHook: 1,
      turnSeconds: 0.05,
      places: 200,
    };
    const overfull = overfullKeys(crowded, createZipf(crowded.keys, crowded.skew));
    const outcome = simulate(crowded);
    expect(overfull).toBeGreaterThan(0);
    expect(outcome.overfullKeys).toBe(overfull);
    expect(outcome.runsWaiting).toBeGreaterThan(500);
    expect(outcome.startOfOthers.quantile(0.99)).toBeLessThan(outcome.start.quantile(0.99) / 4);
  });

  it("gives the same for the same seed, and something else for another", () => {
    const short = { ...SMALL, seconds: 10, warmUp: 1 };
    const shown = (seed: number): unknown => {
      const { accept, start, startOfOthers, ...rest } = simulate({ ...short, seed });
      return {
        ...rest,
        times: [accept, start, startOfOthers].map((times) => [
          times.count(),
          times.mean(),
          times.quantile(0.9),
        ]),
      };
    };
    expect(shown(1)).toEqual(shown(1));
    expect(shown(1)).not.toEqual(shown(2));
  });
});

describe("costs", () => {
  const known = parseCosts(readFileSync(COSTS_FILE, "utf8"));

  it("the file says of each how it was measured and where, or that it was not", () => {
    for (const [name, cost] of Object.entries(known.costs)) {
      if (cost.value === null)
        expect([name, cost.how.startsWith("not meas"), cost.estimate !== undefined]).toEqual([
          name,
          true,
          true,
        ]);
      else expect([name, cost.on ?? ""]).toEqual([name, expect.stringMatching(/./)]);
    }
    for (const cost of Object.values(price(known)))
      expect([cost.name, cost.kind]).not.toEqual([cost.name, "missing"]);
  });

  it("tells measured, estimated and missing apart", () => {
    const file: CostsFile = {
      note: "",
      costs: {
        measured: { unit: "µs", value: 5, estimate: 9, how: "twenty letters at the least" },
        guessed: { unit: "µs", value: null, estimate: 9, how: "twenty letters at the least" },
        nothing: { unit: "µs", value: null, how: "twenty letters at the least" },
      },
    };
    expect(
      ["measured", "guessed", "nothing", "absent"]
        .map((name) => getCost(file, name))
        .map(({ kind, value }) => [kind, Math.round(value * 1e9)]),
    ).toEqual([
      ["measured", 5_000],
      ["estimate", 9_000],
      ["missing", 0],
      ["missing", 0],
    ]);
    expect(() =>
      parseCosts(
        '{"note":"","costs":{"x":{"unit":"µs","value":"5","how":"twenty letters at the least"}}}',
      ),
    ).toThrow(/costs\.json/);
  });

  it("a plan keeps every database as full as it may be, and the first break is the least rate", () => {
    const priced = price(known);
    const plan = planFor(100_000, priced);
    const [one, ...others] = getLoads(plan, priced);
    for (const { breaksAt } of others) expect(breaksAt).toBeGreaterThanOrEqual(one?.breaksAt ?? 0);
    const processors = getLoads(plan, priced).find(({ part }) => part.startsWith("processors"));
    expect(processors?.load).toBeLessThanOrEqual(0.6);
    expect(
      getLoads(planFor(100_000, priced, 1), priced).find(({ part }) =>
        part.startsWith("processors"),
      )?.load,
    ).toBeGreaterThan(1);
    expect(buildScenario(plan, priced, 1, 60, undefined).partitions).toBe(plan.partitions);
  });
});

it("simulation: docs/scaling.md has the results of these costs, and says which are estimated", () => {
  const page = readFileSync(new URL("../../docs/scaling.md", import.meta.url), "utf8");
  const priced = price(parseCosts(readFileSync(COSTS_FILE, "utf8")));
  const told = [...page.matchAll(/^\| (?:about )?([\d,]+)( ≈)? +\| \*\*([^*]+)\*\*/gm)];
  const loads = getLoads(planFor(1_000, priced, 1), priced);
  expect(told.length).toBe(loads.length);
  for (const [, number = "", sign, words = ""] of told) {
    const [word = ""] =
      /session key|main session|disk|connections|processors|counter|log/.exec(words) ?? [];
    const found = loads.find(({ part }) =>
      new RegExp(`\\b${word}\\b`).test(part.split(":")[0] ?? ""),
    );
    expect([words, sign !== undefined]).toEqual([
      words,
      found?.from.some(({ kind }) => kind === "estimate"),
    ]);
    within(Number(number.replaceAll(",", "")), found?.breaksAt ?? 0, 0.2);
  }
});

describe("what is printed", () => {
  function printed(costs: CostsFile["costs"]): string {
    const dir = mkdtempSync(join(tmpdir(), "rouse-simulate-"));
    const lines: string[] = [];
    const log = vi
      .spyOn(console, "log")
      .mockImplementation((line: string) => void lines.push(line));
    try {
      writeFileSync(join(dir, "costs.json"), JSON.stringify({ note: "", costs }));
      main({ seed: 1, rates: [50], file: join(dir, "costs.json") });
    } finally {
      log.mockRestore();
      rmSync(dir, { recursive: true, force: true });
    }
    return lines.join("\n");
  }
  const { costs } = parseCosts(readFileSync(COSTS_FILE, "utf8"));
  const all = (
    change: (cost: CostsFile["costs"][string]) => CostsFile["costs"][string],
  ): CostsFile["costs"] =>
    Object.fromEntries(Object.entries(costs).map(([name, cost]) => [name, change(cost)]));

  it("marks what rests on an estimate, and only that", () => {
    const measured = printed(all((cost) => ({ ...cost, value: cost.value ?? cost.estimate ?? 1 })));
    expect(measured.replace("≈ behind a figure: it rests on an estimate.", "")).not.toContain("≈");
    const estimated = printed(
      all((cost) => ({ ...cost, value: null, estimate: cost.value ?? cost.estimate ?? 1 })),
    );
    expect(estimated.match(/≈ ESTIMATE/g)?.length).toBe(
      Object.keys(price(parseCosts(readFileSync(COSTS_FILE, "utf8")))).length,
    );
    for (const line of estimated
      .split("\n")
      .filter((one) => /^\| (?:accept|processors|log of|enqueue)/.test(one)))
      expect(line).toContain("≈");
  });

  it("says what is missing, and judges nothing by it", () => {
    const { "postgres.commitCpu": _, ...without } = costs;
    const text = printed(without);
    expect(text).toContain("| postgres.commitCpu | – | MISSING: left out |");
    expect(text).toMatch(/processors of the fullest database \| unknown: a cost is missing/);
    expect(text).toMatch(/Nothing can be said of: processors of the fullest database/);
    expect(text).toContain("(without what is missing)");
  });
});
