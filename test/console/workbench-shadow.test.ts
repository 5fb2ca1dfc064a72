import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { NO_BROWSER } from "./browser.ts";
import { useBench } from "./bench.ts";

const SHADOW = `{
  id: "sales",
  mappings: [
    { id: "sale", shadow: true, match: { path: "shop", payload: { type: "sale" } }, messageTemplate: "Sale {{id}}" }, // ours
  ],
}
`;

describe.skipIf(NO_BROWSER)("mappings in shadow in the workbench", () => {
  const { world, one } = useBench();

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
