import type { BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createWorld, type World } from "../e2e/world.ts";
import { NO_BROWSER, openBrowser } from "./browser.ts";

describe.skipIf(NO_BROWSER)("the console in a real browser", () => {
  let world: World;
  let browser: { context: BrowserContext; close(): Promise<void> };
  let page: Page;
  const problems: string[] = [];
  let runId: string;
  let eventId: string;

  beforeAll(async () => {
    world = await createWorld({
      config: {
        hooks: {
          mappings: [
            { id: "shadowed", shadow: true, match: { path: "shadowed" }, messageTemplate: "{{a}} and {{missing}}", name: "{{a}}" },
          ],
        },
      },
    });
    const post = (message: string) => world.post("/hooks/agent", { message, sessionKey: "hook:shop:7", name: "Shop" });
    ({ runId, eventId } = (await post("An order of 240")).body);
    await world.until(async () => (await world.get(`/hooks/runs/${runId}`)).body.run.status === "succeeded");
    const second = (await post("And another one")).body.runId as string;
    await world.until(async () => (await world.get(`/hooks/runs/${second}`)).body.run.status === "succeeded");
    await world.post("/hooks/wake", { text: "remember the milk", mode: "next-heartbeat" });
    await world.post("/hooks/shadowed", { a: 1 });
    await world.post("/hooks/nowhere", {});
    browser = await openBrowser();
    page = await browser.context.newPage();
    page.on("pageerror", (error) => problems.push(error.message));
    page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
    await page.goto(`${world.url}/console`);
    // The page behind the sign-in form is answered 401, which the browser reports as an error.
    problems.length = 0;
    await page.fill('input[name="token"]', world.gateway.operatorToken);
    await page.press('input[name="token"]', "Enter");
    await page.waitForSelector("#nav a");
  }, 60_000);
  afterAll(async () => {
    await browser?.close();
    await world?.stop();
  });

  const show = async (hash: string, words: string): Promise<string> => {
    problems.length = 0;
    await page.goto(`${world.url}/console${hash}`);
    await page.locator("main").getByText(words).filter({ visible: true }).first().waitFor();
    return page.innerText("body");
  };

  it.each<[string, () => string, string]>([
    ["overview", () => "#/overview", "accepted"],
    ["events", () => "#/events", "shadowed"],
    ["an event", () => `#/events/${eventId}`, "Request"],
    ["refused", () => "#/refusals", "address"],
    ["system", () => "#/system", "Mappings"],
  ])("shows %s, with nothing that a browser objects to", async (_name, hash, words) => {
    if (words === "address") await fetch(`${world.url}/hooks/wake`, { method: "POST" });
    expect(await show(hash(), words)).not.toMatch(/\[object |undefined|NaN/);
    expect(problems).toEqual([]);
  });

  it("shows what a mapping in shadow would have done", async () => {
    await show("#/events", "shadowed");
    await page
      .getByRole("row", { name: /shadowed/ })
      .getByRole("link")
      .first()
      .click();
    await page.getByText("What a mapping in shadow would have done").waitFor();
    expect(await page.innerText("main")).not.toMatch(/\[object |undefined/);
    expect(problems).toEqual([]);
  });
});
