import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { newParking } from "../parking.ts";
import { createChannels } from "../../src/delivery/channels.ts";
import { createDeliveryWorker, type DeliveryWorker } from "../../src/delivery/deliver.ts";
import { planDelivery } from "../../src/delivery/plan.ts";
import { getWaitMs } from "../../src/delivery/send.ts";
import type { Channel, SendResult } from "../../src/plugin/api.ts";
import { openStore } from "../../src/store/open.ts";
import type { Queue, Store } from "../../src/store/types.ts";
import { fakeChannel, keptLog, manualClock, settle, type ManualClock } from "./support.ts";

const HOUR = 3_600_000;
const retry = (reason = "busy", afterMs?: number): SendResult => ({
  status: "retry",
  reason,
  ...(afterMs === undefined ? {} : { afterMs }),
});

let folder: string;
let store: Store;
let queue: Queue;
let clock: ManualClock;
let worker: DeliveryWorker;
let channels: Map<string, Channel>;
let lines: string[];
let outcomes: string[];

/** The queue's own timers keep to real time: this tells the worker what the clock's new time makes ready. */
let poke: () => void;
async function pass(ms: number): Promise<void> {
  await clock.advance(ms);
  poke();
  await settle();
}

/** Returns true if the worker's gateway surely holds its jobs. */
let isHeld: () => boolean;
/** Kills the worker that was opened last: it takes nothing more. */
let kill: () => void;

function openWorker(): DeliveryWorker {
  const kept = keptLog();
  let isDead = false;
  kill = () => void (isDead = true);
  const told: Pick<Queue, "fetch" | "onReady" | "confirm"> = {
    fetch: async (kind, limit) => (isDead ? [] : queue.fetch(kind, limit)),
    confirm: () => Promise.resolve(isHeld()),
    onReady(listener) {
      poke = () => listener("delivery");
      return queue.onReady(listener);
    },
  };
  lines = kept.lines;
  return createDeliveryWorker({
    store,
    parking: newParking(store, clock),
    queue: told,
    snapshot: () => ({
      channels: createChannels([], channels),
      agents: { default: { id: "main" } },
      config: { delivery: { maxAge: 24 * HOUR } },
    }),
    callbacks: { send: async () => ({ status: "sent" }) },
    clock,
    log: kept.log,
    metrics: { deliveryEnded: ({ channel, status }) => outcomes.push(`${channel} ${status}`) },
  });
}

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rouse-delivery-"));
  clock = manualClock();
  channels = new Map();
  outcomes = [];
  isHeld = () => true;
  ({ store, queue } = await openStore({
    url: `sqlite:${join(folder, "test.db")}`,
    clock,
    log: keptLog().log,
  }));
  worker = openWorker();
});
afterEach(async () => {
  const stopped = worker.stop();
  await clock.advance(10_000);
  await stopped;
  await store.close();
  await rm(folder, { recursive: true });
});

let runs = 0;
/** Puts a reply into the outbox, as the end of a run does. */
async function post(channel: string, to: string, text: string, thread?: string): Promise<string> {
  const route = { channel, to, ...(thread === undefined ? {} : { thread }) };
  const { delivery, job } = planDelivery({
    runId: `run_${runs++}`,
    route,
    text,
    channels: createChannels([], channels),
    now: clock.now(),
  });
  await store.commit((tx) => {
    tx.deliveries.add(delivery);
    tx.jobs.add(job);
  });
  return delivery.id;
}
const state = async (id: string) => {
  const found = await store.deliveries.get(id);
  if (!found) throw new Error("no such delivery");
  return found;
};
/** Waits for what the store and the worker do in real time. */
async function until(check: () => boolean | Promise<boolean>): Promise<void> {
  for (let i = 0; i < 400 && !(await check()); i++)
    await new Promise((resolve) => setTimeout(resolve, 5));
  expect(await check()).toBe(true);
}

