import { afterEach, expect, it } from "vitest";
import { approvalWorld, transferOnce, type ApprovalWorld } from "../approvals/world.ts";
import { message, sayOn, sentOn } from "../channels/pipe.ts";

let world: ApprovalWorld;
afterEach(() => world.close());

const schedules = async () =>
  (await world.admin("/admin/v1/schedules")).body.schedules.filter(
    ({ source }: { source: string }) => source === "agent",
  );

/** A person asks for a reminder, an approver approves it, and it fires. */
async function remind(said: object): Promise<void> {
  world.model.handler = transferOnce(
    { every: "6h", prompt: "Remind them of the tea." },
    "schedule",
  );
  await sayOn(world, message("Remind me of the tea.", said));
  const [asked] = await world.open();
  const { runId = "", code = "" } = asked ?? {};
  expect((await world.rouse("approvals", "decide", code, "approve")).code).toBe(0);
  expect((await world.runEnded(runId)).reply).toContain("has approved it");
  const [made] = await schedules();
  expect(made.everyMs).toBe(6 * 3_600_000);
  world.model.handler = () => ({ text: "The tea is ready." });
  expect((await world.rouse("schedules", "set", made.name, "--run")).code).toBe(0);
  await world.until(async () => sentOn(world).some(({ text }) => text === "The tea is ready."));
}

const getReminder = () => sentOn(world).find(({ text }) => text === "The tea is ready.");

it("schedules: the answer goes to the room in which a colleague asked for one, and not to the owner's main session", async () => {
  world = await approvalWorld({ agent: { tools: ["rouse.schedule"] } });
  await remind({ from: "bob", to: "kitchen", direct: false, thread: "t-1", mentioned: true });
  expect(getReminder()).toMatchObject({ to: "kitchen", thread: "t-1" });
  expect(getReminder()).not.toHaveProperty("replyTo");
  expect(await schedules()).toMatchObject([{ deliver: { channel: "pipe", to: "kitchen" } }]);
  expect(
    JSON.stringify((await world.admin("/admin/v1/sessions/show?key=main")).body),
  ).not.toContain("The tea is ready.");
});

it("schedules: the answer goes to the owner if the owner asked directly", async () => {
  world = await approvalWorld({ agent: { tools: ["rouse.schedule"] } });
  await remind({ from: "ann", to: "ann-room" });
  expect(getReminder()).toMatchObject({ to: "ann-room" });
  expect(await schedules()).toMatchObject([{ deliver: { channel: "last", to: null } }]);
});
