import { describe, expect, it, vi } from "vitest";
import { type JobKind, PARKED_FROM, PARKED_UNTIL } from "../../../src/store/types.ts";
import { until } from "../../../src/testing/harness.ts";
import { DAY, event, HOUR, run, runAction } from "./make.ts";
import { createQueueActions } from "./queue-actions.ts";
import type { Stage } from "./stage.ts";

/** Tests jobs while somebody sets the clock. */
function testSteps(stage: Stage): void {
  const { ids, fetch, fetchOne, enqueue, complete } = createQueueActions(stage);

  describe.each([
    ["back", -HOUR],
    ["forward", HOUR],
  ])("a clock that is set %s by an hour", (_, step) => {
    it("holds back no work without a delay: it starts in the order in which it came", async () => {
      const { clock } = stage.home;
      await enqueue(
        ["a1", { key: "a", enqueuedAt: clock.now() }],
        ["a2", { key: "a", enqueuedAt: clock.now() }],
      );
      await enqueue(["b", { key: "b", enqueuedAt: clock.now() }]);
      clock.set(step);
      const late = runAction("hook:late");
      await stage.store.accept(event({ receivedAt: clock.now(), actions: [late] }));
      await enqueue(["c", { key: "c", enqueuedAt: clock.now() }]);
      const order: string[] = [];
      for (let n = 0; n < 5; n++) {
        const one = await fetchOne();
        order.push(one.id);
        await complete(one);
      }
      expect(order).toEqual(["a1", "b", late.runId, "c", "a2"]);
    });

    it("holds back no job that was cut off, and none that is put back immediately", async () => {
      await enqueue(["a", { key: "a" }], ["b", { key: "b" }]);
      const held = await fetchOne();
      await stage.store.commit((tx) => tx.jobs.settle(held, stage.clock.now()), held);
      await fetchOne();
      await stage.reopen();
      stage.clock.set(step);
      await stage.queue.recover();
      expect(ids(await fetch()).toSorted()).toEqual(["a", "b"]);
    });
  });
}

/** Tests delays while somebody sets the clock. */
function testDelays(stage: Stage): void {
  const { ids, fetch, fetchOne, enqueue, complete } = createQueueActions(stage);

  it("a delay lasts as long as it was to, also where the clock is set back meanwhile", async () => {
    const { clock } = stage.home;
    await enqueue(["retry", { key: "a" }], ["behind", { key: "a" }]);
    const held = await fetchOne();
    await stage.store.commit((tx) => tx.jobs.settle(held, clock.now() + 10 * 60_000), held);
    await enqueue(["window", { key: "w", runAt: clock.now() + HOUR }]);
    clock.advance(10 * 60_000 - 5000);
    expect(await fetch()).toEqual([]);
    clock.set(-HOUR);
    clock.advance(4000);
    expect(await fetch()).toEqual([]);
    clock.advance(1000);
    const [retry] = await fetch();
    expect(retry?.id).toBe("retry");
    await complete(retry!);
    expect(ids(await fetch())).toEqual(["behind"]);
    clock.advance(50 * 60_000 - 1);
    expect(await fetch()).toEqual([]);
    clock.advance(1);
    expect(ids(await fetch())).toEqual(["window"]);
  });

  it("a delay that is over while the clock is set forward ends", async () => {
    await enqueue(["a", { runAt: stage.clock.now() + HOUR }]);
    stage.clock.advance(HOUR);
    stage.clock.set(HOUR);
    expect(ids(await fetch())).toEqual(["a"]);
  });
}

