import { afterEach, describe, expect, it } from "vitest";
import { approvalWorld, createFastClock } from "../approvals/world.ts";
import { createProvider, modelConfig } from "../e2e/provider.ts";
import type { World } from "../e2e/world.ts";
import { gate } from "../platform/model.ts";
import { lastRun, openConversation, settle } from "./live-conversation.ts";
import { startTelegram } from "./telegram-server.ts";
import type { TypingLog } from "./typing-log.ts";
import { VENDORS, type Vendor } from "./vendors.ts";

/** The interval at which the typing sign is sent: a little less than the time for which the vendor shows it. */
const EVERY_MS: Record<string, number> = { whatsapp: 20_000, slack: 60_000, telegram: 4_000 };
/** Signs that outlast a turn, and are taken away at its end. */
const HIDDEN = ["slack"];
const SIGNERS = VENDORS.filter(({ id }) => id in EVERY_MS);
let close: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const end of close.toReversed()) await end();
  close = [];
});

/** A conversation with an agent whose model answers when the test says so. */
async function open(
  vendor: Vendor,
  settings: object = {},
  agents: object = {},
  inThread = vendor.id === "slack",
) {
  const provider = await createProvider();
  close.push(provider.close);
  const slow = gate();
  close.push(slow.open);
  provider.answer = async (_, response) => {
    await Promise.race([slow.passed, new Promise((gone) => response.on("close", gone))]);
    return "done";
  };
  const { agents: model, ...rest } = modelConfig(provider) as { agents: { defaults: object } };
  const config = { ...rest, agents: { defaults: { ...model.defaults, ...agents } } };
  const conversation = await openConversation(vendor, { config, settings, inThread }, close);
  const { typing } = conversation.far;
  if (!typing) throw new Error(`${vendor.id} shows no signs`);
  /** Begins a turn, and waits for its model call. */
  const begin = async (text = "think"): Promise<void> => {
    await conversation.write(text);
    await conversation.world.until(async () => provider.requests.length === 1);
  };
  const arrived = () => conversation.far.arrived().length;
  return {
    ...conversation,
    provider,
    typing,
    slow,
    begin,
    everyMs: EVERY_MS[vendor.id] ?? 0,
    arrived,
  };
}

const whenShown = (world: World, typing: TypingLog, count: number) =>
  world.until(async () => typing.signs.length >= count);

// The gateway does the same for all: these name a recipient, a message, and a thread whose sign is taken away.
describe.each(SIGNERS)("the typing sign on $id", (vendor) => {
  it("is shown while a turn runs, again before it ends, and not after the answer", async () => {
    const { far, typing, slow, clock, world, begin, everyMs, arrived, before } = await open(vendor);
    await begin();
    await whenShown(world, typing, 1);
    clock.advance(everyMs / 2);
    await settle();
    expect(typing.signs).toHaveLength(1);
    for (const count of [2, 3]) {
      clock.advance(everyMs);
      await whenShown(world, typing, count);
    }
    expect(arrived()).toBe(before);
    expect(typing.hidden).toBe(0);
    slow.open();
    const answer = await world.until(async () => far.arrived()[before]);
    expect(answer.text).toContain("done");
    const { length } = typing.signs;
    // The sign of WhatsApp names a message in place of a recipient.
    const expected =
      vendor.id === "whatsapp"
        ? { message: expect.stringMatching(/^wamid\./) as unknown }
        : { to: answer.to };
    for (const sign of typing.signs) expect(sign).toMatchObject(expected);
    if (vendor.id === "slack") expect(typing.signs[0]?.thread).toBe("1760000000.000001");
    if (HIDDEN.includes(vendor.id)) await world.until(async () => typing.hidden === 1);
    clock.advance(everyMs * 2);
    await settle();
    expect(typing.signs).toHaveLength(length);
    expect(arrived()).toBe(before + 1);
  });
});

