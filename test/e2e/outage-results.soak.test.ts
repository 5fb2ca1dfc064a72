import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect, it, type TestContext } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { openStore } from "../../src/store/open.ts";
import type { RunRecord } from "../../src/store/types.ts";
import { scale } from "../soak.ts";
import { silent } from "../store/home.ts";
import { describePrivatePostgres, startPrivatePostgres } from "./private-postgres.ts";
import { startProgram, type Program } from "./program.ts";
import { createProvider, modelConfig, type Provider } from "./provider.ts";

const ROUSE = resolve(import.meta.dirname, "../../bin/rouse.js");
const TOKEN = "outage-results-token-0123456789";
const OPERATOR = "outage-results-operator-0123456789";
const KEY = "rk_outage-key-0123456789-0123456789";
/** How long a sender waits for an answer, which comes after 4 s. Statements that nothing else ends fail after 13 s. */
const PATIENCE_MS = 11_000;
/** How long a test waits for what must come. */
const COMES_MS = 90_000;
const TIMEOUT_MS = 400_000;

/** A server of its own with a model; gateways of it are started with `start`. */
async function createOutage({ onTestFinished }: TestContext) {
  const dir = mkdtempSync(join(tmpdir(), "rouse-outage-results-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const provider = await createProvider();
  onTestFinished(() => provider.close());
  const postgres = await startPrivatePostgres();
  onTestFinished(() => postgres.remove());
  const model = modelConfig(provider) as { agents: { defaults: object } };
  const config = {
    gateway: { port: 0, drainSeconds: 1, token: OPERATOR },
    store: { url: postgres.url.href },
    hooks: { enabled: true, token: TOKEN, allowRequestSessionKey: true },
    platform: { apiKeys: [{ id: "desk", key: KEY }] },
    ...model,
    agents: { defaults: { ...model.agents.defaults, maxConcurrent: 6 } },
  };
  writeFileSync(join(dir, "rouse.json5"), JSON.stringify(config));
  const start = async (): Promise<Program> => {
    const env = { ROUSE_LOG_LEVEL: process.env["FLEET_LOG"] ?? "silent" };
    const program = await startProgram(process.execPath, [ROUSE, "start"], { cwd: dir, env });
    onTestFinished(() => program.kill());
    return program;
  };
  /** Waits until runs have ended, as the database has them. */
  const ended = async (ids: readonly string[]): Promise<(RunRecord | undefined)[]> => {
    const { store } = await openStore({ url: postgres.url.href, clock: systemClock, log: silent });
    try {
      const read = (): Promise<(RunRecord | undefined)[]> =>
        Promise.all(ids.map((id) => store.runs.get(id)));
      await until(async () => (await read()).every((run) => run?.endedAt !== undefined));
      return await read();
    } finally {
      await store.close();
    }
  };
  return { provider, postgres, start, ended };
}

const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));
const bearer = (token: string): Record<string, string> => ({
  authorization: `Bearer ${token}`,
  "content-type": "application/json",
});
const post = (to: Program, message: string): Promise<Response> =>
  fetch(`${to.url}/hooks/agent`, {
    method: "POST",
    headers: bearer(TOKEN),
    body: JSON.stringify({
      message,
      sessionKey: `hook:${message}`,
      deliver: false,
      wakeMode: "next-heartbeat",
    }),
    signal: AbortSignal.timeout(PATIENCE_MS),
  });
const accept = async (to: Program, message: string): Promise<string> =>
  ((await (await post(to, message)).json()) as { runId: string }).runId;
const until = async (done: () => boolean | Promise<boolean>): Promise<void> => {
  for (const end = Date.now() + COMES_MS; !(await done()) && Date.now() < end;) await pause(100);
};

/** Answers nothing until it is released. */
function holdAnswers(provider: Provider): () => void {
  const { promise, resolve } = Promise.withResolvers<void>();
  provider.answer = () => promise.then(() => "paid");
  return resolve;
}

