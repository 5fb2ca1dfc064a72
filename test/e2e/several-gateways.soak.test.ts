import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { scale } from "../soak.ts";
import { createCuttingProxy } from "./cutting-proxy.ts";
import { drained, settle } from "./fleet-account.ts";
import { createFleet, type Fleet } from "./fleet.ts";
import { describePrivatePostgres, startPrivatePostgres } from "./private-postgres.ts";
import type { Program } from "./program.ts";

/** The time in which one gateway is cut off from the database. It is longer than a lease. */
const CUT = scale({ fromMs: 3000, ms: 14_000 }, { fromMs: 40_000, ms: 20_000 });
const KILLS = scale(2, 23);
const KILL_EVERY_MS = 5000;
/** The time for which PostgreSQL is stopped. */
const AWAY_MS = scale(4000, 15_000);
const BEAT_MS = 1000;
const SENDERS = scale(4, 8);
/** The number of kills of a gateway on SQLite, and the least number of turns between two kills. */
const LIVES = scale(4, 40);
const TURNS = 10;
/** Hooks to it follow each other so closely that each kill cuts some off. */
const CLOSE_MS = 5;

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

describe("a gateway on SQLite", () => {
  it(
    "does what it acknowledged once, in order, whenever it is killed",
    { timeout: scale(240_000, 600_000) },
    async () => {
      const url = `sqlite:${join(fleet.dir, "killed.db")}`;
      const began = performance.now();
      for (let life = 0; life < LIVES; life++) {
        const program = await startOne(url);
        let over = false;
        const sending = fleet.send(
          SENDERS,
          () => [program.url],
          () => over,
          CLOSE_MS,
        );
        const asked = fleet.provider.requests.length;
        await pause(100 + Math.random() * 500);
        // On a busy machine a life lasts until some turns were under way: else most runs would be cut off in all of them.
        for (let looks = 0; looks < 3000 && fleet.provider.requests.length < asked + TURNS; looks++)
          await pause(10);
        await program.kill();
        over = true;
        await sending;
      }
      const last = await startOne(url);
      await drained(url, 120_000);
      expect(await last.stop()).toBe(0);
      const ranMs = performance.now() - began;
      const account = await settle(fleet, url, { everyMs: BEAT_MS, ranMs, kills: LIVES });
      console.log(`${LIVES} kills: ${account}`);
      expect(fleet.account.runs.length).toBeGreaterThan(LIVES * SENDERS * 3);
    },
  );
});

describePrivatePostgres("three gateways on one database", () => {
  it(
    "do what they acknowledged once, in order, while they are killed and cut off",
    { timeout: 400_000 },
    async () => {
      const postgres = await startPrivatePostgres();
      onTestFinished(() => postgres.remove());
      const url = postgres.url.href;
      const proxy = await createCuttingProxy(postgres.url);
      const cutUrl = new URL(url);
      cutUrl.port = String(proxy.port);
      const urls = [url, url, cutUrl.href];
      const gateways: (Program | undefined)[] = [await startOne(urls[0] as string)];
      gateways.push(...(await Promise.all(urls.slice(1).map(startOne))));
      const began = performance.now();
      const passed = (): number => performance.now() - began;
      let over = false;

      const killing = (async () => {
        for (let turn = 0; turn < KILLS; turn++) {
          await pause(Math.max(0, (turn + 1) * KILL_EVERY_MS - passed()));
          // The one behind the proxy is killed, too, but not while it is cut off.
          const isCut = passed() > CUT.fromMs - 1000 && passed() < CUT.fromMs + CUT.ms + 1000;
          const victim = turn % (isCut ? 2 : 3);
          const program = gateways[victim];
          gateways[victim] = undefined;
          await program?.kill();
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
      await Promise.all([killing, cutting]);
      over = true;
      await sending;
      await drained(url, 120_000);
      for (const program of gateways) expect(await program?.stop()).toBe(0);
      const ranMs = passed();
      proxy.close();
      const account = await settle(fleet, url, { everyMs: BEAT_MS, ranMs, kills: KILLS });
      console.log(`${KILLS} kills, ${CUT.ms / 1000} s cut off: ${account}`);
      expect(fleet.account.runs.length).toBeGreaterThan(KILLS * SENDERS);
    },
  );
});

describePrivatePostgres("PostgreSQL that is restarted under load", () => {
  it(
    "hooks get 503 with Retry-After and nothing else, and it goes on without a hand",
    { timeout: 400_000 },
    async () => {
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
          await pause(AWAY_MS);
          expect(refused()).toBeGreaterThan(before);
          await postgres.start();
        }
        const accepted = fleet.account.runs.length;
        for (
          let waited = 0;
          fleet.account.runs.length < accepted + 50 && waited < 90_000;
          waited += 100
        )
          await pause(100);
        expect(fleet.account.runs.length).toBeGreaterThanOrEqual(accepted + 50);
        over = true;
        await sending;
        // Both take hooks and work again: what was left by both comes to its end.
        await drained(url, 120_000);
        for (const program of gateways) expect(await program.stop()).toBe(0);
        expect(fleet.account.unanswered).toBe(0);
        const account = await settle(fleet, url, {
          everyMs: BEAT_MS,
          ranMs: performance.now() - began,
          kills: 0,
        });
        console.log(`PostgreSQL stopped twice: ${account}`);
      } finally {
        await postgres.remove();
      }
    },
  );
});