describe("the typing sign", () => {
  const telegram = SIGNERS.find(({ id }) => id === "telegram") as Vendor;

  it.each(["hang", "unavailable"] as const)(
    "changes nothing about the answer if the vendor's endpoint is: %s",
    async (mode) => {
      const { far, typing, slow, clock, world, begin, everyMs, before } = await open(telegram);
      typing.mode = mode;
      await begin();
      await whenShown(world, typing, 1);
      if (mode === "unavailable") {
        // After an error it is asked less often.
        await settle();
        clock.advance(Math.min(everyMs, 9_000));
        await settle();
        expect(typing.signs).toHaveLength(1);
        clock.advance(Math.max(everyMs, 11_000));
        await whenShown(world, typing, 2);
      }
      // A call that hangs is given 5 seconds, which do not pass: nothing waits for its end.
      clock.hold();
      slow.open();
      expect((await world.until(async () => far.arrived()[before])).text).toContain("done");
      await world.until(async () => (await lastRun(world)).status === "succeeded");
      const { id } = await lastRun(world);
      const { run } = (await world.admin(`/admin/v1/runs/${id}`)).body;
      expect([run.attempts, run.warnings]).toEqual([1, []]);
    },
  );

  it("is not shown if the channel's section says `typing: false`", async () => {
    const { far, typing, slow, clock, world, begin, before } = await open(telegram, {
      typing: false,
    });
    await begin();
    clock.advance(10_000);
    await settle();
    slow.open();
    await world.until(async () => far.arrived()[before]);
    expect(typing.signs).toEqual([]);
  });

  it("is a reaction on Slack outside threads, which is taken away with the answer", async () => {
    const slack = SIGNERS.find(({ id }) => id === "slack") as Vendor;
    const { far, typing, slow, clock, world, begin, before, everyMs } = await open(
      slack,
      {},
      {},
      false,
    );
    await begin();
    await whenShown(world, typing, 1);
    expect(typing.signs[0]?.thread).toBeUndefined();
    await settle();
    clock.advance(everyMs);
    await whenShown(world, typing, 2);
    expect(typing.hidden).toBe(0);
    slow.open();
    await world.until(async () => far.arrived()[before]);
    await world.until(async () => typing.hidden === 1);
    clock.advance(everyMs * 2);
    await settle();
    expect([typing.signs.length, typing.hidden]).toEqual([2, 1]);
  });

  it("ends when the person stops the turn, and no command shows one", async () => {
    const { typing, clock, world, begin, write, arrived, before } = await open(telegram);
    await begin();
    await whenShown(world, typing, 1);
    await write("/stop");
    await world.until(async () => arrived() === before + 1);
    for (const command of ["/status", "/new"]) await write(command);
    await world.until(async () => arrived() === before + 3);
    const { length } = typing.signs;
    clock.advance(10_000);
    await settle();
    expect(typing.signs).toHaveLength(length);
    expect((await lastRun(world)).status).not.toBe("running");
  });

  it("ends when the gateway stops", async () => {
    const { typing, clock, world, begin } = await open(telegram);
    await begin();
    await whenShown(world, typing, 1);
    typing.mode = "hang";
    await settle();
    clock.advance(4_000);
    await whenShown(world, typing, 2);
    const stopping = world.gateway.stop();
    await settle();
    clock.advance(2_000);
    await stopping;
    const { length } = typing.signs;
    clock.advance(60_000);
    await settle();
    expect(typing.signs).toHaveLength(length);
  });

  it("ends while the turn waits for a person's approval", async () => {
    const server = await startTelegram();
    const clock = createFastClock();
    const section = { token: server.token, apiUrl: server.url, allowFrom: ["42"] };
    const world = await approvalWorld({
      clock,
      agent: { approve: ["bank.transfer"] },
      config: {
        channels: { telegram: section },
        owner: { telegram: "42" },
        tools: { approvers: ["telegram:42"] },
      },
    });
    close.push(() => server.close(), world.close);
    const slow = gate();
    const { handler } = world.model;
    world.model.handler = async (...request) => {
      await slow.passed;
      return handler(...request);
    };
    server.write("pay");
    await whenShown(world, server.typing, 1);
    slow.open();
    await world.open();
    await world.until(async () => server.messages.length === 1);
    const { length } = server.typing.signs;
    clock.advance(20_000);
    await settle();
    expect(server.typing.signs).toHaveLength(length);
  });
});
