import { describe, expect, it } from "vitest";
import { NO_BROWSER } from "./browser.ts";
import { useConsole } from "./use-console.ts";

describe.skipIf(NO_BROWSER)("the console's frame", () => {
  const { world, page, problems } = useConsole({});

  it("shows the rail and the page that the address names, with nothing that a browser objects to", async () => {
    await page.goto(`${world.url}/console#/refusals`);
    await page.getByRole("heading", { name: "Refused" }).waitFor();
    expect(await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Refused" }).getAttribute("aria-current")).toBe(
      "page",
    );

    expect(problems).toEqual([]);
  });
});
