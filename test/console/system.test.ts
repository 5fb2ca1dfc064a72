import { describe, expect, it } from "vitest";
import { NO_BROWSER } from "./browser.ts";
import { getText, useConsole } from "./use-console.ts";

describe.skipIf(NO_BROWSER)("the system page", () => {
  const { world, page, problems, show, region } = useConsole({
    config: {
      hooks: {
        limits: { runsPerHour: 50 },
        mappings: [{ id: "order", match: { path: "shop" }, messageTemplate: "{{id}}" }],
      },
      agents: {
        list: [
          {
            id: "main",
            name: "Clerk",
            schedules: [{ id: "daily", cron: "0 8 * * *", prompt: "Look around.", deliver: false }],
          },
        ],
      },
      mcp: { servers: { docs: { url: "http://127.0.0.1:9/mcp" } } },
    },
  });

  const open = async (part: string, words: string): Promise<string> => {
    await show(`#/system/${part}`, words);
    const text = await getText(page.locator("main"));
    expect(text).not.toMatch(/\[object |undefined|NaN/);
    return text;
  };

  it("shows the process, breakers, MCP servers, limits, the gateways, and the store", async () => {
    await show("#/system");
    const text = await open("gateway", "of 50");
    for (const words of [
      /State folder \S*\.rouse/,
      /No model and no channel is away/,
      /docs – idle/,
      /hooks 0 of 50/,
      /\(this one\)/,
      /runs none/i,
    ])
      expect(text).toMatch(words);
  });

  it("shows the tabs of all its parts in a window of 768 pixels", async () => {
    const before = page.viewportSize();
    await page.setViewportSize({ width: 768, height: 900 });
    await open("gateway", "of 50");
    const tabs = await page
      .getByRole("tablist", { name: "Parts of the system" })
      .getByRole("tab")
      .all();
    expect(tabs).toHaveLength(9);
    for (const tab of tabs) {
      const { x = 0, width = 0 } = (await tab.boundingBox()) ?? {};
      expect(x + width).toBeLessThanOrEqual(768);
    }
    if (before) await page.setViewportSize(before);
  });

  it("shows schedules, and runs them", async () => {
    expect(await open("schedules", "main/daily")).toMatch(
      /main\/daily 0 8 \* \* \* UTC Look around\..*main\/heartbeat every 30m heartbeat/,
    );
    const row = page.getByRole("row", { name: /main\/daily/ });
    await row.getByRole("button", { name: "Run now" }).click();
    await page.getByText("main/daily was started.").waitFor();
    expect((await world.admin("/admin/v1/schedules/main/daily")).body.schedule).toMatchObject({
      last: { manual: true },
    });
  });

  it("shows agents, plugins, mappings and paths", async () => {
    expect(await open("agents", "Clerk")).toMatch(/main \(default\) Clerk builtin\/echo/);
    expect(await open("mappings", "order")).toMatch(/order ✓ enabled agent shop .*config/);
    expect(await page.getByRole("link", { name: "order" }).getAttribute("href")).toBe(
      "#/mappings/order",
    );
    await region("Paths").getByText("hooks.token").first().waitFor();
  });

  it("shows channels with their reach, and sends a test message", async () => {
    await open("channels", "console");
    await expect.poll(() => getText(page.locator("main"))).toMatch(/console ✓ yes/);
    // One row for a channel, whatever else it may be called.
    const rows = await region("Channels").getByRole("row").allInnerTexts();
    expect(
      rows
        .filter((text) => /telegram|\btg\b/.test(text))
        .map((text) => text.replaceAll(/\s+/g, " ")),
    ).toEqual([expect.stringMatching(/^telegram or tg .*no/)]);
    await region("Reach").getByText("console").waitFor();
    await page
      .getByRole("row", { name: /^console/ })
      .getByRole("button", { name: "Send a test message" })
      .click();
    await page.getByRole("textbox", { name: /^To/ }).fill("me");
    await page.getByRole("textbox", { name: /^Text/ }).fill("Is this on?");
    await page.getByRole("button", { name: "Send", exact: true }).click();
    await page.getByText("Sent to me.").waitFor();
    expect(world.printed.join("")).toContain("Is this on?");
  });

  it("makes a key that is shown once, and revokes it", async () => {
    await open("keys", "No key has been made");
    await page.getByRole("button", { name: "New key" }).click();
    await page.getByRole("textbox", { name: /^Id/ }).fill("web");
    await page.getByRole("button", { name: "Create the key" }).click();
    const dialog = page.getByRole("dialog", { name: "The key web" });
    const secret = await dialog.locator("pre").innerText();
    const models = (): Promise<number> =>
      fetch(`${world.url}/v1/models`, { headers: { authorization: `Bearer ${secret}` } }).then(
        ({ status }) => status,
      );
    expect(await models()).toBe(200);
    await dialog.getByRole("button", { name: "Done" }).click();
    await page.getByRole("row", { name: /web/ }).waitFor();
    expect(await page.innerText("main")).not.toContain(secret);
    await page.getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await page.getByText("No key has been made").waitFor();
    expect(await models()).toBe(401);
  });

  it("lists all checks of the doctor, those that need a look first", async () => {
    const text = await open("doctor", "disk-space");
    expect(text).toMatch(/Doctor Check again ● warn/);
    expect(text).toMatch(/✓ ok store takes writes/);
  });

  it("shows the config with its secrets masked, and loads it again", async () => {
    const text = await open("config", "The config in use is the one on disk");
    expect(text).toMatch(/token"\*\*\*" path"\/hooks"/);
    expect(text).not.toContain("test-hook-token");
    await page.getByRole("button", { name: "Load it again" }).click();
    await page.getByText(/^The config \S+ is in use/).waitFor();
    world.write("rouse.json5", "{ hooks: { enabled: 'maybe' } }");
    await page.getByRole("button", { name: "Load it again" }).click();
    await page.getByText("hooks.enabled").first().waitFor();
    await page.getByText("the config has problems; the one before it stays in use").waitFor();
    problems.length = 0;
  });
});
