import { describe, expect, it } from "vitest";
import type { Job } from "../../../src/store/types.ts";
import { job } from "./make.ts";
import { createQueueActions } from "./queue-actions.ts";
import type { Stage } from "./stage.ts";

/** The order of jobs, and what becomes of one. */
export function testQueueOrder(stage: Stage): void {
  const { ids, fetch, fetchOne, enqueue, complete } = createQueueActions(stage);

  describe("order", () => {
    it("is first in, first out per key, one at a time, under parallel workers", async () => {
      const keys = ["a", "b", "c", "d", "e"];
      await stage.store.commit((tx) => {
        for (let n = 0; n < 20; n++)
          for (const key of keys) tx.jobs.add(job(`${key}${n}`, { key }));
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
      expect(seen).toEqual(
        Object.fromEntries(
          keys.map((key) => [key, Array.from({ length: 20 }, (_, n) => `${key}${n}`)]),
        ),
      );
    });

    it("gives at most the first of each key, up to the limit", async () => {
      await enqueue(
        ["a1", { key: "a" }],
        ["a2", { key: "a" }],
        ["b1", { key: "b" }],
        ["c1", { key: "c" }],
      );
      expect(ids(await fetch(2))).toEqual(["a1", "b1"]);
      expect(ids(await fetch())).toEqual(["c1"]);
      expect(await fetch()).toEqual([]);
    });

    it("shows where a job stands: behind which of its key, since when it may start, and whether it runs", async () => {
      const now = stage.clock.now();
      const find = (id: string) => stage.queue.find("turn", id);
      await enqueue(
        ["a1", { key: "a" }],
        ["a2", { key: "a" }],
        ["a3", { key: "a" }],
        ["b1", { key: "b", runAt: now + 5000 }],
      );
      expect(await find("a1")).toMatchObject({ head: "a1", held: false });
      expect(await find("a3")).toMatchObject({ head: "a1", held: false });
      expect(await find("b1")).toEqual({ head: "b1", runAt: now + 5000, held: false });
      const first = await fetchOne();
      expect(await find("a1")).toMatchObject({ head: "a1", held: true });
      expect(await find("a2")).toMatchObject({ head: "a1", held: false });
      // One that is put back stays the first of its key.
      await stage.store.commit((tx) => tx.jobs.settle(first, now + 9000), first);
      expect(await find("a1")).toEqual({ head: "a1", runAt: now + 9000, held: false });
      expect(await find("a2")).toMatchObject({ head: "a1" });
      await stage.store.commit((tx) => tx.jobs.delete("turn", "a1"));
      expect([await find("a1"), (await find("a3"))?.head]).toEqual([undefined, "a2"]);
      expect(await stage.queue.find("delivery", "a2")).toBeUndefined();
    });

    it("keeps kinds apart, also where id and key are the same", async () => {
      await enqueue(
        ["x", { key: "k" }],
        ["x", { key: "k", kind: "delivery", data: { deliveryId: "d" } }],
      );
      const [turn] = await fetch();
      const [delivery] = await fetch(10, "delivery");
      expect(turn).toMatchObject({ id: "x", kind: "turn", data: { runId: "x" } });
      expect(delivery).toMatchObject({ id: "x", kind: "delivery", data: { deliveryId: "d" } });
      await complete(turn as Job);
      expect(await stage.store.commit(() => undefined, delivery)).toBe(true);
    });
  });

  describe("a job", () => {
    it("comes with what was put in, and with its start counted", async () => {
      await enqueue([
        "a",
        { key: "k", data: { type: "run", list: [1, null, "ü"] }, enqueuedAt: 5 },
      ]);
      expect(await fetchOne()).toMatchObject({
        id: "a",
        kind: "turn",
        key: "k",
        data: { type: "run", list: [1, null, "ü"] },
        enqueuedAt: 5,
        attempts: 1,
      });
    });

    it("is left as it is when its id comes again, queued or running", async () => {
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
      await stage.store.commit((tx) => {
        tx.jobs.settle(first);
        tx.jobs.add(job("a", { data: 2 }));
      }, first);
      expect(await fetchOne()).toMatchObject({ id: "a", data: 2, attempts: 1 });
    });

    it("waits for its time also if it first stood behind another", async () => {
      await enqueue(["a"], ["b", { runAt: stage.clock.now() + 1000 }]);
      await complete(await fetchOne());
      expect(await fetch()).toEqual([]);
      stage.clock.advance(1000);
      expect(ids(await fetch())).toEqual(["b"]);
    });

    it("that waits for its time keeps its place: those behind it wait as well", async () => {
      await enqueue(["a1", { key: "a", runAt: stage.clock.now() + 1000 }]);
      await enqueue(["a2", { key: "a" }]);
      expect(await fetch()).toEqual([]);
      await stage.store.commit((tx) => tx.jobs.reschedule("turn", "a1", stage.clock.now() + 500));
      expect(await fetch()).toEqual([]);
      stage.clock.advance(500);
      const first = await fetchOne();
      await complete(first);
      expect([first.id, ...ids(await fetch())]).toEqual(["a1", "a2"]);
    });

    it("can be removed while no worker holds it; then the next of its key may start", async () => {
      await enqueue(["a1", { key: "a" }], ["a2", { key: "a" }], ["a3", { key: "a" }]);
      await stage.store.commit((tx) => {
        tx.jobs.delete("turn", "a1");
        tx.jobs.delete("turn", "nobody");
      });
      const second = await fetchOne();
      expect(second.id).toBe("a2");
      await stage.store.commit((tx) => tx.jobs.delete("turn", "a2"));
      expect(await fetch()).toEqual([]);
      await complete(second);
      expect(ids(await fetch())).toEqual(["a3"]);
    });

    it("that is taken out of the middle leaves the first in its place", async () => {
      await enqueue(["a1", { key: "a" }], ["a2", { key: "a" }], ["a3", { key: "a" }]);
      const first = await fetchOne();
      await stage.store.commit((tx) => tx.jobs.delete("turn", "a2"));
      expect(await fetch()).toEqual([]);
      await complete(first);
      expect(ids(await fetch())).toEqual(["a3"]);
    });
  });
}
