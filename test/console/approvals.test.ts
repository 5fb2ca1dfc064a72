import { beforeEach, describe, expect, it } from "vitest";
import { approvalWorld, transferOnce } from "../approvals/world.ts";
import { message, sayOn } from "../channels/pipe.ts";
import { NO_BROWSER } from "./browser.ts";
import { getText, useConsole } from "./use-console.ts";

const AGENT = {
  approve: ["bank.*"],
  schedules: [{ id: "daily", cron: "0 8 1 1 *", prompt: "Pay the rent.", deliver: false }],
};

const WORDS = `Pay the invoice 4711. ${"Please. ".repeat(100)}It is the last one.`;

describe.skipIf(NO_BROWSER)("the approvals in the console", () => {
  const { world, page, show, region } = useConsole(() => approvalWorld({ agent: AGENT }));
  beforeEach(async () => {
    for (const { id } of (await world.admin("/admin/v1/approvals?state=open")).body.approvals)
      await world.admin(`/admin/v1/approvals/${id}`, {
        method: "POST",
        body: JSON.stringify({ verdict: "deny" }),
      });
    world.bank.calls.length = 0;
    world.model.handler = transferOnce({ to: "<img src=x onerror=alert(1)>", amount: 50 });
    await page.goto("about:blank");
    await show("#/approvals");
    await page.getByText("No call waits for approval").waitFor();
  });

  const detail = () => page.locator(".detail");
  let orders = 0;
  const asked = async (count = 1) => {
    const before = (await world.admin("/admin/v1/approvals?state=open")).body.approvals
      .length as number;
    for (let n = before; n < count; n++)
      await world.orderRun({ message: WORDS, sessionKey: `hook:pay:${orders++}` });
    return world.open(count);
  };

  it("shows a call that waits with its arguments as text, counts it in the rail, and a key approves it", async () => {
    const [one] = await asked();
    await page.getByRole("row", { name: /bank\.transfer/ }).waitFor();
    await page
      .getByRole("navigation", { name: "Pages" })
      .getByRole("link", { name: /Approvals\s*1/ })
      .waitFor();
    await page.keyboard.press("j");
    await detail().getByText("wants to call").waitFor();
    await detail()
      .getByText(/^in \d+/)
      .first()
      .waitFor();
    const shown = await detail().innerText();
    expect(shown).toContain("<img src=x onerror=alert(1)>");
    expect(shown).toMatch(/the rule "bank\.\*"|bank\.\*/);
    expect(shown).toMatch(/expires\s+in \d+/i);
    expect(await page.locator("main img").count()).toBe(0);
    expect(await detail().locator(`a[href="#/runs/${one?.runId}"]`).count()).toBe(1);
    expect(await page.getByRole("row", { name: /bank\.transfer/ }).innerText()).toContain(
      '"amount":50',
    );
    // The page shows the words that led to the call. Words from outside are marked, and long ones are cut until the reader asks for them.
    const words = detail().getByRole("region", { name: "What led to it" });
    const outside = words.locator("mark", { hasText: "Pay the invoice 4711." });
    await outside.waitFor();
    expect(await words.getByRole("link", { name: /^evt_/ }).getAttribute("href")).toMatch(
      /^#\/events\/evt_/,
    );
    expect(await outside.innerText()).not.toContain("It is the last one.");
    await words.getByRole("button", { name: /^Show all \d+ characters$/ }).click();
    expect(await outside.innerText()).toContain("It is the last one.");
    expect(world.bank.calls).toEqual([]);
    await page.keyboard.press("a");
    await detail().getByText("by operator").waitFor();
    await world.runEnded(one?.runId as string);
    expect(world.bank.calls).toHaveLength(1);
    // The key decides about one call, and not about the same one twice.
    await page.keyboard.press("a");
    await page.getByRole("combobox", { name: "Show" }).selectOption("decided");
    await page.getByRole("row", { name: /approve/ }).waitFor();
    expect((await world.admin(`/admin/v1/approvals/${one?.id}`)).body.approval.refused).toEqual([]);
  });

  it("says who asked: a person on a channel, a hook, a schedule", async () => {
    await asked();
    await sayOn(world, message("Pay, please.", { from: "bob", to: "dm-bob" }));
    await sayOn(world, message("Pay.", { from: "ann", to: "dm-ann" }));
    await world.admin("/admin/v1/schedules/main/daily/run", { method: "POST" });
    const table = region("Approvals");
    for (const asker of [
      "hook agent (hooks.token)",
      "bob on pipe",
      "ann (the owner) on pipe",
      "schedule main/daily",
    ]) {
      await table
        .getByRole("row")
        .filter({ hasText: asker })
        .click({ position: { x: 20, y: 10 } });
      await expect.poll(() => getText(detail())).toContain(`Asked by ${asker}`);
    }
    for (const { id } of await world.open(4))
      await world.admin(`/admin/v1/approvals/${id}`, {
        method: "POST",
        body: JSON.stringify({ verdict: "deny" }),
      });
  });

  it.each([
    ["r", "repeat", "Repeat the call"],
    ["t", "done", null],
    ["x", "give_up", "Give up"],
  ] as const)(
    "%s decides %s about a call whose outcome is unknown, with the keys alone",
    async (key, verdict, confirm) => {
      const [one] = await asked();
      const posted: unknown[] = [];
      // The gateway stopped in the middle of the call: it answers so then.
      await page.route(`**/admin/v1/approvals/${one?.id}`, async (route) => {
        const response = await route.fetch({ method: "GET", postData: "" });
        const { approval } = (await response.json()) as { approval: object };
        const unknown = {
          ...approval,
          reason: "outcome_unknown",
          verdicts: ["repeat", "done", "give_up"],
        };
        if (route.request().method() === "POST") posted.push(route.request().postDataJSON());
        const decision = { verdict, by: "operator", at: new Date().toISOString(), note: null };
        await route.fulfill({
          json: {
            ok: true,
            approval:
              posted.length === 0
                ? unknown
                : { ...unknown, state: "decided", decision, verdicts: [] },
          },
        });
      });
      await page.getByRole("row", { name: /bank\.transfer/ }).waitFor();
      await page.keyboard.press("j");
      await detail().getByText("and no answer came").waitFor();
      await page.keyboard.press(key);
      if (confirm !== null) {
        await page.getByRole("dialog").getByRole("button", { name: confirm }).waitFor();
        // Closing the question decides nothing.
        await page.keyboard.press("Escape");
        await page.getByRole("dialog").waitFor({ state: "detached" });
        expect(posted).toEqual([]);
        const button = page.getByRole("dialog").getByRole("button", { name: confirm });
        // The keys of the page rest for a moment yet, which is long on a busy machine.
        for (let presses = 0; presses < 100 && !(await button.isVisible()); presses++) {
          await page.keyboard.press(key);
          await page.waitForTimeout(100);
        }
        await button.waitFor();
        for (
          let tabs = 0;
          tabs < 5 &&
          !(await button.evaluate((element) => element === element.ownerDocument.activeElement));
          tabs++
        )
          await page.keyboard.press("Tab");
        await page.keyboard.press("Enter");
      }
      await detail().getByText("by operator").waitFor();
      expect(posted).toEqual([{ verdict }]);
      await page.unrouteAll({ behavior: "wait" });
    },
  );

  it("selects the next call after each decision, by the keys or the mouse, and gives it the focus", async () => {
    const both = await asked(2);
    const heading = ({ code }: { code: string }) => detail().getByRole("heading", { name: code });
    const isFocused = (one: { code: string }) =>
      heading(one).evaluate((element) => element === element.ownerDocument.activeElement);
    await page
      .getByRole("row", { name: /bank\.transfer/ })
      .nth(1)
      .waitFor();
    await page.keyboard.press("j");
    await detail().getByText("wants to call").waitFor();
    const [first, next] = both.toSorted((a) => (page.url().includes(a.id) ? -1 : 1)) as [
      (typeof both)[0],
      (typeof both)[0],
    ];
    await page.keyboard.press("d");
    await page.getByLabel("Reason").fill("Ask Ann first.");
    // A second press, as soon as the next call shows, was meant for the one before: it decides nothing.
    await page.evaluate(`new MutationObserver((_, observer) => {
      if (!document.querySelector(".detail")?.textContent.includes("${next.code}")) return;
      observer.disconnect();
      dispatchEvent(new KeyboardEvent("keydown", { key: "a" }));
    }).observe(document.body, { childList: true, subtree: true })`);
    await page.keyboard.press("Enter");
    await heading(next).waitFor();
    expect(page.url()).toContain(next.id);
    await expect.poll(() => isFocused(next)).toBe(true);
    expect(await page.getByRole("row", { selected: true }).innerText()).toContain(next.code);
    await expect
      .poll(async () => page.getByRole("row", { name: new RegExp(first.code) }).count())
      .toBe(0);
    const decided = await Promise.all(
      both.map(
        async ({ id }) => (await world.admin(`/admin/v1/approvals/${id}`)).body.approval.decision,
      ),
    );
    expect(decided.filter(Boolean)).toMatchObject([
      { verdict: "deny", by: "operator", note: "Ask Ann first." },
    ]);
    expect(world.bank.calls).toEqual([]);
    await detail()
      .locator('button:not([aria-busy="true"])', { hasText: "Approve" })
      .first()
      .click();
    // The last one stays.
    await detail().getByText("by operator").waitFor();
    await world.until(async () => world.bank.calls.length === 1);
  });

  it("shows the rule before it saves it, lists it, and takes it away", async () => {
    const [one] = await asked();
    await show(`#/approvals/${one?.id}`);
    await page.getByRole("button", { name: "Always approve…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("bank.transfer").waitFor();
    await dialog.getByLabel("amount").check();
    await dialog.getByText("amount is anything").waitFor();
    await dialog.getByRole("button", { name: "Approve and save the rule" }).click();
    await detail().getByText("by operator").waitFor();
    const rules = async () =>
      (await world.admin("/admin/v1/approvals/rules")).body.rules as {
        any: string[];
        tool: string;
      }[];
    expect(await rules()).toMatchObject([{ tool: "bank.transfer", any: ["amount"] }]);
    await show("#/approvals?show=rules");
    await page
      .getByRole("row", { name: /bank\.transfer/ })
      .getByRole("button", { name: "Remove" })
      .click();
    await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
    await page.getByText("No rule yet").waitFor();
    expect(await rules()).toEqual([]);
  });
});
