import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { LimitsConfig } from "../../src/config/schema/limits.ts";
import { findFull } from "../../src/queue/admission.ts";
import { getLimit } from "../../src/queue/limit-text.ts";
import { decide } from "../../src/queue/policy.ts";
import type { BudgetLimits, BudgetUsage } from "../../src/store/types.ts";

const NOW = 1_800_000_000_000;
const FREE: BudgetUsage = { starts: 0, tokens: 0, busy: 0, isQueued: false };

const decideOne = (limits: BudgetLimits["limits"], usage: Partial<BudgetUsage>) =>
  decide(new Map([["hooks", { ...FREE, ...usage }]]), [{ scope: "hooks", limits }], NOW);

describe("whether a run may start", () => {
  it("is yes without a budget, without limits, and below each limit", () => {
    expect(decide(new Map(), [], NOW)).toEqual({ start: true });
    expect(decideOne({}, { starts: 9, tokens: 9, busy: 9, isQueued: true })).toEqual({
      start: true,
    });
    expect(
      decideOne(
        { runsPerHour: 2, tokensPerDay: 10, concurrent: 2 },
        { starts: 1, tokens: 9, busy: 1 },
      ),
    ).toEqual({ start: true });
  });

  it.each([
    [
      "the hour's runs have started",
      { runsPerHour: 2 },
      { starts: 2, nextStartAt: NOW + 5 },
      { limit: "runsPerHour", until: NOW + 5 },
    ],
    [
      "the hour's runs have started, nobody knows until when",
      { runsPerHour: 2 },
      { starts: 2 },
      { limit: "runsPerHour" },
    ],
    [
      "the day's tokens are used",
      { tokensPerDay: 10 },
      { tokens: 10, tokensFreeAt: NOW + 9 },
      { limit: "tokensPerDay", until: NOW + 9 },
    ],
    [
      "the day's money is spent",
      { budget: { perDay: 2 } },
      { costUsd: 2, costFreeAt: NOW + 9 },
      { limit: "budget.perDay", until: NOW + 9 },
    ],
    ["all places are taken", { concurrent: 2 }, { busy: 2 }, { limit: "concurrent" }],
    [
      "others wait for a place before it",
      { concurrent: 2 },
      { isQueued: true },
      { limit: "concurrent" },
    ],
  ])("is no if %s", (_why, limits, usage, reason) => {
    expect(decideOne(limits, usage)).toEqual({
      start: false,
      reason: { scope: "hooks", ...reason },
    });
  });

  it("is yes from the moment on at which there is room", () => {
    expect(decideOne({ runsPerHour: 2 }, { starts: 2, nextStartAt: NOW }).start).toBe(true);
    expect(decideOne({ tokensPerDay: 1 }, { tokens: 1, tokensFreeAt: NOW }).start).toBe(true);
  });

  it("has the latest moment of several budgets as its reason, and a moment rather than a wait for another run", () => {
    const budgets = ["a", "b", "c"].map((scope) => ({
      scope,
      limits: { runsPerHour: 1, concurrent: 1, tokensPerDay: 1 },
    }));
    const full: BudgetUsage = { ...FREE, busy: 1 };
    const usage = new Map([
      ["a", full],
      ["b", { ...full, starts: 1, nextStartAt: NOW + 1 }],
      ["c", { ...full, starts: 1, nextStartAt: NOW + 2, tokens: 1, tokensFreeAt: NOW + 3 }],
    ]);
    expect(decide(usage, budgets, NOW)).toEqual({
      start: false,
      reason: { scope: "c", limit: "runsPerHour", until: NOW + 2 },
    });
    expect(decide(usage, budgets, NOW + 2)).toEqual({
      start: false,
      reason: { scope: "c", limit: "tokensPerDay", until: NOW + 3 },
    });
    expect(decide(usage, budgets, NOW + 3)).toEqual({
      start: false,
      reason: { scope: "a", limit: "concurrent" },
    });
  });

  const count = fc.nat({ max: 5 });
  const moment = fc.option(fc.integer({ min: NOW - 3, max: NOW + 3 }), { nil: undefined });
  const limit = fc.option(fc.integer({ min: 1, max: 5 }), { nil: undefined });
  const money = fc.option(fc.record({ perDay: fc.integer({ min: 1, max: 5 }) }), {
    nil: undefined,
  });
  const budget = fc.record({
    runsPerHour: limit,
    concurrent: limit,
    tokensPerDay: limit,
    budget: money,
  });
  const spent = fc.record({
    starts: count,
    nextStartAt: moment,
    tokens: count,
    tokensFreeAt: moment,
    costUsd: count,
    costFreeAt: moment,
    busy: count,
    isQueued: fc.boolean(),
  });
  const cases = fc.array(fc.record({ limits: budget, usage: spent }), { maxLength: 3 });
  const decideAll = (
    entries: readonly { limits: BudgetLimits["limits"]; usage: BudgetUsage }[],
    now = NOW,
  ) =>
    decide(
      new Map(entries.map(({ usage }, index) => [String(index), usage])),
      entries.map(({ limits }, index) => ({ scope: String(index), limits })),
      now,
    );

  it("names a limit that is set, and a moment that is to come", () => {
    fc.assert(
      fc.property(cases, (entries) => {
        const decision = decideAll(entries);
        if (decision.start) return;
        const { scope, limit: name, until } = decision.reason;
        expect(getLimit(entries[Number(scope)]?.limits as LimitsConfig, name)).toBeDefined();
        if (until !== undefined) expect(until).toBeGreaterThan(NOW);
      }),
    );
  });

  it("is no only if a budget alone says no, and never turns to yes by another budget", () => {
    fc.assert(
      fc.property(cases, (entries) => {
        expect(decideAll(entries).start).toBe(entries.every((entry) => decideAll([entry]).start));
      }),
    );
  });

  it("stays yes with less spent and with higher limits", () => {
    fc.assert(
      fc.property(cases, (entries) => {
        if (!decideAll(entries).start) return;
        const less = entries.map(({ limits, usage }) => ({
          limits,
          usage: {
            ...usage,
            starts: Math.max(0, usage.starts - 1),
            tokens: Math.max(0, usage.tokens - 1),
            costUsd: Math.max(0, (usage.costUsd ?? 0) - 1),
            busy: Math.max(0, usage.busy - 1),
          },
        }));
        const raised = entries.map(
          ({
            limits: {
              runsPerHour = 9,
              concurrent = 9,
              tokensPerDay = 9,
              budget: { perDay } = { perDay: 9 },
            },
            usage,
          }) => ({
            limits: {
              runsPerHour: runsPerHour + 1,
              concurrent: concurrent + 1,
              tokensPerDay: tokensPerDay + 1,
              budget: { perDay: perDay + 1 },
            },
            usage: { ...usage, isQueued: false },
          }),
        );
        expect(decideAll(less).start).toBe(true);
        expect(decideAll(raised).start).toBe(true);
      }),
    );
  });

  it("is yes at the moment that it named, unless another limit holds the run back then", () => {
    fc.assert(
      fc.property(cases, (entries) => {
        const decision = decideAll(entries);
        if (decision.start || decision.reason.until === undefined) return;
        const then = decideAll(entries, decision.reason.until);
        if (!then.start) expect(then.reason).not.toEqual(decision.reason);
      }),
    );
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
