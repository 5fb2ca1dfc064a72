import { beforeEach, describe, expect, it } from "vitest";
import { approvalWorld, transferOnce } from "../approvals/world.ts";
import { NO_BROWSER } from "./browser.ts";
import { shoot } from "./shots.ts";
import { useConsole } from "./use-console.ts";

describe.skipIf(NO_BROWSER)("the approvals in the console", () => {
  const { world, page, problems } = useConsole(() => approvalWorld({ agent: { approve: ["bank.*"] } }), { each: true });
  beforeEach(async () => {
    world.model.handler = transferOnce({ to: "<img src=x onerror=alert(1)>", amount: 50 });
    await page.goto(`${world.url}/console#/approvals`);
    await page.getByText("No call waits for approval").waitFor();
  }, 120_000);

  const detail = () => page.locator(".detail");
  const asked = async (count = 1) => {
    const before = (await world.admin("/admin/v1/approvals?state=open")).body.approvals.length as number;
    for (let n = before; n < count; n++)
      await world.post("/hooks/agent", { message: "Pay.", sessionKey: `hook:pay:${n}`, wakeMode: "next-heartbeat", deliver: false });
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
    const shown = await detail().innerText();
    expect(shown).toContain("<img src=x onerror=alert(1)>");
    expect(shown).toMatch(/the rule "bank\.\*"|bank\.\*/);
    expect(shown).toMatch(/waits until\s+in \d+/i);
    expect(await page.locator("main img").count()).toBe(0);
    expect(await detail().locator(`a[href="#/runs/${one?.runId}"]`).count()).toBe(1);
    await shoot(page, "approvals-open");
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
    expect(problems).toEqual([]);
  }, 120_000);

  it("denies with a reason by the keys alone, and the button approves the next one", async () => {
    const both = await asked(2);
    await page
      .getByRole("row", { name: /bank\.transfer/ })
      .nth(1)
      .waitFor();
    await page.keyboard.press("j");
    await detail().getByText("wants to call").waitFor();
    await page.keyboard.press("d");
    await page.getByLabel("Reason").fill("Ask Ann first.");
    await page.keyboard.press("Enter");
    await detail().getByText("Ask Ann first.").waitFor();
    const decided = await Promise.all(both.map(async ({ id }) => (await world.admin(`/admin/v1/approvals/${id}`)).body.approval.decision));
    expect(decided.filter(Boolean)).toMatchObject([{ verdict: "deny", by: "operator", note: "Ask Ann first." }]);
    expect(world.bank.calls).toEqual([]);
    await page.keyboard.press("j");
    await detail().getByRole("button", { name: "Approve", exact: false }).first().click();
    await detail().getByText("by operator").waitFor();
    await world.until(async () => world.bank.calls.length === 1);
    expect(problems).toEqual([]);
  }, 120_000);

  it("shows the rule before it saves it, lists it, and takes it away", async () => {
    const [one] = await asked();
    await page.goto(`${world.url}/console#/approvals/${one?.id}`);
    await page.getByRole("button", { name: "Always approve…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("bank.transfer").waitFor();
    await dialog.getByLabel("amount").check();
    await dialog.getByText("amount is anything").waitFor();
    await shoot(page, "approvals-always");
    await dialog.getByRole("button", { name: "Approve and save the rule" }).click();
    await detail().getByText("by operator").waitFor();
    const rules = async () => (await world.admin("/admin/v1/approvals/rules")).body.rules as { any: string[]; tool: string }[];
    expect(await rules()).toMatchObject([{ tool: "bank.transfer", any: ["amount"] }]);
    await page.goto(`${world.url}/console#/approvals?show=rules`);
    await page
      .getByRole("row", { name: /bank\.transfer/ })
      .getByRole("button", { name: "Remove" })
      .click();
    await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
    await page.getByText("No rule yet").waitFor();
    expect(await rules()).toEqual([]);
    expect(problems).toEqual([]);
  }, 120_000);
});
