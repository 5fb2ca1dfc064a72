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
    await page.goto("about:blank");
    await show("#/overview");
    const found = region("Mappings");
    const row = (words: RegExp | string) => found.getByRole("listitem").filter({ hasText: words });
    for (const [words, address, text] of [
      ["lint", "#/mappings/never", /never/],
      ["in shadow", "#/mappings/waits", /waits.* starts nothing: rouse hooks enable waits/],
    ] as const) {
      const one = row(words).first();
      await one.waitFor();
      expect(await getText(one)).toMatch(text);
      expect(await one.getByRole("link").first().getAttribute("href")).toBe(address);
    }
    await row("in shadow").getByRole("link").click();
    await page.getByRole("button", { name: "Make it live…" }).waitFor();
  });
});
