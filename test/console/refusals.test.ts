import { describe, expect, it } from "vitest";
import { NO_BROWSER } from "./browser.ts";
import { useConsole } from "./use-console.ts";

describe.skipIf(NO_BROWSER)("refused requests", () => {
  const { world, page } = useConsole({});

  it("says that nothing was refused, and which command lists it", async () => {
    await page.goto(`${world.url}/console#/refusals`);
    await page.getByText("No request was rejected since the gateway started").waitFor();
    expect(await page.innerText("main")).toContain("rouse events --refused");
  });

  it("lists requests with their time, address, path and reason as text, and which sender fails most", async () => {
    await fetch(`${world.url}/hooks/wake`, { method: "POST" });
    await fetch(`${world.url}/hooks/shop%3Cb%3E`, {
      method: "POST",
      headers: { authorization: "Bearer wrong" },
    });
    await page.getByRole("region", { name: "Refused requests" }).getByText("no_token").waitFor();
    const rows = (
      await page.getByRole("region", { name: "Refused requests" }).innerText()
    ).replaceAll(/\s+/g, " ");
    expect(rows).toMatch(/When Address Reason Credential Path/);
    expect(rows).toMatch(/(?:ago|now) \S*127\.0\.0\.1 no_token missing or wrong wake/);
    const senders = (
      await page.getByRole("region", { name: "Refused most often", exact: true }).innerText()
    ).replaceAll(/\s+/g, " ");
    expect(senders).toMatch(/127\.0\.0\.1 2 /);
    expect(await page.innerText("body")).not.toMatch(/\[object |undefined|NaN/);
  });

  it("searches in address, path and reason, and keeps the search in the address", async () => {
    await page.getByLabel("Search").fill("no_token");
    await expect.poll(() => page.url()).toContain("search=no_token");
    const table = page.getByRole("region", { name: "Refused requests" });
    await expect.poll(() => table.getByRole("row").count()).toBe(2);
    await page.getByLabel("Search").fill("nothing like it");
    await page.getByText("The filters match none of 2 refused requests.").waitFor();
    await page.goto(`${world.url}/console#/refusals?reason=wrong_token`);
    await page.reload();
    await expect
      .poll(() => page.getByRole("region", { name: "Refused requests" }).getByRole("row").count())
      .toBe(2);
  });
});
