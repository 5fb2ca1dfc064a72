import { rmSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, it } from "vitest";
import { approvalWorld, type ApprovalWorld } from "../approvals/world.ts";
import { message, sayOn, sentOn } from "../channels/pipe.ts";

const TURNS = 120_000;
/** Turns of the session that the long one is compared with: more than the model's window has room for. */
const SHORT = 1_000;
const ROUNDS = 5;
const TEXT = "word ".repeat(200);

let world: ApprovalWorld;
afterEach(async () => {
  await world.close();
  rmSync(world.dir, { recursive: true, force: true });
});

function seed(count: number): void {
  const db = new DatabaseSync(join(world.dir, ".rouse/rouse.db"));
  const record = `'{"runId":"run_' || n || '","at":1,"hook":"channels/pipe","unsafe":false,"input":[{"text":"said-' || n || '. ${TEXT}","outside":false,"by":"owner"}],"messages":[{"role":"assistant","content":"noted"}]}'`;
  db.exec(`WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${count})
    INSERT INTO turns (session, record) SELECT 'main/main/main', ${record} FROM numbers`);
  db.exec(`UPDATE sessions SET turns = turns + ${count}`);
  db.close();
}

const say = async (text: string): Promise<void> => {
  const before = sentOn(world).length;
  await sayOn(world, message(text));
  await world.until(async () => sentOn(world).length > before);
};

/** The longest that the event loop stood still while `work` was done, in milliseconds. */
async function longestPause(work: () => Promise<void>): Promise<number> {
  let longest = 0;
  let last = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
  }, 1);
  await work();
  clearInterval(timer);
  return longest;
}

const median = (values: number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] as number;

/** Pauses of the event loop while a turn is taken and hooks are accepted, and the memory that the turns needed. */
async function measure(turns: number): Promise<{ pause: number; bytes: number }> {
  world = await approvalWorld({ contextTokens: 64_000 });
  world.model.handler = () => ({ text: "noted" });
  await say("hello");
  seed(turns);
  globalThis.gc?.();
  const before = process.memoryUsage.rss();
  let most = before;
  const pauses: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const work = async (): Promise<void> => {
      const accepts = Array.from({ length: 5 }, async (_, n) => {
        await sleep(n * 5);
        expect((await world.post("/hooks/wake", { text: "later", mode: "next-heartbeat" })).status).toBe(200);
      });
      await Promise.all([say(`next-${round}`), ...accepts]);
    };
    pauses.push(await longestPause(work));
    most = Math.max(most, process.memoryUsage.rss());
  }
  return { pause: median(pauses), bytes: most - before };
}

it("a turn in a session of 120,000 turns holds up accepts no longer than one in a session of 1,000", { timeout: 300_000 }, async () => {
  const short = await measure(SHORT);
  await world.close();
  rmSync(world.dir, { recursive: true, force: true });
  const long = await measure(TURNS);
  console.log(JSON.stringify({ short, long }));
  expect(long.pause / short.pause).toBeLessThan(4);
  // All of the turns would be 140 MB of text, and several times as much once it is read.
  expect(long.bytes).toBeLessThan(150e6);
});
