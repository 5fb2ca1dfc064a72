import { afterEach, beforeEach, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { newId } from "../../src/core/ids.ts";
import { decide } from "../../src/limits/policy.ts";
import { openStore } from "../../src/store/open.ts";
import type { RunAction, SharedUsage, StoreHandle } from "../../src/store/types.ts";
import { event, runAction } from "../../src/testing/store/make.ts";
import { silent } from "./home.ts";
import { describePostgres, newSchema, type Schema } from "./postgres.ts";

describePostgres("what gateways spend and collect together", () => {
  let schema: Schema;
  let opened: StoreHandle[] = [];
  const open = async (): Promise<{ store: StoreHandle["store"]; usage: SharedUsage }> => {
    const handle = await openStore({ url: schema.url, clock: systemClock, log: silent });
    opened.push(handle);
    if (!handle.sharedUsage) throw new Error("there is no shared usage");
    return { store: handle.store, usage: handle.sharedUsage };
  };
  beforeEach(() => {
    schema = newSchema();
    opened = [];
  });
  afterEach(async () => {
    await Promise.all(opened.map((handle) => handle.store.close()));
    await schema.drop();
  });

  it("an event that comes too late for its window is not kept, and one in time is part of it", async () => {
    const [a, b] = [await open(), await open()];
    const at = Date.now();
    const joining = { name: "alerts\ndb", at, windowMs: 1000, maxMs: 5000, maxEvents: 10, chars: 10, maxChars: 1000 };
    const first = await a.usage.join({ ...joining, runId: newId("run", Date.now()) });
    const second = await b.usage.join({ ...joining, runId: newId("run", Date.now()), at: at + 10 });
    expect(second).toMatchObject({ runId: first.runId, opened: false });
    expect(first.opened).toBe(true);
    const joinedBy = (n: number): RunAction => ({
      ...runAction("hook:w"),
      runId: first.runId,
      collect: { key: "db", closesAt: first.closesAt, event: { eventId: `evt_${n}`, at, payload: { n } } as never, shared: true },
    });
    expect(await a.store.accept(event({ id: "evt_1", actions: [joinedBy(1)] }))).toEqual({ kind: "accepted" });
    expect(await b.usage.close(first.runId, at + 500)).toBeGreaterThan(at + 500);
    expect(await b.usage.close(first.runId, at + 2000)).toBeUndefined();
    expect(await a.store.accept(event({ id: "evt_2", actions: [joinedBy(2)] }))).toEqual({ kind: "closed" });
    expect(await b.store.get("event", "evt_2")).toBeUndefined();
    expect(await b.store.list("collected", first.runId)).toHaveLength(1);
    expect(await a.usage.join({ ...joining, runId: newId("run", Date.now()) })).toMatchObject({ opened: true });
  });

  it("of runs that start at the same moment as many start as may, and the others get moments of their own", async () => {
    const [a, b] = [await open(), await open()];
    const starts = Array.from({ length: 12 }, (_, n) =>
      (n % 2 === 0 ? a : b).usage.start(`run_${n}`, [{ scope: "hooks", limits: { runsPerHour: 3 } }], decide),
    );
    const parked = (await Promise.all(starts)).flatMap((one) => one ?? []);
    expect(parked).toHaveLength(9);
    const hours = parked.map(({ until = 0 }) => Math.round((until - Date.now()) / 3_600_000)).toSorted((x, y) => x - y);
    expect(hours).toEqual([1, 1, 1, 2, 2, 2, 3, 3, 3]);
  });

  it("a gateway that lost a run to another does not give back what that one has taken", async () => {
    const [a, b] = [await open(), await open()];
    const budget = [{ scope: "hooks", limits: { concurrent: 1 } }];
    await a.store.commit((tx) =>
      tx.add("run", {
        id: "run_x",
        eventId: null,
        kind: "hook",
        status: "running",
        spec: runAction("k").spec,
        warnings: [],
        attempts: 1,
        restarts: 0,
        createdAt: Date.now(),
      }),
    );
    expect(await a.usage.start("run_x", budget, decide)).toBeUndefined();
    expect(await b.usage.start("run_x", budget, decide)).toBeUndefined();
    await a.usage.release("run_x", budget, 7);
    expect(await b.usage.start("run_y", budget, decide)).toMatchObject({ limit: "concurrent" });
    await b.usage.release("run_x", budget, 7, 0.25);
    // Given back once more, it counts no second time.
    await b.usage.release("run_x", budget, 7, 0.25);
    expect(await b.usage.spent("hooks")).toEqual({ startedLastHour: 1, running: 0, tokensLastDay: 7, costLastDay: 0.25 });
    expect(await b.usage.start("run_y", budget, decide)).toBeUndefined();
  });
});
