import { describe, expect, it } from "vitest";
import { NO_BROWSER } from "./browser.ts";
import { useConsole } from "./use-console.ts";

const draft = (id: string, extra = ""): string =>
  `{ id: "${id}", mappings: [{ id: "${id}.one", match: { path: "shop", payload: { type: "${id}" } }, messageTemplate: "{{id}}"${extra} }] }`;

describe.skipIf(NO_BROWSER)("what the overview has found about mappings", () => {
  const { world, page, problems } = useConsole({
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
        ],
      },
    },
    files: {
      "mappings/drafts/tried.json5": draft("tried"),
      "mappings/drafts/waits.json5": draft("waits"),
      "mappings/drafts/broken.json5": draft("broken", ", wrong: 1"),
    },
  });

  it("links each finding to its mapping or its draft, also drafts with problems and those that nobody tries", async () => {
    expect((await world.admin("/admin/v1/trials/tried", { method: "POST" })).status).toBe(200);
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
    await page.goto(`${world.url}/console#/overview`);
    const found = page.getByRole("region", { name: "Mappings", exact: true });
    const row = (words: RegExp | string) => found.getByRole("listitem").filter({ hasText: words });
    for (const [words, address, text] of [
      ["lint", "#/mappings/never", /never/],
      ["total is gone", "#/mappings/all", /shop: total is gone/],
      ["would have taken", "#/mappings/draft%3Atried", /tried would have taken 0 of 0 hooks/],
      ["is not on trial", "#/mappings/draft%3Awaits", /waits is not on trial/],
      ["cannot be made live", "#/mappings/draft%3Abroken", /broken cannot be made live: .*wrong/],
    ] as const) {
      const one = row(words).first();
      await one.waitFor();
      expect((await one.innerText()).replaceAll(/\s+/g, " ")).toMatch(text);
      expect(await one.getByRole("link").first().getAttribute("href")).toBe(address);
    }
    await row("cannot be made live").getByRole("link").click();
    await page.getByRole("heading", { name: /Draft broken/ }).waitFor();
    await page.unrouteAll({ behavior: "wait" });
    expect(problems).toEqual([]);
  });
});
