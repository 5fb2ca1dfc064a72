import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createWorld, type Answer, type World } from "../e2e/world.ts";
import { manualClock, settle, type ManualClock } from "../delivery/support.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const KEY = "rk_test-key-0123456789-0123456789";

/** A provider: what it was asked, by model, and how it answers. */
interface Provider {
  asked: { model: string; at: number; text: string }[];
  answer(model: string, text: string): { status: number; headers?: Record<string, string> } | undefined;
  /** The most calls at the same time. */
  most: number;
  /** Turns of the event loop that an answer takes. */
  turns: number;
}

let provider: Provider;
let clock: ManualClock;
let world: World;
let dir: string;

const fetchModel: typeof fetch = async (_input, init) => {
  const { model, messages } = JSON.parse(init?.body as string) as { model: string; messages: { content: unknown }[] };
  const text = JSON.stringify(messages);
  provider.asked.push({ model, at: clock.now(), text });
  running++;
  provider.most = Math.max(provider.most, running);
  const failure = provider.answer(model, text);
  await settle(provider.turns);
  running--;
  if (failure) return Response.json({ error: { message: "no" } }, { status: failure.status, headers: failure.headers ?? {} });
  const choices = [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "Done." } }];
  return Response.json({
    id: "c1",
    object: "chat.completion",
    created: 1,
    model,
    choices,
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  });
};
let running = 0;

async function start(more: object = {}): Promise<World> {
  world = await createWorld({
    dir,
    clock,
    fetch: fetchModel,
    logLevel: "trace",
    config: {
      models: { providers: { local: { type: "openai-compatible", baseUrl: "http://model.test/v1" } } },
      agents: {
        defaults: { model: "local/big", heartbeat: { every: 0 } },
        list: [
          { id: "main" },
          { id: "other", model: "local/small" },
          { id: "safe", model: { primary: "local/big", fallbacks: ["local/small"] } },
        ],
      },
      platform: { apiKeys: [{ id: "web", key: KEY }] },
      hooks: { allowRequestSessionKey: true },
      ...more,
    },
  });
  return world;
}

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "rouse-outage-"));
  clock = manualClock();
  running = 0;
  provider = { asked: [], answer: () => undefined, most: 0, turns: 1 };
});
afterEach(async () => {
  await stop();
  rmSync(dir, { recursive: true, force: true });
});

async function stop(): Promise<void> {
  const stopped = world.gateway.stop();
  for (let i = 0; i < 5; i++) await clock.advance(10_000);
  await stopped;
}

/** Moves the time on a second at a time, so that what a moment starts is done before the next. */
async function pass(ms: number, stepMs = 1000): Promise<void> {
  for (let passed = 0; passed < ms; passed += stepMs) await clock.advance(stepMs);
}
async function passUntil(check: () => Promise<boolean>, most: number): Promise<void> {
  for (let passed = 0; passed < most; passed += 1000) {
    if (await check()) return;
    await clock.advance(1000);
  }
  expect(await check()).toBe(true);
}
const counts = async (): Promise<Record<string, number>> => (await world.admin("/admin/v1/status")).body.status.counts;
const order = async (more: object = {}): Promise<string> =>
  (await world.post("/hooks/agent", { message: "Do it.", deliver: false, wakeMode: "next-heartbeat", ...more })).body.runId as string;
const read = async (id: string) => (await world.admin(`/admin/v1/runs/${id}`)).body.run;
const chat = (model: string): Promise<Answer> =>
  world.gateway
    .fetch(
      new Request("http://127.0.0.1/v1/chat/completions", {
        method: "POST",
        headers: { authorization: `Bearer ${KEY}`, "content-type": "application/json" },
        body: JSON.stringify({ model, messages: [{ role: "user", content: "Say it." }] }),
      }),
    )
    .then(async (response) => ({ status: response.status, headers: response.headers, body: await response.json() }));
const down =
  (...models: string[]) =>
  (model: string) =>
    models.includes(model) ? { status: 503 } : undefined;

describe("a provider that is away", () => {
  it("for ten minutes, with 500 hooks: all succeed, with at most 1.2 model calls each", { timeout: 120_000 }, async () => {
    await start();
    provider.answer = down("big");
    for (let n = 0; n < 500; n++) await order({ message: `number ${n}` });
    await passUntil(async () => (await counts())["runs.parked"] === 500, MINUTE);
    await pass(10 * MINUTE);
    const during = provider.asked.length;
    expect((await counts())["runs.parked"]).toBe(500);
    provider.answer = () => undefined;
    await passUntil(async () => (await counts())["runs.succeeded"] === 500, 10 * MINUTE);
    expect(during).toBeLessThan(40);
    expect(provider.asked.length).toBeLessThanOrEqual(600);
    // Each was answered once.
    expect(provider.asked.length - during).toBe(500);
  });
});
