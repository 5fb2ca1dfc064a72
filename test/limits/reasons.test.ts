import { describe, expect, it } from "vitest";
import type { LimitsConfig } from "../../src/config/schema/limits.ts";
import { BudgetAccount, pickReason } from "../../src/queue/account.ts";
import { findFull } from "../../src/queue/admission.ts";
import type { Counted, LimitReason, Resource } from "../../src/store/types.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** The begin of a bucket of each window. */
const NOW = 1_800_000_000_000;

/** An account of which the store has counted this. */
function account(limits: LimitsConfig, counted: Partial<Counted>): BudgetAccount {
  const made = new BudgetAccount({ scope: "hooks", limits }, ["hooks"]);
  made.reading()({ running: 0, waiting: 0, parked: 0, inLine: 0, hour: [], day: [], ...counted });
  return made;
}

describe("a run that is accepted", () => {
  it("has nothing to wait for without limits, and below each of them", () => {
    const used: Partial<Counted> = {
      running: 1,
      hour: [{ at: NOW, starts: 1 }],
      day: [{ at: NOW, tokens: 9, micros: 1_999_999 }],
    };
    expect(account({}, used).predict(NOW)).toEqual([]);
    const limits = { runsPerHour: 2, concurrent: 2, tokensPerDay: 10, budget: { perDay: 2 } };
    expect(account(limits, used).predict(NOW)).toEqual([]);
  });

  it.each<[string, LimitsConfig, Partial<Counted>, Omit<LimitReason, "scope">]>([
    [
      "the hour's runs have started",
      { runsPerHour: 2 },
      { hour: [{ at: NOW, starts: 2 }] },
      { limit: "runsPerHour", until: NOW + HOUR + 60_000 },
    ],
    [
      "those in line take the rest of the hour's runs",
      { runsPerHour: 2 },
      { inLine: 1, hour: [{ at: NOW, starts: 1 }] },
      { limit: "runsPerHour", until: NOW + HOUR + 60_000 },
    ],
    [
      "the day's tokens are used",
      { tokensPerDay: 10 },
      { day: [{ at: NOW, tokens: 10, micros: 0 }] },
      { limit: "tokensPerDay", until: NOW + DAY + 900_000 },
    ],
    [
      "the day's money is spent",
      { budget: { perDay: 2 } },
      { day: [{ at: NOW, tokens: 0, micros: 2_000_000 }] },
      { limit: "budget.perDay", until: NOW + DAY + 900_000 },
    ],
    ["all places are taken", { concurrent: 2 }, { running: 2 }, { limit: "concurrent" }],
    [
      "others wait for a place before it",
      { concurrent: 2 },
      { running: 1, inLine: 1 },
      { limit: "concurrent" },
    ],
  ])("waits if %s", (_why, limits, counted, reason) => {
    expect(account(limits, counted).predict(NOW)).toEqual([{ scope: "hooks", ...reason }]);
    if (reason.until !== undefined && !counted.inLine)
      expect(account(limits, counted).predict(reason.until)).toEqual([]);
  });
});

describe("a run that could not start", () => {
  const refuse = (limits: LimitsConfig, counted: Partial<Counted>, ...missing: Resource[]) =>
    account(limits, counted).refuse(new Set(missing), NOW);

  it("waits for a limit that is set, with a moment that is to come if one is known", () => {
    expect(refuse({ concurrent: 2 }, {}, "places", "tokens")).toEqual([
      { scope: "hooks", limit: "concurrent" },
    ]);
    expect(refuse({ tokensPerDay: 5 }, {}, "tokens")).toEqual([
      { scope: "hooks", limit: "tokensPerDay" },
    ]);
    const day = [{ at: NOW - HOUR, tokens: 5, micros: 0 }];
    expect(refuse({ tokensPerDay: 5 }, { day }, "tokens")).toEqual([
      { scope: "hooks", limit: "tokensPerDay", until: NOW - HOUR + DAY + 900_000 },
    ]);
  });

  it("names the latest moment of several budgets, and a moment rather than a wait for another run", () => {
    const place = { scope: "a", limit: "concurrent" } as const;
    const money = { scope: "a", limit: "budget.perDay", until: NOW + 9 } as const;
    const tokens = { scope: "c", limit: "tokensPerDay", until: NOW + 3 } as const;
    const [early, late] = [1, 2].map((ms) => ({
      scope: `b${ms}`,
      limit: "runsPerHour" as const,
      until: NOW + ms,
    })) as [LimitReason, LimitReason];
    expect(pickReason([place, money, tokens, early, late])).toBe(late);
    expect(pickReason([place, money, tokens])).toBe(tokens);
    expect(pickReason([place, money])).toBe(money);
    expect(pickReason([place])).toBe(place);
    expect(pickReason([])).toBeUndefined();
  });
});

describe("whether one more may wait", () => {
  const budget = (scope: string, queue?: number) => ({
    scope,
    limits: queue === undefined ? {} : { queue },
  });

  it("counts the runs that wait and those that would", () => {
    const [shop, all] = [budget("shop", 2), budget("hooks", 10)];
    const waiting = (scope: string): number => (scope === "shop" ? 1 : 8);
    expect(findFull([shop, all], waiting)).toBeUndefined();
    expect(findFull([shop, all, shop, all], waiting)).toBe(shop);
    expect(findFull([all, all, all], waiting)).toBe(all);
    expect(findFull([budget("free"), budget("free")], () => 1_000_000)).toBeUndefined();
  });
});
