import { describe, expect, it } from "vitest";
import type { Job, Ms } from "../../../src/store/types.ts";
import { createQueueActions } from "./queue-actions.ts";
import type { Stage } from "./stage.ts";

function createKeyActions(stage: Stage) {
  const now = (): Ms => stage.home.clock.now();
  const putAside = (held: Job, key: string, runAt = now() + 60_000): Promise<boolean> =>
    stage.handle.store.commit((tx) => tx.jobs.settle(held, runAt, { key }), held);
  const move = (id: string, key: string): Promise<boolean> =>
    stage.handle.store.commit((tx) => tx.jobs.reschedule("turn", id, now(), key));
  return { ...createQueueActions(stage), now, putAside, move };
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
  { ids, fetch, fetchOne, enqueue, complete, now, putAside, move }: Actions,
): void {
  it("lets the next of the key that it had start, and is without its starts", async () => {
    await enqueue(["a1", { key: "a", data: 1 }], ["a2", { key: "a" }]);
    const first = await fetchOne();
    expect(await putAside(first, "aside", now() + 5000)).toBe(true);
    expect(await complete(first)).toBe(false);
    expect(ids(await fetch())).toEqual(["a2"]);
    stage.home.clock.advance(5000);
    expect(await fetch()).toMatchObject([{ id: "a1", key: "aside", data: 1, attempts: 1 }]);
  });

  it("goes before what was added later, even if that came to the key first", async () => {
    await enqueue(["a1", { key: "a" }], ["a2", { key: "a" }], ["a3", { key: "a" }]);
    await putAside(await fetchOne(), "aside");
    await putAside(await fetchOne(), "aside");
    expect((await stage.handle.queue.find("turn", "a2"))?.head).toBe("a1");
    await move("a2", "a");
    await move("a1", "a");
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
    await putAside(await fetchOne(), "aside");
    const second = await fetchOne();
    await move("a1", "a");
    expect(await fetch()).toEqual([]);
    // One that is put back was begun, too.
    await stage.handle.store.commit((tx) => tx.jobs.settle(second, now()), second);
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
  { ids, fetch, fetchOne, enqueue, complete, now, putAside, move }: Actions,
): void {
  it("keeps its place through the end of the process", async () => {
    await enqueue(["a1", { key: "a" }], ["a2", { key: "a" }]);
    await putAside(await fetchOne(), "aside");
    await fetchOne();
    await stage.reopen();
    await stage.handle.queue.recover();
    await move("a1", "a");
    const second = await fetchOne();
    await complete(second);
    expect([second.id, ...ids(await fetch())]).toEqual(["a2", "a1"]);
  });

  it("stays as it is while a worker holds it, and where it has that key", async () => {
    await enqueue(["a1", { key: "a" }], ["a2", { key: "a" }]);
    const first = await fetchOne();
    await move("a1", "aside");
    expect(
      await stage.handle.store.commit((tx) => tx.jobs.settle(first, now() + 5000), first),
    ).toBe(true);
    await move("a1", "a");
    expect(await fetch()).toEqual([]);
    expect(await stage.handle.queue.find("turn", "a1")).toEqual({
      head: "a1",
      runAt: now() + 5000,
      held: false,
    });
    await move("nobody", "a");
  });

  it("is found by jobs that were added later, by its key", async () => {
    await enqueue(
      ["a1", { key: "a" }],
      ["a2", { key: "a" }],
      ["a3", { key: "a" }],
      ["b1", { key: "b" }],
    );
    await putAside(await fetchOne(), "aside", now() + 5000);
    const [other, second] = await fetch();
    expect([other?.id, second?.id]).toEqual(["b1", "a2"]);
    const find = (job: Job | undefined, ...keys: string[]) =>
      stage.handle.queue.findEarlier(job as Job, keys);
    expect(await find(second, "a", "aside")).toEqual({
      id: "a1",
      key: "aside",
      runAt: now() + 5000,
    });
    expect(await find(second, "a", "elsewhere")).toBeUndefined();
    expect(await find(other, "b")).toBeUndefined();
    await move("a1", "a");
    expect(await find(second, "a", "aside")).toEqual({ id: "a1", key: "a", runAt: 0 });
    await putAside(second as Job, "aside");
    expect(await find(await fetchOne(), "a", "aside")).toBeUndefined();
  });
}