describePrivatePostgres("turns under way while PostgreSQL is away", () => {
  it.concurrent(
    "for 4 seconds, when they come to their ends: each is kept, with one model call",
    { timeout: TIMEOUT_MS },
    async (context) => {
      const { provider, postgres, start, ended } = await createOutage(context);
      const gateway = await start();
      const release = holdAnswers(provider);
      const ids = await Promise.all(
        Array.from({ length: 6 }, (_, n) => accept(gateway, `order-${n}.`)),
      );
      await until(() => provider.requests.length === 6);
      await postgres.stop("fast");
      release();
      await pause(4000);
      await postgres.start();
      const runs = await ended(ids);
      expect(runs.map((run) => [run?.status, run?.reply, run?.attempts])).toEqual(
        ids.map(() => ["succeeded", "paid", 1]),
      );
      expect(provider.requests).toHaveLength(6);
    },
  );

  it.concurrent(
    "again and again, for longer than a lease too: none is started a second time, and none is given up",
    { timeout: TIMEOUT_MS },
    async (context) => {
      const { provider, postgres, start, ended } = await createOutage(context);
      const gateways = [await start(), await start()] as const;
      const release = holdAnswers(provider);
      const ids = await Promise.all(
        Array.from({ length: 12 }, (_, n) => accept(gateways[n % 2] as Program, `order-${n}.`)),
      );
      await until(() => provider.requests.length === 12);
      for (const seconds of scale([14], [4, 14, 4])) {
        await postgres.stop("fast");
        await pause(seconds * 1000);
        await postgres.start();
        // Long enough for jobs of a gateway that is silent to be freed.
        await pause(16_000);
        expect(provider.requests).toHaveLength(12);
      }
      release();
      const runs = await ended(ids);
      expect(runs.map((run) => [run?.status, run?.attempts])).toEqual(
        ids.map(() => ["succeeded", 1]),
      );
      expect(provider.requests).toHaveLength(12);
    },
  );

  it.concurrent(
    "and whose gateway was suspended while another one took its jobs: the late one is aborted, and writes nothing",
    { timeout: TIMEOUT_MS },
    async (context) => {
      const { provider, start, ended } = await createOutage(context);
      const first = await start();
      const closed: string[] = [];
      provider.answer = (_request, response) => {
        const n = provider.requests.length;
        response.on("close", () => void (response.writableEnded || closed.push(`call ${n}`)));
        return n === 1 ? new Promise(() => undefined) : "second";
      };
      const id = await accept(first, "order-0.");
      await until(() => provider.requests.length === 1);
      const second = await start();
      first.child.kill("SIGSTOP");
      await until(() => provider.requests.length === 2);
      const [run] = await ended([id]);
      expect(run).toMatchObject({ status: "succeeded", reply: "second", attempts: 2 });
      expect(closed).toEqual([]);
      first.child.kill("SIGCONT");
      await until(() => closed.length > 0);
      expect(closed).toEqual(["call 1"]);
      expect((await ended([id]))[0]).toEqual(run);
      expect(await second.stop()).toBe(0);
      expect(provider.requests).toHaveLength(2);
    },
  );
});

describePrivatePostgres("PostgreSQL that is suspended", () => {
  it.concurrent(
    "gets every caller a 503 before senders give up, and none of them is taken later",
    { timeout: TIMEOUT_MS },
    async (context) => {
      const { provider, postgres, start, ended } = await createOutage(context);
      const gateway = await start();
      const first = await accept(gateway, "before.");
      await ended([first]);
      const chat = JSON.stringify({
        model: "main",
        messages: [{ role: "user", content: "hello" }],
      });
      const ask = (path: string, init: RequestInit): Promise<Response> =>
        fetch(`${gateway.url}/${path}`, { ...init, signal: AbortSignal.timeout(PATIENCE_MS) });
      const calls: [string, () => Promise<Response>][] = [
        ["hook", () => post(gateway, "frozen.")],
        [
          "wake",
          () =>
            ask("hooks/wake", {
              method: "POST",
              headers: bearer(TOKEN),
              body: JSON.stringify({ text: "frozen." }),
            }),
        ],
        ["receipt", () => ask(`hooks/runs/${first}`, { headers: bearer(TOKEN) })],
        ["runs", () => ask("admin/v1/runs", { headers: bearer(OPERATOR) })],
        ["events", () => ask("admin/v1/events", { headers: bearer(OPERATOR) })],
        [
          "retry",
          () => ask(`admin/v1/runs/${first}/retry`, { method: "POST", headers: bearer(OPERATOR) }),
        ],
        [
          "chat",
          () => ask("v1/chat/completions", { method: "POST", headers: bearer(KEY), body: chat }),
        ],
      ];
      // Connections and prepared statements are there.
      for (const [, call] of calls.slice(0, 3)) await (await call()).arrayBuffer();
      const before = await (
        await fetch(`${gateway.url}/admin/v1/events?limit=100`, { headers: bearer(OPERATOR) })
      ).json();
      provider.answer = () => pause(20_000).then(() => "late");
      await postgres.freeze();
      const answers: [string, number, boolean][] = [];
      // In a first round each is the first to find out; in the later ones it is known, and connections are broken.
      for (let round = 0; round < scale(3, 5); round++) {
        await Promise.all(
          calls.map(async ([name, call]) => {
            const answer = await call();
            await answer.arrayBuffer();
            answers.push([name, answer.status, answer.headers.has("retry-after")]);
          }),
        );
        await pause(1000);
      }
      await postgres.thaw();
      expect(
        answers.filter(([, status, hasRetryAfter]) => status !== 503 || !hasRetryAfter),
      ).toEqual([]);
      await until(async () => (await fetch(`${gateway.url}/readyz`)).status === 200);
      expect((await post(gateway, "after.")).status).toBe(202);
      const after = (await (
        await fetch(`${gateway.url}/admin/v1/events?limit=100`, { headers: bearer(OPERATOR) })
      ).json()) as {
        events: [];
      };
      // Only what had been sent to the server before it was known to hang can be there.
      expect(after.events.length - (before as { events: [] }).events.length).toBeLessThanOrEqual(
        1 + 2,
      );
    },
  );
});
