import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { plainText } from "../../src/core/text.ts";
import { openStore } from "../../src/store/open.ts";
import { silent } from "../store/home.ts";
import { describePostgres, newSchema, type Schema } from "../store/postgres.ts";
import { startProgram, type Program } from "./program.ts";
import { createProvider, modelConfig, type Provider } from "./provider.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const TOKEN = "postgres-hook-token-0123456789";
const OPERATOR_TOKEN = "postgres-operator-token-0123456789";

interface Answer {
  ok: boolean;
  runId: string;
  run: { status: string; delivery?: { status: string; channel: string } };
}

describePostgres("gateways on PostgreSQL", () => {
  let dir: string;
  let schema: Schema;
  let provider: Provider;
  let programs: Program[] = [];

  beforeEach(async () => {
    dir = mkdtempSync(join(tmpdir(), "rouse-postgres-"));
    schema = newSchema();
    provider = await createProvider();
    const mapping = {
      id: "shop",
      match: { path: "shop" },
      sessionKey: "hook:shop:{{id}}",
      messageTemplate: "order {{id}}",
      channel: "console",
      to: "shop",
    };
    const config = {
      gateway: { port: 0, drainSeconds: 5, token: OPERATOR_TOKEN },
      store: { url: "${STORE_URL}" },
      hooks: { enabled: true, token: TOKEN, mappings: [mapping], allowRequestSessionKey: true },
      ...modelConfig(provider),
    };
    writeFileSync(join(dir, "rouse.json5"), JSON.stringify(config));
  });
  afterEach(async () => {
    await Promise.all(programs.splice(0).map((program) => program.kill().catch(() => undefined)));
    await provider.close();
    await schema.drop();
    rmSync(dir, { recursive: true, force: true });
  });

  const start = async (...args: string[]): Promise<Program> => {
    const env = { STORE_URL: schema.url, ROUSE_LOG_LEVEL: "warn" };
    const program = await startProgram(
      process.execPath,
      [join(ROOT, "bin/rouse.js"), "start", ...args],
      { cwd: dir, env },
    );
    programs.push(program);
    return program;
  };
  const post = async (
    to: Program,
    path: string,
    body: unknown,
    headers: Record<string, string> = {},
  ): Promise<Answer> => {
    const answer = await fetch(`${to.url}/hooks/${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${TOKEN}`, "content-type": "application/json", ...headers },
      body: JSON.stringify(body),
    });
    expect(answer.status).toBeLessThan(300);
    return (await answer.json()) as Answer;
  };
  const runOf = async (to: Program, id: string): Promise<Answer["run"]> => {
    const answer = await fetch(`${to.url}/hooks/runs/${id}`, {
      headers: { authorization: `Bearer ${TOKEN}` },
    });
    return ((await answer.json()) as Answer).run;
  };
  const until = async (done: () => boolean | Promise<boolean>, ms = 30_000): Promise<void> => {
    for (const end = Date.now() + ms; !(await done()) && Date.now() < end;)
      await new Promise((next) => setTimeout(next, 50));
  };

  it("take hooks of each kind, carry out each other's, and go on with the rest when one is killed", async () => {
    const acceptor = await start("--no-workers");
    const agent = await post(acceptor, "agent", {
      message: "say hello",
      channel: "console",
      to: "me",
    });
    const mapped = await post(acceptor, "shop", { id: 7 }, { "idempotency-key": "order-7" });
    await post(acceptor, "wake", { text: "wake up", mode: "now" });
    expect(await runOf(acceptor, agent.runId)).toMatchObject({ status: "queued" });
    expect(provider.requests).toEqual([]);

    // The same config, the same state folder.
    const worker = await start();
    expect((await post(worker, "shop", { id: 7 }, { "idempotency-key": "order-7" })).runId).toBe(
      mapped.runId,
    );
    const ended = async (id: string): Promise<boolean> =>
      ["succeeded", "failed"].includes((await runOf(acceptor, id)).status);
    await until(async () => (await ended(agent.runId)) && (await ended(mapped.runId)));
    expect(await runOf(acceptor, agent.runId)).toMatchObject({ status: "succeeded" });
    expect(await runOf(worker, mapped.runId)).toMatchObject({ status: "succeeded" });
    await until(
      () => worker.output().includes("reply to me") && worker.output().includes("reply to shop"),
    );
    expect(worker.output()).toMatch(/── reply to me ──\nfine/);
    expect(worker.output()).toMatch(/── reply to shop ──\nfine/);
    expect(acceptor.output()).not.toContain("reply to");
    await until(() =>
      provider.requests.some((request) => provider.text(request).includes("wake up")),
    );
    expect(
      provider.requests.filter((request) => provider.text(request).includes("wake up")).length,
    ).toBeGreaterThan(0);

    // One that is under way when its gateway is killed, and one behind it.
    provider.answer = () => undefined;
    const slow = await post(acceptor, "agent", {
      message: "first of two",
      sessionKey: "hook:slow",
      deliver: false,
    });
    const behind = await post(acceptor, "agent", {
      message: "second of two",
      sessionKey: "hook:slow",
      deliver: false,
    });
    const asked = (text: string): number =>
      provider.requests.filter((request) => provider.text(request).includes(text)).length;
    await until(() => asked("first of two") > 0);
    await worker.kill();
    provider.answer = () => "done";
    const next = await start();
    await until(async () => (await ended(slow.runId)) && (await ended(behind.runId)), 40_000);
    expect(await runOf(next, slow.runId)).toMatchObject({ status: "succeeded" });
    expect(await runOf(next, behind.runId)).toMatchObject({ status: "succeeded" });

    expect(await acceptor.stop()).toBe(0);
    expect(await next.stop()).toBe(0);
    const { store } = await openStore({ url: schema.url, clock: systemClock, log: silent });
    const history = await store.sessions.listTurns({
      agentId: "main",
      origin: "hook",
      key: "hook:slow",
      via: { path: "agent", credential: "hooks.token" },
    });
    expect(history.map((turn) => [turn.runId, plainText(turn.input).includes("of two")])).toEqual([
      [slow.runId, true],
      [behind.runId, true],
    ]);
    expect((await store.runs.get(slow.runId))?.attempts).toBe(2);
    await store.close();
    for (const program of programs) expect(program.output()).not.toMatch(/"level":(?:50|60)/);
  });

  it("cancel a run of a gateway that was killed, though the gateway that is asked continues it", async () => {
    provider.answer = () => undefined;
    const first = await start();
    const { runId } = await post(first, "agent", { message: "take your time", deliver: false });
    await until(() => provider.requests.length === 1);
    await first.kill();
    const next = await start();
    // The lease of the first gateway still holds.
    const headers = { authorization: `Bearer ${OPERATOR_TOKEN}` };
    const answer = await fetch(`${next.url}/admin/v1/runs/${runId}/cancel`, {
      method: "POST",
      headers,
    });
    expect([answer.status, (await runOf(next, runId)).status]).toEqual([200, "cancelled"]);
  });
});
