import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { newId } from "../../src/core/ids.ts";
import { event_ } from "../http/admin-world.ts";
import { openStoreIn } from "../store/home.ts";
import { createModelWorld } from "./model-world.ts";
import { NO_BROWSER } from "./browser.ts";
import { getText, useConsole } from "./use-console.ts";

/** A gateway that had an event two hours ago, and whose model answers the first run and then refuses all. */
async function createRefusedWorld() {
  const dir = mkdtempSync(join(tmpdir(), "rouse-test-"));
  mkdirSync(join(dir, ".rouse"));
  const { store } = await openStoreIn(dir);
  const receivedAt = Date.now() - 2 * 3_600_000;
  await store.accept(event_("earlier", { id: newId("evt", receivedAt), receivedAt }));
  await store.close();
  const world = await createModelWorld({ dir });
  let isRefused = false;
  world.model.says = () =>
    isRefused ? { status: 503, error: { message: "overloaded" } } : { text: ["Done."] };
  return {
    ...world,
    refuse: () => void (isRefused = true),
    async close() {
      await world.close();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** Every text with a digit that is a figure: no time, no mark of an axis, and no sentence of a message or of a list's row. */
const FIGURES = `(() => {
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  const found = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const inside = (selector) => node.parentElement.closest(selector);
    if (!/\\d/.test(node.data) || inside("time, svg .tick, option, th, svg title")) continue;
    if (inside("[aria-label='Newest hooks'], [aria-label=Doctor], [aria-label=Mappings], [aria-label=Channels]")) continue;
    const link = inside("a");
    found.push([(link ?? node).textContent.trim(), link?.getAttribute("href") ?? null]);
  }
  for (const bar of document.querySelectorAll("main .chart svg > g, main .chart svg > a")) {
    const title = bar.querySelector("title")?.textContent;
    if (title !== undefined && / [1-9][\\d.]*/.test(title.split(": ")[1])) found.push([title, bar.getAttribute("href")]);
  }
  return found;
})()`;

describe.skipIf(NO_BROWSER)("the figures of the overview", () => {
  const { world, page, show, region } = useConsole(createRefusedWorld);
  beforeAll(async () => {
    const send = async (name: string): Promise<string> =>
      (
        await world.post("/hooks/agent", {
          message: name,
          name,
          sessionKey: `hook:${name}`,
          wakeMode: "next-heartbeat",
        })
      ).body.runId as string;
    const first = await send("first");
    await world.until(
      async () => (await world.get(`/hooks/runs/${first}`)).body.run?.status === "succeeded",
    );
    await world.post("/hooks/nowhere", {});
    world.refuse();
    await send("second");
    await world.until(async () => {
      const { breakers } = (await world.admin("/admin/v1/status")).body.status as {
        breakers: { state: string; waiting: number }[];
      };
      return breakers.some(({ state, waiting }) => state !== "closed" && waiting > 0);
    });
    await page.goto("about:blank");
    await show("#/overview");
  });

  it("shows a model that refuses with how many runs wait for it, and leads to them", async () => {
    const breakers = region("Breakers");
    // While a call tests the model, its run does not wait.
    await expect
      .poll(() => getText(breakers))
      .toMatch(/local\/big away since .*, tested next .*, 1 waiting/);
    expect(await page.locator(".overview-health").innerText()).toContain("local/big is away");
    await breakers.getByRole("link", { name: "waiting" }).click();
    await page.getByRole("row", { name: /second/ }).waitFor();
    expect(await page.getByRole("row", { name: /first/ }).count()).toBe(0);
    await page.goBack();
    await breakers.getByRole("link", { name: "local/big" }).click();
    await region("List of breakers")
      .getByRole("row", { name: /local\/big/ })
      .waitFor();
    await page.goBack();
  });

  it("are all links to pages that open", async () => {
    await region("Latency").getByText(/ms|s/).first().waitFor();
    await region("Tokens and cost a day").getByRole("table").waitFor();
    await region("Failures").getByText("1×").waitFor();
    await region("Newest hooks").getByRole("listitem").first().waitFor();
    const figures = (await page.evaluate(FIGURES)) as [text: string, href: string | null][];
    expect(figures.filter(([, href]) => href === null)).toEqual([]);
    const shown = figures.map(([text]) => text);
    for (const figure of [
      /^unmatched1$/,
      /^[\d.]+ m?s$/,
      /^Hooks a minute by outcome: 3 in all$/,
      /: accepted \d, unmatched \d$/,
      /^\S+ for 14 tokens in 1 run$/,
      /^\d{4}-\d\d-\d\d$/,
      /^1×$/,
      /^\d waiting$/,
      /^Version \d+\.\d+\.\d+$/,
    ])
      expect(shown).toEqual(expect.arrayContaining([expect.stringMatching(figure)]));
    for (const name of ["Newest hooks", "Doctor", "Mappings", "Channels"])
      for (const item of await region(name).getByRole("listitem").all())
        expect(await item.getByRole("link").count()).toBeGreaterThan(0);
    for (const href of new Set(figures.map(([, to]) => to))) {
      await show(href ?? "");
      await page.locator("main .page-head h1", { hasNotText: "Overview" }).waitFor();
      await page
        .locator("main .table, main .empty, main .facts, main .detail, main pre, main .json-key")
        .first()
        .waitFor();
      expect({ href, failed: await page.locator("main [role=alert]").allInnerTexts() }).toEqual({
        href,
        failed: [],
      });
    }
  }, 180_000);

  it("lead from a bar to the hooks that it counts, and from a day to its runs; arrow keys go from bar to bar", async () => {
    await show("#/overview?since=24h");
    const bars = page.locator(".chart svg > a");
    await expect.poll(() => bars.count()).toBeGreaterThan(1);
    // Tab stops at the last of them only.
    expect(await page.locator('.chart svg > a[tabindex="0"]').count()).toBe(1);
    await bars.last().focus();
    for (let left = (await bars.count()) - 1; left > 0; left--)
      await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("Enter");
    const events = region("Events");
    await events.getByRole("row", { name: /earlier/ }).waitFor();
    // Events before or after the bar are left out.
    expect(await events.locator("tbody tr[data-id]").count()).toBe(1);
    await page.getByRole("button", { name: /^until / }).click();
    await events.getByRole("row", { name: /nowhere/ }).waitFor();
    await show("#/overview");
    await region("Tokens and cost a day")
      .getByRole("link", { name: /^\d{4}-\d\d-\d\d$/ })
      .first()
      .click();
    await page.getByRole("row", { name: /first/ }).waitFor();
    expect(page.url()).toMatch(/#\/runs\?endedSince=\d{4}-\d\d-\d\d&endedUntil=\d{4}-\d\d-\d\d$/);
    await show("#/runs?since=2020-01-01&until=2020-01-02");
    await page.getByText("No run like that.").waitFor();
    await page.getByRole("button", { name: /^until .*2020/ }).click();
    await page.getByRole("row", { name: /first/ }).waitFor();
  });
});
