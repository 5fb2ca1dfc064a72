import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createWorld, type World } from "../e2e/world.ts";
import { NO_BROWSER, openBrowser } from "./browser.ts";
import { openConsole } from "./console.ts";

describe.skipIf(NO_BROWSER)("the replay of many events in the console", () => {
  let world: World;
  let browser: Awaited<ReturnType<typeof openBrowser>>;
  let page: Page;
  let problems: string[];

  beforeAll(async () => {
    world = await createWorld({
      workers: false,
      config: { hooks: { mappings: [{ id: "a", match: { path: "a" }, messageTemplate: "{{x}}" }] } },
    });
    browser = await openBrowser();
    ({ page, problems } = await openConsole(browser.context, world));
  }, 60_000);
  afterAll(async () => {
    await browser?.close();
    await world?.stop();
  });

  const unmatched = async (): Promise<number> => (await world.admin("/admin/v1/events?outcome=unmatched")).body.events.length;

  it("shows what would become of each, and then replays what the filters leave", async () => {
    const mappings = [{ id: "a", match: { path: "shop", payload: { kind: "order" } }, messageTemplate: "Order {{n}}" }];
    world.write("rouse.json5", {
      gateway: { port: 0 },
      hooks: {
        enabled: true,
        token: "test-hook-token-0123456789",
        mappings: [{ ...mappings[0], match: { path: "shop", payload: { kind: "none" } } }],
      },
    });
    expect(await world.gateway.reload()).toMatchObject({ ok: true });
    for (const n of [1, 2]) await world.post("/hooks/shop", { kind: "order", n });
    world.write("rouse.json5", { gateway: { port: 0 }, hooks: { enabled: true, token: "test-hook-token-0123456789", mappings } });
    expect(await world.gateway.reload()).toMatchObject({ ok: true });
    await page.goto(`${world.url}/console#/events?outcome=unmatched&path=shop`);
    await page.getByRole("button", { name: "Replay many…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("2 events would be replayed.").waitFor();
    expect(await dialog.innerText()).toMatch(/accepted[^]*Order 1[^]*Order 2/);
    expect(await unmatched()).toBe(2);
    await dialog.getByRole("button", { name: "Replay 2 events" }).click();
    await dialog.getByText("2 of 2 events replayed.").waitFor();
    expect((await world.admin("/admin/v1/events?outcome=accepted&path=shop")).body.events).toHaveLength(2);
    expect(problems).toEqual([]);
  });
});
