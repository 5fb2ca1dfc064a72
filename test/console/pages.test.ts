import { join } from "node:path";
import type { BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { openStore } from "../../src/store/open.ts";
import type { RunRecord } from "../../src/store/types.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { actIn } from "../store/acted.ts";
import { silent } from "../store/home.ts";
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
    ["events", () => "#/events", "shadowed"],
    ["an event", () => `#/events/${eventId}`, "Request"],
    ["runs", () => "#/runs", "Shop"],
    ["a run", () => `#/runs/${runId}`, "An order of 240"],
    ["sessions", () => "#/sessions", "hook:shop:7"],
    ["deliveries", () => "#/deliveries", "delivered"],
  ])("shows %s, with nothing that a browser objects to", async (_name, hash, words) => {
    expect(await show(hash(), words)).not.toMatch(/\[object |undefined|NaN/);
    expect(problems).toEqual([]);
  });

  it("says why a run waits, and until when", async () => {
    const { runId: held } = (await world.post("/hooks/agent", { message: "Hold it", sessionKey: "hook:held", name: "Held" })).body;
    await world.until(async () => (await world.get(`/hooks/runs/${held}`)).body.run.status === "succeeded");
    const until = Date.now() + 3_600_000;
    const reasons: [NonNullable<RunRecord["parked"]>, RegExp][] = [
      [{ scope: "mapping:shop", limit: "runsPerHour", until }, /waits for limits\.runsPerHour of mapping:shop, until \S/],
      [{ reason: "provider", of: "acme/large", until }, /waits for the model acme\/large, which is tried again at \S/],
    ];
    for (const [parked, words] of reasons) {
      const { store } = await openStore({ url: `sqlite:${join(world.dir, ".rouse", "rouse.db")}`, clock: systemClock, log: silent });
      await store.commit((tx) => tx.update("run", held, { status: "parked", parked, endedAt: null }));
      await store.close();
      await show("#/overview", "accepted");
      expect((await show(`#/runs/${held}`, "waits for")).replaceAll(/\s+/g, " ")).toMatch(words);
    }
    expect(problems).toEqual([]);
  });

  it("shows the steps of a run: calls, attempts, approvals, and a cut result in full where it is asked for", async () => {
    const { runId: acted } = (await world.post("/hooks/agent", { message: "Refund the order", sessionKey: "hook:bank", name: "Bank" }))
      .body;
    await world.until(async () => (await world.get(`/hooks/runs/${acted}`)).body.run.status === "succeeded");
    const { store } = await openStore({ url: `sqlite:${join(world.dir, ".rouse", "rouse.db")}`, clock: systemClock, log: silent });
    await actIn(store, acted);
    await store.close();
    const text = await show(`#/runs/${acted}`, "two cups");
    expect(text).not.toMatch(/\[object |undefined|NaN|null/);
    const section = async (label: string) => (await page.getByRole("region", { name: label }).innerText()).replaceAll(/\s+/g, " ");
    const first = await section("Step 1");
    for (const words of [
      "model acme/large instead of acme/small",
      "took 1.2 s",
      "1200 in, 800 of them cached, 30 out, 10 of them reasoning",
      "acme/small: rate_limited: slow down (429 too_fast); tried again after 2 s",
      "acme/small: provider_unavailable: no answer",
      "I look at the order.",
    ])
      expect(first).toContain(words);
    expect(await section(`Call ${acted}.0.0`)).toMatch(
      /shop.read done 320 ms .*a <b>bold<\/b> note.* Result order 7: two cups image\/png cups.png \(6 bytes\) Cut/,
    );
    expect(await section(`Call ${acted}.0.1`)).toMatch(
      /bank.refund denied .*Approval 7f3: the rule "bank.\*" names the tool, .*deny by console:ann, .*: too much/,
    );
    expect(await section(`Call ${acted}.0.2`)).toMatch(/Error the mailbox is full/);
    expect(await section("Step 2")).toMatch(/bank.refund waiting .*Approval 8a1.*open until/);
    expect(text.replaceAll(/\s+/g, " ")).toMatch(/status waiting waits for a person, until .* waits since/);
    await page.getByRole("button", { name: "Show all" }).click();
    await page.getByText("a saucer the end").waitFor();
    await show("#/runs", "Bank");
    await page.getByLabel("status").selectOption("waiting");
    await page.getByRole("row", { name: /Bank/ }).waitFor();
    expect(problems).toEqual([]);
  });

  it("shows the turns of a session as text, each message under the run that it belongs to", async () => {
    const text = await show("#/sessions/main/hook/hook:shop:7", "And another one");
    expect(text).toContain("An order of 240");
    expect(text).toContain(runId);
    expect(text).not.toMatch(/\[object |undefined/);
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
