import { randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { startProgram } from "../../e2e/program.ts";
import { gate, startModel, type Model } from "../../platform/model.ts";
import { compileShim, describeWithCompiler } from "./shim.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const TOKEN = "slow-disk-token-0123456789";
const KEY = "rk_slow-disk-key-0123456789-0123456789";
const START = [join(ROOT, "bin/rouse.js"), "start"];
const LOOKS = 5;

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

function writeConfig(provider: string): string {
  const folder = mkdtempSync(join(dir, "gateway-"));
  const config = {
    gateway: { port: 0, drainSeconds: 0 },
    hooks: { enabled: true, token: TOKEN },
    models: { providers: { local: { type: "openai-compatible", baseUrl: provider } } },
    agents: { defaults: { model: "local/m", heartbeat: { every: 0 } } },
    platform: { apiKeys: [{ id: "test", key: KEY }] },
  };
  writeFileSync(join(folder, "rouse.json5"), JSON.stringify(config));
  return folder;
}

/** A streamed chat, whose model speaks on whenever it is to be heard. */
async function openChat(url: string, model: Model) {
  const gates = Array.from({ length: 1000 }, gate);
  model.says = () => ({
    text: gates.map((_, n) => ` word${n}`),
    wait: async (piece) => gates[piece]?.passed,
  });
  const body = { model: "main", stream: true, messages: [{ role: "user", content: "Speak." }] };
  const answer = await post(`${url}/v1/chat/completions`, KEY, body);
  let heard = "";
  const reading = (async () => {
    for await (const piece of answer.body ?? [])
      heard += Buffer.from(piece as Uint8Array).toString("latin1");
  })();
  const count = (): number => heard.split(" word").length;
  let next = 0;
  return {
    /** Resolves when a further word has arrived. */
    hear: async (): Promise<void> => {
      const before = count();
      await expect.poll(() => (gates[next++]?.open(), count())).toBeGreaterThan(before);
    },
    end: async (): Promise<void> => {
      for (const one of gates) one.open();
      await reading;
      expect(heard).toContain("[DONE]");
    },
  };
}

describeWithCompiler("a disk that does not confirm a sync for long", () => {
  it("holds up neither streams nor /livez, also while the log is copied into the database", async () => {
    const model = await startModel();
    const hold = join(dir, "hold");
    const rouse = await startProgram(process.execPath, START, {
      cwd: writeConfig(model.url),
      env: { LD_PRELOAD: compileShim(), DISK_HOLD: hold },
    });
    const waits = (): boolean => existsSync(`${hold}.waits`);
    const holdBack = (end: string): void => {
      writeFileSync(`${hold}.new`, end);
      rmSync(`${hold}.waits`, { force: true });
      renameSync(`${hold}.new`, hold);
    };
    const answered: number[] = [];
    const wake = async (text = "wake up"): Promise<void> => {
      const { status } = await post(`${rouse.url}/hooks/wake`, TOKEN, {
        text,
        mode: "next-heartbeat",
      });
      answered.push(status);
    };
    try {
      const chat = await openChat(rouse.url, model);
      await chat.hear();
      holdBack("-wal");
      const waiting = Promise.all(Array.from({ length: 24 }, () => wake()));
      await expect.poll(waits).toBe(true);
      for (let look = 0; look < LOOKS; look++) {
        expect((await fetch(`${rouse.url}/livez`)).status).toBe(200);
        await chat.hear();
      }
      expect(answered).toEqual([]);
      rmSync(hold);
      await waiting;

      holdBack("/rouse.db");
      // Enough of them for the log to be copied. Hooks may wait for its end.
      let isHeld = true;
      const waking = (async () => {
        while (isHeld)
          await Promise.all(
            Array.from({ length: 4 }, () => wake(randomBytes(100_000).toString("base64"))),
          );
      })();
      await expect.poll(waits).toBe(true);
      for (let look = 0; look < LOOKS; look++) {
        expect((await fetch(`${rouse.url}/livez`)).status).toBe(200);
        await chat.hear();
      }
      isHeld = false;
      rmSync(hold);
      await waking;
      await chat.end();
      expect(new Set(answered)).toEqual(new Set([200]));
    } finally {
      await rouse.kill();
      await model.close();
    }
  });
});

describeWithCompiler("a disk that fails while the log is synced", () => {
  it("refuses what it cannot keep, ends the process with the reason, and the next start has all that was acknowledged", async () => {
    const folder = writeConfig("http://127.0.0.1:9");
    const broken = join(dir, "broken");
    const args = [...START, "--no-workers"];
    const rouse = await startProgram(process.execPath, args, {
      cwd: folder,
      env: { LD_PRELOAD: compileShim(), DISK_FAIL: broken },
    });
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
        const answer = await fetch(`${next.url}/hooks/runs/${runId}`, {
          headers: { authorization: `Bearer ${TOKEN}` },
        });
        expect(answer.status).toBe(200);
      }
    } finally {
      await next.kill();
    }
  });
});
