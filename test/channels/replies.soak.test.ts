import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it, onTestFinished } from "vitest";
import { newParking } from "../parking.ts";
import { createLogger } from "../../src/core/log.ts";
import { createDeliveryWorker } from "../../src/delivery/deliver.ts";
import { planDelivery } from "../../src/delivery/plan.ts";
import { openStore } from "../../src/store/open.ts";
import type { Fault } from "../../src/testing/channel.ts";
import { load, userFolder } from "../plugin/support.ts";
import { scale } from "../soak.ts";
import { numbered, numbersOf } from "./numbered-markdown.ts";
import { VENDORS, type Vendor } from "./vendors.ts";

const REPLIES = scale(15, 400);
const MAX_CHARS = 20_000;
const RECIPIENTS = 3;
/** Waits that vendors ask for pass so much faster. */
const SPEED = 300;
const FAULTS: Fault[] = ["rate-limited", "unavailable", "cut-connection"];

/** The time, `SPEED` times as fast, but for what a send may take. */
function quickClock(speed: number) {
  const start = Date.now();
  return {
    now: () => start + (Date.now() - start) * speed,
    sleep: (ms: number, signal?: AbortSignal) =>
      new Promise<void>((done) => {
        const timer = setTimeout(done, ms >= 30_000 ? ms : ms / speed);
        signal?.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
      }),
  };
}

const random = (() => {
  let state = 4711;
  return (most: number): number => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return state % most;
  };
})();

/** A reply of about so many characters: emoji, CJK, fencingTokens, tables and links, in which numbers go on from `from`. */
function reply(chars: number, from: number): { text: string; next: number } {
  let text = "";
  let next = from;
  for (let sample = 0; text.length < chars; sample++) {
    const [one] = fc.sample(numbered, { seed: from * 1000 + sample, numRuns: 1 });
    if (!one) continue;
    const base = next;
    // Each sample has its own references.
    const own = one.markdown.replaceAll(
      /\[(r|unused)(\d+)\]/g,
      (_, name: string, n: string) => `[${name}${base}n${n}]`,
    );
    text += `${text === "" ? "" : "\n\n"}${own.replaceAll(/w(\d+)\./g, (_, n: string) => `w${base + Number(n)}.`)}`;
    next += one.count;
  }
  return { text, next };
}

async function soak({
  id,
  section,
  start,
  realTime,
}: Vendor): Promise<{ replies: number; pieces: number; faults: number }> {
  const count = realTime ? scale(8, REPLIES / 4) : REPLIES;
  const far = await start();
  onTestFinished(() => far.close());
  const { channels, issues } = await load(userFolder({}).dir, {
    channels: { [id]: section(far.url) },
  });
  expect(issues).toEqual([]);
  const channel = channels.get(id)?.channel;
  if (!channel) throw new Error("the channel is not there");
  // Only such faults of which the channel knows that nothing went out: of the others it is for an operator to decide.
  const passing: Fault[] = [];
  for (const fault of FAULTS) {
    far.fail(fault, 1);
    const result = await channel.send(
      { to: far.to[0] as string, text: "x", idempotencyKey: "probe.0" },
      AbortSignal.timeout(5000),
    );
    if (result.status === "retry") passing.push(fault);
  }
  expect(passing).toContain("rate-limited");
  const before = far.arrived().length;
  const dir = mkdtempSync(join(tmpdir(), "rouse-soak-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const clock = quickClock(realTime ? 1 : SPEED);
  const log = createLogger("silent");
  const { store, queue } = await openStore({ url: `sqlite:${join(dir, "soak.db")}`, clock, log });
  const outcomes: string[] = [];
  const worker = createDeliveryWorker({
    store,
    parking: newParking(store, clock),
    queue,
    snapshot: () => ({
      channels,
      agents: { default: { id: "main" } },
      config: { delivery: { maxAge: Infinity } },
    }),
    callbacks: channel,
    clock,
    log,
    metrics: { deliveryEnded: ({ status }) => void outcomes.push(status) },
  });
  const meant = new Map<string, number>();
  for (let n = 0; n < count; n++) {
    const to = far.to[n % Math.min(RECIPIENTS, far.to.length)] as string;
    const { text, next } = reply(1 + random(n % 10 === 0 ? MAX_CHARS : 1500), meant.get(to) ?? 0);
    meant.set(to, next);
    const planned = planDelivery({
      runId: `run_${n}`,
      route: { channel: id, to },
      text,
      channels,
      now: clock.now(),
    });
    await store.commit((tx) => {
      tx.deliveries.add(planned.delivery);
      tx.jobs.add(planned.job);
    });
  }
  let faults = 0;
  let troubled = before;
  const trouble = setInterval(() => {
    // After some messages each: trouble without an end would be given up, as it should.
    if (far.arrived().length < troubled + 4) return;
    troubled = far.arrived().length;
    far.fail(passing[random(passing.length)] as Fault, 1 + random(2));
    faults++;
  }, 5);
  // The store's timers go by the real time: a look brings up what is due by the quick one.
  const looking = setInterval(
    () => void store.commit((tx) => tx.jobs.reschedule("delivery", "none", 0)),
    20,
  );
  worker.start();
  while (outcomes.length < count) await new Promise((done) => setTimeout(done, 20));
  clearInterval(trouble);
  clearInterval(looking);
  await worker.stop();
  const failed = [
    ...(await store.deliveries.list({ status: "failed" })),
    ...(await store.deliveries.list({ status: "unknown" })),
  ];
  await store.close();
  expect(
    failed.map(({ attempts, error, chunks, nextChunk }) => [
      attempts,
      error?.message,
      chunks[nextChunk],
    ]),
  ).toEqual([]);
  const arrived = far.arrived().slice(before);
  for (const [to, numbersMeant] of meant) {
    const messages = arrived.filter((message) => message.to === to);
    // Once each, in order, nothing missing. An address may stand twice, as its own text.
    const numbers = messages.flatMap(({ text }) =>
      numbersOf(text).filter((number, index, all) => number !== all[index - 1]),
    );
    expect([to, numbers]).toEqual([to, Array.from({ length: numbersMeant }, (_, index) => index)]);
  }
  return { replies: count, pieces: arrived.length, faults };
}

describe("long and many replies arrive whole, once, and in order, whatever fails on the way", () => {
  it.each(VENDORS)("$id", { timeout: scale(300_000, 900_000) }, async (vendor) => {
    const { replies, pieces, faults } = await soak(vendor);
    console.log(`${vendor.id}: ${replies} replies in ${pieces} messages, ${faults} times trouble`);
    expect(pieces).toBeGreaterThanOrEqual(replies);
    expect(faults).toBeGreaterThan(0);
  });
});
