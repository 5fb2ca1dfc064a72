import { describe, expect, it } from "vitest";
import type { Job, JobKind } from "../../../src/store/types.ts";
import { until } from "../../../src/testing/harness.ts";
import { event, job, run, runAction, spec } from "./make.ts";
import { createQueueActions } from "./queue-actions.ts";
import type { Stage } from "./stage.ts";

/** Jobs that are under way, that wait, and that a stop cut off. */
export function testQueueLeases(stage: Stage): void {
  const { ids, fetch, fetchOne, enqueue, complete } = createQueueActions(stage);

  describe("a lease", () => {
    it("that is over writes nothing", async () => {
      await enqueue(["a"]);
      const held = await fetchOne();
      await complete(held);
      const done = await stage.store.commit((tx) => {
        tx.values.set("late", true);
        tx.jobs.add(job("b"));
      }, held);
      expect(done).toBe(false);
      expect(await stage.store.values.get("late")).toBeUndefined();
      expect(await fetch()).toEqual([]);
    });

    it("is another at each start, also where the starts were forgotten", async () => {
      await enqueue(["a"]);
      const old = await fetchOne();
      await stage.store.commit(
        (tx) => tx.jobs.settle(old, stage.clock.now(), { resetAttempts: true }),
        old,
      );
      const now = await fetchOne();
      expect(old.attempts).toBe(now.attempts);
      expect(await stage.store.commit((tx) => tx.values.set("late", true), old)).toBe(false);
      await stage.store.commit((tx) => tx.jobs.settle(old));
      await stage.store.commit((tx) => tx.jobs.settle(old, 0));
      expect(await fetch()).toEqual([]);
      expect(await complete(now)).toBe(true);
    });

    it("is another where the job was ended and added again under its id", async () => {
      const leases: unknown[] = [];
      let old: Job | undefined;
      for (const key of ["parked", "a", "a"]) {
        await enqueue(["a", { key }]);
        const now = await fetchOne();
        leases.push(now.lease);
        if (old)
          expect(await stage.store.commit((tx) => tx.values.set("late", true), old)).toBe(false);
        old = now;
        await stage.store.commit((tx) => tx.jobs.settle(now, stage.clock.now()), now);
        const again = await fetchOne();
        leases.push(again.lease);
        await complete(again);
      }
      expect(await stage.store.values.get("late")).toBeUndefined();
      expect(new Set(leases).size).toBe(leases.length);
    });

    it("that was never given writes nothing", async () => {
      await enqueue(["a"]);
      expect(await complete({ ...job("a"), attempts: 1 })).toBe(false);
      expect(ids(await fetch())).toEqual(["a"]);
    });
  });

  // A store that only one gateway can use has no `confirm`.
  describe("confirm", () => {
    const confirm = (one: Job, signal = new AbortController().signal) =>
      stage.queue.confirm?.(one, signal);

    it("answers yes for a job that is held, and no for one that is not", async ({ skip }) => {
      if (!stage.queue.confirm) return skip("this store has no confirm");
      await enqueue(["a", { key: "a" }], ["b", { key: "b" }]);
      const [a, b] = (await fetch()) as [Job, Job];
      expect([await confirm(a), await confirm(b), await confirm(a)]).toEqual([true, true, true]);
      const lost: string[] = [];
      await stage.reopen();
      stage.queue.onLost?.((held) => lost.push(held.id));
      await stage.queue.recover();
      expect([await confirm(a), lost]).toEqual([false, ["a"]]);
      const again = await fetch();
      expect(ids(again)).toEqual(["a", "b"]);
      // The old lease of a job that this process holds once more.
      expect([await confirm(b), await confirm(again[1] as Job)]).toEqual([false, true]);
    });

    it("answers no if the signal has aborted", async ({ skip }) => {
      if (!stage.queue.confirm) return skip("this store has no confirm");
      await enqueue(["a"]);
      const [a] = (await fetch()) as [Job];
      expect(await confirm(a, AbortSignal.abort())).toBe(false);
    });
  });

  describe("after a stop", () => {
    it("jobs that were in progress may start again, counted, and before those behind them", async () => {
      await enqueue(["a1", { key: "a" }], ["a2", { key: "a" }], ["b1", { key: "b" }]);
      const before = await fetch();
      await stage.reopen();
      expect(await fetch()).toEqual([]);
      expect(await stage.queue.recover()).toBe(2);
      const after = await fetch();
      expect(after.map((one) => [one.id, one.attempts])).toEqual([
        ["a1", 2],
        ["b1", 2],
      ]);
      expect(await complete(before[0] as Job)).toBe(false);
      expect(await stage.queue.recover()).toBe(2);
    });

    it("a wait for another try continues", async () => {
      await enqueue(["a"]);
      const held = await fetchOne();
      await stage.store.commit((tx) => tx.jobs.settle(held, stage.clock.now() + 1000), held);
      await stage.reopen();
      expect(await stage.queue.recover()).toBe(0);
      expect(await fetch()).toEqual([]);
      stage.clock.advance(1000);
      expect(await fetchOne()).toMatchObject({ id: "a", attempts: 2 });
    });
  });

  describe("onReady", () => {
    /** More than a database on a busy machine takes to be asked for its time. */
    const DUE_MS = 1_000;
    const listen = (): JobKind[] => {
      const heard: JobKind[] = [];
      stage.queue.onReady((kind) => heard.push(kind));
      return heard;
    };

    it("tells of new jobs, of work that was accepted, and of keys that are free", async () => {
      const heard = listen();
      await enqueue(["d", { kind: "delivery" }]);
      expect(heard).toEqual(["delivery"]);
      await stage.store.accept(event({ actions: [runAction()] }));
      await until(() => heard.length > 1);
      expect(heard).toEqual(["delivery", "turn"]);
      const held = await fetchOne();
      heard.length = 0;
      await complete(held);
      expect(heard).toEqual(["turn"]);
    });

    it("tells when a job's time has come, after a restart once somebody has asked for jobs", async () => {
      await enqueue(["a", { runAt: stage.clock.now() + DUE_MS }]);
      await stage.reopen();
      const heard = listen();
      expect(await fetch()).toEqual([]);
      stage.clock.advance(DUE_MS);
      await until(() => heard.length > 0);
      expect(heard).toEqual(["turn"]);
      expect(ids(await fetch())).toEqual(["a"]);
    });

    it("is silent after its undo, and survives a listener that throws", async () => {
      const heard = listen();
      let calls = 0;
      const undo = stage.queue.onReady(() => void calls++);
      stage.queue.onReady(() => {
        throw new Error("listener");
      });
      const after = listen();
      await enqueue(["a"]);
      undo();
      await enqueue(["b"]);
      expect([heard.length, calls, after.length]).toEqual([2, 1, 2]);
    });
  });

  it("waiting counts the jobs without a holder, and says how long the oldest has waited", async () => {
    expect(await stage.queue.waiting("turn")).toEqual({ count: 0, oldestMs: 0 });
    await enqueue(["a", { key: "a" }], ["b", { key: "b" }], ["d", { kind: "delivery" }]);
    stage.clock.advance(700);
    expect(await stage.queue.waiting("turn")).toEqual({ count: 2, oldestMs: 700 });
    await fetch();
    expect(await stage.queue.waiting("turn")).toEqual({ count: 0, oldestMs: 0 });
    await stage.store.accept(event({ receivedAt: stage.clock.now(), actions: [runAction()] }));
    expect(await stage.queue.waiting("turn")).toEqual({ count: 1, oldestMs: 0 });
  });

  it("a commit that fails leaves the job with its holder", async () => {
    await enqueue(["a"]);
    const held = await fetchOne();
    const record = run();
    await stage.store.commit((tx) => tx.runs.add(record));
    const failing = stage.store.commit((tx) => {
      tx.jobs.settle(held);
      tx.runs.add({ ...record, spec: spec("hook:two") });
    }, held);
    await expect(failing).rejects.toMatchObject({ name: "RouseError" });
    expect(await complete(held)).toBe(true);
  });
}