describe("the outbox", () => {
  it("delivers, keeps the message ids and tells the outcome", async () => {
    const fake = fakeChannel();
    channels.set("x", fake.channel);
    worker.start();
    const id = await post("x", "bob", "the reply", "thread-1");
    await until(async () => (await state(id)).status === "delivered");
    expect(fake.calls).toEqual([
      { to: "bob", text: "the reply", thread: "thread-1", idempotencyKey: `${id}.0` },
    ]);
    expect(await state(id)).toMatchObject({
      nextChunk: 1,
      messageIds: ["m1"],
      attempts: 1,
      endedAt: clock.now(),
    });
    expect(outcomes).toEqual(["x delivered"]);
    expect((await queue.waiting("delivery")).count).toBe(0);
    expect(lines.join("")).toContain(id);
    expect(lines.join("")).not.toMatch(/the reply|bob/);
  });

  it("keeps the order of one recipient while another goes ahead", async () => {
    const fake = fakeChannel();
    let release: (result: SendResult) => void = () => undefined;
    fake.answers.push(() => new Promise((resolve) => (release = resolve)));
    channels.set("x", fake.channel);
    worker.start();
    await post("x", "bob", "first");
    await until(() => fake.calls.length === 1);
    await post("x", "bob", "second");
    const other = await post("x", "ann", "third");
    await until(async () => (await state(other)).status === "delivered");
    expect(fake.calls.map((call) => call.text)).toEqual(["first", "third"]);
    release({ status: "sent" });
    await until(() => fake.calls.length === 3);
    expect(fake.calls.map((call) => call.text)).toEqual(["first", "third", "second"]);
  });

  it("sends no piece unless the delivery surely is still this gateway's", async () => {
    const fake = fakeChannel({ limit: 20 });
    channels.set("x", fake.channel);
    isHeld = () => fake.calls.length === 0;
    worker.start();
    const id = await post("x", "bob", "The first sentence. The second sentence.");
    await until(async () => (await state(id)).nextChunk === 1);
    await settle();
    expect(fake.calls.map(({ text }) => text)).toEqual(["The first sentence."]);
    expect(await state(id)).toMatchObject({ status: "pending", nextChunk: 1 });
  });

  it("continues with the first piece that was not sent, under the same key", async () => {
    const fake = fakeChannel({ limit: 20 });
    fake.answers.push({ status: "sent", messageIds: ["a"] }, retry("busy", 5_000));
    channels.set("x", fake.channel);
    worker.start();
    const id = await post("x", "bob", "one two three four\n\nfive six seven eight\n\nnine ten");
    await until(() => fake.calls.length === 2);
    await until(async () => (await state(id)).error !== undefined);
    expect(await state(id)).toMatchObject({
      status: "pending",
      messageIds: ["a"],
      error: { code: "retry", message: "busy" },
      nextAt: clock.now() + 5_000,
    });
    await pass(5_000);
    await until(async () => (await state(id)).status === "delivered");
    expect(fake.calls.map((call) => call.idempotencyKey)).toEqual([
      `${id}.0`,
      `${id}.1`,
      `${id}.1`,
      `${id}.2`,
    ]);
    const ended = await state(id);
    expect(ended.messageIds).toEqual(["a", "m3", "m4"]);
    expect(ended.error).toBeUndefined();
  });
});

