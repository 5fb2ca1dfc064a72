import { describe, expect, it } from "vitest";
import { event_, runAction } from "../http/admin-world.ts";
import { NO_BROWSER } from "./browser.ts";
import { createFilledWorld } from "./filled-world.ts";
import { useConsole } from "./use-console.ts";

const MANY = 350;

describe.skipIf(NO_BROWSER)("a long list in the console", () => {
  const actions = Array.from({ length: MANY }, (_, n) =>
    runAction(n === 0 ? "hook:needle" : `hook:hay:${n}`),
  );
  const ids = actions.map(({ runId }) => runId);
  const { page, show } = useConsole(() =>
    createFilledWorld(async ({ store }) => {
      await store.accept(event_("many", { outcome: "accepted", actions }));
      await store.commit((tx) => {
        for (const id of ids) tx.runs.update(id, { status: "succeeded", endedAt: Date.now() });
      });
    }),
  );

  it("loads older rows when its end comes into sight, and misses and repeats none", async () => {
    await show("#/runs");
    await page.getByText("100 rows").waitFor();
    const seen = new Set<string>();
    const collect = async (): Promise<void> => {
      const shown = await page
        .locator("tr[data-id]")
        .evaluateAll((rows) => rows.map((row) => row.getAttribute("data-id") ?? ""));
      expect(new Set(shown).size).toBe(shown.length);
      for (const id of shown) seen.add(id);
    };
    for (let turn = 0; turn < 80 && seen.size < MANY; turn++) {
      await collect();
      await page.locator(".table").evaluate((table) => {
        table.scrollTop += 400;
      });
      await page.waitForTimeout(50);
    }
    expect([...seen].toSorted()).toEqual(ids.toSorted());
    await page.getByText(`${MANY} rows, no older ones.`).waitFor();
    // The first page is asked for again, and takes no older rows away.
    await page.waitForResponse((response) => response.url().endsWith("/runs?limit=100"));
    await page.waitForTimeout(300);
    expect(await page.getByText(`${MANY} rows, no older ones.`).isVisible()).toBe(true);
  });

  it("looks into older pages for what is searched", async () => {
    await show("#/runs?q=needle");
    await page.getByRole("row", { name: /hook:needle/ }).waitFor();
    await page.getByText(`1 row of ${MANY} looked at, no older ones.`).waitFor();
    await show("#/runs?q=nothing");
    await page.getByText(`0 rows of ${MANY} looked at, no older ones.`).waitFor();
    // An index has the row of a whole id.
    await show(`#/runs?q=${ids[0]}`);
    await page.getByText("1 row, no older ones.").waitFor();
  });
});
