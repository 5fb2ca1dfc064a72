import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createWorld, type World } from "../e2e/world.ts";
import { NO_BROWSER, openBrowser } from "./browser.ts";
import { openConsole } from "./console.ts";

describe.skipIf(NO_BROWSER)("the console's frame", () => {
  let world: World;
  let browser: Awaited<ReturnType<typeof openBrowser>>;
  let page: Page;
  let problems: string[];
  beforeAll(async () => {
    world = await createWorld({});
    browser = await openBrowser();
    ({ page, problems } = await openConsole(browser.context, world));
  }, 60_000);
  afterAll(async () => {
    await browser?.close();
    await world?.stop();
  });

  it("shows the rail and the page that the address names, with nothing that a browser objects to", async () => {
    await page.goto(`${world.url}/console#/refusals`);
    await page.getByRole("heading", { name: "Refused" }).waitFor();
    expect(await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Refused" }).getAttribute("aria-current")).toBe(
      "page",
    );

    expect(problems).toEqual([]);
  });
});
