import { describe, expect, it } from "vitest";
import { NO_BROWSER } from "./browser.ts";
import { getText, useConsole } from "./use-console.ts";

const MAPPING = {
  id: "order",
  match: { path: "shop", payload: { type: "order" } },
  messageTemplate: "{{id}}",
};

describe.skipIf(NO_BROWSER)("the keys of the console", () => {
  const { world, page, show } = useConsole({ config: { hooks: { mappings: [MAPPING] } } });

  it("work after a click on a checkbox or on a list, in which letters choose if the keyboard has reached it", async () => {
    for (const id of [1, 2]) await world.post("/hooks/shop", { type: "order", id });
    await show("#/events");
    await page.locator("tbody tr[data-id]").nth(1).waitFor();
    const box = page.getByLabel("With a failed run");
    await box.check();
    await box.uncheck();
    const row = (at: number) =>
      page.locator("tbody tr[data-id]").nth(at).and(page.locator("[aria-selected=true]"));
    await page.locator("tbody tr[data-id]").nth(1).waitFor();
    // Both before the page has shown the first.
    const press =
      'document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "j", bubbles: true }))';
    await page.evaluate(`${press}; ${press}`);
    await row(1).waitFor();
    await page.keyboard.press("k");
    await row(0).waitFor();
    await page.getByLabel("Outcome").click();
    await page.keyboard.press("Escape");
    await page.keyboard.press("j");
    await row(1).waitFor();
    await page.getByRole("searchbox", { name: "Search events" }).focus();
    await page.keyboard.press("Tab");
    await page.keyboard.press("f");
    await page.waitForURL(/outcome=failed/);
    expect(await page.getByRole("dialog").count()).toBe(0);
  });

  it("rest while a dialog is open", async () => {
    await show("#/mappings/order");
    await page.locator(".cm-content").waitFor();
    await page.getByRole("option").first().waitFor();
    await page.getByRole("button", { name: "Freeze as test" }).click();
    const dialog = page.getByRole("dialog", { name: "Freeze as a test" });
    await dialog.getByRole("button", { name: "Cancel" }).focus();
    await page.keyboard.press("g");
    await page.keyboard.press("r");
    await page.keyboard.press("Control+s");
    await page.keyboard.press("Control+Enter");
    await dialog.getByLabel("File name").fill("still here");
    expect(await page.getByRole("dialog").count()).toBe(1);
    expect(page.url()).toContain("#/mappings/order");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Propose" }).click();
    await page.keyboard.press("Control+s");
    await page.getByRole("dialog", { name: "Propose a mapping" }).waitFor();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
  });

  it("move the focus with the tab that the arrows select", async () => {
    await show("#/system/gateway");
    await page.getByRole("tab", { name: "Gateway" }).focus();
    for (const name of ["Agents and plugins", "Schedules"]) {
      await page.keyboard.press("ArrowRight");
      await page.getByRole("tab", { name, selected: true }).waitFor();
      expect(await page.evaluate("document.activeElement.textContent")).toBe(name);
    }
    await page.keyboard.press("ArrowLeft");
    await page.getByRole("tab", { name: "Agents and plugins", selected: true }).waitFor();
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Agents and plugins");
  });

  it("are listed by ?, those of approvals too, and the search only if there is one", async () => {
    await show("#/events");
    await page.getByRole("searchbox", { name: "Search events" }).waitFor();
    const dialog = page.getByRole("dialog", { name: "Keys" });
    const list = async (): Promise<string> => {
      await page.locator("main h1").click();
      await page.keyboard.press("?");
      await dialog.getByText("this list").waitFor();
      const text = await getText(dialog);
      await page.keyboard.press("Escape");
      await dialog.waitFor({ state: "detached" });
      return text;
    };
    const text = await list();
    for (const words of [
      "/ search",
      "j, k next and previous row",
      "e edit beside the event",
      "f freeze the event as a test",
      "p pause Live, or go on",
      "Ctrl Enter evaluate",
      "Ctrl S open the save dialog",
      "Escape, Tab leave the editor",
      "a, d approve or deny",
      "r, t, x repeat, treat as done, or end",
      "o Overview",
      "y System",
    ])
      expect(text).toContain(words);
    await show("#/live");
    await page.getByRole("heading", { name: "Live" }).waitFor();
    expect(await list()).not.toContain("/ search");
  });

  it("reach every page with g and a letter", async () => {
    // Between the two keys a second may pass; on busy cores the browser takes longer than that to get both.
    await page.clock.setFixedTime(Date.now());
    await show("#/overview");
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    const pages = {
      l: "Live",
      e: "Events",
      f: "Failures",
      r: "Runs",
      a: "Approvals",
      m: "Mappings",
      d: "Documents",
      c: "Chat",
      s: "Sessions",
      v: "Deliveries",
      x: "Refused",
      y: "System",
      o: "Overview",
    };
    for (const [key, title] of Object.entries(pages)) {
      await page.evaluate("document.activeElement?.blur()");
      await page.keyboard.press("g");
      await page.keyboard.press(key);
      await page.locator('nav a[aria-current="page"]', { hasText: title }).waitFor();
      await page
        .locator("main h1", { hasText: title === "Refused" ? "Refused" : title })
        .first()
        .waitFor();
    }
  });
});
