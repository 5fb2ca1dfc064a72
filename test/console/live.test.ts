import { describe, expect, it } from "vitest";
import { NO_BROWSER } from "./browser.ts";
import { useConsole } from "./use-console.ts";

describe.skipIf(NO_BROWSER)("the console's live list", () => {
  const { world, page, show, region } = useConsole({
    config: {
      hooks: {
        mappings: [{ id: "order", match: { path: "shop" }, messageTemplate: "Order {{id}}" }],
      },
    },
  });

  const rows = () => region("Live events").locator("tbody tr[data-id]");
  const announcer = () => page.locator("[data-live]");
  const post = async (path: string): Promise<string> => {
    const { body, headers } = await world.post(`/hooks/${path}`, { id: 7 });
    return (body.eventId as string | undefined) ?? (headers.get("x-request-id") as string);
  };

  it("shows a line to paste while nothing has come in, and then what comes in, the newest first", async () => {
    await show("#/live");
    await page.getByText("Events show here as they come in.").waitFor();
    const first = await post("shop");
    await rows().first().waitFor();
    const second = await post("nowhere");
    await expect.poll(() => rows().count()).toBe(2);
    expect(
      await rows().evaluateAll((all) =>
        all.map((row) => (row as unknown as { dataset: { id: string } }).dataset.id),
      ),
    ).toEqual([second, first]);
  });

  it("counts what waits while it is paused, says nothing meanwhile, and shows all of it when it continues", async () => {
    const before = await rows().count();
    expect(await announcer().getAttribute("aria-live")).toBe("polite");
    await page.keyboard.press("p");
    await page.getByRole("button", { name: "Go on" }).waitFor();
    expect(await announcer().getAttribute("aria-live")).toBe("off");
    await post("shop");
    await post("shop");
    await page.getByText("2 waiting").waitFor();
    expect(await rows().count()).toBe(before);
    await page.getByRole("button", { name: "Go on" }).click();
    await expect.poll(() => rows().count()).toBe(before + 2);
    await expect
      .poll(() => announcer().innerText())
      .toBe("2 new events. The newest: shop, accepted.");
  });

  it("keeps filters in the address, and explains an event beside the list", async () => {
    await show("#/live?outcome=unmatched");
    await expect.poll(() => rows().count()).toBe(1);
    await post("shop");
    const last = await post("nowhere");
    await expect.poll(() => rows().first().getAttribute("data-id")).toBe(last);
    expect(await rows().count()).toBe(2);
    await page.keyboard.press("j");
    await region("Why").waitFor();
    expect(page.url()).toContain(`#/live/${last}?outcome=unmatched`);
    await page.keyboard.press("Escape");
  });

  it("continues behind the last event, without a gap, after the stream has ended", async () => {
    const { events } = (await world.admin("/admin/v1/events?limit=1")).body as {
      events: { id: string }[];
    };
    const [last] = events;
    const missed = [await post("shop"), await post("shop")];
    const asked: string[] = [];
    await page.route("**/admin/v1/stream?**", async (route) => {
      asked.push(new URL(route.request().url()).search);
      const body = `${JSON.stringify({ type: "event", event: last })}\n`;
      await (asked.length === 1
        ? route.fulfill({ contentType: "application/x-ndjson", body })
        : route.continue());
    });
    await show("#/events");
    await show("#/live");
    await expect.poll(() => rows().count()).toBe(3);
    expect(asked).toEqual(["?lines=50", `?after=${last?.id}`]);
    expect(await rows().first().getAttribute("data-id")).toBe(missed[1]);
    await page.unroute("**/admin/v1/stream?**");
  });

  it("has no stream while the page is hidden, and continues without a gap when it is visible", async () => {
    const see = (isSeen: boolean): Promise<void> =>
      page.evaluate(`Object.defineProperty(document, "hidden", { configurable: true, get: () => ${!isSeen} });
        document.dispatchEvent(new Event("visibilitychange"))`);
    const asked: string[] = [];
    const ended: string[] = [];
    const note = (to: string[]) => (request: { url(): string }) => {
      if (request.url().includes("/admin/v1/stream?")) to.push(new URL(request.url()).search);
    };
    page.on("request", note(asked));
    page.on("requestfailed", note(ended));
    await show("#/events");
    await show("#/live");
    await rows().first().waitFor();
    const before = await rows().count();
    const last = await rows().first().getAttribute("data-id");
    await see(false);
    await expect.poll(() => ended).toHaveLength(1);
    const missed = [await post("shop"), await post("shop")];
    expect(asked).toEqual(["?lines=50"]);
    await see(true);
    await expect.poll(() => rows().count()).toBe(before + 2);
    expect(asked).toEqual(["?lines=50", `?after=${last}`]);
    expect(await rows().first().getAttribute("data-id")).toBe(missed[1]);
  });

  it("says how many events came in faster than they are sent, and where they are", async () => {
    const { events } = (await world.admin("/admin/v1/events?limit=1")).body as { events: object[] };
    // Once: the page opens a stream that has ended again, and counts on.
    await page.route(
      "**/admin/v1/stream?**",
      (route) =>
        route.fulfill({
          contentType: "application/x-ndjson",
          body: `${JSON.stringify({ type: "event", event: events[0] })}\n${JSON.stringify({ type: "skipped", count: 1234 })}\n`,
        }),
      { times: 1 },
    );
    await show("#/events");
    await show("#/live?path=shop");
    await page.getByText("1,234 events came in faster than they are shown here.").first().waitFor();
    expect(
      await page.getByRole("link", { name: "Events has all of them." }).getAttribute("href"),
    ).toBe("#/events?path=shop");
  });
});
