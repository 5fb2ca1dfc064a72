import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { startProgram } from "./program.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const TOKEN = "disk-full-token-0123456789";
const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
/** The most that a file may hold, in KB: what a full disk is to a program that only writes. */
const LIMIT_KB = 4000;

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "rouse-disk-"));
  writeFileSync(
    join(dir, "rouse.json5"),
    JSON.stringify({
      gateway: { port: 0, drainSeconds: 0 },
      hooks: { enabled: true, token: TOKEN },
    }),
  );
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

it("a full disk: hooks get 503 and no promise, and what was promised before is there once there is room", async () => {
  const command = `trap '' XFSZ; ulimit -S -f ${LIMIT_KB}; exec "$0" "$@"`;
  const rouse = [process.execPath, join(ROOT, "bin/rouse.js"), "start", "--no-workers"];
  // bash counts in KB.
  const full = await startProgram("bash", ["-c", command, ...rouse], { cwd: dir });
  const acknowledged: string[] = [];
  let refused = 0;
  try {
    for (let n = 0; n < 400 && refused < 5; n++) {
      const body = JSON.stringify({
        message: randomBytes(9000).toString("base64"),
        wakeMode: "next-heartbeat",
      });
      const answer = await fetch(`${full.url}/hooks/agent`, { method: "POST", headers, body });
      const { runId, error } = (await answer.json()) as {
        runId?: string;
        error?: { code: string; message: string };
      };
      if (answer.status === 202) acknowledged.push(runId ?? "");
      else {
        refused++;
        expect([answer.status, error?.code]).toEqual([503, "store_unavailable"]);
        expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
      }
    }
    expect(refused).toBe(5);
    expect(acknowledged.length).toBeGreaterThan(10);
    expect((await fetch(`${full.url}/livez`)).status).toBe(200);
    // Nothing can be written of them: the counter tells.
    const operator = {
      authorization: `Bearer ${readFileSync(join(dir, ".rouse", "gateway-token"), "utf8").trim()}`,
    };
    const metrics = await (await fetch(`${full.url}/metrics`, { headers: operator })).text();
    expect(metrics).toContain('rouse_hooks_total{path="agent",outcome="unrecorded"} 5');
    const events = await fetch(`${full.url}/admin/v1/events?limit=500`, { headers: operator });
    expect(((await events.json()) as { events: unknown[] }).events.length).toBeGreaterThanOrEqual(
      Math.min(500, acknowledged.length),
    );
    // What is there can still be read.
    const receipt = await fetch(`${full.url}/hooks/runs/${acknowledged[0]}`, { headers });
    expect(receipt.status).toBe(200);
    expect(full.output()).not.toContain(TOKEN);
  } finally {
    await full.kill();
  }
  const [node = "", ...args] = rouse;
  const roomy = await startProgram(node, args, { cwd: dir });
  try {
    for (const runId of acknowledged) {
      const receipt = await fetch(`${roomy.url}/hooks/runs/${runId}`, { headers });
      expect([
        runId,
        receipt.status,
        ((await receipt.json()) as { run?: { status: string } }).run?.status,
      ]).toEqual([runId, 200, "queued"]);
    }
    const answer = await fetch(`${roomy.url}/hooks/agent`, {
      method: "POST",
      headers,
      body: '{"message":"room again"}',
    });
    expect(answer.status).toBe(202);
  } finally {
    await roomy.stop();
  }
});
