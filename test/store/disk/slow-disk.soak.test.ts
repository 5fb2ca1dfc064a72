import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, it } from "vitest";
import { startProgram, type Program } from "../../e2e/program.ts";
import { compileShim, describeWithCompiler } from "./shim.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const TOKEN = "slow-disk-token-0123456789";
const KEY = "rk_slow-disk-key-0123456789-0123456789";
const START = [join(ROOT, "bin/rouse.js"), "start"];
const SENDERS = 24;
const MEASURED_MS = 6000;
/** Each sender sends so often at the most: both runs have the same load. */
const PACE_MS = 150;

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "rouse-slow-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const post = (url: string, token: string, body: object): Promise<Response> =>
  fetch(url, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });

const p99 = (all: number[]): number => all.toSorted((a, b) => a - b)[Math.floor(all.length * 0.99)] ?? Infinity;

/** How far apart the pieces of a streamed answer arrive, in milliseconds. */
async function readGaps(url: string): Promise<number[]> {
  const body = { model: "main", stream: true, messages: [{ role: "user", content: "Speak." }] };
  const answer = await post(`${url}/v1/chat/completions`, KEY, body);
  const gaps: number[] = [];
  let last: number | undefined;
  for await (const piece of answer.body ?? []) {
    if (
      !Buffer.from(piece as Uint8Array)
        .toString("latin1")
        .includes(" word")
    )
      continue;
    const now = performance.now();
    if (last !== undefined) gaps.push(now - last);
    last = now;
  }
  return gaps;
}

interface Measured {
  livez: number;
  gap: number;
  hooks: number;
}

/** 99th percentiles under a load of hooks. */
async function measure({ url }: Program): Promise<Measured> {
  const end = performance.now() + MEASURED_MS;
  const [livez, gaps]: [number[], number[]] = [[], []];
  let hooks = 0;
  const send = async (): Promise<void> => {
    for (let began = performance.now(); began < end; began = performance.now()) {
      const answer = await post(`${url}/hooks/wake`, TOKEN, { text: randomBytes(24_000).toString("base64"), mode: "next-heartbeat" });
      if (answer.ok) hooks++;
      await sleep(began + PACE_MS - performance.now());
    }
  };
  const look = async (): Promise<void> => {
    for (; performance.now() < end; await sleep(5)) {
      const began = performance.now();
      await (await fetch(`${url}/livez`)).text();
      livez.push(performance.now() - began);
    }
  };
  const chat = async (): Promise<void> => {
    while (performance.now() < end) gaps.push(...(await readGaps(url)));
  };
  await Promise.all([...Array.from({ length: SENDERS }, send), look(), chat()]);
  expect(gaps.length).toBeGreaterThan(100);
  return { livez: p99(livez), gap: p99(gaps), hooks };
}

function writeConfig(provider: string): string {
  const folder = mkdtempSync(join(dir, "gateway-"));
  const config = {
    gateway: { port: 0, drainSeconds: 0 },
    hooks: { enabled: true, token: TOKEN },
    models: { providers: { local: { type: "openai-compatible", baseUrl: `${provider}/paced/v1` } } },
    agents: { defaults: { model: "local/m", heartbeat: { every: 0 } } },
    platform: { apiKeys: [{ id: "test", key: KEY }] },
  };
  writeFileSync(join(folder, "rouse.json5"), JSON.stringify(config));
  return folder;
}

/** How often the log was restarted, the start of the gateway included. */
function countRestarts(folder: string): number {
  const db = new DatabaseSync(join(folder, ".rouse", "rouse.db"));
  const { user_version: restarts } = db.prepare("PRAGMA user_version").get() as { user_version: number };
  db.close();
  return restarts;
}

describeWithCompiler("a disk that takes 50 ms for each sync", () => {
  it("holds up neither streams nor /livez, also while the log is copied into the database", { timeout: 120_000 }, async () => {
    const provider = await startProgram(process.execPath, [join(ROOT, "bench/provider.ts")], { cwd: ROOT });
    try {
      const run = async (env: Record<string, string>): Promise<Measured> => {
        const folder = writeConfig(provider.url);
        const rouse = await startProgram(process.execPath, START, { cwd: folder, env });
        try {
          return await measure(rouse);
        } finally {
          await rouse.kill();
          expect(countRestarts(folder)).toBeGreaterThan(1);
        }
      };
      const plain = await run({});
      const slow = await run({ LD_PRELOAD: compileShim(), DISK_DELAY_MS: "50" });
      // Whatever else the machine does, it did in the other run too.
      expect(slow.livez).toBeLessThan(20 + plain.livez);
      expect(slow.gap).toBeLessThan(20 + plain.gap);
      expect(slow.hooks).toBeGreaterThan(SENDERS);
    } finally {
      await provider.kill();
    }
  });
});

describeWithCompiler("a disk that fails while the log is synced", () => {
  it("refuses what it cannot keep, ends the process with the reason, and the next start has all that was acknowledged", async () => {
    const folder = writeConfig("http://127.0.0.1:9");
    const broken = join(dir, "broken");
    const args = [...START, "--no-workers"];
    const rouse = await startProgram(process.execPath, args, { cwd: folder, env: { LD_PRELOAD: compileShim(), DISK_FAIL: broken } });
    const send = async (): Promise<{ status: number; runId?: string }> => {
      const answer = await post(`${rouse.url}/hooks/agent`, TOKEN, { message: "hello" });
      return { ...((await answer.json()) as { runId?: string }), status: answer.status };
    };
    const acknowledged = await Promise.all(Array.from({ length: 20 }, send));
    expect(acknowledged.filter(({ status }) => status !== 202)).toEqual([]);
    writeFileSync(broken, "");
    const ended = new Promise<number | null>((resolve) => rouse.child.once("exit", resolve));
    const refused = await Promise.all(Array.from({ length: 5 }, send));
    expect(refused.map(({ status }) => status)).toEqual(Array.from({ length: 5 }, () => 503));
    expect(await ended).toBeGreaterThan(0);
    expect(rouse.output()).toContain("the disk did not confirm what was written");
    expect(rouse.output()).toContain("EIO");

    const next = await startProgram(process.execPath, args, { cwd: folder });
    try {
      for (const { runId } of acknowledged) {
        const answer = await fetch(`${next.url}/hooks/runs/${runId}`, { headers: { authorization: `Bearer ${TOKEN}` } });
        expect(answer.status).toBe(200);
      }
    } finally {
      await next.kill();
    }
  });
});
