import { rmSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, it } from "vitest";
import { approvalWorld, type ApprovalWorld } from "../approvals/world.ts";
import { message, sayOn, sentOn } from "../channels/pipe.ts";
import { scale } from "../soak.ts";

const TURNS = 120_000;
const ROUNDS = scale(2, 10);
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

it(
  "a turn in a session of 120,000 turns, and hooks meanwhile, need little memory",
  { timeout: 300_000 },
  async () => {
    world = await approvalWorld({ contextTokens: 64_000 });
    world.model.handler = () => ({ text: "noted" });
    await say("hello");
    seed(TURNS);
    globalThis.gc?.();
    const before = process.memoryUsage.rss();
    let most = before;
    for (let round = 0; round < ROUNDS; round++) {
      const accepts = Array.from({ length: 5 }, async (_, n) => {
        await sleep(n * 5);
        expect(
          (await world.post("/hooks/wake", { text: "later", mode: "next-heartbeat" })).status,
        ).toBe(200);
      });
      await Promise.all([say(`next-${round}`), ...accepts]);
      most = Math.max(most, process.memoryUsage.rss());
    }
    // All of the turns would be 140 MB of text, and several times as much once it is read.
    expect(most - before).toBeLessThan(150e6);
  },
);
