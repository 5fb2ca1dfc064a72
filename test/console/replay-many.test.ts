import { describe, expect, it } from "vitest";
import { NO_BROWSER } from "./browser.ts";
import { useConsole } from "./use-console.ts";

describe.skipIf(NO_BROWSER)("the replay of many events in the console", () => {
  const { world, page } = useConsole({
    workers: false,
    config: { hooks: { mappings: [{ id: "a", match: { path: "a" }, messageTemplate: "{{x}}" }] } },
  });

  const unmatched = async (): Promise<number> =>
    (await world.admin("/admin/v1/events?outcome=unmatched")).body.events.length;

  it("shows what would become of each, and then replays these, and not what has failed since", async () => {
    const mappings = [
      {
        id: "a",
        match: { path: "shop", payload: { kind: "order" } },
        messageTemplate: "Order {{n}}",
      },
    ];
    await world.reload({
      hooks: { mappings: [{ ...mappings[0], match: { path: "shop", payload: { kind: "none" } } }] },
    });
    for (const n of [1, 2]) await world.post("/hooks/shop", { kind: "order", n });
    await world.reload({ hooks: { mappings } });
    await page.goto(`${world.url}/console#/events?outcome=unmatched&path=shop`);
    await page.getByRole("button", { name: "Replay many…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("2 events would be replayed.").waitFor();
    expect(await dialog.innerText()).toMatch(/accepted[^]*Order 1[^]*Order 2/);
    expect(await unmatched()).toBe(2);
    await world.post("/hooks/shop", { kind: "other", n: 3 });
    await dialog.getByRole("button", { name: "Replay 2 events" }).click();
    await dialog.getByText("2 of 2 events replayed.").waitFor();
    await page.keyboard.press("Escape");
    expect(
      (await world.admin("/admin/v1/events?outcome=accepted&path=shop")).body.events,
    ).toHaveLength(2);
  });

  it("replays what a search has found, and no other event of the same outcome", async () => {
    for (const [n, word] of [
      [1, "tea"],
      [2, "salt"],
      [3, "tea"],
    ])
      await world.post("/hooks/shop", { kind: "other", n, word });
    await page.goto(`${world.url}/console#/events?outcome=unmatched&search=word:tea`);
    await page.getByRole("button", { name: "Clear the filters" }).waitFor({ state: "detached" });
    await page.getByRole("row").nth(2).waitFor();
    await page.getByRole("button", { name: "Replay many…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("2 events would be replayed.").waitFor();
    await dialog.getByRole("button", { name: "Replay 2 events" }).click();
    await dialog.getByText("2 of 2 events replayed.").waitFor();
    await page.keyboard.press("Escape");
    const { events } = (await world.admin("/admin/v1/events?outcome=unmatched&path=shop&limit=100"))
      .body as {
      events: { id: string; replayOf: string | null }[];
    };
    const replayed = events
      .flatMap(({ replayOf }) => replayOf ?? [])
      .filter((id) => events.some((one) => one.id === id));
    const bodies = await Promise.all(
      replayed.map(
        async (id) => (await world.admin(`/admin/v1/events/${id}`)).body.event.request.body,
      ),
    );
    expect(bodies.map((body) => (JSON.parse(body as string) as { word: string }).word)).toEqual([
      "tea",
      "tea",
    ]);
  });
});
