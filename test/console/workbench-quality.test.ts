import { beforeAll, describe, expect, it } from "vitest";
import { NO_BROWSER } from "./browser.ts";
import { EVERY_LOOK, examine, HOSTILE, MAPPINGS, ONE_LOOK } from "./quality.ts";
import { useConsole } from "./use-console.ts";

const SHADOW = `{ id: "later", mappings: [{ id: "later", shadow: true, match: { path: "shop", payload: { type: "later" } }, messageTemplate: "{{id}}" }] }`;

describe.skipIf(NO_BROWSER)("what axe examines of the editor", () => {
  const { world, page, show, region } = useConsole({
    workers: false,
    config: { hooks: { mappings: MAPPINGS, presets: [{ use: "github", auth: "token" }] } },
    files: { "mappings/later.json5": SHADOW },
  });
  beforeAll(async () => {
    await world.post("/hooks/shop", { type: "order", data: { id: 2, total: 140, note: HOSTILE } });
  });
  const open = async (hash: string): Promise<void> => {
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.goto("about:blank");
    await show(hash);
  };

  it.each([
    ["a mapping of a preset", "preset", ONE_LOOK],
    ["a new mapping", "new", ONE_LOOK],
    ["a mapping in shadow", "later", ONE_LOOK],
    ["a mapping of its own", "order.big", EVERY_LOOK],
  ])("%s", async (_, id, looks) => {
    const { mappings } = (await world.admin("/admin/v1/mappings")).body as {
      mappings: { id: string; own: boolean }[];
    };
    const preset = mappings.find(({ own }) => !own)?.id ?? "";
    expect(preset).not.toBe("");
    await open(`#/mappings/${id === "preset" ? preset : id}`);
    await page.locator(".cm-content").waitFor();
    await region("Result").waitFor();
    await examine(page, looks);
  });
});
