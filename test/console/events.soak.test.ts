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

  it("keeps up with a flood of events, and its list short", async () => {
    await page.goto(`${world.url}/console#/live`);
    await rows("Live events").first().waitFor();
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
