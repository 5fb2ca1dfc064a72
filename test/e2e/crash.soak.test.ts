import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createLogger } from "../../src/core/log.ts";
import { systemClock } from "../../src/core/clock.ts";
import { openStore } from "../../src/store/open.ts";
import { plainText } from "../../src/core/text.ts";
import { scale } from "../soak.ts";
import { createProvider, modelConfig, type Provider } from "./provider.ts";
import { startProgram, type Program } from "./program.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const TOKEN = "crash-hook-token-0123456789";
const KILLS = scale(4, 40);
const SENDERS = 6;
const KEYS = 5;
const TURNS = 10;

interface Acknowledged {
  n: number;
  runId: string;
  key: string;
}

let dir: string;
let provider: Provider;
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "rouse-crash-"));
  provider = await createProvider();
  const config = {
    gateway: { port: 0, drainSeconds: 5 },
    log: { level: "silent" },
    hooks: { enabled: true, token: TOKEN },
    ...modelConfig(provider),
  };
  writeFileSync(join(dir, "rouse.json5"), JSON.stringify(config));
});
afterAll(async () => {
  await provider.close();
  rmSync(dir, { recursive: true, force: true });
});

const start = (): Promise<Program> =>
  startProgram(process.execPath, [join(ROOT, "bin/rouse.js"), "start"], {
    cwd: dir,
    env: { ROUSE_LOG_LEVEL: "silent" },
  });

it(
  "loses and doubles nothing that was acknowledged, whenever it is killed",
  async () => {
    const acknowledged: Acknowledged[] = [];
    const wakes: string[] = [];
    let next = 0;
    let unanswered = 0;

    const send = async (program: Program, stopped: () => boolean): Promise<void> => {
      while (!stopped()) {
        const n = next++;
        const key = `hook:${n % KEYS}`;
        const isWake = n % 10 === 9;
        const body = isWake
          ? { text: `wake ${n}.` }
          : {
              message: `task ${n}.`,
              sessionKey: key,
              deliver: n % 3 === 0,
              wakeMode: "next-heartbeat",
            };
        try {
          const answer = await fetch(`${program.url}/hooks/${isWake ? "wake" : "agent"}`, {
            method: "POST",
            headers: { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" },
            body: JSON.stringify(body),
          });
          const { runId } = (await answer.json()) as { runId?: string };
          if (isWake && answer.status === 200) wakes.push(`wake ${n}.`);
          if (runId !== undefined) acknowledged.push({ n, runId, key });
          await new Promise((done) => setTimeout(done, 5));
        } catch {
          // Cut off before the answer: it may be there or not, nothing was promised.
          unanswered++;
          return;
        }
      }
    };

    for (let kill = 0; kill < KILLS; kill++) {
      const program = await start();
      let over = false;
      const senders = Array.from({ length: SENDERS }, () => send(program, () => over));
      const asked = provider.requests.length;
      await new Promise((done) => setTimeout(done, 100 + Math.random() * 500));
      // On a busy machine a life lasts until some turns were under way: else most runs would be cut off in all of them.
      for (let looks = 0; looks < 3000 && provider.requests.length < asked + TURNS; looks++)
        await new Promise((done) => setTimeout(done, 10));
      await program.kill();
      over = true;
      await Promise.all(senders);
    }

    const last = await start();
    // Runs of a key end in order: when the last of each has, all have.
    const lastOfKeys = Array.from(
      { length: KEYS },
      (_, key) => acknowledged.findLast((entry) => entry.key === `hook:${key}`)?.runId,
    );
    const pending = async (): Promise<boolean> => {
      const ended = await Promise.all(
        lastOfKeys.map(async (runId) => {
          const answer = await fetch(`${last.url}/hooks/runs/${runId}`, {
            headers: { authorization: `Bearer ${TOKEN}` },
          });
          return (
            ((await answer.json()) as { run: { endedAt: string | null } }).run.endedAt !== null
          );
        }),
      );
      return !ended.every(Boolean);
    };
    for (let i = 0; i < 600 && (await pending()); i++)
      await new Promise((done) => setTimeout(done, 100));
    await new Promise((done) => setTimeout(done, 1500));
    expect(await last.stop()).toBe(0);

    const { store } = await openStore({
      url: `sqlite:${join(dir, ".rouse", "rouse.db")}`,
      clock: systemClock,
      log: createLogger("silent"),
    });
    const summaries = new Map<string, number>();
    const seenWakes = new Set<string>();
    for (let before: string | undefined; ;) {
      const page = await store.systemEvents.list({
        limit: 1000,
        ...(before === undefined ? {} : { before }),
      });
      for (const event of page) {
        const text = plainText(event.text);
        summaries.set(text, (summaries.get(text) ?? 0) + 1);
        if (text.startsWith("wake ")) seenWakes.add(text);
      }
      before = page.at(-1)?.id;
      if (page.length < 1000) break;
    }
    const runs = await Promise.all(acknowledged.map(async ({ runId }) => store.runs.get(runId)));
    const states = Object.groupBy(runs, (run) => run?.status ?? "lost");
    // The one other end that the contract has: a run that kills cut off three times is given up, and told. Lives shorter
    // than a turn bring that about on a busy machine. Anything else shows here with its state and its reason.
    const isGivenUp = (run: (typeof runs)[number]): boolean =>
      run?.status === "failed" && run.error?.code === "crashed" && run.attempts === 3;
    const odd = runs.filter((run) => run?.status !== "succeeded" && !isGivenUp(run));
    expect(odd.map((run) => [run?.id, run?.status, run?.attempts, run?.error])).toEqual([]);
    const givenUp = new Set(runs.filter(isGivenUp).map((run) => run?.id));
    const told = [...summaries].filter(([text]) =>
      text.includes("started 3 times without coming to an end"),
    );
    expect(told.reduce((sum, [, count]) => sum + count, 0)).toBeGreaterThanOrEqual(givenUp.size);
    // The third time nothing else is under way, so that each of them takes a kill of its own.
    expect(givenUp.size).toBeLessThanOrEqual(KILLS / 3);
    let turns = 0;
    for (let key = 0; key < KEYS; key++) {
      const history = await store.sessions.listTurns({
        agentId: "main",
        origin: "hook",
        key: `hook:${key}`,
        via: { path: "agent", credential: "hooks.token" },
      });
      turns += history.length;
      const ids = history.map((turn) => turn.runId);
      // Once each, and in the order in which they were accepted: ids sort by time.
      expect(new Set(ids).size).toBe(ids.length);
      const mine = acknowledged
        .filter((entry) => entry.key === `hook:${key}`)
        .map((entry) => entry.runId);
      expect(mine.filter((id) => ids.includes(id) === givenUp.has(id))).toEqual([]);
      const order = await Promise.all(
        ids.map(async (id) => (await store.runs.get(id))?.createdAt ?? 0),
      );
      expect(order).toEqual(order.toSorted((a, b) => a - b));
    }
    await store.close();
    console.log(
      `${KILLS} kills: ${acknowledged.length} runs and ${wakes.length} wakes acknowledged, ${unanswered} requests cut off; ${states["succeeded"]?.length ?? 0} runs succeeded, ${turns} turns kept, the model was asked ${provider.requests.length} times`,
    );
    expect((states["succeeded"]?.length ?? 0) + givenUp.size).toBe(acknowledged.length);
    expect(wakes.filter((text) => !seenWakes.has(text))).toEqual([]);
    expect(acknowledged.length).toBeGreaterThan(KILLS * 5);
  },
  scale(240_000, 600_000),
);
