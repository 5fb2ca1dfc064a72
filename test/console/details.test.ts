import { beforeAll, describe, expect, it } from "vitest";
import { approvalWorld, transferOnce } from "../approvals/world.ts";
import { NO_BROWSER } from "./browser.ts";
import { useConsole } from "./use-console.ts";

const MANY = 60;

describe.skipIf(NO_BROWSER)("details of the console that all pages share", () => {
  const { world, page, context, show } = useConsole(() =>
    approvalWorld({ agent: { approve: ["bank.*"] } }),
  );
  beforeAll(async () => {
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    for (let n = 0; n < MANY; n++)
      await world.post("/hooks/shop", { data: { items: [{ id: n }] }, "odd name": 1 });
    world.model.handler = transferOnce({ to: { "odd name": [{ iban: "DE1" }] }, amount: 50 });
    await world.orderRun({ message: "Pay." });
    await world.open();
  });

  const clipboard = () => page.evaluate<string>("navigator.clipboard.readText()");
  const detail = () => page.locator(".detail");
  const style = (selector: string, name: string) =>
    page.evaluate<string>(`getComputedStyle(document.querySelector("${selector}")).${name}`);
  const box = async (selector: string) => {
    const found = await page.locator(selector).first().boundingBox();
    if (!found) throw new Error(`there is no ${selector}`);
    return found;
  };

  it("keeps the head of a table in sight while its rows scroll", async () => {
    await page.setViewportSize({ width: 1280, height: 500 });
    await show("#/events");
    await expect.poll(() => page.locator("tr[data-id]").count()).toBeGreaterThan(40);
    const [table, before] = [await box(".table"), await box("th")];
    const row = await box("tr[data-id]");
    await page.locator(".table").evaluate((element) => (element.scrollTop = 700));
    await expect.poll(async () => (await box("tr[data-id]")).y).toBeLessThan(row.y - 600);
    const after = await box("th");
    expect([after.y, after.height]).toEqual([before.y, before.height]);
    expect(after.y).toBeGreaterThanOrEqual(table.y);
    // Rows do not shine through it.
    expect(await style("th", "backgroundColor")).not.toMatch(
      /^rgba\(.*, 0(?:\.\d+)?\)$|transparent/,
    );
    await page.setViewportSize({ width: 1280, height: 800 });
  });

  it("sets the width of the detail with the mouse and the arrow keys, and remembers it for each page", async () => {
    const [event] = (await world.admin("/admin/v1/events?path=shop&limit=1")).body.events as {
      id: string;
    }[];
    await show(`#/events/${event?.id}`);
    const divider = page.getByRole("separator", { name: "Width of the list" });
    await divider.waitFor();
    const [split, from] = [await box(".split"), await box(".divider")];
    const y = from.y + from.height / 2;
    await page.mouse.move(from.x + from.width / 2, y);
    await page.mouse.down();
    await page.mouse.move(split.x + split.width * 0.35, y, { steps: 4 });
    await page.mouse.up();
    await expect
      .poll(async () => Math.round(((await box(".split > .list")).width / split.width) * 100))
      .toBeLessThan(37);
    // It lets go.
    await page.mouse.move(split.x + split.width * 0.7, y);
    expect((await box(".split > .list")).width / split.width).toBeLessThan(0.37);
    const share = async () => Number(await divider.getAttribute("aria-valuenow"));
    expect(await share()).toBe(35);
    await divider.focus();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowLeft");
    await expect.poll(share).toBe(39);
    for (let n = 0; n < 30; n++) await page.keyboard.press("ArrowRight");
    await expect.poll(share).toBe(Number(await divider.getAttribute("aria-valuemax")));
    const { width } = await box(".split > .list");
    await page.goto("about:blank");
    await show(`#/events/${event?.id}`);
    await expect.poll(async () => (await box(".split > .list")).width).toBe(width);
    const [run] = (await world.admin("/admin/v1/runs")).body.runs as { id: string }[];
    await show(`#/runs/${run?.id}`);
    await detail().getByRole("heading").first().waitFor();
    expect(await share()).toBe(48);
  });

  it("copies an id, and says so", async () => {
    const [event] = (await world.admin("/admin/v1/events?path=shop&limit=1")).body.events as {
      id: string;
    }[];
    await show(`#/events/${event?.id}`);
    await detail()
      .getByRole("button", { name: `Copy ${event?.id}` })
      .first()
      .click();
    await page.getByText(`Copied ${event?.id}.`).waitFor();
    expect(await clipboard()).toBe(event?.id);
  });

  it("copies the path of a field of a JSON tree as mappings write it", async () => {
    const [approval] = await world.open();
    await show(`#/approvals/${approval?.id}`);
    for (const [name, path] of [
      ["iban", "to.`odd name`[0].iban"],
      ["amount", "amount"],
    ] as const) {
      await detail().locator(".json-key", { hasText: name }).click();
      await page.getByText(`Copied ${path}.`).waitFor();
      expect(await clipboard()).toBe(path);
    }
  });

  it("has the exact time in the title of each time that it says as people do", async () => {
    await show("#/events");
    await page.locator("tr[data-id] time").first().waitFor();
    const times = await page
      .locator("main time")
      .evaluateAll((found) =>
        found.map((time) => [time.getAttribute("datetime"), time.getAttribute("title")]),
      );
    expect(times.length).toBeGreaterThan(40);
    for (const [iso, title] of times) {
      // The second and the year: the relative time has neither.
      const at = new Date(iso ?? "");
      expect(title).toContain(`:${String(at.getSeconds()).padStart(2, "0")}`);
      expect(title).toContain(String(at.getFullYear()));
    }
  });

  it("sets numbers to the right, with figures of one width", async () => {
    await show("#/failures");
    await page.locator("td.number").first().waitFor();
    for (const selector of ["td.number", "th.number"])
      expect(await style(selector, "textAlign")).toMatch(/^(?:right|end)$/);
    expect(await style("td.number", "fontVariantNumeric")).toBe("tabular-nums");
    const [head, cell] = [await box("th.number"), await box("td.number")];
    expect(Math.round(head.x + head.width)).toBe(Math.round(cell.x + cell.width));
  });

  it("shows a skeleton only if an answer takes more than 150 ms", async () => {
    await page.goto("about:blank");
    await page.clock.install();
    // The script of the page is loaded before.
    await show("#/refusals");
    await page.locator("main .empty, main .table").first().waitFor();
    await show("#/failures");
    await page.locator("td.number").first().waitFor();
    let answer = (): void => {};
    const answered = new Promise<void>((resolve) => (answer = resolve));
    await page.route("**/admin/v1/refusals?*", async (route) => {
      await answered;
      await route.continue();
    });
    await page.clock.pauseAt(Date.now() + 3_600_000);
    await page.evaluate(`(() => {
      const send = fetch;
      globalThis.fetch = (path, ...more) => ((globalThis.isAsked ||= String(path).includes("/refusals")), send(path, ...more));
      location.hash = "#/refusals";
    })()`);
    // Effects wait for the clock as well: the request begins within one of these steps.
    const step = async (): Promise<boolean> => {
      await page.clock.runFor(20);
      return page.evaluate<boolean>("globalThis.isAsked === true");
    };
    await expect.poll(step).toBe(true);
    const skeletons = () => page.locator("main .skeleton").count();
    await page.clock.runFor(120);
    expect(await skeletons()).toBe(0);
    await page.clock.runFor(100);
    expect(await skeletons()).toBe(1);
    answer();
    await page.clock.resume();
    await page.locator("main .skeleton").waitFor({ state: "detached" });
    await page.unrouteAll({ behavior: "wait" });
  });
});
