import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { startModel } from "../platform/model.ts";
import { NO_BROWSER } from "./browser.ts";
import { CONFIG, useBench } from "./bench.ts";

const SHADOW = `{
  id: "sales",
  mappings: [
    { id: "sale", shadow: true, match: { path: "shop", payload: { type: "sale" } }, messageTemplate: "Sale {{id}}" }, // ours
  ],
}
`;

describe.skipIf(NO_BROWSER)("proposals and mappings in shadow in the workbench", () => {
  const { world, one } = useBench();

  const propose = async (): Promise<void> => {
    await one.button("Propose").click();
    const dialog = one.page.getByRole("dialog", { name: "Propose a mapping" });
    await dialog.getByText(/It does not take the event: .*40/).waitFor();
    await dialog.getByRole("button", { name: "Propose", exact: true }).click();
    await one.pane("Proposed change").waitFor();
  };

  it("shows a change of the nearest mapping with its reason in the editor, to be dropped or accepted", async () => {
    const model = await startModel();
    onTestFinished(() => model.close());
    const widened = [
      { in: "payload", field: "type", operator: "$eq", values: ["order"] },
      { in: "payload", field: "total", operator: "$gte", values: [40] },
    ];
    const answer = { takes: [1], conditions: widened, sessionField: null, fields: [], renamed: [] };
    model.says = () => ({ text: [JSON.stringify(answer)] });
    const provider = { type: "openai-compatible", baseUrl: model.url, apiKey: "key" };
    const config = CONFIG.replace(
      "gateway: {",
      `models: { providers: { local: ${JSON.stringify(provider)} } },\n  agents: { defaults: { model: "local/big" } },\n  gateway: {`,
    );
    world.write("rouse.json5", config);
    await world.reload();
    await world.order(40);
    // Written beside another mapping: the nearest one is opened with the change.
    await one.open("#/mappings/rest");
    await one.pane("Result").getByText("No mapping takes this event").waitFor();
    await one.button("Propose").click();
    const dialog = one.page.getByRole("dialog", { name: "Propose a mapping" });
    await dialog.getByLabel("What is proposed").selectOption("order");
    await dialog.getByRole("button", { name: "Propose", exact: true }).click();
    await one.page.waitForURL(/#\/mappings\/order/);
    expect(await one.pane("Proposed change").innerText()).toMatch(/match\.payload\.total.*40/);
    await one.page.locator(".cm-deletedChunk").first().waitFor();
    await one.pane("Result").getByText("by order").waitFor();
    await one.button("Drop").click();
    await one.line("$gte: 100").waitFor();
    expect(await one.pane("Proposed change").count()).toBe(0);
    await one.pane("Result").getByText("No mapping takes this event").waitFor();
    await propose();
    await one.button("Accept").click();
    await one.line("$gte: 40").waitFor();
    expect(world.readConfig()).toBe(config);
    await one.save();
    await one.page.getByText("Saved in rouse.json5").waitFor();
    expect(world.readConfig()).toBe(config.replace("$gte: 100", "$gte: 40"));
    expect((await world.order(41)).runId).toMatch(/^run_/);
  });

  it("edits a mapping in shadow as any other, shows what it would do, and makes it live", async () => {
    world.write("mappings/sales.json5", SHADOW);
    const file = join(world.dir, "mappings/sales.json5");
    await world.reload();
    await world.post("/hooks/shop", { type: "deal", id: 7 });
    await one.open("#/mappings/sale");
    await one.pane("Result").getByText("No mapping takes this event").waitFor();
    await one.line("type:").getByText('"sale"', { exact: true }).last().dblclick();
    await one.page.keyboard.type("deal");
    await one.pane("Why").getByText("matches, in shadow").waitFor();
    await one.pane("Result").getByText("Sale 7").waitFor();
    expect(await one.button("Make it live…").isDisabled()).toBe(true);
    await one.page.keyboard.press("Control+s");
    const save = one.page.getByRole("dialog", { name: "Save" });
    await save.getByText("Tests:").waitFor();
    await save.getByRole("button", { name: "Save", exact: true }).click();
    await one.page.getByText("Saved in sales.json5").waitFor();
    expect(readFileSync(file, "utf8")).toBe(SHADOW.replace('type: "sale"', 'type: "deal"'));
    expect((await world.post("/hooks/shop", { type: "deal", id: 8 })).body.runId).toBeUndefined();
    await one.button("Make it live…").click();
    await save.getByText("+2 run").waitFor();
    expect(await save.innerText()).toContain("shadow: true");
    await save.getByRole("button", { name: "Save", exact: true }).click();
    await one.page.getByText("sale is live.").waitFor();
    await one.button("Make it live…").waitFor({ state: "detached" });
    expect(await one.line("shadow").count()).toBe(0);
    expect((await world.post("/hooks/shop", { type: "deal", id: 9 })).body.runId).toMatch(/^run_/);
    expect(readFileSync(`${file}.before`, "utf8")).toContain("shadow: true");
  });
});
