import { describe, expect, it } from "vitest";
import { event_, runAction } from "../http/admin-world.ts";
import { NO_BROWSER } from "./browser.ts";
import { createFilledWorld } from "./filled-world.ts";
import { useConsole } from "./use-console.ts";

const EVENTS = 60;
const SENDERS = 3;
const LONG = `A name that is longer than a window is wide${", by far".repeat(30)}`;
const error = { code: "model_failed", message: "the provider answered 529" } as const;

describe.skipIf(NO_BROWSER)("lists in a window as narrow as a phone", () => {
  const { world, page, show } = useConsole(() =>
    createFilledWorld(async ({ store }) => {
      const now = Date.now();
      await Promise.all(
        Array.from({ length: EVENTS }, (_, n) =>
          store.accept(
            event_(`sender-${n % SENDERS}`, {
              receivedAt: now - n,
              outcome: (["skipped", "unmatched", "failed"] as const)[n % 3] ?? "skipped",
              reason: `the mapping of sender-${n % SENDERS} says no`,
            }),
          ),
        ),
      );
      const action = runAction();
      const run = { ...action, spec: { ...action.spec, name: LONG } };
      await store.accept(event_("shop", { receivedAt: now, outcome: "accepted", actions: [run] }));
      await store.commit((tx) =>
        tx.runs.update(run.runId, { status: "failed", error, endedAt: now }),
      );
    }),
  );
  const open = async (name: string): Promise<void> => {
    await page.goto("about:blank");
    await show(`#/${name}`);
    await page.locator("main :is(tbody tr, .empty)").first().waitFor();
    await page.locator("main .skeleton").first().waitFor({ state: "detached" });
  };

  it.each([
    ["events?outcome=skipped", "says no"],
    ["runs", error.message],
    ["failures?kind=event", "says no"],
  ])("show the reason of each row: %s", async (name, reason) => {
    await fetch(`${world.url}/hooks/shop`, { method: "POST" });
    await page.setViewportSize({ width: 390, height: 844 });
    await open(name);
    const shown = page.locator("main tbody td", { hasText: reason }).first();
    await shown.waitFor();
    const cut = await shown.evaluate((cell) => ({
      left: cell.getBoundingClientRect().left >= 0,
      right: cell.getBoundingClientRect().right <= 390,
      whole: cell.scrollWidth <= cell.clientWidth,
    }));
    expect(cut).toEqual({ left: true, right: true, whole: true });
  });

  it("leaves room for the reason of a run beside a name that is longer than the window", async () => {
    await page.setViewportSize({ width: 1280, height: 844 });
    await open("runs");
    const [name, reason] = await Promise.all(
      [LONG, error.message].map((text) =>
        page
          .locator("main tbody td", { hasText: text })
          .first()
          .evaluate((cell) => cell.clientWidth),
      ),
    );
    expect(reason).toBe(name);
  });
});
