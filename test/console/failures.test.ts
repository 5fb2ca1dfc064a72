import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { NO_BROWSER } from "./browser.ts";
import { useConsole } from "./use-console.ts";

const MAPPINGS = [
  {
    id: "order",
    match: { path: "shop", payload: { type: "order" } },
    messageTemplate: "{{id}}",
    deliver: false,
  },
  {
    id: "broken",
    match: { path: "billing" },
    messageTemplate: "{{ $number(id) }}",
    deliver: false,
  },
  ...["pager", "ops"].map((id) => ({
    id,
    match: { path: id },
    messageTemplate: "{{id}}",
    model: "acme/large",
    deliver: false,
  })),
];
const PROVIDER = {
  type: "openai-compatible",
  baseUrl: "http://127.0.0.1:9/v1",
  apiKey: "k-0123456789",
};

describe.skipIf(NO_BROWSER)("failures", () => {
  const { world, page } = useConsole({
    config: { hooks: { mappings: MAPPINGS }, models: { providers: { acme: PROVIDER } } },
    // The provider refuses the key.
    fetch: async () => Response.json({ error: { message: "no such key" } }, { status: 401 }),
  });

  const table = () => page.getByRole("region", { name: "Groups of failures" });
  const row = (name: RegExp) => table().getByRole("row", { name });

  it("says that nothing has failed, and which command lists failures", async () => {
    await page.goto(`${world.url}/console#/failures`);
    await page.getByText("Nothing has failed that is not dealt with.").waitFor();
    expect(await page.innerText("main")).toContain("rouse failures");
  });

  it("groups what failed by its cause, and shows a group with an example beside the list", async () => {
    // Its condition leaves this one out, as it should: that is no failure.
    await world.post("/hooks/shop", { type: "refund" });
    for (let n = 0; n < 3; n++) await world.post("/hooks/nowhere", { id: n });
    // The newest is the first row: not in the same millisecond.
    await sleep(5);
    await world.post("/hooks/billing", { id: "<b>a17</b>" });
    await page.reload();
    await row(/No mapping matches hooks on nowhere 3/).waitFor();
    expect((await page.locator("main").innerText()).replaceAll(/\s+/g, " ")).toContain(
      "Fails most often: nowhere 3",
    );
    expect(await table().getByRole("row").count()).toBe(3);
    expect((await row(/Hooks of broken failed/).innerText()).replaceAll(/\s+/g, " ")).toMatch(
      / 1 .* ✗ open/,
    );
    // The list is walked with the keyboard, and the address names the row.
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    await expect.poll(() => page.url()).toMatch(/#\/failures\/fgr_/);
    await page.getByRole("heading", { name: /No mapping matches/ }).waitFor();
    const text = (await page.locator(".detail").innerText()).replaceAll(/\s+/g, " ");
    for (const words of [
      /Count 3/,
      /State unmatched/,
      /Path nowhere/,
      /Senders .* hook nowhere \(hooks\.token\) – 3/,
      /Failures an hour/,
    ])
      expect(text).toMatch(words);
    expect(
      await page.locator(".detail").getByRole("link", { name: /^evt_/ }).getAttribute("href"),
    ).toMatch(/^#\/events\/evt_/);
    expect(await page.getByRole("link", { name: "All events like it" }).getAttribute("href")).toBe(
      "#/events?outcome=unmatched&path=nowhere",
    );
    expect(await page.innerText("body")).not.toMatch(/\[object |undefined|NaN/);
  });

  it("snoozes and reopens a group", async () => {
    await page.locator(".detail").getByRole("combobox", { name: "Snooze" }).selectOption("4h");
    await page.getByText("Snoozed for 4 hours.").waitFor();
    await expect.poll(() => row(/No mapping matches/).count()).toBe(0);
    await page.getByRole("combobox", { name: /^Status/ }).selectOption("snoozed");
    await row(/No mapping matches.*snoozed/).waitFor();
    await page.getByRole("button", { name: "Reopen" }).click();
    await page.getByText("Open again.").waitFor();
    await page.getByText("No group is snoozed.").waitFor();
  });

  it("resolves a group in the config in use, and shows that it came back", async () => {
    await page.getByRole("combobox", { name: /^Status/ }).selectOption("all");
    await page.getByRole("button", { name: "Resolve" }).click();
    await row(/No mapping matches.*resolved/).waitFor();
    await page
      .locator(".detail")
      .getByText(/in config version \d+/)
      .waitFor();
    // A later config changes nothing about it.
    const mappings = [
      ...MAPPINGS,
      { id: "other", match: { path: "other" }, messageTemplate: "{{id}}", deliver: false },
    ];
    await world.reload({ hooks: { mappings }, models: { providers: { acme: PROVIDER } } });
    await world.post("/hooks/nowhere", {});
    await page.reload();
    await row(/No mapping matches.* 4 .*reopened/).waitFor();
    await page
      .locator(".detail")
      .getByText(/came back in config version \d+ after it was resolved in config version \d+/)
      .waitFor();
    const text = await page.locator(".detail").innerText();
    const [, back, resolved] =
      /came back in config version (\d+) after it was resolved in config version (\d+)/.exec(
        text,
      ) ?? [];
    expect(Number(back)).toBe(Number(resolved) + 1);
  });

  it("filters by kind and words, and keeps the filters in the address", async () => {
    await page.getByLabel("Search").fill("billing");
    await expect.poll(() => table().getByRole("row").count()).toBe(2);
    await expect.poll(() => page.url()).toContain("search=billing");
    await page.getByLabel("Kind").selectOption("run");
    await page.getByText("No group matches the search.").waitFor();
    await page.keyboard.press("Escape");
  });

  it("shows what fails at a provider as one group with its senders, and on the overview until it is dealt with", async () => {
    for (const path of ["pager", "ops", "ops"]) await world.post(`/hooks/${path}`, { id: 1 });
    await world.until(async () => {
      const { runs } = (await world.admin("/admin/v1/runs?status=failed")).body;
      return runs.length === 3;
    });
    const { failures } = (await world.admin("/admin/v1/failures?kind=event")).body;
    for (const { id } of failures)
      await world.admin(`/admin/v1/failures/${id}`, {
        method: "POST",
        body: JSON.stringify({ action: "snooze", until: "1d" }),
      });
    await page.goto(`${world.url}/console#/overview`);
    const health = page.locator(".overview-health");
    const failed = health.getByRole("link", { name: "3 runs failed in the last 24 hours" });
    await failed.waitFor();
    expect(await health.locator(".status.warn").innerText()).toContain("Running");
    await failed.click();
    await row(/Runs failed at the provider acme: provider_refused.* 3 .*2 senders/).waitFor();
    await page.keyboard.press("j");
    const senders = page.getByRole("region", { name: "Senders" }).getByRole("table");
    await expect
      .poll(async () => (await senders.innerText()).replaceAll(/\s+/g, " "))
      .toMatch(/hook ops \(hooks\.token\) ops 2 .*hook pager \(hooks\.token\) pager 1 /);
    await page.locator(".detail").getByRole("button", { name: "Resolve", exact: true }).click();
    await page.getByText("Nothing has failed that is not dealt with.").waitFor();
    await page.goto(`${world.url}/console#/overview`);
    await health.getByText("all that it needs can be reached").waitFor();
    await health.locator(".status.good").waitFor();
  });
});
