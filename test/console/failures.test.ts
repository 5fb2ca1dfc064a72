import { describe, expect, it } from "vitest";
import { NO_BROWSER } from "./browser.ts";
import { shoot } from "./shots.ts";
import { useConsole } from "./use-console.ts";

const MAPPINGS = [
  { id: "order", match: { path: "shop", payload: { type: "order" } }, messageTemplate: "{{id}}", deliver: false },
  { id: "broken", match: { path: "billing" }, messageTemplate: "{{ $number(id) }}", deliver: false },
];

describe.skipIf(NO_BROWSER)("failures", () => {
  const { world, page, problems } = useConsole({ config: { hooks: { mappings: MAPPINGS } } });

  const table = () => page.getByRole("region", { name: "Groups of failures" });
  const row = (name: RegExp) => table().getByRole("row", { name });

  it("says that nothing has failed, and which command lists failures", async () => {
    await page.goto(`${world.url}/console#/failures`);
    await page.getByText("Nothing has failed that is not dealt with.").waitFor();
    expect(await page.innerText("main")).toContain("rouse failures list");
    expect(problems).toEqual([]);
  });

  it("groups what failed by its cause, and shows a group with an example beside the list", async () => {
    for (let n = 0; n < 3; n++) await world.post("/hooks/shop", { type: "refund", id: n });
    await world.post("/hooks/billing", { id: "<b>a17</b>" });
    await page.reload();
    await row(/Hooks on shop: .* does not hold 3/).waitFor();
    expect((await row(/Hooks of broken on billing failed/).innerText()).replaceAll(/\s+/g, " ")).toMatch(/ 1 .* ✗ open/);
    // The list is walked with the keyboard, and the address names the row.
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    await expect.poll(() => page.url()).toMatch(/#\/failures\/fgr_/);
    await page.getByRole("heading", { name: /Hooks on shop/ }).waitFor();
    const text = (await page.locator(".detail").innerText()).replaceAll(/\s+/g, " ");
    for (const words of [/Count 3/, /State unmatched/, /Path shop/, /Mapping order/, /Condition match\.payload\.type/, /Failures an hour/])
      expect(text).toMatch(words);
    expect(await page.locator(".detail").getByRole("link", { name: /^evt_/ }).getAttribute("href")).toMatch(/^#\/events\/evt_/);
    expect(await page.getByRole("link", { name: "All events like it" }).getAttribute("href")).toBe("#/events?outcome=unmatched&path=shop");
    expect(await page.innerText("body")).not.toMatch(/\[object |undefined|NaN/);
    await shoot(page, "failures");
    expect(problems).toEqual([]);
  });

  it("assigns, snoozes and reopens a group", async () => {
    await page.getByRole("button", { name: "Assign…" }).click();
    await page.getByRole("textbox", { name: /^Name/ }).fill("Ann");
    await page.getByRole("button", { name: "Assign", exact: true }).click();
    await page.getByText("Assigned to Ann.").waitFor();
    await page.locator(".detail").getByText("Ann", { exact: true }).waitFor();
    await page.locator(".detail").getByRole("combobox", { name: "Snooze" }).selectOption("4h");
    await page.getByText("Snoozed for 4 hours.").waitFor();
    await expect.poll(() => row(/Hooks on shop/).count()).toBe(0);
    await page.getByRole("combobox", { name: /^Status/ }).selectOption("snoozed");
    await row(/Hooks on shop.*snoozed/).waitFor();
    await page.getByRole("button", { name: "Reopen" }).click();
    await page.getByText("Open again.").waitFor();
    await page.getByText("No group is snoozed.").waitFor();
    expect(problems).toEqual([]);
  });

  it("resolves a group in the config in use, and shows that it came back", async () => {
    await page.getByRole("combobox", { name: /^Status/ }).selectOption("all");
    await page.getByRole("button", { name: "Resolve" }).click();
    await row(/Hooks on shop.*resolved/).waitFor();
    await page
      .locator(".detail")
      .getByText(/in config version \d+/)
      .waitFor();
    await world.post("/hooks/shop", { type: "refund" });
    await page.reload();
    await row(/Hooks on shop.* 4 .*reopened/).waitFor();
    await page.getByText("came back after it was resolved").waitFor();
    expect(problems).toEqual([]);
  });

  it("filters by kind and words, and keeps the filters in the address", async () => {
    await page.getByLabel("Search").fill("billing");
    await expect.poll(() => table().getByRole("row").count()).toBe(2);
    await expect.poll(() => page.url()).toContain("search=billing");
    await page.getByLabel("Kind").selectOption("run");
    await page.getByText("No group matches the search.").waitFor();
    await page.keyboard.press("Escape");
    expect(problems).toEqual([]);
  });
});
