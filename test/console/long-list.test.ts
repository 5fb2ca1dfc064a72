import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { openStore } from "../../src/store/open.ts";
import { event_, runAction } from "../http/admin-world.ts";
import { silent } from "../store/home.ts";
import { NO_BROWSER } from "./browser.ts";
import { useConsole } from "./use-console.ts";

const MANY = 350;

describe.skipIf(NO_BROWSER)("a long list in the console", () => {
  const ids: string[] = [];

  const write = async (): Promise<void> => {
    const { store } = await openStore({
      url: `sqlite:${join(world.dir, ".rouse", "rouse.db")}`,
      clock: systemClock,
      log: silent,
    });
    const actions = Array.from({ length: MANY }, (_, n) =>
      runAction(n === 0 ? "hook:needle" : `hook:hay:${n}`),
    );
    await store.accept(event_("many", { outcome: "accepted", actions }));
    await store.commit((tx) =>
      actions.forEach(({ runId }) =>
        tx.runs.update(runId, { status: "succeeded", endedAt: Date.now() }),
      ),
    );
    ids.push(...actions.map(({ runId }) => runId));
    await store.close();
  };

  const { world, page, problems } = useConsole({ workers: false });
  beforeAll(async () => {
    await write();
  });

  it("loads older rows when its end comes into sight, and misses and repeats none", async () => {
    await page.goto(`${world.url}/console#/runs`);
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
    expect(problems).toEqual([]);
  });

  it("looks into older pages for what is searched", async () => {
    await page.goto(`${world.url}/console#/runs?q=needle`);
    await page.getByRole("row", { name: /hook:needle/ }).waitFor();
    await page.getByText(`1 row of ${MANY} looked at, no older ones.`).waitFor();
    await page.goto(`${world.url}/console#/runs?q=nothing`);
    await page.getByText(`0 rows of ${MANY} looked at, no older ones.`).waitFor();
    // An index has the row of a whole id.
    await page.goto(`${world.url}/console#/runs?q=${ids[0]}`);
    await page.getByText("1 row, no older ones.").waitFor();
    expect(problems).toEqual([]);
  });
});
