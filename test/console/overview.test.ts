import { beforeAll, describe, expect, it } from "vitest";
import { openStoreIn } from "../store/home.ts";
import { NO_BROWSER } from "./browser.ts";
import { getText, useConsole } from "./use-console.ts";

describe.skipIf(NO_BROWSER)("the overview", () => {
  const { world, page, show, region } = useConsole({
    config: {
      hooks: {
        mappings: [
          {
            id: "order",
            match: { path: "shop", payload: { type: "order" } },
            messageTemplate: "{{id}}",
          },
        ],
      },
    },
  });
  beforeAll(async () => {
    // The page is open before the first hook comes in: all that it shows of it came later.
    await page.getByText("No run has ended in the last 14 days.").waitFor();
    const { runId } = (
      await world.post("/hooks/agent", { message: "An order of 240", name: "Shop" })
    ).body;
    expect((await world.endedRun(runId)).status).toBe("succeeded");
    await world.post("/hooks/nowhere", {});
    await world.post("/hooks/nowhere", {});
    await show("#/overview");
  });

  const words = (name: string) => getText(region(name));

  it("says in one line how the gateway is, and counts what came in, each a link to the list of it", async () => {
    await page.getByRole("link", { name: "2 hooks failed in the last 24 hours" }).waitFor();
    const text = await page.innerText("main");
    expect(text).toMatch(/Running/);
    expect(text).toMatch(/Version \S+, config \S*rouse\.json5, since/);
    expect(
      await page.getByRole("link", { name: "accepted 1", exact: true }).getAttribute("href"),
    ).toBe("#/events?outcome=accepted");
    expect(
      await page.getByRole("link", { name: "unmatched 2", exact: true }).getAttribute("href"),
    ).toBe("#/events?outcome=unmatched");
    for (const name of [
      "rejected",
      "failed events",
      "runs queued",
      "runs failed",
      "deliveries waiting",
      "deliveries failed",
      "replies without a route",
    ])
      await page.getByRole("link", { name: new RegExp(`^${name} \\d+$`) }).waitFor();
    expect(text).not.toMatch(/\[object |undefined|NaN/);
  });

  it("draws hooks a minute by outcome with a legend, and shows latencies, tokens and what waits", async () => {
    const chart = page.getByRole("figure").first();
    await chart.getByText("Hooks a minute by outcome: 3 in all").waitFor();
    const legend = await chart.locator(".legend").innerText();
    expect(legend.split(/\s+/)).toEqual(["accepted", "unmatched"]);
    expect(await words("Latency")).toMatch(
      /Answer to a hook [\d.]+ (ms|s) [\d.]+ (ms|s) [\d.]+ (ms|s) 3/,
    );
    expect(await words("Latency")).toMatch(/Run [\d.]+ (ms|s)/);
    expect(await words("Waiting")).toMatch(/Nothing waits/);
    await expect
      .poll(() => words("Tokens and cost a day"))
      .toMatch(/for 0 tokens in \d runs? Day \(UTC\) Runs/);
    await page.getByLabel("Time").selectOption("24h");
    await expect.poll(() => page.url()).toContain("since=24h");
    await page.getByText("Hooks a minute by outcome: 3 in all").waitFor();
  });

  it("lists the groups of failures, what the doctor found, and leads to each", async () => {
    await region("Failures").getByText("2×").waitFor();
    expect(await words("Failures")).toMatch(/2× No mapping matches hooks on nowhere/);
    expect(await words("Doctor")).toMatch(/model no model for main/);
    expect(await words("Mappings")).toMatch(/Lint shows no problem/);
    await region("Failures")
      .getByRole("link", { name: /No mapping matches/ })
      .click();
    await page.getByRole("heading", { name: "Failures" }).waitFor();
    await page.goBack();
    await region("Doctor").getByRole("link", { name: "model" }).click();
    await page.getByRole("tab", { name: "Agents and plugins", selected: true }).waitFor();
  });

  it("says what runs are parked for, and until when", async () => {
    const { runId: held } = (
      await world.post("/hooks/agent", {
        message: "Hold it",
        sessionKey: "hook:held",
        name: "Held",
      })
    ).body;
    expect((await world.endedRun(held)).status).toBe("succeeded");
    const { store } = await openStoreIn(world.dir);
    const now = Date.now();
    const hold = { reason: "away", of: "acme/large", since: now, until: now + 3_600_000 } as const;
    await store.commit((tx) => tx.runs.update(held, { status: "parked", hold, endedAt: null }));
    await store.close();
    await show("#/overview");
    await page.getByText("waiting for the model acme/large").waitFor();
    expect(await words("Waiting")).toMatch(
      /1 run waiting for the model acme\/large, which does not answer · next try in (1 h|60 min)/,
    );
  });

  it("says of a next try whose time has passed that it is due", async () => {
    const { runs } = (await world.admin("/admin/v1/runs?status=parked")).body;
    const { store } = await openStoreIn(world.dir);
    const until = Date.now() - 420_000;
    const hold = { reason: "away", of: "acme/large", since: until, until } as const;
    await store.commit((tx) => tx.runs.update(runs[0].id, { hold }));
    await store.close();
    await page.reload();
    await page.getByText("waiting for the model acme/large").waitFor();
    expect(await words("Waiting")).toMatch(/which does not answer · next try due/);
  });

  it("shows the problems of the config on disk", async () => {
    world.write("rouse.json5", "{ hooks: { enabled: 'maybe' } }");
    await world.admin("/admin/v1/reload", { method: "POST" });
    await page.reload();
    await region("Problems of the config on disk").waitFor();
    expect(await words("Problems of the config on disk")).toMatch(
      /the one before it is in use .*hooks\.enabled: /,
    );
    await region("Doctor").getByRole("link", { name: "model" }).waitFor();
    expect((await page.innerText("main")).match(/hooks\.enabled/g)).toHaveLength(1);
  });
});
