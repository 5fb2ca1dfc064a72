import { DatabaseSync } from "node:sqlite";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { newId } from "../../src/core/ids.ts";
import { NO_BROWSER } from "./browser.ts";
import { useBench } from "./bench.ts";

const STEP_MS = 600_000;

/** Copies the one event of a store until it has so many more, each ten minutes after the one before. */
function addEvents(dir: string, count: number): void {
  const db = new DatabaseSync(join(dir, ".rouse", "rouse.db"));
  const { seq, at } = db.prepare("SELECT seq, at FROM events ORDER BY seq DESC LIMIT 1").get() as {
    seq: number;
    at: number;
  };
  const insert =
    db.prepare(`INSERT INTO events (seq, id, at, path, credential, outcome, mapping, head, actions, body)
    SELECT ?, ?, ?, path, credential, outcome, mapping, head, actions, body FROM events WHERE seq = ?`);
  const first = at - count * STEP_MS;
  db.exec("BEGIN");
  for (let n = 1; n <= count; n++)
    insert.run(seq + n, newId("evt", first + n * STEP_MS), first + n * STEP_MS, seq);
  db.exec(`UPDATE events SET at = ${first} WHERE seq = ${seq}`);
  db.exec(`UPDATE marks SET seq = ${seq + count} WHERE name = 'intake'; COMMIT`);
  db.close();
}

