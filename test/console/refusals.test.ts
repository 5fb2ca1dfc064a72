import { describe, expect, it } from "vitest";
import { NO_BROWSER } from "./browser.ts";
import { getText, useConsole } from "./use-console.ts";

describe.skipIf(NO_BROWSER)("refused requests", () => {
  const { world, page, show, region } = useConsole({});

  it("lists requests with their time, address, path and reason as text as they come, and which sender fails most", async () => {
    await show("#/refusals");
    await page.getByText("No request was rejected since the gateway started").waitFor();
    await fetch(`${world.url}/hooks/wake`, { method: "POST" });
    await fetch(`${world.url}/hooks/shop%3Cb%3E`, {
      method: "POST",
      headers: { authorization: "Bearer wrong" },
    });
    const table = region("Refused requests");
    await table.getByText("no_token").waitFor();
    expect(await getText(table)).toMatch(
      /When Address Reason Credential Path .*(?:ago|now) \S*127\.0\.0\.1 no_token missing or wrong wake/,
    );
    await expect.poll(() => getText(region("Refused most often"))).toMatch(/127\.0\.0\.1 2 /);
    expect(await page.innerText("body")).not.toMatch(/\[object |undefined|NaN/);
  });

  it("searches in address, path and reason, and keeps the search in the address", async () => {
    await page.getByLabel("Search").fill("no_token");
    await expect.poll(() => page.url()).toContain("search=no_token");
    const table = region("Refused requests");
    await expect.poll(() => table.getByRole("row").count()).toBe(2);
    await page.getByLabel("Search").fill("nothing like it");
    await page.getByText("The filters match none of 2 refused requests.").waitFor();
    await show("#/refusals?reason=wrong_token");
    await page.reload();
    await expect.poll(() => region("Refused requests").getByRole("row").count()).toBe(2);
  });
});
