import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { NO_BROWSER } from "./browser.ts";
import { getText, useConsole } from "./use-console.ts";

const MAPPINGS = [
  {
    id: "order.big",
    match: { path: "shop", payload: { type: "order.created", "data.total": { $gte: 100 } } },
    messageTemplate: "Order {{data.id}} over {{data.total}} from {{data.customer.name}}.",
    sessionKey: "hook:shop:{{data.id}}",
    name: "Order of {{data.customer.name}}",
  },
  { id: "issue", match: { path: "tracker" }, messageTemplate: "{{title}} and {{missing}}" },
  { id: "prints", match: { path: "prints" }, transform: { module: "prints.js" } },
  { id: "sums", match: { path: "sums" }, transform: { jsonata: "{ 'message': 1 + a }" } },
  {
    id: "shadowed",
    shadow: true,
    match: { path: "shadowed" },
    messageTemplate: "{{a}} and {{missing}}",
    name: "{{a}}",
  },
];
const order = (id: number, total: number | string) => ({
  type: "order.created",
  data: { id, total, customer: { name: "Ann" }, lines: [{ sku: "tea" }] },
});

describe.skipIf(NO_BROWSER)("the console's events", () => {
  const prints =
    "export default ({ payload }) => { console.warn(payload.a); throw new Error('no ' + payload.a); };";
  const { world, page, context, problems, show, region } = useConsole({
    config: { hooks: { mappings: MAPPINGS } },
    files: { "transforms/prints.js": prints },
  });
  let accepted: string;
  let second: string;
  let unmatched: string;
  const post = async (
    path: string,
    body: unknown,
    headers?: Record<string, string>,
  ): Promise<string> => {
    const answer = await world.post(`/hooks/${path}`, body, headers);
    return (
      (answer.body.eventId as string | undefined) ?? (answer.headers.get("x-request-id") as string)
    );
  };
  beforeAll(async () => {
    accepted = await post("shop", order(7, 240));
    second = await post("shop", order(8, 300), { "x-shop": "other" });
    unmatched = await post("shop", order(9, "240"));
    await post("tracker", { title: "It is broken" });
    await post("nowhere", {});
    await post("shadowed", { a: 1 });
    await world.until(
      async () =>
        (await world.admin(`/admin/v1/events/${accepted}`)).body.event.actions[0].status ===
        "succeeded",
    );
    await page.setViewportSize({ width: 1280, height: 800 });
  });

  const words = (name: string) => getText(region(name));
  const rows = () => region("Events").locator("tbody tr[data-id]");

  it("lists what came in, with outcome, mapping, names of work and reason", async () => {
    await show("#/events");
    await rows().nth(5).waitFor();
    const text = await words("Events");
    expect(text).toMatch(/✓ accepted order\.big shop Order of Ann/);
    expect(text).toMatch(/● unmatched shop .*data\.total/);
    expect(text).not.toMatch(/\[object |undefined|NaN|\bHook\b/);
  });

  it("keeps filters in the address, and goes through the rows with j and k", async () => {
    await show("#/events");
    await page.getByRole("combobox", { name: "Outcome" }).selectOption("unmatched");
    await expect.poll(() => rows().count()).toBe(2);
    expect(page.url()).toContain("outcome=unmatched");
    await page.getByRole("combobox", { name: "Path" }).fill("shop");
    await page.keyboard.press("Enter");
    await expect.poll(() => rows().count()).toBe(1);
    await show("#/events?mapping=order.big");
    await expect.poll(() => rows().count()).toBe(2);
    await page.keyboard.press("j");
    await page.getByRole("heading", { name: "order.big" }).waitFor();
    expect(page.url()).toContain(`#/events/${second}?mapping=order.big`);
    await page.keyboard.press("j");
    await expect.poll(() => page.url()).toContain(accepted);
    await page.keyboard.press("Escape");
    await expect.poll(() => page.url()).not.toContain(accepted);
  });

  it("searches words and fields of bodies with /, and says when nothing matches", async () => {
    await show("#/events");
    await rows().first().waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("data.lines.sku:tea data.id:7");
    await expect.poll(() => rows().count()).toBe(1);
    expect(await rows().first().getAttribute("data-id")).toBe(accepted);
    await page.getByLabel("Search events").fill("data.id:70");
    await page.getByText("No event matches these filters.").waitFor();
    await page.getByRole("button", { name: "Clear the filters" }).click();
    await rows().nth(5).waitFor();
  });

  it("explains why an event matched nothing: each condition with what it expected and saw, and where the mapping is written", async () => {
    await show(`#/events/${unmatched}`);
    await region("Why").waitFor();
    const why = await words("Why");
    expect(why).toMatch(/order\.big does not match .*rouse\.json5:\d+/);
    expect(why).toMatch(/✗ match\.payload\.data\.total \$gte 100 .*is the text "240"/);
    expect(await words("Result")).toContain("no mapping matches");
  });

  it("shows the rendered result with the sender's words marked, the runs that it made, and the request", async () => {
    await show(`#/events/${accepted}`);
    await region("Result").waitFor();
    expect(await region("Result").locator("mark").allInnerTexts()).toEqual(["7", "240", "Ann"]);
    expect(await words("Runs")).toMatch(/succeeded Order of Ann run_…/);
    expect(await region("Runs").getByRole("link").first().getAttribute("href")).toMatch(
      /^#\/runs\/run_/,
    );
    await region("Request").getByRole("button", { name: "Unfold data.customer" }).click();
    expect(await words("Request")).toContain('"Ann"');
    await region("Request")
      .getByRole("tab", { name: /Headers/ })
      .click();
    expect(await words("Request")).not.toContain("authorization");
  });

  it("says what a replay would do, replays, and replays an edited body", async () => {
    await show(`#/events/${unmatched}`);
    await page.getByRole("button", { name: "What would it do now?" }).click();
    await page.getByText("Now it would be").waitFor();
    // It did no work before, so that nothing is done twice.
    await page.getByRole("button", { name: "Replay", exact: true }).click();
    await page.getByText("Replayed:").waitFor();
    await page.getByRole("button", { name: "Edit and replay" }).click();
    const dialog = page.getByRole("dialog", { name: "Edit and replay" });
    await dialog.getByLabel("Body").fill("{");
    await dialog.getByText("This is not JSON").waitFor();
    await dialog.getByLabel("Body").fill(JSON.stringify(order(9, 1000)));
    await dialog.getByRole("button", { name: "Replay with this body" }).click();
    await dialog.getByText("by order.big").waitFor();
    await dialog.getByRole("link", { name: "Open the new event" }).click();
    await expect
      .poll(() => page.getByText("edited by an operator before the replay").count())
      .toBe(1);
  });

  it("takes a key that is pressed the moment an event is shown", async () => {
    await show("#/events");
    await rows().first().waitFor();
    // Sent from the change of the document itself, which is before it is painted.
    await page.evaluate(`new MutationObserver((_, observer) => {
      if (!document.querySelector('button[title="Freeze as a test (f)"]')) return;
      observer.disconnect();
      dispatchEvent(new KeyboardEvent("keydown", { key: "f" }));
    }).observe(document.body, { childList: true, subtree: true })`);
    await show(`#/events/${accepted}`);
    await page.getByRole("dialog", { name: "Freeze as a test" }).waitFor();
    await page.keyboard.press("Escape");
  });

  it("keeps what is typed while the answer to the search before is on its way", async () => {
    await show("#/events");
    await rows().nth(5).waitFor();
    const search = page.getByLabel("Search events");
    // One key more in the moment that the address takes over the search, again and again.
    await page.evaluate(`history.replaceState = new Proxy(history.replaceState, { apply(replace, self, given) {
      Reflect.apply(replace, self, given);
      const input = document.querySelector('input[type="search"]');
      if (input.value.length > 4) return;
      input.value += "x";
      input.dispatchEvent(new Event("input", { bubbles: true }));
    } })`);
    await search.pressSequentially("a");
    await expect.poll(() => search.inputValue()).toBe("axxxx");
    await expect.poll(() => page.url()).toContain("axxxx");
    await page.reload();
  });

  it("freezes an event as a test with f, after naming the fields whose masks would change the outcome", async () => {
    await show(`#/events/${accepted}`);
    await region("Why").waitFor();
    await page.keyboard.press("f");
    const dialog = page.getByRole("dialog", { name: "Freeze as a test" });
    await dialog.getByLabel("File name").fill("big");
    await dialog.getByLabel("Also mask").fill("payload.type");
    await dialog.getByRole("button", { name: "Freeze" }).click();
    await dialog.getByText("Masking changes what the mappings do, by payload.type").waitFor();
    await dialog.getByLabel("Also mask").fill("");
    await dialog.getByRole("button", { name: "Freeze" }).click();
    await page.getByText(/Wrote .*big\.json5/).waitFor();
    const file = join(world.dir, "tests", "shop", "big.json5");
    expect(existsSync(file)).toBe(true);
    expect(readFileSync(file, "utf8")).toContain('"order.big"');
  });

  it("opens the editor beside an event with e", async () => {
    await show(`#/events/${accepted}`);
    await region("Why").waitFor();
    await page.keyboard.press("e");
    await expect.poll(() => page.url()).toContain(`#/mappings/order.big?event=${accepted}`);
  });

  it("compares two events field by field, at an address of its own, with numbers as they were written", async () => {
    const [one, other] = (await Promise.all(
      ["89", "90"].map((end) =>
        post("nowhere", `{"id":1542840756018874${end},"total":19.90,"type":"order"}`),
      ),
    )) as [string, string];
    await show(`#/events/${one}`);
    await page.locator(".json").getByText("154284075601887489").waitFor();
    await page.locator(".json").getByText("19.90").waitFor();
    await page.getByRole("button", { name: "Compare" }).click();
    await page
      .getByRole("dialog")
      .getByRole("button", { name: new RegExp(other.slice(-8)) })
      .click();
    await region("Differences").waitFor();
    expect(page.url()).toContain(`compare=${other}`);
    expect(await words("Differences")).toContain("body.id 154284075601887489 154284075601887490");
    expect(await words("Differences")).not.toContain("body.total");
  });

  it("replays those that a search has found, after a preview, and none that came in since", async () => {
    const sent = [];
    for (const word of ["tea", "salt", "tea"]) sent.push(await post("nowhere", { word }));
    await show("#/events?outcome=unmatched&search=word:tea");
    await expect.poll(() => rows().count()).toBe(2);
    await page.getByRole("button", { name: "Replay many…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("2 events would be replayed.").waitFor();
    await post("nowhere", { word: "tea" });
    await dialog.getByRole("button", { name: "Replay 2 events" }).click();
    await dialog.getByText("2 of 2 events replayed.").waitFor();
    await page.keyboard.press("Escape");
    const { events } = (await world.admin("/admin/v1/events?path=nowhere&limit=100")).body as {
      events: { replayOf: string | null }[];
    };
    expect(events.flatMap(({ replayOf }) => replayOf ?? []).toSorted()).toEqual(
      [sent[0] ?? "", sent[2] ?? ""].toSorted(),
    );
  });

  it("copies the request as curl, without a secret", async () => {
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    await show(`#/events/${second}`);
    await page.getByRole("button", { name: "Copy as curl" }).click();
    await page.getByText("Copied the curl command.").waitFor();
    const command = await page.evaluate<string>("navigator.clipboard.readText()");
    expect(command).toContain(`curl -sS -X POST '${world.url}/hooks/shop'`);
    expect(command).toContain('-H "authorization: Bearer ${ROUSE_HOOK_TOKEN:?');
    expect(command).toContain(`--data-raw '${JSON.stringify(order(8, 300))}'`);
    expect(command).not.toContain("test-hook-token");
  });

  it("shows what a mapping in shadow would have done", async () => {
    await show("#/events?path=shadowed");
    await rows().first().click();
    await region("What a mapping in shadow would have done").waitFor();
    expect(await page.locator("main").innerText()).not.toMatch(/\[object |undefined/);
  });

  it("shows what a mapping's code printed and threw, as text, and discards the event with a reason", async () => {
    const markup = "<img src=x onerror=alert(1)>";
    const printed = async (path: string): Promise<string> => {
      await show(`#/events/${await post(path, { a: markup })}`);
      const notes = region("What the mapping's code printed and threw");
      await notes.waitFor();
      expect(await page.locator("main img").count()).toBe(0);
      return notes.innerText();
    };
    const code = await printed("prints");
    expect(code).toMatch(
      /transform\.module of prints\s+Error: no <img src=x onerror=alert\(1\)>\n {2}at prints\.js:1:/,
    );
    expect(code).toContain(`\nconsole (stderr): ${markup}`);
    expect(await printed("sums")).toContain(
      "line 1, column 16:\n{ 'message': 1 + a }\n               ^",
    );
    await page.getByRole("button", { name: "Discard" }).click();
    await page.getByRole("dialog").getByLabel("Reason").fill("it was a test");
    await page.getByRole("dialog").getByRole("button", { name: "Discard" }).click();
    await page.getByText(": it was a test").waitFor();
  });

  it("says that an event is gone", async () => {
    await show("#/events/evt_gone");
    await page.getByText('there is no event "evt_gone"').waitFor();
    await page.getByText("older than the time for which records are kept").waitFor();
    problems.length = 0;
  });
});
