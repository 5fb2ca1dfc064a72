import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { startProgram, type Program } from "./program.ts";
import { createProvider, modelConfig, type Provider } from "./provider.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const TOKEN = "draining-token-0123456789";
const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };

let dir: string;
let provider: Provider;
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "rouse-drain-"));
  provider = await createProvider();
});
afterEach(async () => {
  await provider.close();
  rmSync(dir, { recursive: true, force: true });
});

function start(drainSeconds: number): Promise<Program> {
  const config = {
    gateway: { port: 0, drainSeconds },
    hooks: { enabled: true, token: TOKEN },
    ...modelConfig(provider),
  };
  writeFileSync(join(dir, "rouse.json5"), JSON.stringify(config));
  return startProgram(process.execPath, [join(ROOT, "bin/rouse.js"), "start"], {
    cwd: dir,
    env: { ROUSE_LOG_LEVEL: "silent" },
  });
}

async function post(
  url: string,
  body: object,
): Promise<{ status: number; runId: string; code: string | undefined; retryAfter: string | null }> {
  const answer = await fetch(`${url}/hooks/agent`, {
    method: "POST",
    headers,
    body: JSON.stringify({ wakeMode: "next-heartbeat", ...body }),
  });
  const { runId, error } = (await answer.json()) as { runId: string; error?: { code: string } };
  return {
    status: answer.status,
    runId,
    code: error?.code,
    retryAfter: answer.headers.get("retry-after"),
  };
}

async function runOf(
  url: string,
  id: string,
): Promise<{ status: string; reply: string | null; attempts: number }> {
  return (
    (await (await fetch(`${url}/hooks/runs/${id}`, { headers })).json()) as {
      run: { status: string; reply: string | null; attempts: number };
    }
  ).run;
}

async function until(test: () => boolean | Promise<boolean>): Promise<void> {
  for (let i = 0; i < 1500; i++) {
    if (await test()) return;
    await new Promise((next) => setTimeout(next, 20));
  }
  throw new Error("what was waited for did not come");
}

it("on SIGTERM refuses new hooks, lets a running turn end, and ends with 0", async () => {
  let answer: (text: string) => void = () => undefined;
  provider.answer = () => new Promise((resolve_) => (answer = resolve_));
  const program = await start(20);
  const { runId } = await post(program.url, { message: "a long turn" });
  await until(() => provider.requests.length === 1);
  const stopped = program.stop();
  await until(async () => (await fetch(`${program.url}/readyz`)).status === 503);
  expect((await fetch(`${program.url}/livez`)).status).toBe(200);
  // A proxy lets go of the connection before the gateway closes it.
  expect((await fetch(`${program.url}/readyz`)).headers.get("connection")).toBe("close");
  expect(await post(program.url, { message: "too late" })).toMatchObject({
    status: 503,
    code: "draining",
    retryAfter: expect.stringMatching(/^\d+$/),
  });
  expect(await runOf(program.url, runId)).toMatchObject({ status: "running" });
  answer("done in time");
  expect(await stopped).toBe(0);
  const next = await start(0);
  expect(await runOf(next.url, runId)).toMatchObject({
    status: "succeeded",
    reply: "done in time",
    attempts: 1,
  });
  expect(provider.requests).toHaveLength(1);
  await next.stop();
});

it("puts back what does not end in time, and the next start carries it out once", async () => {
  provider.answer = () => new Promise(() => undefined);
  const program = await start(0.2);
  const running = await post(program.url, {
    message: "a turn without an end",
    sessionKey: "hook:one",
  });
  const waiting = await post(program.url, {
    message: "the next of its conversation",
    sessionKey: "hook:one",
  });
  await until(() => provider.requests.length === 1);
  expect(await program.stop()).toBe(0);
  provider.answer = () => "now it ended";
  const next = await start(1);
  await until(async () => (await runOf(next.url, waiting.runId)).status === "succeeded");
  expect(await runOf(next.url, running.runId)).toMatchObject({
    status: "succeeded",
    reply: "now it ended",
    attempts: 1,
  });
  // Once before the end, then each once, in order.
  expect(
    provider.requests.map(
      (request) => /without an end|the next of/.exec(provider.text(request).slice(-400))?.[0],
    ),
  ).toEqual(["without an end", "without an end", "the next of"]);
  expect(await next.stop()).toBe(0);
});
