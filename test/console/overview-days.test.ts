import { describe, expect, it } from "vitest";
import { newId } from "../../src/core/ids.ts";
import type { StoreHandle } from "../../src/store/types.ts";
import { run } from "../store/suite/make.ts";
import { NO_BROWSER } from "./browser.ts";
import { createFilledWorld } from "./filled-world.ts";
import { useConsole } from "./use-console.ts";

const DAY = 86_400_000;
/** The beginning of yesterday. The day before is `-1`. */
const YESTERDAY = Math.floor(Date.now() / DAY) * DAY - DAY;
const toDay = (n: number): string => new Date(YESTERDAY + n * DAY).toISOString().slice(0, 10);
/** The times of runs in days from the beginning of yesterday: when they were made, and when they ended. */
const TIMES = [
  [-0.9, -0.8],
  [-0.1, 0.1],
  [-0.1, 0.2],
  [0.3, 0.4],
  [0.9, undefined],
  [0.95, 1.0001],
] as const;

/** Runs that did not all end on the day on which they were made. */
async function addRuns({ store }: StoreHandle): Promise<void> {
  const at = (days: number): number => Math.round(YESTERDAY + days * DAY);
  await store.commit((tx) => {
    for (const [made, ended] of TIMES)
      tx.runs.add(
        run({
          id: newId("run", at(made)),
          createdAt: at(made),
          usage: { inputTokens: 10, outputTokens: 1 },
          ...(ended === undefined
            ? { status: "parked" }
            : { status: "succeeded", endedAt: at(ended) }),
        }),
      );
  });
}

describe.skipIf(NO_BROWSER)("the days of the overview", () => {
  const { world, page } = useConsole(() => createFilledWorld(addRuns));

  it("lead to as many runs as they count, with the tokens that they count", async () => {
    const { rows: usage } = (await world.admin("/admin/v1/usage?by=day&since=14d")).body as {
      rows: { key: string; runs: number; inputTokens: number; outputTokens: number }[];
    };
    expect(Object.fromEntries(usage.map(({ key, runs }) => [key, runs]))).toEqual({
      [toDay(-1)]: 1,
      [toDay(0)]: 3,
      [toDay(1)]: 1,
    });
    for (const { key, runs, inputTokens, outputTokens } of usage) {
      await page.goto(`${world.url}/console#/overview`);
      const day = page
        .getByRole("region", { name: "Tokens and cost a day" })
        .getByRole("row", { name: key });
      expect((await day.innerText()).split("\t").slice(0, 5)).toEqual([
        key,
        `${runs}`,
        `${inputTokens}`,
        "0",
        `${outputTokens}`,
      ]);
      await day.getByRole("link", { name: key }).click();
      const rows = page
        .getByRole("region", { name: "Runs", exact: true })
        .locator("tbody tr[data-id]");
      await expect.poll(() => rows.count()).toBe(runs);
      const next = new Date(Date.parse(key) + DAY).toISOString().slice(0, 10);
      await page.getByRole("button", { name: `ended since ${key}, before ${next}` }).waitFor();
    }
    await page.getByRole("button", { name: /^ended since/ }).click();
    await expect.poll(() => page.locator("tbody tr[data-id]").count()).toBe(TIMES.length);
  });
});
