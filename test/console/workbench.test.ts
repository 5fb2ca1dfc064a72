import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createWorld, type World } from "../e2e/world.ts";
import { NO_BROWSER, openBrowser } from "./browser.ts";
import { openConsole } from "./console.ts";

const BEFORE = `      {
        id: "order", // orders
        match: { path: "shop", payload: { type: "order", "data.total": { $gte: 100 } } },
        messageTemplate: "Order {{data.id}} of {{data.total}}",
      },`;
const CONFIG = `{
  gateway: { port: 0 },
  hooks: {
    enabled: true,
    token: "test-hook-token-0123456789",
    mappings: [
      // Orders of the shop.
${BEFORE}
      { id: "rest", match: { path: "shop", payload: { type: "refund" } }, messageTemplate: "{{data.id}}" },
    ],
  },
}
`;

describe.skipIf(NO_BROWSER)("the workbench", () => {
  let world: World;
  let browser: Awaited<ReturnType<typeof openBrowser>>;
  let page: Page;
  let problems: string[];
  beforeEach(async () => {
    world = await createWorld({});
    world.write("rouse.json5", CONFIG);
    expect(await world.gateway.reload()).toMatchObject({ ok: true });
    browser = await openBrowser();
    ({ page, problems } = await openConsole(browser.context, world));
    await page.setViewportSize({ width: 1280, height: 800 });
  });
  afterEach(async () => {
    await browser?.close();
    await world?.stop();
  });

  const send = async (total: number): Promise<{ eventId: string; runId?: string }> =>
    (
      await world.post("/hooks/shop", {
        type: "order",
        data: { id: 7, total, customer: { name: "Ann" } },
      })
    ).body;
  const readConfig = (): string => readFileSync(join(world.dir, "rouse.json5"), "utf8");
  const open = async (address: string): Promise<void> => {
    await page.goto(`${world.url}/console${address}`);
    await page.locator(".cm-content").waitFor();
  };
  const pane = (name: string) => page.getByRole("region", { name, exact: true });
  const shoot = async (name: string): Promise<void> => {
    const folder = process.env["ROUSE_SHOTS"];
    if (!folder) return;
    for (const [width, height] of [
      [1280, 800],
      [390, 844],
    ] as const)
      for (const colorScheme of ["light", "dark"] as const) {
        await page.setViewportSize({ width, height });
        await page.emulateMedia({ colorScheme });
        await page.screenshot({
          path: join(folder, `workbench-${name}-${width}-${colorScheme}.png`),
          fullPage: width === 390,
        });
      }
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.emulateMedia({ colorScheme: null });
  };

  it("leads from an unmatched hook to a mapping that takes the next one, with the mouse", async () => {
    const { eventId } = await send(40);
    await page.goto(`${world.url}/console#/mappings`);
    await page.getByRole("row", { name: /order/ }).first().waitFor();
    await shoot("list");
    await page.getByRole("link", { name: "order", exact: true }).click();
    await pane("Result").getByText("No mapping takes this event").waitFor();
    expect(await pane("Why").innerText()).toMatch(/order\s*✓ path\s*✓ type\s*✗ data\.total/);
    await page.locator(".cm-sign.no").waitFor();
    expect(await page.locator(".cm-reason").innerText()).toContain("40");
    await page
      .locator(".cm-line", { hasText: "$gte" })
      .getByText("100", { exact: true })
      .dblclick();
    await page.keyboard.type("10");
    await pane("Result").getByText("by order").waitFor();
    expect(await pane("Result").locator("mark").allInnerTexts()).toEqual(["7", "40", "marked"]);
    await pane("What if").getByText("+1 run").waitFor();
    await shoot("edited");
    await page.getByRole("button", { name: "Freeze as test" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Freeze", exact: true }).click();
    await page.getByText("tests 1 of 1").waitFor();
    await page.getByRole("button", { name: "Save…" }).click();
    const dialog = page.getByRole("dialog", { name: "Save" });
    await dialog.getByText("Tests: 1 of 1 pass").waitFor();
    expect(await dialog.innerText()).toMatch(/\$gte: 100[\s\S]*\$gte: 10 /);
    await shoot("save");
    await dialog.getByRole("button", { name: "Save", exact: true }).click();
    await page.getByText("Saved in rouse.json5").waitFor();
    expect(readConfig()).toBe(CONFIG.replace("$gte: 100", "$gte: 10"));
    const { runId } = await send(41);
    expect(runId).toMatch(/^run_/);
    expect((await world.admin(`/admin/v1/events/${eventId}`)).body.event.outcome).toBe("unmatched");
    expect(problems).toEqual([]);
  });

  it("does the same with the keyboard alone", async () => {
    await send(40);
    const { keyboard } = page;
    await page.goto(`${world.url}/console#/overview`);
    await page.getByRole("navigation", { name: "Pages" }).waitFor();
    await keyboard.press("g");
    await keyboard.press("m");
    await page.getByRole("row", { name: /order/ }).first().waitFor();
    await keyboard.press("j");
    await pane("Result").getByText("No mapping takes this event").waitFor();
    await keyboard.press("e");
    await keyboard.press("Control+f");
    await keyboard.type("100");
    await keyboard.press("Enter");
    await keyboard.press("Escape");
    await keyboard.type("10");
    await keyboard.press("Control+Enter");
    await pane("Result").getByText("by order").waitFor();
    await pane("What if").getByText("+1 run").waitFor();
    // Tab indents; Escape and then Tab leaves the editor.
    await keyboard.press("Escape");
    await keyboard.press("Tab");
    expect(
      await page.evaluate("document.activeElement?.shadowRoot?.activeElement?.className ?? ''"),
    ).not.toContain("cm-content");
    await page.evaluate("document.activeElement?.blur()");
    await keyboard.press("f");
    await page.getByRole("dialog", { name: "Freeze as test" }).waitFor();
    await keyboard.press("Enter");
    await page.getByText("tests 1 of 1").waitFor();
    await keyboard.press("Control+s");
    const dialog = page.getByRole("dialog", { name: "Save" });
    await dialog.getByText("Tests: 1 of 1 pass").waitFor();
    const focused = dialog.locator("button:focus", { hasText: /^Save$/ });
    for (let presses = 0; presses < 12 && (await focused.count()) === 0; presses++)
      await keyboard.press("Tab");
    await keyboard.press("Enter");
    await page.getByText("Saved in rouse.json5").waitFor();
    expect(readConfig()).toBe(CONFIG.replace("$gte: 100", "$gte: 10"));
    expect((await send(41)).runId).toMatch(/^run_/);
    expect(problems).toEqual([]);
  });

  it("keeps the last good answer while an expression does not parse, with the error at its character", async () => {
    await send(140);
    await open("#/mappings/order");
    await pane("Result").getByText("by order").waitFor();
    await page
      .locator(".cm-line", { hasText: "messageTemplate" })
      .getByText("data.total", { exact: false })
      .first()
      .click();
    await page.keyboard.press("End");
    for (let steps = 0; steps < 4; steps++) await page.keyboard.press("ArrowLeft");
    await page.keyboard.type(" &");
    await page
      .getByText(/is not valid JSONata/)
      .first()
      .waitFor();
    expect(await pane("Result").getAttribute("class")).toContain("stale");
    expect(await pane("Result").locator("mark").allInnerTexts()).toContain("140");
    await page.locator(".cm-lintRange-error, .cm-lintPoint-error").first().waitFor();
    await shoot("problem");
    expect(problems).toEqual([]);
  });

  it("inserts the path of a field, completes fields and keys, and colours expressions", async () => {
    await send(140);
    await open("#/mappings/order");
    await pane("Result").getByText("by order").waitFor();
    await page.locator(".cm-line", { hasText: "messageTemplate" }).click();
    await page.keyboard.press("End");
    for (let steps = 0; steps < 2; steps++) await page.keyboard.press("ArrowLeft");
    await page.getByTitle("data.customer.name").click();
    await page.locator(".cm-line", { hasText: "{{data.customer.name}}" }).waitFor();
    await pane("Result").locator("mark", { hasText: "Ann" }).waitFor();
    await page.keyboard.type("{{cust");
    await page.locator(".cm-tooltip-autocomplete").getByText("data.customer.name").waitFor();
    expect(await page.locator(".cm-tooltip-autocomplete").innerText()).toContain("text · 100 %");
    await page.keyboard.press("Enter");
    await page.locator(".cm-x-name").first().waitFor();
    expect(problems).toEqual([]);
  });

  it("offers unsaved text after a reload and a sign-out, and does not force it", async () => {
    await send(40);
    await open("#/mappings/order");
    await page
      .locator(".cm-line", { hasText: "$gte" })
      .getByText("100", { exact: true })
      .dblclick();
    await page.keyboard.type("12");
    await page.getByText("not saved").waitFor();
    await page.reload();
    await page.getByText("There is unsaved text of this mapping").waitFor();
    expect(await page.locator(".cm-content").innerText()).toContain("$gte: 100");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.fill('input[name="token"]', world.gateway.operatorToken);
    await page.press('input[name="token"]', "Enter");
    await open("#/mappings/order");
    await page.getByRole("button", { name: "Take it up" }).click();
    await page.locator(".cm-line", { hasText: "$gte: 12 " }).waitFor();
    expect(readConfig()).toBe(CONFIG);
  });

  it("shows both texts when the file has changed meanwhile, and writes over nothing", async () => {
    await send(40);
    await open("#/mappings/order");
    await page
      .locator(".cm-line", { hasText: "$gte" })
      .getByText("100", { exact: true })
      .dblclick();
    await page.keyboard.type("10");
    await page.getByText("not saved").waitFor();
    await page.getByRole("button", { name: "Save…" }).click();
    const dialog = page.getByRole("dialog", { name: "Save" });
    await dialog.getByText("Tests:").waitFor();
    const theirs = CONFIG.replace('"Order {{data.id}}', '"An order: {{data.id}}');
    world.write("rouse.json5", theirs);
    expect(await world.gateway.reload()).toMatchObject({ ok: true });
    await dialog.getByRole("button", { name: "Save", exact: true }).click();
    await dialog.getByText("was changed while you were writing").waitFor();
    expect(await dialog.innerText()).toMatch(
      /has changed like this:[\s\S]*An order[\s\S]*was to be changed like this:[\s\S]*\$gte: 10/,
    );
    expect(readConfig()).toBe(theirs);
    await shoot("conflict");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "See both" }).click();
    await page.locator(".cm-deletedChunk").first().waitFor();
    await page.getByRole("button", { name: "Take the file's" }).click();
    await page.locator(".cm-line", { hasText: "An order" }).waitFor();
  });
});
