import { describe, expect, it } from "vitest";
import { useBench } from "./bench.ts";
import { NO_BROWSER } from "./browser.ts";

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
  const { world, one } = useBench(CONFIG);

  const send = async (total: number): Promise<{ eventId: string; runId?: string }> =>
    (
      await world.post("/hooks/shop", {
        type: "order",
        data: { id: 7, total, customer: { name: "Ann" } },
      })
    ).body;

  it("leads from an unmatched hook to a mapping that takes the next one, with the mouse", async () => {
    const { eventId } = await send(40);
    await one.page.goto(`${world.url}/console#/mappings`);
    await one.page.getByRole("row", { name: /order/ }).first().waitFor();
    await one.page.getByRole("link", { name: "order", exact: true }).click();
    await one.pane("Result").getByText("No mapping takes this event").waitFor();
    expect(await one.pane("Why").innerText()).toMatch(/order\s*✓ path\s*✓ type\s*✗ data\.total/);
    await one.page.locator(".cm-sign.no").waitFor();
    expect(await one.page.locator(".cm-reason").innerText()).toContain("40");
    await one.change("$gte", "100", "10");
    await one.pane("Result").getByText("by order").waitFor();
    expect(await one.pane("Result").locator("mark").allInnerTexts()).toEqual(["7", "40", "marked"]);
    await one.pane("What if").getByText("+1 run").waitFor();
    await one.page.getByRole("button", { name: "Freeze as test" }).click();
    await one.page.getByRole("dialog").getByRole("button", { name: "Freeze", exact: true }).click();
    await one.page.getByText("tests 1 of 1").waitFor();
    await one.page.getByRole("button", { name: "Save…" }).click();
    const dialog = one.page.getByRole("dialog", { name: "Save" });
    await dialog.getByText("Tests: 1 of 1 pass").waitFor();
    expect(await dialog.innerText()).toMatch(/\$gte: 100[\s\S]*\$gte: 10 /);
    await dialog.getByRole("button", { name: "Save", exact: true }).click();
    await one.page.getByText("Saved in rouse.json5").waitFor();
    expect(world.readConfig()).toBe(CONFIG.replace("$gte: 100", "$gte: 10"));
    const { runId } = await send(41);
    expect(runId).toMatch(/^run_/);
    expect((await world.admin(`/admin/v1/events/${eventId}`)).body.event.outcome).toBe("unmatched");
  });

  it("does the same with the keyboard alone", async () => {
    await send(40);
    const { keyboard } = one.page;
    await one.page.goto(`${world.url}/console#/overview`);
    await one.page.getByRole("navigation", { name: "Pages" }).waitFor();
    await keyboard.press("g");
    await keyboard.press("m");
    await one.page.getByRole("row", { name: /order/ }).first().waitFor();
    await keyboard.press("j");
    await one.pane("Result").getByText("No mapping takes this event").waitFor();
    await one.page.locator(".cm-content").waitFor();
    await keyboard.press("e");
    const searched = one.page.locator(".cm-search input[name=search]");
    await one.page.locator(".cm-content:focus").waitFor();
    await keyboard.press("Control+f");
    await one.page.locator(".cm-search input[name=search]:focus").waitFor();
    await keyboard.type("100");
    await keyboard.press("Enter");
    await one.page.locator(".cm-searchMatch-selected", { hasText: "100" }).waitFor();
    await keyboard.press("Escape");
    await searched.waitFor({ state: "detached" });
    await keyboard.type("10");
    await keyboard.press("Control+Enter");
    await one.pane("Result").getByText("by order").waitFor();
    await one.pane("What if").getByText("+1 run").waitFor();
    // Tab indents; Escape and then Tab leaves the editor.
    await keyboard.press("Escape");
    await keyboard.press("Tab");
    expect(
      await one.page.evaluate("document.activeElement?.shadowRoot?.activeElement?.className ?? ''"),
    ).not.toContain("cm-content");
    await one.page.evaluate("document.activeElement?.blur()");
    await keyboard.press("f");
    await one.page.getByRole("dialog", { name: "Freeze as a test" }).waitFor();
    await keyboard.press("Enter");
    await one.page.getByText("tests 1 of 1").waitFor();
    await keyboard.press("Control+s");
    const dialog = one.page.getByRole("dialog", { name: "Save" });
    await dialog.getByText("Tests: 1 of 1 pass").waitFor();
    const focused = dialog.locator("button:focus", { hasText: /^Save$/ });
    for (let presses = 0; presses < 12 && (await focused.count()) === 0; presses++)
      await keyboard.press("Tab");
    await keyboard.press("Enter");
    await one.page.getByText("Saved in rouse.json5").waitFor();
    expect(world.readConfig()).toBe(CONFIG.replace("$gte: 100", "$gte: 10"));
    expect((await send(41)).runId).toMatch(/^run_/);
  });

  it("keeps the last good answer while an expression does not parse, with the error at its character", async () => {
    await send(140);
    await one.open("#/mappings/order");
    await one.pane("Result").getByText("by order").waitFor();
    await one.page
      .locator(".cm-line", { hasText: "messageTemplate" })
      .getByText("data.total", { exact: false })
      .first()
      .click();
    await one.page.keyboard.press("End");
    for (let steps = 0; steps < 4; steps++) await one.page.keyboard.press("ArrowLeft");
    await one.page.keyboard.type(" &");
    await one.page
      .getByText(/is not valid JSONata/)
      .first()
      .waitFor();
    expect(await one.pane("Result").getAttribute("class")).toContain("stale");
    expect(await one.pane("Result").locator("mark").allInnerTexts()).toContain("140");
    await one.page.locator(".cm-lintRange-error, .cm-lintPoint-error").first().waitFor();
  });

  it("inserts the path of a field, completes fields and keys, and colours expressions", async () => {
    await send(140);
    await one.open("#/mappings/order");
    await one.pane("Result").getByText("by order").waitFor();
    await one.page.locator(".cm-line", { hasText: "messageTemplate" }).click();
    await one.page.keyboard.press("End");
    for (let steps = 0; steps < 2; steps++) await one.page.keyboard.press("ArrowLeft");
    await one.page.getByTitle("data.customer.name").click();
    await one.page.locator(".cm-line", { hasText: "{{data.customer.name}}" }).waitFor();
    await one.pane("Result").locator("mark", { hasText: "Ann" }).waitFor();
    await one.page.keyboard.type("{{cust");
    await one.page.locator(".cm-tooltip-autocomplete").getByText("data.customer.name").waitFor();
    expect(await one.page.locator(".cm-tooltip-autocomplete").innerText()).toContain(
      "text · 100 %",
    );
    await one.page.keyboard.press("Enter");
    await one.page.locator(".cm-x-name").first().waitFor();
  });

  it("offers unsaved text after a reload and a sign-out, and does not force it", async () => {
    await send(40);
    await one.open("#/mappings/order");
    await one.change("$gte", "100", "12");
    await one.page.getByText("not saved").waitFor();
    await one.page.reload();
    await one.page.getByText("There is unsaved text of this mapping").waitFor();
    expect(await one.page.locator(".cm-content").innerText()).toContain("$gte: 100");
    await one.page.getByRole("button", { name: "Sign out" }).click();
    await one.page.fill('input[name="token"]', world.gateway.operatorToken);
    await one.page.press('input[name="token"]', "Enter");
    await one.open("#/mappings/order");
    await one.page.getByRole("button", { name: "Take it up" }).click();
    await one.page.locator(".cm-line", { hasText: "$gte: 12 " }).waitFor();
    expect(world.readConfig()).toBe(CONFIG);
    one.problems.length = 0;
  });

  it("shows both texts when the file has changed meanwhile, and writes over nothing", async () => {
    await send(40);
    await one.open("#/mappings/order");
    await one.change("$gte", "100", "10");
    await one.page.getByText("not saved").waitFor();
    const dialog = await one.openSave();
    const theirs = CONFIG.replace('"Order {{data.id}}', '"An order: {{data.id}}');
    world.write("rouse.json5", theirs);
    await world.reload();
    await dialog.getByRole("button", { name: "Save", exact: true }).click();
    await dialog.getByText("is not as it was shown any more").waitFor();
    expect(world.readConfig()).toBe(theirs);
    await one.page.keyboard.press("Escape");
    await one.page.getByRole("button", { name: "See both" }).click();
    await one.page.locator(".cm-deletedChunk").first().waitFor();
    await one.page.getByRole("button", { name: "Take the file's" }).click();
    await one.page.locator(".cm-line", { hasText: "An order" }).waitFor();
    one.problems.length = 0;
  });
});
