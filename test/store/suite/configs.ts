import { describe, expect, it } from "vitest";
import { DAY, event, HOUR, KEEP, run, START } from "./make.ts";
import type { Stage } from "./stage.ts";

/** The configs that events were decided by. */
export function testConfigs(stage: Stage): void {
  const content = JSON.stringify({ config: 'a "text"\u0000 \ud800 with\nlines' });
  const use = (id: string, usedAt: number): Promise<boolean> =>
    stage.store.commit((tx) => tx.configs.use({ id, content, usedAt }));
  const get = (id: string) => stage.store.configs.get(id);
  const sweep = (at: number): Promise<number> => stage.store.sweep(at, KEEP);

  describe("configs", () => {
    it("are there once, with a number that stays and the time of their last use", async () => {
      stage.clock.advance(DAY);
      for (const [id, at] of [
        ["aaaa", 2],
        ["bbbb", 1],
        ["aaaa", 5],
        ["aaaa", 3],
      ] as const)
        await use(id, START + at);
      const [first, second] = [await get("aaaa"), await get("bbbb")];
      expect(first).toEqual({
        id: "aaaa",
        content,
        number: expect.any(Number),
        firstUsedAt: START + 2,
        lastUsedAt: START + 5,
      });
      expect(second?.number).toBe((first?.number ?? 0) + 1);
      expect(await get("cccc")).toBeUndefined();
      await stage.reopen();
      expect(await get("aaaa")).toEqual(first);
    });

    it("go when no event of them is kept, and not while one is in use or has an event whose run has not ended", async () => {
      const end = START + KEEP.events;
      stage.clock.advance(KEEP.events + 2 * DAY);
      const open = run({ id: "run_open" });
      const [old, unfinished] = [event({ config: "aaaa" }), event({ config: "bbbb" })];
      for (const given of [old, unfinished, event({ config: "aaaa", receivedAt: START + HOUR })])
        await stage.store.accept(given);
      await stage.store.commit((tx) => tx.runs.add({ ...open, eventId: unfinished.id }));
      for (const [id, at] of [
        ["aaaa", START + HOUR],
        ["bbbb", START],
        ["cccc", end],
        ["dddd", START],
      ] as const)
        await use(id, at);
      const kept = async (): Promise<string[]> =>
        (await Promise.all(["aaaa", "bbbb", "cccc", "dddd"].map(get))).flatMap(
          (config) => config?.id ?? [],
        );
      await sweep(end);
      expect(await kept()).toEqual(["aaaa", "bbbb", "cccc", "dddd"]);
      await sweep(end + HOUR);
      expect(await kept()).toEqual(["aaaa", "bbbb", "cccc"]);
      await sweep(end + HOUR + 1);
      expect([await kept(), await stage.store.events.get(old.id)]).toEqual([
        ["bbbb", "cccc"],
        undefined,
      ]);
      await stage.store.commit((tx) =>
        tx.runs.update(open.id, { status: "succeeded", endedAt: START }),
      );
      await sweep(end + DAY);
      expect(await kept()).toEqual(["cccc"]);
    });
  });
}
