import { rmSync } from "node:fs";
import { afterEach, describe, expect, it } from "vitest";
import { NO_BROWSER, openBrowser } from "../console/browser.ts";
import { approvalWorld, transferOnce, type ApprovalWorld } from "./world.ts";

describe.skipIf(NO_BROWSER)("the console", () => {
  let world: ApprovalWorld;
  afterEach(async () => {
    await world.close();
    rmSync(world.dir, { recursive: true, force: true });
  });

  it("lists open approvals with the arguments as text, and its button decides", async () => {
    world = await approvalWorld({ agent: { approve: ["bank.*"] } });
    world.model.handler = transferOnce({ to: "<img src=x onerror=alert(1)>" });
    await world.post("/hooks/agent", { message: "Pay.", wakeMode: "next-heartbeat", deliver: false });
    const [asked] = await world.open();
    const browser = await openBrowser();
    try {
      const page = await browser.context.newPage();
      await page.goto(`${world.url}/console#/approvals`);
      await page.fill('input[name="token"]', world.gateway.operatorToken);
      await page.press('input[name="token"]', "Enter");
      await page.waitForSelector("#nav a");
      await page.goto(`${world.url}/console#/approvals`);
      await page.getByText("wants to call").waitFor();
      expect(await page.innerText("main")).toContain("<img src=x onerror=alert(1)>");
      expect(await page.locator("main img").count()).toBe(0);
      await page.getByRole("button", { name: "Approve" }).click();
      await page.getByText("by operator").waitFor();
      await world.runEnded(asked?.runId as string);
      expect(world.bank.calls).toHaveLength(1);
    } finally {
      await browser.close();
    }
  }, 60_000);
});
