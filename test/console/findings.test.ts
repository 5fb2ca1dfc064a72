import { describe, expect, it } from "vitest";
import { NO_BROWSER } from "./browser.ts";
import { getText, useConsole } from "./use-console.ts";

describe.skipIf(NO_BROWSER)("what the overview has found about mappings", () => {
  const { page, show, region } = useConsole({
    workers: false,
    config: {
      hooks: {
        mappings: [
          { id: "all", match: { path: "shop" }, messageTemplate: "{{id}}" },
          {
            id: "never",
            match: { path: "shop", payload: { type: "never" } },
            messageTemplate: "{{id}}",
          },
          { id: "waits", match: { path: "later" }, shadow: true, messageTemplate: "{{id}}" },
        ],
      },
    },
  });

  it("links each finding to its mapping, also those in shadow", async () => {
    await page.route("**/admin/v1/findings", async (route) => {
      const response = await route.fetch();
      const answer = (await response.json()) as { findings: object[] };
      const shape = {
        from: "shape",
        path: null,
        message: "shop: total is gone since 1 May, 1 mapping reads it",
        mapping: "all",
        file: null,
        line: null,
      };
      await route.fulfill({ json: { ...answer, findings: [shape, ...answer.findings] } });
    });
    await page.goto("about:blank");
    await show("#/overview");
    const found = region("Mappings");
    const row = (words: RegExp | string) => found.getByRole("listitem").filter({ hasText: words });
    for (const [words, address, text] of [
      ["lint", "#/mappings/never", /never/],
      ["total is gone", "#/mappings/all", /shop: total is gone/],
      ["in shadow", "#/mappings/waits", /waits.* starts nothing: rouse hooks enable waits/],
    ] as const) {
      const one = row(words).first();
      await one.waitFor();
      expect(await getText(one)).toMatch(text);
      expect(await one.getByRole("link").first().getAttribute("href")).toBe(address);
    }
    await row("in shadow").getByRole("link").click();
    await page.getByRole("button", { name: "Make it live…" }).waitFor();
    await page.unrouteAll({ behavior: "wait" });
  });
});
