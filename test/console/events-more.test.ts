import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { openStore } from "../../src/store/open.ts";
import { KEEP } from "../store/suite/make.ts";
import { silent } from "../store/home.ts";
import { NO_BROWSER } from "./browser.ts";
import { useConsole } from "./use-console.ts";

const MAPPING = {
  id: "order",
  match: { path: "shop", payload: { type: "order" } },
  messageTemplate: "Order {{id}} of {{total}}",
};

describe.skipIf(NO_BROWSER)("events in the console, further on", () => {
  const { world, page, problems } = useConsole({ config: { hooks: { mappings: [MAPPING] } } });
  const send = async (id: number): Promise<string> =>
    (await world.post("/hooks/shop", { type: "order", id, total: 240 })).body.eventId;

  it("compares an event with another one on Live without leaving it", async () => {
    const [first, second] = [await send(7), await send(8)];
    await page.goto(`${world.url}/console#/live`);
    await page.locator(`tr[data-id="${second}"]`).click();
    await page.getByRole("button", { name: "Compare", exact: true }).click();
    const dialog = page.getByRole("dialog", { name: "Compare" });
    await dialog.getByRole("button", { name: new RegExp(first.slice(-8)) }).click();
    await dialog
      .getByRole("row", { name: /id\s+7|id\s+8/ })
      .first()
      .waitFor();
    expect(page.url()).toContain(`#/live/${second}`);
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    await page.getByRole("heading", { name: "Live" }).waitFor();
    const third = await send(9);
    await page.locator(`tr[data-id="${third}"]`).waitFor();
    await page.keyboard.press("k");
    await page.waitForURL(new RegExp(third));
    expect(problems).toEqual([]);
  });

  it("says how far a search has looked, and goes on from there", async () => {
    const { events } = (await world.admin("/admin/v1/events?limit=2")).body as {
      events: { receivedAt: string }[];
    };
    const [newest, older] = events;
    let searches = 0;
    await page.route("**/admin/v1/events?*search=needle*", (route) => {
      searches++;
      const isMore = route.request().url().includes("before=");
      const rest = isMore
        ? { next: null, searchedTo: null, looked: 3 }
        : { next: "2", searchedTo: older?.receivedAt, looked: 10_000 };
      return route.fulfill({ json: { ok: true, events: isMore ? [newest] : [], ...rest } });
    });
    await page.goto(`${world.url}/console#/events?search=needle`);
    await page.getByText(/Looked at 10,000 events back to .*\./).waitFor();
    await page.getByRole("button", { name: "Look further" }).click();
    await page.locator("tbody tr[data-id]").first().waitFor();
    await page.getByText("Looked at all 10,003 events.").waitFor();
    expect(searches).toBeGreaterThan(1);
    await page.unrouteAll({ behavior: "wait" });
    await page.getByRole("searchbox", { name: "Search events" }).fill("payload.type:order 240");
    await page.getByText(/Looked at all \d events\./).waitFor();
    await page.locator("tbody tr[data-id]").first().waitFor();
  });

  it("keeps a bookmarked event with its body beyond the retention, until the bookmark is taken away", async () => {
    const [kept, gone] = [await send(10), await send(11)];
    const isDone = async (id: string): Promise<boolean> =>
      (await world.admin(`/admin/v1/events/${id}`)).body.event.actions[0].status === "succeeded";
    for (const id of [kept, gone]) await world.until(() => isDone(id));
    await page.goto(`${world.url}/console#/events/${kept}`);
    await page.getByRole("button", { name: "☆ Bookmark" }).click();
    await page.getByRole("button", { name: "★ Remove the bookmark" }).waitFor();
    const { store } = await openStore({
      url: `sqlite:${join(world.dir, ".rouse", "rouse.db")}`,
      clock: systemClock,
      log: silent,
    });
    await store.sweep(Date.now() + 100 * KEEP.events, KEEP);
    await store.close();
    expect((await world.admin(`/admin/v1/events/${gone}`)).status).toBe(404);
    await page.goto(`${world.url}/console#/events/${gone}`);
    await page.getByText("older than the time for which records are kept").waitFor();
    await page.goto(`${world.url}/console#/events?bookmarked=1`);
    await page.locator(`tr[data-id="${kept}"]`).click();
    await page.getByRole("button", { name: "★ Remove the bookmark" }).waitFor();
    await page.getByRole("region", { name: "Request" }).getByText("240").first().waitFor();
  });
});
