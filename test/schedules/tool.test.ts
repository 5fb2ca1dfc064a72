import { afterEach, describe, expect, it } from "vitest";
import { approvalWorld, transferOnce, type ApprovalWorld } from "../approvals/world.ts";

let world: ApprovalWorld;
afterEach(() => world.close());

const PROPOSAL = {
  cron: "0 8 * * *",
  timezone: "Europe/Berlin",
  prompt: "Tell me about the weather.",
};
const schedules = async () =>
  (await world.admin("/admin/v1/schedules")).body.schedules.filter(
    ({ source }: { source: string }) => source === "agent",
  );

const start = (more: object = {}) =>
  approvalWorld({
    agent: { tools: ["bank.*", "rouse.schedule"], ...more },
    hooks: { tools: ["bank.*", "rouse.schedule"] },
  });

/** A hook's run whose model proposes a schedule. */
async function propose(message: string): Promise<{ runId: string; code: string; why: string }> {
  world.model.handler = transferOnce(PROPOSAL, "schedule");
  const runId = await world.orderRun({ message });
  const [asked] = await world.open();
  return { runId, code: asked?.code ?? "", why: asked?.why ?? "" };
}

describe("the tool `schedule`", () => {
  it("waits for a person though the operator has named it, and makes a schedule of what was approved", async () => {
    world = await start();
    const { runId, code, why } = await propose("Remind me of the weather.");
    expect(why).toContain("A schedule always needs approval.");
    expect(await schedules()).toEqual([]);
    expect((await world.rouse("approvals", "decide", code, "approve")).code).toBe(0);
    expect((await world.runEnded(runId)).reply).toContain("exists; operator has approved it");
    const [made] = await schedules();
    // The hook's message was in view when the prompt was written.
    expect(made).toMatchObject({
      agentId: "main",
      cron: PROPOSAL.cron,
      timezone: PROPOSAL.timezone,
      text: PROPOSAL.prompt,
      outside: true,
      deliver: { channel: "last", to: null },
      approved: { by: "operator", runId },
    });
    await world.restart();
    expect(await schedules()).toHaveLength(1);
    world.model.handler = () => ({ text: "It rains." });
    expect((await world.rouse("schedules", "set", made.name, "--run")).code).toBe(0);
    await world.until(async () => (await schedules())[0].last?.status === "succeeded");
    expect(world.lastRequest()).toMatch(/EXTERNAL_CONTENT.*Tell me about the weather\./);
    expect((await world.rouse("schedules", made.name)).out).toContain("text from outside");
    expect((await world.rouse("schedules", "set", made.name, "--remove")).code).toBe(0);
    expect(await schedules()).toEqual([]);
  });

  it("makes nothing of what was denied, nor of a time that is none or is over", async () => {
    world = await start();
    const denied = await propose("Remind me.");
    await world.rouse("approvals", "decide", denied.code, "deny");
    await world.runEnded(denied.runId);
    for (const [times, problem] of [
      [{ cron: "0 8 * *" }, "cron must have five fields"],
      [{ at: "2020-01-31T08:00" }, "at is over"],
    ] as const) {
      const { prompt } = PROPOSAL;
      world.model.handler = transferOnce({ ...times, prompt }, "schedule");
      const runId = await world.orderRun({ message: "Again." });
      const [asked] = await world.open();
      await world.rouse("approvals", "decide", asked?.code ?? "", "approve");
      expect((await world.runEnded(runId)).reply).toContain(`There is no schedule: ${problem}`);
    }
    expect(await schedules()).toEqual([]);
  });

  it("is not there for an agent whose tools do not name it", async () => {
    world = await approvalWorld();
    world.model.handler = () => ({ text: "Hello." });
    const runId = await world.orderRun({ message: "Hello." });
    await world.runEnded(runId);
    expect(world.lastRequest()).not.toContain("Proposes a schedule");
  });

  it("asks again although a rule covers the call", async () => {
    world = await start();
    const first = await propose("Remind me.");
    await world.rouse("approvals", "decide", first.code, "approve", "--always", "--yes");
    await world.runEnded(first.runId);
    const second = await propose("Remind me again.");
    expect(second.code).not.toBe("");
    await world.rouse("approvals", "decide", second.code, "deny");
    await world.runEnded(second.runId);
    expect(await schedules()).toHaveLength(1);
  });
});
