import { describe, expect, it } from "vitest";
import { NO_BROWSER } from "./browser.ts";
import { useConsole } from "./use-console.ts";

const MAPPING = {
  id: "order",
  match: { path: "shop", payload: { type: "order" } },
  messageTemplate: "Order {{id}} of {{total}}",
};

describe.skipIf(NO_BROWSER)("events in the console, further on", () => {
  const { world, page, show } = useConsole({ config: { hooks: { mappings: [MAPPING] } } });
  const send = async (id: number): Promise<string> =>
    (await world.post("/hooks/shop", { type: "order", id, total: 240 })).body.eventId;

  it("compares an event with another one on Live without leaving it", async () => {
    const [first, second] = [await send(7), await send(8)];
    await show("#/live");
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
  });

  it("says how far a search has looked, and continues from there", async () => {
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
    await page.clock.install();
    await show("#/events?search=needle");
    await page.getByText(/0 rows of 10,000 looked at, back to .*\./).waitFor();
    await page.getByRole("button", { name: "Look further" }).click();
    await page.locator("tbody tr[data-id]").first().waitFor();
    // The page does not repeat the search by itself, so the found rows stay.
    await page.clock.runFor(20_000);
    await page.getByText("1 row of 10,003 looked at, no older ones.").waitFor();
    await page.locator("tbody tr[data-id]").first().waitFor();
    expect(searches).toBe(2);
    await page.unrouteAll({ behavior: "wait" });
    await page.getByRole("searchbox", { name: "Search events" }).fill("payload.type:order 240");
    await page.getByText(/\d rows, no older ones\./).waitFor();
    await page.locator("tbody tr[data-id]").first().waitFor();
  });
});
