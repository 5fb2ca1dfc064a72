import { createHmac } from "node:crypto";
import { rmSync } from "node:fs";
import type { IncomingHttpHeaders } from "node:http";
import { afterEach, describe, expect, it } from "vitest";
import { message, sayOn, sentOn } from "../channels/pipe.ts";
import { startTelegram, type TelegramServer } from "../channels/telegram-server.ts";
import { serve } from "../channels/wire.ts";
import { approvalWorld, createFastClock, type ApprovalWorld } from "./world.ts";

let world: ApprovalWorld;
let ends: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  await world.close();
  rmSync(world.dir, { recursive: true, force: true });
  for (const end of ends) await end();
  ends = [];
});

const AGENT = { approve: ["bank.transfer"] };
const order = async (): Promise<string> => world.orderRun({ message: "Pay the order." });
const sent = () => sentOn(world);
const untilDelivered = () =>
  world.until(
    async () =>
      (await world.admin("/admin/v1/deliveries")).body.deliveries[0]?.status === "delivered",
  );
const PIPE_CHANNEL = { pipe: { allowFrom: ["ann", "bob"], defaultTo: "ann" } };

describe("in text, on a channel without buttons", () => {
  const open = (approvers = ["pipe:zoe"]) =>
    approvalWorld({ agent: AGENT, config: { tools: { approvers } } });

  it("asks the approver directly, takes the decision without a model, and answers what happened", async () => {
    world = await open();
    const runId = await order();
    const [asked] = await world.open();
    const code = asked?.code ?? "";
    await world.until(async () => sent().length === 1);
    expect(sent()[0]).toMatchObject({
      to: "zoe",
      text: expect.stringContaining(`Reply "approve ${code}" or "deny ${code}".`) as unknown,
    });
    expect(sent()[0]?.["text"]).toContain('"amount": 50');
    const before = world.model.requests.length;
    // Zoe may decide, but not speak to the agent.
    await sayOn(world, message(`approve ${code}`, { from: "zoe", to: "dm-zoe" }));
    await world.until(async () => sent().length === 2);
    expect(sent()[1]).toMatchObject({
      to: "dm-zoe",
      text: `Approved: \`bank.transfer\` is called. (${code})`,
    });
    expect(await world.runEnded(runId)).toMatchObject({ status: "succeeded" });
    expect(world.bank.calls).toHaveLength(1);
    // The run's own second step alone.
    expect(world.model.requests).toHaveLength(before + 1);
    expect(JSON.stringify(world.model.requests.map(({ body }) => body))).not.toContain(
      `approve ${code}`,
    );
    await sayOn(world, message(`/deny ${code}: no`, { from: "zoe", to: "dm-zoe" }));
    await world.until(async () => sent().length === 3);
    expect(sent()[2]?.["text"]).toMatch(/was decided before \(approved by pipe:zoe at /);
    expect(world.bank.calls).toHaveLength(1);
  });

  it("tells others nothing: neither those who may only speak, nor strangers", async () => {
    world = await open();
    await order();
    const [asked] = await world.open();
    await world.until(async () => sent().length === 1);
    const before = world.model.requests.length;
    for (const code of [asked?.code, "999"])
      await sayOn(world, message(`approve ${code}`, { from: "bob", to: "dm-bob" }));
    await world.until(async () => sent().length === 3);
    const [right, wrong] = sent()
      .slice(1)
      .map(({ text }) => text);
    expect(right).toBe(wrong);
    expect(right).toContain("You are not one of the approvers");
    await sayOn(world, message(`approve ${asked?.code}`, { from: "eve", to: "dm-eve" }));
    const { events } = (await world.admin("/admin/v1/events")).body;
    expect(events[0]).toMatchObject({
      outcome: "skipped",
      reason: expect.stringContaining("allowFrom") as unknown,
    });
    expect(sent()).toHaveLength(3);
    expect(world.model.requests).toHaveLength(before);
    expect(world.bank.calls).toEqual([]);
    expect(await world.open()).toHaveLength(1);
  });

  it("asks an approver in the conversation that the run came from", async () => {
    world = await approvalWorld({
      agent: AGENT,
      config: { tools: { approvers: ["pipe:zoe", "pipe:ann"] } },
    });
    await sayOn(world, message("Pay ACME.", { to: "room-7", thread: "t9" }));
    await world.until(async () => sent().length === 1);
    expect(sent()[0]).toMatchObject({
      to: "room-7",
      thread: "t9",
      text: expect.stringContaining("bank.transfer") as unknown,
    });
    const [asked] = await world.open();
    await sayOn(world, message(`approve ${asked?.code}`, { to: "room-7", thread: "t9" }));
    await world.until(async () => sent().length === 3);
    expect(sent().map(({ text }) => String(text))).toEqual([
      expect.stringContaining("Reply"),
      expect.stringContaining("Approved"),
      expect.stringContaining("Done"),
    ]);
  });

  it("leaves such words to the agent if no approver is on a channel", async () => {
    world = await open(["operator"]);
    world.model.handler = () => ({ text: "I see." });
    await sayOn(world, message("approve 7f3"));
    await world.until(async () => sent().length === 1);
    expect(sent()[0]?.["text"]).toContain("I see.");
  });
});

describe("with buttons", () => {
  const startWith = async (
    approvers: string[],
    options: { clock?: ReturnType<typeof createFastClock> } = {},
  ) => {
    const telegram = await startTelegram();
    ends.push(() => telegram.close());
    const channels = { ...PIPE_CHANNEL, telegram: { token: telegram.token, apiUrl: telegram.url } };
    world = await approvalWorld({
      agent: AGENT,
      config: { channels, tools: { approvers, approvalTimeout: "1d" } },
      ...options,
    });
    return telegram;
  };
  const buttons = (telegram: TelegramServer): string[] =>
    telegram.messages.at(-1)?.buttons.map(({ text }) => text) ?? [];

  it("asks once over restarts; a stranger's press, the approver's and a second one are answered exactly", async () => {
    const telegram = await startWith(["telegram:42"]);
    const runId = await order();
    const [asked] = await world.open();
    await world.until(async () => telegram.messages.length === 1);
    await world.restart();
    await world.restart();
    expect([telegram.messages.length, buttons(telegram)]).toEqual([1, ["Approve", "Deny"]]);
    telegram.press("Approve", 43);
    await world.until(async () => telegram.notices.length === 1);
    expect(telegram.notices[0]).toContain("You are not one of the approvers");
    expect([world.bank.calls, buttons(telegram).length]).toEqual([[], 2]);
    telegram.press("Approve", 42);
    telegram.press("Deny", 42);
    expect(await world.runEnded(runId)).toMatchObject({ status: "succeeded" });
    await world.until(async () => telegram.notices.length === 3);
    expect(telegram.notices[1]).toBe(`Approved: \`bank.transfer\` is called. (${asked?.code})`);
    expect(telegram.notices[2]).toMatch(/was decided before \(approved by telegram:42/);
    await world.until(async () => buttons(telegram).length === 0);
    expect(telegram.messages[0]?.text).toMatch(/bank\.transfer[^]*Approved by telegram:42/);
    expect([
      telegram.calls.filter(({ method }) => method === "editMessageText").length,
      world.bank.calls.length,
    ]).toEqual([1, 1]);
    const { events } = (await world.admin("/admin/v1/events")).body;
    const reasons = events.map(
      ({ outcome, reason }: { outcome: string; reason: string }) => `${outcome} ${reason}`,
    );
    expect(reasons.filter((text: string) => text.includes("by a button of"))).toEqual([
      expect.stringMatching(/^skipped deny .* of "42": .* decided before/),
      expect.stringMatching(/^accepted approve .* of "42": Approved/),
      expect.stringMatching(/^skipped approve .* of "43": You are not/),
    ]);
  });

  it("takes the buttons away if somebody decides elsewhere, and if the approval expires", async () => {
    const clock = createFastClock();
    const telegram = await startWith(["telegram:42", "operator"], { clock });
    await order();
    const [asked] = await world.open();
    await world.until(async () => telegram.messages.length === 1);
    expect((await world.rouse("approvals", "decide", asked?.code as string, "deny")).code).toBe(0);
    await world.until(async () => buttons(telegram).length === 0);
    expect(telegram.messages[0]?.text).toContain("Denied by operator");
    const late = await order();
    await world.until(async () => telegram.messages.length === 2);
    // A day that passes before Telegram's answer is here would cut the request off.
    await untilDelivered();
    clock.advance(86_400_000);
    await world.restart();
    await world.runEnded(late);
    await world.until(async () => buttons(telegram).length === 0);
    expect(telegram.messages[1]?.text).toContain("Expired at");
    telegram.press("Approve", 42);
    expect(world.bank.calls).toEqual([]);
  });

  it("takes the buttons away if the run is cancelled", async () => {
    const telegram = await startWith(["telegram:42"]);
    const runId = await order();
    await world.until(async () => telegram.messages.length === 1);
    expect((await world.rouse("runs", "cancel", runId)).code).toBe(0);
    await world.until(async () => buttons(telegram).length === 0);
  });
});

it("approval callback: the question is posted, signed, and again until it is accepted", async () => {
  const got: { headers: IncomingHttpHeaders; body: string }[] = [];
  const { url, close } = await serve(({ headers, bytes }) => {
    got.push({ headers, body: bytes.toString() });
    return { status: got.length === 1 ? 503 : 200 };
  });
  ends.push(close);
  const key = Buffer.from("0123456789abcdef0123456789abcdef");
  const approvalCallback = {
    url: `${url}/asked`,
    secret: `whsec_${key.toString("base64")}`,
  };
  world = await approvalWorld({
    agent: AGENT,
    hooks: { callbackHosts: ["127.0.0.1"] },
    config: { tools: { approvers: ["operator"], approvalCallback } },
  });
  const runId = await order();
  const [asked] = await world.open();
  await world.until(async () => got.length === 2);
  expect(JSON.parse(got[1]?.body ?? "")).toMatchObject({
    type: "approval.required",
    data: {
      id: asked?.id,
      code: asked?.code,
      runId,
      tool: "bank.transfer",
      input: { to: "ACME", amount: 50 },
      verdicts: ["approve", "deny"],
    },
  });
  expect(new Set(got.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
  for (const { headers, body } of got) {
    const signed = `${String(headers["webhook-id"])}.${String(headers["webhook-timestamp"])}.${body}`;
    expect(headers["webhook-signature"]).toBe(
      `v1,${createHmac("sha256", key).update(signed).digest("base64")}`,
    );
  }
});
