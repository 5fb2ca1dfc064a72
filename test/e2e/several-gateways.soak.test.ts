import { afterEach, beforeEach, expect, it } from "vitest";
import { describePostgres, newSchema, type Schema } from "../store/postgres.ts";
import { createCuttingProxy } from "./cutting-proxy.ts";
import { drained, settle } from "./fleet-account.ts";
import { createFleet, type Fleet } from "./fleet.ts";
import { describePrivatePostgres, startPrivatePostgres } from "./private-postgres.ts";
import type { Program } from "./program.ts";

/** SOAK=1: two minutes, and 20 seconds cut off. */
const SOAK = process.env["SOAK"] === "1";
const LOAD_MS = SOAK ? 120_000 : 24_000;
const CUT = SOAK ? { fromMs: 40_000, ms: 20_000 } : { fromMs: 3000, ms: 14_000 };
const KILL_EVERY_MS = 5000;
const BEAT_MS = 1000;
const SENDERS = 8;

const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

let fleet: Fleet;
let programs: Program[] = [];

beforeEach(async () => {
  fleet = await createFleet({ every: `${BEAT_MS}ms`, instructions: "Look around." });
});
afterEach(async () => {
  await Promise.all(programs.splice(0).map((program) => program.kill().catch(() => undefined)));
  await fleet.close();
});

const startOne = async (url: string): Promise<Program> => {
  const program = await fleet.start(url);
  programs.push(program);
  return program;
};

describePostgres("three gateways on one database", () => {
  let schema: Schema;
  beforeEach(() => void (schema = newSchema()));
  afterEach(() => schema.drop());

  it("do what they acknowledged once, in order, while they are killed and cut off", { timeout: 400_000 }, async () => {
    const proxy = await createCuttingProxy(new URL(schema.url));
    const cutUrl = new URL(schema.url);
    cutUrl.port = String(proxy.port);
    const urls = [schema.url, schema.url, cutUrl.href];
    const gateways: (Program | undefined)[] = [await startOne(urls[0] as string)];
    gateways.push(...(await Promise.all(urls.slice(1).map(startOne))));
    const began = performance.now();
    const passed = (): number => performance.now() - began;
    let over = false;
    let kills = 0;

    const killing = (async () => {
      for (let turn = 0; passed() + KILL_EVERY_MS < LOAD_MS; turn++) {
        // By the clock: a machine on which starts take their time has as many kills.
        await pause(Math.max(0, (turn + 1) * KILL_EVERY_MS - passed()));
        // The one behind the proxy is killed, too, but not while it is cut off.
        const isCut = passed() > CUT.fromMs - 1000 && passed() < CUT.fromMs + CUT.ms + 1000;
        const victim = turn % (isCut ? 2 : 3);
        const program = gateways[victim];
        gateways[victim] = undefined;
        await program?.kill();
        kills++;
        gateways[victim] = await startOne(urls[victim] as string);
      }
    })();
    const cutting = pause(CUT.fromMs)
      .then(() => proxy.cut(true))
      .then(() => pause(CUT.ms))
      .then(() => proxy.cut(false));
    const sending = fleet.send(
      SENDERS,
      () => gateways.flatMap((program) => program?.url ?? []),
      () => over,
    );
    await pause(LOAD_MS);
    await Promise.all([killing, cutting]);
    over = true;
    await sending;
    await drained(schema.url, 120_000);
    for (const program of gateways) expect(await program?.stop()).toBe(0);
    const ranMs = passed();
    proxy.close();
    const account = await settle(fleet, schema.url, { everyMs: BEAT_MS, ranMs });
    console.log(`${Math.round(LOAD_MS / 1000)} s, ${kills} kills, ${CUT.ms / 1000} s cut off: ${account}`);
    expect(kills).toBeGreaterThanOrEqual(SOAK ? 15 : 3);
    expect(fleet.account.runs.length).toBeGreaterThan(LOAD_MS / 100);
  });
});

describePrivatePostgres("PostgreSQL that is restarted under load", () => {
  it("hooks get 503 with Retry-After and nothing else, and it goes on without a hand", { timeout: 180_000 }, async () => {
    const postgres = await startPrivatePostgres();
    try {
      const url = postgres.url.href;
      const gateways = [await startOne(url), await startOne(url)];
      const began = performance.now();
      let over = false;
      const sending = fleet.send(
        SENDERS,
        () => gateways.map((program) => program.url),
        () => over,
      );
      const refused = (): number => fleet.account.statuses.get(503) ?? 0;
      for (const mode of ["fast", "immediate"] as const) {
        await pause(3000);
        const before = refused();
        await postgres.stop(mode);
        await pause(SOAK ? 15_000 : 4000);
        expect(refused()).toBeGreaterThan(before);
        await postgres.start();
      }
      const accepted = fleet.account.runs.length;
      for (let waited = 0; fleet.account.runs.length < accepted + 50 && waited < 30_000; waited += 100) await pause(100);
      expect(fleet.account.runs.length).toBeGreaterThanOrEqual(accepted + 50);
      over = true;
      await sending;
      // Both take hooks and work again: what was left by both comes to its end.
      await drained(url, 60_000);
      for (const program of gateways) expect(await program.stop()).toBe(0);
      expect(fleet.account.unanswered).toBe(0);
      const account = await settle(fleet, url, { everyMs: BEAT_MS, ranMs: performance.now() - began });
      console.log(`PostgreSQL stopped twice: ${account}`);
    } finally {
      await postgres.remove();
    }
  });
});
