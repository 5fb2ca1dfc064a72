import { describe, expect, it } from "vitest";
import { DAY, HOUR, KEEP, START } from "./make.ts";
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

    it("go when the events that they may have are past retention, and not while one is in use", async () => {
      const end = START + KEEP.events;
      await use("aaaa", START);
      await use("bbbb", START + 1);
      const kept = async (): Promise<string[]> =>
        (await Promise.all(["aaaa", "bbbb"].map(get))).flatMap((config) => config?.id ?? []);
      await sweep(end + HOUR);
      expect(await kept()).toEqual(["aaaa", "bbbb"]);
      await sweep(end + HOUR + 1);
      expect(await kept()).toEqual(["bbbb"]);
    });
  });
}