describe.skipIf(NO_BROWSER)("the workbench beside any event", () => {
  const { world, one } = useBench();
  const goto = (hash: string) => one.page.goto(`${world.url}/console${hash}`);

  const sendDeal = (path: string) =>
    world.post(`/hooks/${path}`, { event: "deal.won", id: 7, deal: { title: "Big" } });

  it("leads from a hook to a path that no mapping has to a mapping that takes the next one, with the mouse", async () => {
    const sent = await sendDeal("crm/deals");
    expect([sent.status, sent.body.error.code]).toEqual([404, "no_mapping"]);
    await goto("#/events");
    await one.page.getByRole("row", { name: /crm\/deals/ }).click();
    await one.button("New mapping").click();
    await one.page.waitForURL(`**/console#/mappings/new?event=${sent.headers.get("x-request-id")}`);
    await one.line('path: "crm/deals"').waitFor();
    await one.line('event: "deal.won"').waitFor();
    await one.pane("Request").getByText("Big").waitFor();
    await one.pane("Result").getByText("by crm-deals.event").waitFor();
    expect(await one.pane("Result").locator("mark").allInnerTexts()).toContain("Big");
    await one.pane("What if").getByText("+1 run").waitFor();
    await one.save();
    await one.page.waitForURL(/#\/mappings\/crm-deals\.event/);
    expect(await sendDeal("crm/deals")).toMatchObject({
      status: 202,
      body: { runId: expect.stringMatching(/^run_/) },
    });
    // The next draft for this path has an id of its own. Of a body without fields the message has the whole.
    const other = await world.post("/hooks/crm/deals", { event: "deal.lost", id: 8 });
    await goto(`#/events/${other.body.eventId}`);
    await one.button("New mapping").click();
    await one.pane("Result").getByText("by crm-deals-2.event").waitFor();
    const text = await world.post("/hooks/plain", "Hello", { "content-type": "text/plain" });
    await goto(`#/events/${text.headers.get("x-request-id")}`);
    await one.button("New mapping").click();
    await one.line('path: "plain"').waitFor();
    await one.pane("Result").getByText("by plain.event").waitFor();
    await one.pane("Result").locator("mark", { hasText: "Hello" }).waitFor();
  });

  it("shows what changes in the texts word by word, counts over more events, and names the same events in the dialog that saves", async () => {
    await world.order(140);
    addEvents(world.dir, 1200);
    // An event of another hook is none of the sample.
    await sendDeal("crm");
    await one.open("#/mappings/order");
    await one.pane("Result").getByText("by order").waitFor();
    await one.line("messageTemplate").click();
    await one.page.keyboard.press("End");
    for (let steps = 0; steps < 2; steps++) await one.page.keyboard.press("ArrowLeft");
    await one.page.keyboard.type(" EUR");
    const pane = one.pane("What if");
    await pane.getByText("200 text changed").waitFor();
    await pane.getByLabel("Events").selectOption({ label: "last 10,000" });
    await pane.getByText("1,201 text changed").waitFor();
    await pane.getByText("1 group").click();
    const words = pane.getByRole("figure").first();
    expect((await words.locator("ins").allInnerTexts()).join("").trim()).toBe("EUR");
    expect(await words.locator("pre").innerText()).toContain("Order 7 of 140 EUR");
    const difference = pane.locator(".mappings-counters");
    const compareWithDialog = async (sample: string): Promise<void> => {
      await difference.getByText(sample).waitFor();
      const dialog = await one.openSave();
      expect(await dialog.locator(".mappings-counters").innerText()).toBe(
        await difference.innerText(),
      );
      await one.page.keyboard.press("Escape");
    };
    await compareWithDialog("of 1,201 events of /shop, the oldest ");
    // A condition that no longer holds.
    await pane.getByLabel("Events").selectOption({ label: "last 200" });
    await one.change("$gte", "100", "150");
    await pane.getByText("−200 run").waitFor();
    await compareWithDialog("of the last 200 events of /shop, the oldest ");
  });

  it("says why a comparison has ended early, and waits for it no more", async () => {
    await world.order(40);
    const line = { type: "error", code: "internal", message: "the comparison took too long" };
    await one.page.route("**/admin/v1/what-if", (route) =>
      route.fulfill({ body: `${JSON.stringify(line)}\n` }),
    );
    await one.open("#/mappings/order");
    const pane = one.pane("What if");
    await pane.getByText(line.message).waitFor();
    expect(await pane.getAttribute("aria-busy")).toBe("false");
    await one.page.unroute("**/admin/v1/what-if");
  });

  it("says what failed, and what is gone, in each pane and list", async () => {
    await world.order(40);
    const answer = {
      error: {
        code: "store_unavailable",
        message: "The store does not answer. Look at store.url.",
      },
    };
    const fail = (glob: string) =>
      one.page.route(glob, (route) => route.fulfill({ status: 503, json: answer }));
    await fail("**/admin/v1/events?*");
    await one.open("#/mappings/order");
    await one.pane("Events").getByText("The store does not answer.").waitFor();
    expect(await one.pane("Events").getByText("No event of this path is kept").count()).toBe(0);
    // The pane looks again by itself, too: once it is answered there is no button any more.
    const asked = one.page.waitForRequest("**/admin/v1/events?*");
    await one.pane("Events").getByRole("button", { name: "Try again" }).click();
    await asked;
    await one.page.unroute("**/admin/v1/events?*");
    await one.pane("Events").getByRole("option").first().waitFor();
    await goto("#/mappings/order?event=evt_gone");
    await one.pane("Request").getByText("older than the time for which records are kept").waitFor();
    await fail("**/admin/v1/events?*");
    await goto("#/mappings");
    await one.page.getByText("The store does not answer.").waitFor();
    expect(await one.page.getByRole("row", { name: /^1 order/ }).innerText()).toContain(
      "not known",
    );
    await one.page.unrouteAll({ behavior: "wait" });
    // Neither a mapping nor a page goes by its age.
    for (const [hash, words] of [
      ["#/mappings/nothing", "It may have been renamed or removed."],
      ["#/nothing", "There is no page at this address."],
    ] as const) {
      await goto(hash);
      await one.page.getByText(words).waitFor();
      expect(await one.page.getByText("older than the time").count()).toBe(0);
    }
    await one.page.getByRole("link", { name: "Go to the overview" }).click();
    await one.page.getByRole("heading", { name: "Overview" }).waitFor();
    one.problems.length = 0;
  });
});
