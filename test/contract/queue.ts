import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Job, JobKind, StoreHandle } from "../../src/store/types.ts";
import { event, job, run, runAction, spec, until, type Home } from "./make.ts";

/** What every queue keeps to, whatever it is built on. */
export function queueContract(name: string, makeHome: () => Promise<Home>): void {
  describe(`queue on ${name}`, () => {
    let home: Home;
    let handle: StoreHandle;

    beforeEach(async () => {
      home = await makeHome();
      handle = await home.open();
    });
    afterEach(async () => {
      await handle.store.close();
      await home.remove();
    });

    const ids = (jobs: readonly Job[]): string[] => jobs.map((one) => one.id);
    const fetch = (limit = 10, kind: JobKind = "turn"): Promise<Job[]> => handle.queue.fetch(kind, limit);
    const fetchOne = async (): Promise<Job> => {
      const [found] = await fetch(1);
      if (!found) throw new Error("no job is ready");
      return found;
    };
    const enqueue = (...jobs: Parameters<typeof job>[]): Promise<boolean> =>
      handle.store.commit((tx) => {
        for (const args of jobs) tx.enqueue(job(...args));
      });
    const complete = (one: Job): Promise<boolean> => handle.store.commit((tx) => tx.completeJob(one), one);
    const reopen = async (): Promise<void> => {
      await handle.store.close();
      handle = await home.open();
    };

    describe("order", () => {
      it("is first in, first out per key, one at a time, under parallel workers", async () => {
        const keys = ["a", "b", "c", "d", "e"];
        await handle.store.commit((tx) => {
          for (let n = 0; n < 20; n++) for (const key of keys) tx.enqueue(job(`${key}${n}`, { key }));
        });
        const seen: Record<string, string[]> = {};
        const busy = new Set<string>();
        let overlaps = 0;
        let left = 100;
        const work = async (limit: number): Promise<void> => {
          while (left > 0) {
            const jobs = await fetch(limit);
            left -= jobs.length;
            for (const one of jobs) {
              if (busy.has(one.key)) overlaps++;
              busy.add(one.key);
            }
            await Promise.all(
              jobs.map(async (one) => {
                await new Promise((resolve) => setImmediate(resolve));
                (seen[one.key] ??= []).push(one.id);
                busy.delete(one.key);
                expect(await complete(one)).toBe(true);
              }),
            );
          }
        };
        await Promise.all([work(1), work(2), work(1), work(3)]);
        expect(overlaps).toBe(0);
        expect(seen).toEqual(Object.fromEntries(keys.map((key) => [key, Array.from({ length: 20 }, (_, n) => `${key}${n}`)])));
      });

      it("gives at most the first of each key, up to the limit", async () => {
        await enqueue(["a1", { key: "a" }], ["a2", { key: "a" }], ["b1", { key: "b" }], ["c1", { key: "c" }]);
        expect(ids(await fetch(2))).toEqual(["a1", "b1"]);
        expect(ids(await fetch())).toEqual(["c1"]);
        expect(await fetch()).toEqual([]);
      });

      it("lets other keys through between the jobs of a busy one", async () => {
        await enqueue(["a1", { key: "a" }], ["a2", { key: "a" }], ["b1", { key: "b" }]);
        home.clock.advance(1000);
        const first = await fetchOne();
        await complete(first);
        expect([first.id, (await fetchOne()).id]).toEqual(["a1", "b1"]);
      });

      it("keeps kinds apart, also where id and key are the same", async () => {
        await enqueue(["x", { key: "k" }], ["x", { key: "k", kind: "delivery", data: { deliveryId: "d" } }]);
        const [turn] = await fetch();
        const [delivery] = await fetch(10, "delivery");
        expect(turn).toMatchObject({ id: "x", kind: "turn", data: { runId: "x" } });
        expect(delivery).toMatchObject({ id: "x", kind: "delivery", data: { deliveryId: "d" } });
        await complete(turn as Job);
        expect(await handle.store.commit(() => undefined, delivery)).toBe(true);
      });

      it("with ten thousand jobs behind one key gives each in turn", async () => {
        await handle.store.commit((tx) => {
          for (let n = 0; n < 10_000; n++) tx.enqueue(job(`j${n}`, { key: "one" }));
          tx.enqueue(job("other", { key: "two" }));
        });
        expect(ids(await fetch())).toEqual(["j0", "other"]);
        expect(await handle.queue.waiting("turn")).toMatchObject({ count: 9_999 });
      });
    });

    describe("a job", () => {
      it("comes with what was put in, and with its start counted", async () => {
        await enqueue(["a", { key: "k", data: { type: "run", list: [1, null, "ü"] }, enqueuedAt: 5 }]);
        expect(await fetchOne()).toMatchObject({
          id: "a",
          kind: "turn",
          key: "k",
          data: { type: "run", list: [1, null, "ü"] },
          enqueuedAt: 5,
          attempts: 1,
        });
      });

      it("is left as it is when its id comes again, queued or under way", async () => {
        await enqueue(["a", { key: "k", data: 1 }]);
        await enqueue(["a", { key: "other", data: 2 }]);
        const held = await fetchOne();
        expect(held).toMatchObject({ key: "k", data: 1 });
        await enqueue(["a", { key: "third", data: 3 }]);
        expect(await fetch()).toEqual([]);
        expect(await complete(held)).toBe(true);
        expect(await fetch()).toEqual([]);
      });

      it("may have an id again whose job is done, also in the commit that ends it", async () => {
        await enqueue(["a"]);
        const first = await fetchOne();
        await handle.store.commit((tx) => {
          tx.completeJob(first);
          tx.enqueue(job("a", { data: 2 }));
        }, first);
        expect(await fetchOne()).toMatchObject({ id: "a", data: 2, attempts: 1 });
      });

      it("waits for its time", async () => {
        await enqueue(["a", { runAt: home.clock.now() + 1000 }]);
        home.clock.advance(999);
        expect(await fetch()).toEqual([]);
        home.clock.advance(1);
        expect(ids(await fetch())).toEqual(["a"]);
      });

      it("waits for its time also where it first stood behind another", async () => {
        await enqueue(["a"], ["b", { runAt: home.clock.now() + 1000 }]);
        await complete(await fetchOne());
        expect(await fetch()).toEqual([]);
        home.clock.advance(1000);
        expect(ids(await fetch())).toEqual(["b"]);
      });

      it("that waits for its time keeps its place: those behind it wait as well", async () => {
        await enqueue(["a1", { key: "a", runAt: home.clock.now() + 1000 }]);
        await enqueue(["a2", { key: "a" }]);
        expect(await fetch()).toEqual([]);
        await handle.store.commit((tx) => tx.rescheduleJob("turn", "a1", home.clock.now() + 500));
        expect(await fetch()).toEqual([]);
        home.clock.advance(500);
        const first = await fetchOne();
        await complete(first);
        expect([first.id, ...ids(await fetch())]).toEqual(["a1", "a2"]);
      });

      it("holds its key while it waits for another try, and stays first", async () => {
        await enqueue(["a1", { key: "a" }], ["a2", { key: "a" }], ["b1", { key: "b" }]);
        const held = await fetchOne();
        const runAt = home.clock.now() + 5000;
        expect(await handle.store.commit((tx) => tx.retryJob(held, runAt), held)).toBe(true);
        expect(ids(await fetch())).toEqual(["b1"]);
        home.clock.advance(5000);
        const [again] = await fetch();
        expect(again).toMatchObject({ id: "a1", attempts: 2 });
        await complete(again as Job);
        expect(ids(await fetch())).toEqual(["a2"]);
      });

      it("forgets its starts where it is asked to", async () => {
        await enqueue(["a"]);
        const first = await fetchOne();
        await handle.store.commit((tx) => tx.retryJob(first, home.clock.now(), { resetAttempts: true }), first);
        expect(await fetchOne()).toMatchObject({ id: "a", attempts: 1 });
      });

      it("can be taken out while nobody holds it; then the next of its key may start", async () => {
        await enqueue(["a1", { key: "a" }], ["a2", { key: "a" }], ["a3", { key: "a" }]);
        await handle.store.commit((tx) => {
          tx.removeJob("turn", "a1");
          tx.removeJob("turn", "nobody");
        });
        const second = await fetchOne();
        expect(second.id).toBe("a2");
        await handle.store.commit((tx) => tx.removeJob("turn", "a2"));
        expect(await fetch()).toEqual([]);
        await complete(second);
        expect(ids(await fetch())).toEqual(["a3"]);
      });

      it("that is taken out of the middle leaves the first where it is", async () => {
        await enqueue(["a1", { key: "a" }], ["a2", { key: "a" }], ["a3", { key: "a" }]);
        const first = await fetchOne();
        await handle.store.commit((tx) => tx.removeJob("turn", "a2"));
        expect(await fetch()).toEqual([]);
        await complete(first);
        expect(ids(await fetch())).toEqual(["a3"]);
      });
    });

    describe("a lease", () => {
      it("that is over writes nothing", async () => {
        await enqueue(["a"]);
        const held = await fetchOne();
        await complete(held);
        const done = await handle.store.commit((tx) => {
          tx.setValue("late", true);
          tx.enqueue(job("b"));
        }, held);
        expect(done).toBe(false);
        expect(await handle.store.getValue("late")).toBeUndefined();
        expect(await fetch()).toEqual([]);
      });

      it("is another at each start, also where the starts were forgotten", async () => {
        await enqueue(["a"]);
        const old = await fetchOne();
        await handle.store.commit((tx) => tx.retryJob(old, home.clock.now(), { resetAttempts: true }), old);
        const now = await fetchOne();
        expect(old.attempts).toBe(now.attempts);
        expect(await handle.store.commit((tx) => tx.setValue("late", true), old)).toBe(false);
        await handle.store.commit((tx) => tx.completeJob(old));
        await handle.store.commit((tx) => tx.retryJob(old, 0));
        expect(await fetch()).toEqual([]);
        expect(await complete(now)).toBe(true);
      });

      it("that was never given writes nothing", async () => {
        await enqueue(["a"]);
        expect(await complete({ ...job("a"), attempts: 1 })).toBe(false);
        expect(ids(await fetch())).toEqual(["a"]);
      });
    });

    describe("after a stop", () => {
      it("jobs that were under way may start again, counted, and before those behind them", async () => {
        await enqueue(["a1", { key: "a" }], ["a2", { key: "a" }], ["b1", { key: "b" }]);
        const before = await fetch();
        await reopen();
        expect(await fetch()).toEqual([]);
        expect(await handle.queue.recover()).toBe(2);
        const after = await fetch();
        expect(after.map((one) => [one.id, one.attempts])).toEqual([
          ["a1", 2],
          ["b1", 2],
        ]);
        expect(await complete(before[0] as Job)).toBe(false);
        expect(await handle.queue.recover()).toBe(2);
      });

      it("a wait for another try goes on", async () => {
        await enqueue(["a"]);
        const held = await fetchOne();
        await handle.store.commit((tx) => tx.retryJob(held, home.clock.now() + 1000), held);
        await reopen();
        expect(await handle.queue.recover()).toBe(0);
        expect(await fetch()).toEqual([]);
        home.clock.advance(1000);
        expect(await fetchOne()).toMatchObject({ id: "a", attempts: 2 });
      });
    });

    describe("onReady", () => {
      /** More than a database on a busy machine takes to be asked for its time. */
      const DUE_MS = 1_000;
      const listen = (): JobKind[] => {
        const heard: JobKind[] = [];
        handle.queue.onReady((kind) => heard.push(kind));
        return heard;
      };

      it("tells of new jobs, of work that was accepted, and of keys that are free", async () => {
        const heard = listen();
        await enqueue(["d", { kind: "delivery" }]);
        expect(heard).toEqual(["delivery"]);
        await handle.store.accept(event({ actions: [runAction()] }));
        await until(() => heard.length > 1);
        expect(heard).toEqual(["delivery", "turn"]);
        const held = await fetchOne();
        heard.length = 0;
        await complete(held);
        expect(heard).toEqual(["turn"]);
      });

      it("tells when a job's time has come", async () => {
        await enqueue(["a", { runAt: home.clock.now() + DUE_MS }]);
        const heard = listen();
        expect(await fetch()).toEqual([]);
        home.clock.advance(DUE_MS);
        await until(() => heard.length > 0);
        expect(heard).toEqual(["turn"]);
        expect(ids(await fetch())).toEqual(["a"]);
      });

      it("tells of it after a restart too, once somebody has asked for jobs", async () => {
        await enqueue(["a", { runAt: home.clock.now() + DUE_MS }]);
        await reopen();
        const heard = listen();
        expect(await fetch()).toEqual([]);
        home.clock.advance(DUE_MS);
        await until(() => heard.length > 0);
        expect(heard).toEqual(["turn"]);
      });

      it("is silent after its undo, and survives a listener that throws", async () => {
        const heard = listen();
        let calls = 0;
        const undo = handle.queue.onReady(() => void calls++);
        handle.queue.onReady(() => {
          throw new Error("listener");
        });
        const after = listen();
        await enqueue(["a"]);
        undo();
        await enqueue(["b"]);
        expect([heard.length, calls, after.length]).toEqual([2, 1, 2]);
      });
    });

    it("waiting counts what nobody holds, and says how long the oldest has waited", async () => {
      expect(await handle.queue.waiting("turn")).toEqual({ count: 0, oldestMs: 0 });
      await enqueue(["a", { key: "a" }], ["b", { key: "b" }], ["d", { kind: "delivery" }]);
      home.clock.advance(700);
      expect(await handle.queue.waiting("turn")).toEqual({ count: 2, oldestMs: 700 });
      await fetch();
      expect(await handle.queue.waiting("turn")).toEqual({ count: 0, oldestMs: 0 });
      await handle.store.accept(event({ receivedAt: home.clock.now(), actions: [runAction()] }));
      expect(await handle.queue.waiting("turn")).toEqual({ count: 1, oldestMs: 0 });
    });

    it("a commit that fails leaves the job with its holder", async () => {
      await enqueue(["a"]);
      const held = await fetchOne();
      const record = run();
      await handle.store.commit((tx) => tx.insertRun(record));
      const failing = handle.store.commit((tx) => {
        tx.completeJob(held);
        tx.insertRun({ ...record, spec: spec("hook:two") });
      }, held);
      await expect(failing).rejects.toMatchObject({ name: "RouseError" });
      expect(await complete(held)).toBe(true);
    });
  });
}