/** Tests jobs that a limit holds back. */
function testParked(stage: Stage): void {
  const { ids, fetch, enqueue } = createQueueActions(stage);

  it("a job that a limit holds back does not move with the clock, and starts when it is released, in its order", async () => {
    const { clock } = stage.home;
    const hold = { reason: "limit", scope: "hooks", limit: "concurrent", since: 0 } as const;
    for (const id of ["p1", "p2", "p3"]) {
      await stage.store.commit((tx) =>
        tx.runs.add(run({ id, mapping: "shop", status: "parked", hold })),
      );
      await enqueue([id, { key: id, runAt: PARKED_UNTIL }]);
    }
    for (const step of [-HOUR, 3 * HOUR, -DAY]) {
      clock.set(step);
      clock.advance(1000);
      expect(await fetch()).toEqual([]);
      expect((await stage.queue.find("turn", "p1"))?.runAt).toBeGreaterThanOrEqual(PARKED_FROM);
    }
    expect(await stage.usage.lanes()).toEqual({
      lanes: [{ mapping: "shop", waits: true, released: 0 }],
      parked: 3,
    });
    expect(await stage.usage.release([{ mapping: "shop", count: 2 }])).toEqual([2]);
    expect(ids(await fetch())).toEqual(["p1", "p2"]);
    expect(await stage.usage.release([{ mapping: "shop", count: 2 }])).toEqual([1]);
    expect(ids(await fetch())).toEqual(["p3"]);
  });
}

/** The line of those that may start, and those that join it when their delay is over. */
function testLine(stage: Stage): void {
  const { ids, fetch, fetchOne, enqueue, complete } = createQueueActions(stage);

  it("a job whose delay is over is not held back by work that keeps coming", async () => {
    const { clock } = stage.home;
    await enqueue(["later", { key: "later", runAt: clock.now() + 1000 }]);
    const started: string[] = [];
    for (let n = 0; n < 10 && !started.includes("later"); n++) {
      clock.advance(500);
      await enqueue([`x${n}`, { key: `x${n}` }], [`y${n}`, { key: `y${n}` }]);
      const one = await fetchOne();
      started.push(one.id);
      await complete(one);
    }
    expect(started).toContain("later");
  });

  it("places are kept over a restart", async () => {
    await enqueue(["a1", { key: "a" }], ["a2", { key: "a" }], ["b", { key: "b" }]);
    await complete(await fetchOne());
    await stage.reopen();
    await enqueue(["c", { key: "c" }]);
    expect(ids(await fetch())).toEqual(["b", "a2", "c"]);
  });
}

/** Whoever waits for work hears of it. */
function testWakeUps(stage: Stage): void {
  const { ids, fetch, enqueue } = createQueueActions(stage);

  it("a delay that ends while the queue is looked at wakes those who wait", async () => {
    // Each look at the clock takes a millisecond: among so many delays each moment is met at which one can end.
    const { clock } = stage.home;
    clock.passAtEachLook(1);
    const heard = new Set<JobKind>();
    stage.queue.onReady((kind) => heard.add(kind));
    for (let delay = 0; delay < 24; delay++) {
      await enqueue([`j${delay}`, { key: `k${delay}`, runAt: clock.now() + delay }]);
      heard.clear();
      let taken = ids(await fetch());
      for (let looks = 0; taken.length === 0 && looks < 3; looks++) {
        await until(() => heard.size > 0);
        expect([delay, ...heard]).toEqual([delay, "turn"]);
        heard.clear();
        clock.advance(delay);
        taken = ids(await fetch());
      }
      expect(taken).toEqual([`j${delay}`]);
    }
  });

  it("whoever waits looks every 30 seconds, whatever was lost", async () => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    try {
      const heard: JobKind[] = [];
      stage.queue.onReady((kind) => heard.push(kind));
      vi.advanceTimersByTime(30_000);
      expect(heard.toSorted()).toEqual(["command", "delivery", "turn"]);
      vi.advanceTimersByTime(30_000);
      expect(heard).toHaveLength(6);
    } finally {
      vi.useRealTimers();
    }
  });
}

/** The queue and the clock. */
export function testQueueClock(stage: Stage): void {
  describe("the clock", () => {
    testSteps(stage);
    testDelays(stage);
    testParked(stage);
    testLine(stage);
    testWakeUps(stage);
  });
}