describe("a try that failed", () => {
  it("waits as long as the channel says, to the millisecond", async () => {
    const fake = fakeChannel();
    fake.answers.push(retry("rate limited", 7_250));
    channels.set("x", fake.channel);
    worker.start();
    const id = await post("x", "bob", "hello");
    await until(async () => (await state(id)).nextAt === clock.now() + 7_250);
    await pass(7_249);
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(fake.calls).toHaveLength(1);
    await pass(1);
    await until(async () => (await state(id)).status === "delivered");
  });

  /** Lets messages to another recipient through: the channel's vendor is there. */
  const withOthers = ({ channel }: ReturnType<typeof fakeChannel>): Channel => ({
    ...channel,
    send: (message, signal) =>
      message.to === "ann" ? Promise.resolve({ status: "sent" }) : channel.send(message, signal),
  });
  const postOther = async (): Promise<void> => {
    const id = await post("x", "ann", "hello");
    await until(async () => (await state(id)).status === "delivered");
  };

  it("backs off from one second to fifteen minutes and gives up after twelve tries; then the next one goes", async () => {
    const fake = fakeChannel();
    fake.answers.push(...Array.from({ length: 12 }, () => retry()));
    channels.set("x", withOthers(fake));
    worker.start();
    const id = await post("x", "bob", "hello");
    const next = await post("x", "bob", "the next");
    for (let tries = 1; tries < 12; tries++) {
      await until(
        async () => fake.calls.length === tries && (await state(id)).nextAt > clock.now(),
      );
      const wait = (await state(id)).nextAt - clock.now();
      expect(wait).toBeGreaterThanOrEqual(0.75 * Math.min(1000 * 2 ** (tries - 1), 900_000));
      expect(wait).toBeLessThanOrEqual(Math.min(1250 * 2 ** (tries - 1), 900_000));
      await postOther();
      await pass(wait);
    }
    await until(async () => (await state(id)).status === "failed");
    expect(await state(id)).toMatchObject({
      attempts: 12,
      error: { code: "given_up", message: "given up after 12 tries: busy" },
    });
    await until(async () => (await state(next)).status === "delivered");
    expect(outcomes.slice(-2)).toEqual(["x failed", "x delivered"]);
  });

  it("counts the tries of one piece: the next piece begins with none", async () => {
    const fake = fakeChannel({ limit: 20 });
    fake.answers.push(
      ...Array.from({ length: 11 }, () => retry("busy", 10)),
      { status: "sent" },
      ...Array.from({ length: 11 }, () => retry("busy", 10)),
    );
    channels.set("x", withOthers(fake));
    worker.start();
    const id = await post("x", "bob", "one two three four\n\nfive six seven eight");
    for (let i = 0; i < 40 && (await state(id)).status === "pending"; i++) {
      await postOther();
      await pass(900_000);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    expect(await state(id)).toMatchObject({ status: "delivered", nextChunk: 2 });
  });

  it("doubles its wait after three tries, also if the channel names a shorter one", () => {
    const named = { status: "retry", reason: "busy", afterMs: 1000 } as const;
    const waits = [1, 2, 3, 4, 11].map((attempts) => getWaitMs(attempts, named));
    expect(waits.slice(0, 3)).toEqual([1000, 1000, 1000]);
    expect(waits[3]).toBeGreaterThanOrEqual(6000);
    expect(waits[4]).toBeGreaterThanOrEqual(675_000);
  });

  it("is the last one when the next would be past delivery.maxAge", async () => {
    const fake = fakeChannel();
    fake.answers.push(retry("busy", 20 * HOUR), retry("busy", 5 * HOUR));
    channels.set("x", fake.channel);
    worker.start();
    const id = await post("x", "bob", "hello");
    await until(async () => (await state(id)).nextAt > clock.now());
    await pass(20 * HOUR);
    await until(async () => (await state(id)).status === "failed");
    expect(await state(id)).toMatchObject({
      attempts: 2,
      error: { code: "given_up", message: "not sent within delivery.maxAge: busy" },
    });
  });

  it.each<[SendResult, string, string]>([
    [{ status: "failed", reason: "chat not found" }, "failed", "refused"],
    [{ status: "unknown", reason: "cut off" }, "unknown", "unknown"],
  ])("is not repeated if it answers %j", async (answer, status, code) => {
    const fake = fakeChannel();
    fake.answers.push(answer);
    channels.set("x", fake.channel);
    worker.start();
    const id = await post("x", "bob", "hello");
    await until(async () => (await state(id)).status === status);
    expect((await state(id)).error).toMatchObject({ code });
    await pass(HOUR);
    expect(fake.calls).toHaveLength(1);
  });

  it("ends immediately if the channel is no longer configured", async () => {
    worker.start();
    const id = await post("x", "bob", "hello");
    await until(async () => (await state(id)).status === "failed");
    expect((await state(id)).error).toMatchObject({
      code: "no_such_channel",
      message: expect.stringContaining("channels.x") as unknown,
    });
  });
});

describe("a plugin that misbehaves", () => {
  it("that throws is tried again, and nothing of its message is kept", async () => {
    const fake = fakeChannel();
    fake.answers.push(async () => {
      throw Object.assign(new Error("token-4711 in the url"), { code: "ECONNRESET" });
    });
    channels.set("x", fake.channel);
    worker.start();
    const id = await post("x", "bob", "hello");
    await until(async () => (await state(id)).error !== undefined);
    expect((await state(id)).error?.message).toBe("sending failed (ECONNRESET)");
    expect(lines.join("")).not.toContain("4711");
    await pass(2_000);
    await until(async () => (await state(id)).status === "delivered");
  });

  it("that says nothing sensible may have sent: it is not tried again", async () => {
    const fake = fakeChannel();
    fake.answers.push({ status: "done" } as unknown as SendResult);
    channels.set("x", fake.channel);
    worker.start();
    const id = await post("x", "bob", "hello");
    await until(async () => (await state(id)).status === "unknown");
  });

  it("that hangs is cut off after thirty seconds, though it ignores the signal", async () => {
    const fake = fakeChannel();
    fake.answers.push(() => new Promise(() => undefined));
    channels.set("x", fake.channel);
    worker.start();
    const id = await post("x", "bob", "hello");
    await until(() => fake.calls.length === 1);
    await pass(29_000);
    expect((await state(id)).error).toBeUndefined();
    // Not as long as until the next try.
    await pass(2_500);
    await until(async () => (await state(id)).error?.message === "no answer within 30 seconds");
  });

  it("gets an abort signal, and its answer after that counts", async () => {
    const fake = fakeChannel();
    channels.set("x", {
      send: (_message, signal) =>
        new Promise((resolve) =>
          signal.addEventListener("abort", () => resolve({ status: "unknown", reason: "aborted" })),
        ),
    });
    worker.start();
    const id = await post("x", "bob", "hello");
    await settle();
    await pass(31_000);
    await until(async () => (await state(id)).status === "unknown");
    expect(fake.calls).toHaveLength(0);
  });
});

describe("stopping and starting", () => {
  it("waits for the send in progress and leaves the rest to the next start", async () => {
    const fake = fakeChannel({ limit: 20 });
    let release: (result: SendResult) => void = () => undefined;
    fake.answers.push(() => new Promise((resolve) => (release = resolve)));
    channels.set("x", fake.channel);
    worker.start();
    const id = await post("x", "bob", "one two three four\n\nfive six seven eight");
    await until(() => fake.calls.length === 1);
    const stopped = worker.stop();
    await settle();
    release({ status: "sent", messageIds: ["a"] });
    await stopped;
    expect(await state(id)).toMatchObject({ status: "pending", nextChunk: 1, messageIds: ["a"] });
    expect(fake.calls).toHaveLength(1);
    worker = openWorker();
    worker.start();
    await until(async () => (await state(id)).status === "delivered");
    expect(fake.calls.map((call) => call.idempotencyKey)).toEqual([`${id}.0`, `${id}.1`]);
  });

  it("cuts a send off that takes more than five seconds to end", async () => {
    const fake = fakeChannel();
    fake.answers.push(() => new Promise(() => undefined));
    channels.set("x", fake.channel);
    worker.start();
    const id = await post("x", "bob", "hello");
    await until(() => fake.calls.length === 1);
    let done = false;
    const stopped = worker.stop().then(() => (done = true));
    await pass(4_900);
    expect(done).toBe(false);
    await pass(1_200);
    await stopped;
    expect(await state(id)).toMatchObject({
      status: "pending",
      error: { message: "the gateway stopped" },
    });
  });

  it("gives up a delivery whose starts never came to an end", async () => {
    const fake = fakeChannel();
    channels.set("x", fake.channel);
    const id = await post("x", "bob", "hello");
    for (let i = 0; i < 12; i++) {
      expect(await queue.fetch("delivery", 1)).toHaveLength(1);
      await queue.recover();
    }
    worker.start();
    await until(async () => (await state(id)).status === "failed");
    expect((await state(id)).error?.code).toBe("crashed");
    expect(fake.calls).toHaveLength(0);
  });

  it("does not send again what was sent while the store was away", async () => {
    const fake = fakeChannel();
    channels.set("x", fake.channel);
    const broken = { ...store };
    let failures = 3;
    broken.commit = async (write, held) => {
      if (held && fake.calls.length > 0 && failures-- > 0) throw new Error("disk full");
      return store.commit(write, held);
    };
    const real = store;
    store = broken;
    worker = openWorker();
    store = real;
    worker.start();
    const id = await post("x", "bob", "hello");
    await until(() => fake.calls.length === 1);
    await pass(5_000);
    await until(async () => (await state(id)).status === "delivered");
    expect(fake.calls).toHaveLength(1);
  });
});

describe("a piece that was being sent when the gateway was killed", () => {
  /** Starts a delivery in a process that dies during the send of the piece with this number, and opens the next process. */
  async function killDuring(
    fake: ReturnType<typeof fakeChannel>,
    text: string,
    piece: number,
  ): Promise<string> {
    for (let n = 0; n < piece; n++) fake.answers.push({ status: "sent", messageIds: [`m${n}`] });
    fake.answers.push(() => new Promise(() => undefined));
    channels.set("x", fake.channel);
    worker.start();
    const id = await post("x", "bob", text);
    await until(() => fake.calls.length === piece + 1);
    kill();
    await queue.recover();
    worker = openWorker();
    return id;
  }

  it.each([0, 1])(
    "is not sent again if its outcome is unknown: the delivery ends as unknown, with the reason (piece %i)",
    async (piece) => {
      const fake = fakeChannel({ limit: 20 });
      const id = await killDuring(fake, "The first sentence. The second sentence.", piece);
      worker.start();
      await until(async () => (await state(id)).status === "unknown");
      expect(fake.calls).toHaveLength(piece + 1);
      expect(await state(id)).toMatchObject({
        nextChunk: piece,
        error: { code: "unknown", message: expect.stringMatching(/x cannot tell/) as string },
      });
      expect(await worker.retry(id)).toMatchObject({ ok: true });
      await until(async () => (await state(id)).status === "delivered");
      expect(fake.calls.map((call) => call.idempotencyKey)).toEqual([
        ...(piece === 1 ? [`${id}.0`] : []),
        `${id}.${piece}`,
        `${id}.${piece}`,
        ...(piece === 0 ? [`${id}.1`] : []),
      ]);
    },
  );

  it("goes to a channel that can find out, with the time of the try, until the channel has an answer", async () => {
    const asked: [string, number][] = [];
    const answers: SendResult[] = [retry("busy", 100), { status: "sent", messageIds: ["found"] }];
    const fake = fakeChannel({
      limit: 20,
      resend: async ({ idempotencyKey }, since) => (
        asked.push([idempotencyKey, since]),
        answers.shift() as SendResult
      ),
    });
    const began = clock.now();
    const id = await killDuring(fake, "The first sentence. The second sentence.", 0);
    await clock.advance(5_000);
    worker.start();
    await until(async () => (await state(id)).error?.code === "retry");
    await pass(100);
    await until(async () => (await state(id)).status === "delivered");
    expect(asked).toEqual([
      [`${id}.0`, began],
      [`${id}.0`, began],
    ]);
    expect(fake.calls.map((call) => call.idempotencyKey)).toEqual([`${id}.0`, `${id}.1`]);
    expect((await state(id)).messageIds[0]).toBe("found");
    expect((await state(id)).sendingSince).toBeUndefined();
  });

  it("is sent again if the try before it was answered: nothing is in doubt then", async () => {
    const fake = fakeChannel({ limit: 20 });
    fake.answers.push(retry("busy", 60_000));
    channels.set("x", fake.channel);
    worker.start();
    const id = await post("x", "bob", "hello");
    await until(async () => (await state(id)).error?.code === "retry");
    expect((await state(id)).sendingSince).toBeUndefined();
    await pass(60_000);
    await until(async () => (await state(id)).status === "delivered");
    expect(fake.calls).toHaveLength(2);
  });

  it("goes to a channel that can find out after a retry of which the channel says that it may have arrived", async () => {
    let found = 0;
    const fake = fakeChannel({ resend: async () => (found++, { status: "sent" }) });
    fake.answers.push({ status: "retry", reason: "cut", afterMs: 100, uncertain: true });
    channels.set("x", fake.channel);
    worker.start();
    const id = await post("x", "bob", "hello");
    await until(async () => (await state(id)).error?.code === "retry");
    await pass(100);
    await until(async () => (await state(id)).status === "delivered");
    expect([fake.calls.length, found]).toEqual([1, 1]);
  });
});

describe("an operator's retry", () => {
  it("sends a failed delivery from the first piece not sent, with its tries and its age forgotten", async () => {
    const fake = fakeChannel({ limit: 20 });
    fake.answers.push(
      { status: "sent", messageIds: ["a"] },
      { status: "failed", reason: "blocked" },
    );
    channels.set("x", fake.channel);
    worker.start();
    const id = await post("x", "bob", "one two three four\n\nfive six seven eight");
    await until(async () => (await state(id)).status === "failed");
    await pass(48 * HOUR);
    fake.answers.push(retry("busy", 100));
    const result = await worker.retry(id);
    expect(result).toMatchObject({ ok: true, delivery: { status: "pending" } });
    expect(result.ok && [result.delivery.error, result.delivery.endedAt]).toEqual([
      undefined,
      undefined,
    ]);
    await until(async () => (await state(id)).nextAt === clock.now() + 100);
    await pass(100);
    await until(async () => (await state(id)).status === "delivered");
    expect(fake.calls.map((call) => call.idempotencyKey)).toEqual([
      `${id}.0`,
      `${id}.1`,
      `${id}.1`,
      `${id}.1`,
    ]);
  });

  it("refuses what was delivered and what is not there", async () => {
    channels.set("x", fakeChannel().channel);
    worker.start();
    const id = await post("x", "bob", "hello");
    await until(async () => (await state(id)).status === "delivered");
    expect(await worker.retry(id)).toMatchObject({
      ok: false,
      failure: { message: expect.stringContaining("delivered") as unknown },
    });
    expect(await worker.retry("dlv_none")).toMatchObject({
      ok: false,
      failure: { code: "not_found" },
    });
  });
});
