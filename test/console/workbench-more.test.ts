import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterEach, describe, expect, it } from "vitest";
import { createWorld, type World } from "../e2e/world.ts";
import { REAL } from "../gateway.ts";
import { NO_BROWSER, openBrowser } from "./browser.ts";
import { openConsole } from "./console.ts";

const ORDER = {
  id: "order",
  match: { path: "shop", payload: { type: "order" } },
  messageTemplate: "Order {{id}}",
};
const HOOKS = { mappings: [ORDER], presets: [{ use: "github", auth: "token" }] };

describe.skipIf(NO_BROWSER)("the workbench, besides editing", () => {
  let world: World;
  let browser: Awaited<ReturnType<typeof openBrowser>> | undefined;
  let page: Page;
  let problems: string[];
  let later = 0;
  const start = async (gateway: object = {}): Promise<void> => {
    later = 0;
    const clock = { ...REAL.clock, monotonic: () => performance.now() + later };
    world = await createWorld({ clock, config: { gateway, hooks: HOOKS } });
    browser = await openBrowser();
    ({ page, problems } = await openConsole(browser.context, world));
    await page.setViewportSize({ width: 1280, height: 800 });
  };
  afterEach(async () => {
    await browser?.close();
    browser = undefined;
    await world?.stop();
  });

  const send = async (
    body: unknown,
    path = "/hooks/shop",
  ): Promise<{ eventId: string; runId?: string }> => (await world.post(path, body)).body;
  const readConfig = (): string => readFileSync(join(world.dir, "rouse.json5"), "utf8");
  const open = async (address: string): Promise<void> => {
    await page.goto(`${world.url}/console${address}`);
    await page.locator(".cm-content").waitFor();
  };
  const pane = (name: string) => page.getByRole("region", { name, exact: true });
  const write = async (text: string): Promise<void> => {
    await page.locator(".cm-content").click();
    await page.keyboard.press("Control+a");
    await page.keyboard.insertText(text);
  };

  it("adds a mapping for events that none takes, and shows the token dialog when the sign-in was long ago", async () => {
    await start();
    const { eventId } = await send({ type: "refund", id: 7 });
    await open(`#/mappings/new?event=${eventId}`);
    await page.locator(".cm-line", { hasText: 'path: "shop"' }).waitFor();
    const text = `{ id: "refund", match: { path: "shop", payload: { type: "refund" } }, messageTemplate: "Refund {{id}}" }`;
    await write(text);
    await pane("Result").getByText("by refund").waitFor();
    later = 16 * 60_000;
    await page.getByRole("button", { name: "Save…" }).click();
    const dialog = page.getByRole("dialog", { name: "Save" });
    const save = dialog.getByRole("button", { name: "Save", exact: true });
    await dialog.getByText("Tests:").waitFor();
    await save.click();
    await dialog.getByLabel("Gateway token").waitFor();
    expect(readConfig()).not.toContain("Refund");
    await dialog.getByLabel("Gateway token").fill("wrong");
    await save.click();
    await dialog.getByText("not the gateway token").waitFor();
    await dialog.getByLabel("Gateway token").fill(world.gateway.operatorToken);
    await save.click();
    await page.getByText("Saved in rouse.json5").waitFor();
    expect(readConfig()).toContain("Refund {{id}}");
    await page.waitForURL(/#\/mappings\/refund/);
    expect((await send({ type: "refund", id: 8 })).runId).toMatch(/^run_/);
    // The change is listed with who made it.
    await page.goto(`${world.url}/console#/mappings`);
    await page.getByRole("row", { name: /refund added\s*console 127\.0\.0\.1/ }).waitFor();
    expect(problems.filter((one) => !one.includes("403") && !one.includes("401"))).toEqual([]);
  });

  it("shows a preset without letting it be changed, and copies it", async () => {
    await start();
    const { mappings } = (await world.admin("/admin/v1/mappings")).body as {
      mappings: { id: string; own: boolean }[];
    };
    const preset = mappings.find(({ own }) => !own)?.id ?? "";
    await open(`#/mappings/${preset}`);
    const before = await page.locator(".cm-content").innerText();
    await page.locator(".cm-content").click();
    await page.keyboard.type("x");
    expect(await page.locator(".cm-content").innerText()).toBe(before);
    expect(await page.getByRole("button", { name: "Save…" }).count()).toBe(0);
    await page.getByRole("button", { name: "Copy into my mappings" }).click();
    await page.locator(".cm-line", { hasText: `${preset}-own` }).waitFor();
    await pane("Problems").getByText("no problem").waitFor();
    await page.getByRole("button", { name: "Save…" }).waitFor();
    expect(problems).toEqual([]);
  });

  it("writes nothing where gateway.console is read: the change comes as a patch", async () => {
    await start({ console: "read" });
    await send({ type: "refund", id: 7 });
    await open("#/mappings/order");
    expect(await page.getByRole("button", { name: "Freeze as test" }).isDisabled()).toBe(true);
    await write(JSON.stringify({ ...ORDER, messageTemplate: "An order: {{id}}" }));
    await pane("Problems").getByText("no problem").waitFor();
    await page.getByRole("button", { name: "Save…" }).click();
    const dialog = page.getByRole("dialog", { name: "Save" });
    await dialog.getByText("This console may write no file").waitFor();
    await dialog.getByText("Tests:").waitFor();
    expect(await dialog.getByRole("button", { name: "Save", exact: true }).isDisabled()).toBe(true);
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      dialog.getByRole("button", { name: "Patch", exact: true }).click(),
    ]);
    expect(readFileSync(await download.path(), "utf8")).toContain("An order: {{id}}");
    expect(problems).toEqual([]);
  });

  it("asks for what a change must be confirmed for, by name", async () => {
    await start();
    await send({ type: "order", id: 7 });
    await open("#/mappings/order");
    await write(JSON.stringify({ ...ORDER, allowUnsafeExternalContent: true }));
    await page.getByRole("button", { name: "Save…" }).click();
    const dialog = page.getByRole("dialog", { name: "Save" });
    const save = dialog.getByRole("button", { name: "Save", exact: true });
    const box = dialog.getByRole("checkbox", { name: /allowUnsafeExternalContent/ });
    await box.waitFor();
    expect(await save.isDisabled()).toBe(true);
    await box.check();
    await save.click();
    await page.getByText("Saved in rouse.json5").waitFor();
    expect(readConfig()).toContain("allowUnsafeExternalContent");
  });

  it("proposes a draft from the events, tries it beside live traffic and makes it live", async () => {
    await start();
    for (const id of [1, 2]) await send({ type: "refund", id, customer: { name: "Ann" } });
    await open("#/mappings/order");
    await page.getByRole("button", { name: "Propose" }).click();
    const dialog = page.getByRole("dialog", { name: "Propose a mapping" });
    await dialog.getByLabel("What is proposed").selectOption("");
    await dialog.getByLabel("Name of the draft").fill("refunds");
    await dialog.getByRole("button", { name: "Propose" }).click();
    await dialog.getByText("The draft refunds was written").waitFor();
    await dialog.getByRole("button", { name: "Open the draft" }).click();
    await page.getByRole("button", { name: "Try" }).click();
    await page.getByRole("button", { name: "Stop the trial" }).waitFor();
    await send({ type: "refund", id: 3, customer: { name: "Ann" } });
    await page.getByText("goes on").waitFor();
    await page.getByRole("button", { name: "Make it live…" }).click();
    const saving = page.getByRole("dialog", { name: "Save" });
    await saving.getByText("Tests:").waitFor();
    for (const box of await saving.getByRole("checkbox").all()) await box.check();
    await saving.getByRole("button", { name: "Save", exact: true }).click();
    await page.getByText("The draft refunds is live").waitFor();
    expect((await send({ type: "refund", id: 4, customer: { name: "Ann" } })).runId).toMatch(
      /^run_/,
    );
    expect(problems).toEqual([]);
  });

  it("shows bodies that are no JSON, huge, deep or hostile as text, and stays usable", async () => {
    await start();
    const deep = `${'{"a":'.repeat(190)}1${"}".repeat(190)}`;
    await send({
      type: "refund",
      html: `<img src=x onerror="globalThis.broken=1">`,
      bidi: "\u202egnp.exe",
      more: "x".repeat(200_000),
    });
    await open("#/mappings/order");
    await pane("Request").getByText("<img src=x", { exact: false }).waitFor();
    expect(await pane("Request").innerText()).toContain("\\u202e");
    await send(deep);
    await page.getByRole("option").nth(1).waitFor();
    await page.getByRole("option").first().click();
    await pane("Request")
      .getByText("nested deeper", { exact: false })
      .or(pane("Request").getByRole("button", { name: /fold/ }))
      .first()
      .waitFor();
    await write(JSON.stringify(ORDER));
    await pane("Problems").getByText("no problem").waitFor();
    expect(await page.evaluate("globalThis.broken")).toBeUndefined();
    expect(problems).toEqual([]);
  });
});
