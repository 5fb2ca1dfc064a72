import { describe, expect, it } from "vitest";
import {
  ALL_RUNS,
  noStart,
  type Job,
  type ReservationRequest,
  type RunChange,
  type StoreHandle,
} from "../../../src/store/types.ts";
import { until } from "../../../src/testing/harness.ts";
import { run } from "./make.ts";
import { createQueueActions } from "./queue-actions.ts";
import type { Stage } from "./stage.ts";

/** Until the store knows that a gateway is gone. */
const GONE_MS = 15_000;
const PLACES = 2;

/** Asks for places of a limit of so many, as a gateway that has reserved none. */
const request = (places: number): ReservationRequest => ({
  scope: ALL_RUNS,
  counters: [ALL_RUNS],
  limits: { places: PLACES, starts: 100 },
  pending: noStart(),
  wanted: { starts: 0, places },
});

/** Returns what tests do with runs that a limit counts. */
function createLimitActions(stage: Stage) {
  const { enqueue, fetchOne } = createQueueActions(stage);
  const change = (
    id: string,
    to: RunChange,
    held?: Job,
    { store }: StoreHandle = stage.handle,
  ): Promise<boolean> => store.commit((tx) => tx.runs.update(id, to), held);
  return {
    change,
    /** The number of places that a gateway gets if it asks for all of them. */
    async reserve({ usage }: StoreHandle = stage.handle): Promise<number> {
      const [reservation] = await usage.reserve([request(PLACES)]);
      return reservation?.reserved.places ?? 0;
    },
    /** The number of runs that run now, and of those that were started within the hour. */
    async count(
      { usage }: StoreHandle = stage.handle,
    ): Promise<{ running: number; starts: number }> {
      const counted = (await usage.count([{ scope: ALL_RUNS, counters: [ALL_RUNS] }])).get(
        ALL_RUNS,
      );
      return {
        running: counted?.running ?? 0,
        starts: (counted?.hour ?? []).reduce((sum, { starts }) => sum + starts, 0),
      };
    },
    async add(...names: string[]): Promise<void> {
      await stage.store.commit((tx) => {
        for (const id of names)
          tx.runs.add(run({ id, mapping: "shop", createdAt: stage.clock.now() }));
      });
      await enqueue(...names.map((id): Parameters<typeof enqueue>[0] => [id, { key: id }]));
    },
    /** Takes the next job, and starts its run: from here on it has a place. */
    async begin(): Promise<Job> {
      const held = await fetchOne();
      const startedAt = stage.clock.now();
      expect(
        await change(held.id, { status: "running", attempts: held.attempts, startedAt }, held),
      ).toBe(true);
      return held;
    },
  };
}

/** Tests the places of a process that has ended. */
function testHolderGone(stage: Stage): void {
  const { add, begin, reserve, change, count } = createLimitActions(stage);

  it("what was reserved for runs that never started is there again", async () => {
    expect(await reserve()).toBe(PLACES);
    await stage.reopen();
    expect(await reserve()).toBe(PLACES);
  });

  it("a run that it left unfinished has its place once, and gives it back when it is put back or ends", async () => {
    await add("run_1", "run_2");
    await begin();
    await begin();
    expect([await reserve(), await count()]).toEqual([0, { running: 2, starts: 2 }]);
    await stage.reopen();
    await stage.queue.recover();
    // The outside may still work for it: its place is free when another process has seen that it ended.
    expect([await reserve(), await count()]).toEqual([0, { running: 2, starts: 2 }]);

    const again = await createQueueActions(stage).fetchOne();
    expect(await change(again.id, { status: "queued", crashCount: 1 }, again)).toBe(true);
    expect([await reserve(), await count()]).toEqual([1, { running: 1, starts: 2 }]);
    expect(await change(again.id, { status: "running", attempts: again.attempts }, again)).toBe(
      true,
    );
    expect([await reserve(), await count()]).toEqual([0, { running: 2, starts: 2 }]);
    expect(await change(again.id, { status: "succeeded", endedAt: stage.clock.now() }, again)).toBe(
      true,
    );
    expect([await reserve(), await count()]).toEqual([1, { running: 1, starts: 2 }]);
  });

  it("and of which a commit comes late, no place is given back twice", async () => {
    await add("run_1");
    const before = await begin();
    await stage.reopen();
    await stage.queue.recover();
    const again = await createQueueActions(stage).fetchOne();
    expect(await change("run_1", { status: "succeeded", endedAt: stage.clock.now() }, before)).toBe(
      false,
    );
    expect(await count()).toEqual({ running: 1, starts: 1 });
    expect(await change("run_1", { status: "succeeded", endedAt: stage.clock.now() }, again)).toBe(
      true,
    );
    expect([await reserve(), await count()]).toEqual([PLACES, { running: 0, starts: 1 }]);
  });
}

/** Tests the shares of several gateways in one limit. */
function testSharedPlaces(stage: Stage): void {
  const { add, reserve, change, count } = createLimitActions(stage);

  it("another gateway has the places of one that is gone, and of its runs once it has taken them over", async () => {
    if (!stage.cluster.shared) return;
    const other = await stage.home.open();
    let isOpen = true;
    const leave = async (): Promise<void> => {
      if (isOpen) await other.store.close();
      isOpen = false;
    };
    try {
      await add("run_1");
      const [held] = await other.queue.fetch("turn", 1);
      expect(
        await change(
          "run_1",
          { status: "running", attempts: 1, startedAt: stage.clock.now() },
          held,
          other,
        ),
      ).toBe(true);
      expect(await reserve(other)).toBe(PLACES - 1);
      expect(await reserve()).toBe(0);
      await leave();
      let taken = 0;
      for (let tries = 0; tries < 100 && taken === 0; tries++) {
        taken = await reserve();
        await until(() => taken > 0, GONE_MS / 100);
      }
      // The place of the run that it left under way is not among them.
      expect([taken, await count()]).toEqual([PLACES - 1, { running: 1, starts: 1 }]);
      let again: Job | undefined;
      for (let tries = 0; tries < 100 && !again; tries++) {
        [again] = await stage.queue.fetch("turn", 1);
        await until(() => again !== undefined, GONE_MS / 100);
      }
      expect(await change("run_1", { status: "failed", endedAt: stage.clock.now() }, again)).toBe(
        true,
      );
      expect([await reserve(), await count()]).toEqual([PLACES, { running: 0, starts: 1 }]);
    } finally {
      await leave();
    }
  });
}

/** Tests the counts of limits, also after the end of a process. */
export function testLimits(stage: Stage): void {
  describe("places of limits, when their holder is gone", () => {
    testHolderGone(stage);
    testSharedPlaces(stage);
  });
}
