import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { NO_BROWSER } from "./browser.ts";
import { getText, useConsole } from "./use-console.ts";

const MAPPINGS = [
  {
    id: "order",
    match: { path: "shop", payload: { type: "order" } },
    messageTemplate: "{{id}}",
    deliver: false,
  },
  {
    id: "broken",
    match: { path: "billing" },
    messageTemplate: "{{ $number(id) }}",
    deliver: false,
  },
];

describe.skipIf(NO_BROWSER)("failures", () => {
  const { world, page, show, region } = useConsole({ config: { hooks: { mappings: MAPPINGS } } });

  const table = () => region("Groups of failures");
  const row = (name: RegExp) => table().getByRole("row", { name });

  it("groups what failed by its cause, and shows a group with an example beside the list", async () => {
    // Its condition leaves this one out, as it should: that is no failure.
    await world.post("/hooks/shop", { type: "refund" });
    for (let n = 0; n < 3; n++) await world.post("/hooks/nowhere", { id: n });
    // The newest is the first row: not in the same millisecond.
    await sleep(5);
    await world.post("/hooks/billing", { id: "<b>a17</b>" });
    await show("#/failures");
    await row(/No mapping matches hooks on nowhere 3/).waitFor();
    expect(await getText(page.locator("main"))).toContain("Fails most often: nowhere 3");
    expect(await table().getByRole("row").count()).toBe(3);
    expect(await getText(row(/Hooks of broken failed/))).toMatch(/ 1 .* ✗ open/);
    // The list is walked with the keyboard, and the address names the row.
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    await expect.poll(() => page.url()).toMatch(/#\/failures\/fgr_/);
    await page.getByRole("heading", { name: /No mapping matches/ }).waitFor();
    const text = await getText(page.locator(".detail"));
    for (const words of [
      /Count 3/,
      /State unmatched/,
      /Path nowhere/,
      /Senders .* hook nowhere \(hooks\.token\) – 3/,
      /Failures an hour/,
    ])
      expect(text).toMatch(words);
    expect(
      await page.locator(".detail").getByRole("link", { name: /^evt_/ }).getAttribute("href"),
    ).toMatch(/^#\/events\/evt_/);
    expect(await page.getByRole("link", { name: "All events like it" }).getAttribute("href")).toBe(
      "#/events?outcome=unmatched&path=nowhere",
    );
    expect(await page.innerText("body")).not.toMatch(/\[object |undefined|NaN/);
  });

  it("resolves and reopens a group, and shows that it came back", async () => {
    await page.getByRole("button", { name: "Resolve" }).click();
    await expect.poll(() => row(/No mapping matches/).count()).toBe(0);
    await page.getByRole("combobox", { name: /^Status/ }).selectOption("all");
    await row(/No mapping matches.*resolved/).waitFor();
    await page.getByRole("button", { name: "Reopen" }).click();
    await page.getByText("Open again.").waitFor();
    await page.getByRole("button", { name: "Resolve" }).click();
    await row(/No mapping matches.*resolved/).waitFor();
    await world.post("/hooks/nowhere", {});
    await page.reload();
    await row(/No mapping matches.* 4 .*reopened/).waitFor();
    await page
      .locator(".detail")
      .getByText(/came back after it was resolved/)
      .waitFor();
  });

  it("filters by kind and words, and keeps the filters in the address", async () => {
    await page.getByLabel("Search").fill("billing");
    await expect.poll(() => table().getByRole("row").count()).toBe(2);
    await expect.poll(() => page.url()).toContain("search=billing");
    await page.getByLabel("Kind").selectOption("run");
    await page.getByText("No group matches the search.").waitFor();
    await page.keyboard.press("Escape");
  });

  it("are no failures on the overview once they are dealt with", async () => {
    const health = page.locator(".overview-health");
    await show("#/overview");
    await health.getByRole("link", { name: /^\d hooks failed in the last 24 hours$/ }).click();
    await table().waitFor();
    for (const { id } of (await world.admin("/admin/v1/failures")).body.failures)
      await world.admin(`/admin/v1/failures/${id}`, {
        method: "POST",
        body: JSON.stringify({ action: "resolve" }),
      });
    await page.getByText("Nothing has failed that is not dealt with.").waitFor();
    await show("#/overview");
    await health.getByText("all that it needs can be reached").waitFor();
    await health.locator(".status.good").waitFor();
  });
});
