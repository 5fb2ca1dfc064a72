import { describe, expect, it } from "vitest";
import type { Job, Ms } from "../../../src/store/types.ts";
import { createQueueActions } from "./queue-actions.ts";
import type { Stage } from "./stage.ts";

function createKeyActions(stage: Stage) {
  const now = (): Ms => stage.clock.now();
  const put = (held: Job, key: string, runAt = now()): Promise<boolean> =>
    stage.store.commit((tx) => tx.jobs.settle(held, runAt, { key }), held);
  const putAside = (held: Job, key = "aside"): Promise<boolean> => put(held, key, now() + 5000);
  return { ...createQueueActions(stage), now, put, putAside };
}

type Actions = ReturnType<typeof createKeyActions>;

/** Jobs that get another key, as those of a session do that wait for a model. */
export function testQueueKeys(stage: Stage): void {
  const actions = createKeyActions(stage);
  describe("a job that is put under another key", () => {
    testOrder(stage, actions);
    testEdges(stage, actions);
  });
}

function testOrder(
  stage: Stage,
  { ids, fetch, fetchOne, enqueue, complete, now, put, putAside }: Actions,
): void {
  it("lets the next of the key that it had start, and is without its starts", async () => {
    await enqueue(["a1", { key: "a", data: 1 }], ["a2", { key: "a" }]);
    const first = await fetchOne();
    expect(await putAside(first)).toBe(true);
    expect(await complete(first)).toBe(false);
    expect(ids(await fetch())).toEqual(["a2"]);
    stage.clock.advance(5000);
    expect(await fetch()).toMatchObject([{ id: "a1", key: "aside", data: 1, attempts: 1 }]);
  });

  it("goes before what was added later, even if that came to the key first", async () => {
    await enqueue(["a1", { key: "a" }], ["a2", { key: "a" }]);
    await putAside(await fetchOne(), "aside 1");
    await putAside(await fetchOne(), "aside 2");
    stage.clock.advance(5000);
    const [first, second] = (await fetch()) as [Job, Job];
    await enqueue(["a3", { key: "a" }]);
    await put(second, "a");
    await put(first, "a");
    expect((await stage.queue.find("turn", "a2"))?.head).toBe("a1");
    const taken: string[] = [];
    for (let n = 0; n < 3; n++) {
      const one = await fetchOne();
      taken.push(one.id);
      expect(await fetch()).toEqual([]);
      await complete(one);
    }
    expect(taken).toEqual(["a1", "a2", "a3"]);
  });

  it("waits until a job of the key ends that was begun", async () => {
    await enqueue(["a1", { key: "a" }], ["a2", { key: "a" }], ["a3", { key: "a" }]);
    await putAside(await fetchOne());
    const second = await fetchOne();
    stage.clock.advance(5000);
    await put(await fetchOne(), "a");
    expect(await fetch()).toEqual([]);
    // One that is put back was begun, too.
    await stage.store.commit((tx) => tx.jobs.settle(second, now()), second);
    const again = await fetchOne();
    expect(again.id).toBe("a2");
    await complete(again);
    const first = await fetchOne();
    expect([first.id, await fetch()]).toEqual(["a1", []]);
    await complete(first);
    expect(ids(await fetch())).toEqual(["a3"]);
  });
}

function testEdges(
  stage: Stage,
  { ids, fetch, fetchOne, enqueue, complete, now, put, putAside }: Actions,
): void {
  it("keeps its place through the end of the process", async () => {
    await enqueue(["a1", { key: "a" }], ["a2", { key: "a" }]);
    await putAside(await fetchOne());
    await fetchOne();
    await stage.reopen();
    await stage.queue.recover();
    stage.clock.advance(5000);
    const taken = await fetch();
    expect(ids(taken).toSorted()).toEqual(["a1", "a2"]);
    const [first, second] = taken.toSorted((x, y) => x.id.localeCompare(y.id)) as [Job, Job];
    await put(first, "a");
    expect(await fetch()).toEqual([]);
    await complete(second);
    expect(ids(await fetch())).toEqual(["a1"]);
  });

  it("stays where it is if its caller does not hold it any more", async () => {
    await enqueue(["a1", { key: "a" }]);
    const first = await fetchOne();
    expect(await stage.store.commit((tx) => tx.jobs.settle(first, now() + 5000), first)).toBe(true);
    expect(await put(first, "aside")).toBe(false);
    expect(await stage.queue.find("turn", "a1")).toEqual({
      head: "a1",
      runAt: now() + 5000,
      held: false,
    });
  });

  it("is found by jobs that were added later, by its key", async () => {
    await enqueue(
      ["a1", { key: "a" }],
      ["a2", { key: "a" }],
      ["a3", { key: "a" }],
      ["b1", { key: "b" }],
    );
    await putAside(await fetchOne());
    const [other, second] = await fetch();
    expect([other?.id, second?.id]).toEqual(["b1", "a2"]);
    const find = (job: Job | undefined, ...keys: string[]) =>
      stage.queue.findEarlier(job as Job, keys);
    expect(await find(second, "a", "aside")).toEqual({
      id: "a1",
      key: "aside",
      runAt: now() + 5000,
    });
    expect(await find(second, "a", "elsewhere")).toBeUndefined();
    expect(await find(other, "b")).toBeUndefined();
    stage.clock.advance(5000);
    await put(await fetchOne(), "a");
    expect(await find(second, "a", "aside")).toEqual({ id: "a1", key: "a", runAt: 0 });
    await putAside(second as Job);
    expect(await find(await fetchOne(), "a", "aside")).toBeUndefined();
  });
}
