import { DatabaseSync } from "node:sqlite";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { newId } from "../../src/core/ids.ts";
import { scale } from "../soak.ts";
import { createWorld, TOKEN, type World } from "../e2e/world.ts";
import { NO_BROWSER, openBrowser } from "./browser.ts";
import { openConsole } from "./console.ts";

const EVENTS = scale(10_000, 50_000);
/** Rows that a list has at most, however many events there are. */
const MAX_ROWS = 200;
const FLOOD = scale(300, 5000);
/** Hooks of the flood that wait for their answers at the same time. */
const AT_ONCE = 20;

/** Copies the one event of a store until it has so many. */
function fill(file: string): void {
  const db = new DatabaseSync(file);
  const now = Date.now();
  const insert =
    db.prepare(`INSERT INTO events (seq, id, at, path, credential, outcome, mapping, head, actions, body)
    SELECT ?, ?, ?, ?, credential, 'unmatched', NULL, head, NULL, body FROM events WHERE seq = 1`);
  db.exec("BEGIN");
  for (let seq = 2; seq <= EVENTS; seq++)
    insert.run(seq, newId("evt", now - EVENTS + seq), now - EVENTS + seq, `path-${seq % 23}`);
  db.exec(`UPDATE marks SET seq = ${EVENTS} WHERE name = 'intake'; COMMIT`);
  db.close();
}

describe.skipIf(NO_BROWSER)(`the console with ${EVENTS} events`, () => {
  let world: World;
  let browser: Awaited<ReturnType<typeof openBrowser>>;
  let page: Page;
  let problems: string[];
  const config = {
    hooks: {
      mappings: [{ id: "order", match: { path: "shop" }, messageTemplate: "Order {{id}}" }],
    },
  };
  beforeAll(async () => {
    world = await createWorld({ config, workers: false });
    await world.post("/hooks/path-0", { id: 1 });
    const { dir } = world;
    await world.until(async () => (await world.admin("/admin/v1/events")).body.events.length === 1);
    await world.gateway.stop();
    fill(join(dir, ".rouse", "rouse.db"));
    world = await createWorld({ config, workers: false, dir });
    browser = await openBrowser();
    ({ page, problems } = await openConsole(browser.context, world));
  });
  afterAll(async () => {
    await browser?.close();
    await world?.stop();
  });

  const rows = (name: string) =>
    page.getByRole("region", { name, exact: true }).locator("tbody tr[data-id]");

  it("opens the list with the newest page of events alone", async () => {
    await page.goto(`${world.url}/console#/refusals`);
    await page.getByRole("heading", { name: "Refused" }).waitFor();
    const asked: string[] = [];
    page.on(
      "request",
      (request) => void (/\/admin\/v1\/events\?/.test(request.url()) && asked.push(request.url())),
    );
    // A text: the types of the tests know no window.
    await page.evaluate('location.hash = "#/events"');
    await expect.poll(() => rows("Events").count()).toBeGreaterThanOrEqual(50);
    expect(await rows("Events").count()).toBeLessThan(MAX_ROWS);
    expect(asked.length).toBeGreaterThan(0);
    expect(asked.filter((url) => url.includes("before="))).toEqual([]);
  });

  it("scrolls to older events without a gap", async () => {
    const table = page.getByRole("region", { name: "Events", exact: true });
    const count = async (): Promise<number> =>
      Number(await table.locator("table").getAttribute("aria-rowcount"));
    await expect
      .poll(async () => {
        await table.evaluate((box) => box.scrollTo(0, box.scrollHeight));
        return count();
      })
      .toBeGreaterThanOrEqual(600);
    const listed: string[] = [];
    for (let before = ""; listed.length < 600;) {
      const { body } = await world.admin(`/admin/v1/events?limit=500${before}`);
      listed.push(...(body.events as { id: string }[]).map(({ id }) => id));
      before = `&before=${body.next as string}`;
    }
    const seen: string[] = [];
    for (let top = 0; seen.length < 600; top += 400) {
      // Rows are made after the list was scrolled: wait until they cover what is to be seen of it.
      const shown = await table.evaluate(async (box, to) => {
        box.scrollTo(0, to);
        for (;;) {
          await new Promise((painted) => setTimeout(painted, 10));
          const made = [...box.querySelectorAll("tbody tr[data-id]")];
          const area = box.getBoundingClientRect();
          const [first, last] = [
            made[0]?.getBoundingClientRect().top,
            made.at(-1)?.getBoundingClientRect().bottom,
          ];
          // At the top, the header stands above the first row; rows of where the list was before are still below.
          const isFirst = box.scrollTop === 0 && first < area.bottom;
          if (last >= area.bottom && (first <= area.top || isFirst))
            return made.map((row) => row.getAttribute("data-id") as string);
        }
      }, top);
      for (const id of shown) if (!seen.includes(id)) seen.push(id);
    }
    expect(seen).toEqual(listed.slice(0, seen.length));
    expect(problems).toEqual([]);
  });

  it("shows each event in Live", async () => {
    await page.goto(`${world.url}/console#/live`);
    await rows("Live events").first().waitFor();
    for (let n = 0; n < 20; n++) {
      const { body } = await world.post("/hooks/shop", { id: n });
      await page.locator(`tbody tr[data-id="${body.eventId as string}"]`).waitFor();
    }
  });

  it("keeps up with a flood of events, and its list short", async () => {
    // Without the checks that a world makes of each answer: they would take more time than the gateway.
    const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
    const send = async (id: number): Promise<string> => {
      const init = { method: "POST", headers, body: JSON.stringify({ id }) };
      const response = await world.gateway.fetch(new Request("http://127.0.0.1/hooks/shop", init));
      const { eventId } = (await response.json()) as { eventId: string };
      if (!response.ok) throw new Error(`the gateway answered ${response.status}`);
      return eventId;
    };
    let sent = 0;
    const sendNext = async (): Promise<void> => {
      while (sent < FLOOD) await send(sent++);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, sendNext));
    const last = await send(sent);
    await page.locator(`tbody tr[data-id="${last}"]`).waitFor();
    expect(await rows("Live events").count()).toBeLessThan(MAX_ROWS);
    expect(problems).toEqual([]);
  });
});
