import { rmSync } from "node:fs";
import { afterEach, expect, it } from "vitest";
import { message, sayOn } from "../channels/pipe.ts";
import { NO_BROWSER, openBrowser } from "../console/browser.ts";
import { openConsole } from "../console/console.ts";
import { approvalWorld, type ApprovalWorld } from "./world.ts";

let world: ApprovalWorld;
afterEach(async () => {
  await world.close();
  rmSync(world.dir, { recursive: true, force: true });
});

const READABLE = ["deny by pipe:bob: not_approver", "deny by operator: approval_decided"];

it("a decision that was refused is shown with its approval, by the command line and in the console", async () => {
  world = await approvalWorld({
    agent: { approve: ["bank.*"] },
    config: { tools: { approvers: ["operator", "pipe:zoe"] } },
  });
  await world.orderRun({ message: "Pay.", deliver: false });
  const [asked] = await world.open();
  const [id, code] = [asked?.id as string, asked?.code as string];
  await sayOn(world, message(`deny ${code}`, { from: "bob", to: "dm-bob" }));
  await world.until(
    async () => (await world.admin(`/admin/v1/approvals/${id}`)).body.approval.refused.length === 1,
  );
  expect(world.bank.calls).toEqual([]);
  expect((await world.rouse("approvals", "decide", code, "approve")).code).toBe(0);
  expect((await world.rouse("approvals", "decide", code, "deny")).code).not.toBe(0);
  await world.runEnded(asked?.runId as string);
  expect(world.bank.calls).toHaveLength(1);
  const { out } = await world.rouse("approvals", code);
  for (const words of ["approve by operator", ...READABLE]) expect(out).toContain(words);
  if (NO_BROWSER) return;
  const browser = await openBrowser();
  try {
    const { page, problems } = await openConsole(browser.context, world);
    await page.goto(`${world.url}/console#/approvals/${id}`);
    await page.getByText("refused decisions").waitFor();
    const shown = await page.innerText("main");
    for (const words of READABLE) expect(shown).toContain(words);
    expect(problems).toEqual([]);
  } finally {
    await browser.close();
  }
});
