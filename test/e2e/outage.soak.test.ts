import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { openStore } from "../../src/store/open.ts";
import { silent } from "../store/home.ts";
import { describePostgres, newSchema } from "../store/postgres.ts";
import { createCuttingProxy } from "./cutting-proxy.ts";
import { describePrivatePostgres, startPrivatePostgres } from "./private-postgres.ts";
import { startProgram, type Program } from "./program.ts";
import { createProvider, modelConfig, type Provider } from "./provider.ts";

const ROUSE = resolve(import.meta.dirname, "../../bin/rouse.js");
const TOKEN = "outage-hook-token-0123456789";
const OPERATOR = "outage-operator-token-0123456789";

let dir: string;
let provider: Provider;
let programs: Program[] = [];
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "rouse-outage-"));
  provider = await createProvider();
  const mapping = {
    id: "shop",
    match: { path: "shop" },
    sessionKey: "hook:shop",
    messageTemplate: "order {{id}}",
    deliver: false,
  };
  const config = {
    gateway: { port: 0, drainSeconds: 5, token: OPERATOR },
    store: { url: "${STORE_URL}" },
    hooks: { enabled: true, token: TOKEN, allowRequestSessionKey: true, mappings: [mapping] },
    ...modelConfig(provider),
  };
  writeFileSync(join(dir, "rouse.json5"), JSON.stringify(config));
});
afterEach(async () => {
  await Promise.all(programs.splice(0).map((program) => program.kill().catch(() => undefined)));
  await provider.close();
  rmSync(dir, { recursive: true, force: true });
});

const start = async (url: string): Promise<Program> => {
  const program = await startProgram(process.execPath, [ROUSE, "start"], {
    cwd: dir,
    env: { STORE_URL: url, ROUSE_LOG_LEVEL: "silent" },
  });
  programs.push(program);
  return program;
};
const command = async (url: string, ...args: string[]): Promise<{ code: number; said: string }> => {
  const env = { PATH: process.env["PATH"] ?? "", HOME: process.env["HOME"] ?? "", STORE_URL: url };
  const child = spawn(process.execPath, [ROUSE, ...args], {
    cwd: dir,
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let said = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => void (said += chunk.toString()));
  const [code] = (await once(child, "close")) as [number];
  return { code, said };
};
const hook = (to: Program, path: string, body: object): Promise<Response> =>
  fetch(`${to.url}/hooks/${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" },
    body: JSON.stringify(body),
    // Senders give up.
    signal: AbortSignal.timeout(30_000),
  });
const accepted = async (to: Program, message: string): Promise<string> => {
  const answer = await hook(to, "agent", {
    message,
    sessionKey: "hook:one",
    deliver: false,
    wakeMode: "next-heartbeat",
  });
  expect(answer.status).toBe(202);
  return ((await answer.json()) as { runId: string }).runId;
};
const statusOf = async (of: Program, path: string): Promise<number> =>
  (await fetch(`${of.url}/${path}`)).status;
const operator = (of: Program, path: string): Promise<Response> =>
  fetch(`${of.url}/${path}`, { headers: { authorization: `Bearer ${OPERATOR}` } });
const comesTo = async (read: () => Promise<number>, wanted: number, ms: number): Promise<void> => {
  for (const end = Date.now() + ms; (await read()) !== wanted && Date.now() < end;)
    await new Promise((next) => setTimeout(next, 100));
  expect(await read()).toBe(wanted);
};
const refused = async (to: Program, path: string, body: object): Promise<void> => {
  const answer = await hook(to, path, body);
  expect([path, answer.status]).toEqual([path, 503]);
  expect(answer.headers.get("retry-after")).toMatch(/^[1-9]\d*$/);
  expect(await answer.json()).toMatchObject({ error: { code: "store_unavailable" } });
};

describePrivatePostgres("PostgreSQL is gone", () => {
  it(
    "and every gateway says so as docs/operations.md has it, and goes on by itself when it is back",
    { timeout: 400_000 },
    async () => {
      const postgres = await startPrivatePostgres();
      try {
        const url = postgres.url.href;
        const gateways = [await start(url), await start(url)];
        const [first] = gateways as [Program, Program];
        for (const gateway of gateways) expect(await statusOf(gateway, "readyz")).toBe(200);
        let release = (_text: string): void => undefined;
        provider.answer = () => new Promise((done) => (release = done));
        const underWay = await accepted(first, "begun before");
        await comesTo(async () => provider.requests.length, 1, 60_000);
        const behind = await accepted(first, "waits behind it");

        await postgres.stop("fast");
        for (const gateway of gateways) {
          await refused(gateway, "agent", { message: "lost?" });
          await refused(gateway, "wake", { text: "lost?" });
          await refused(gateway, "shop", { id: 1 });
        }
        for (const gateway of gateways) {
          await comesTo(() => statusOf(gateway, "readyz"), 503, 60_000);
          expect(await statusOf(gateway, "livez")).toBe(200);
          const metrics = await operator(gateway, "metrics");
          expect(metrics.status).toBe(200);
          expect(await metrics.text()).toMatch(
            /^rouse_hooks_total\{[^}]*outcome="unrecorded"[^}]*\} [1-9]/m,
          );
          // Nobody has ended, and nobody has to be started again.
          expect(gateway.child.exitCode).toBe(null);
        }
        expect((await operator(first, "readyz?detail")).status).toBe(503);
        expect((await command(url, "doctor")).code).toBe(1);
        const late = await command(url, "start");
        expect([late.code, late.said]).toEqual([
          1,
          expect.stringContaining("is PostgreSQL running there?"),
        ]);
        // The turn comes to its end while there is nobody to write it down.
        provider.answer = () => "done";
        release("done");
        await new Promise((next) => setTimeout(next, 1000));

        await postgres.start();
        for (const gateway of gateways)
          await comesTo(() => statusOf(gateway, "readyz"), 200, 60_000);
        const after = await Promise.all(gateways.map((gateway) => accepted(gateway, "after it")));
        const { store } = await openStore({ url, clock: systemClock, log: silent });
        try {
          for (const id of [underWay, behind, ...after])
            for (
              const end = Date.now() + 60_000;
              (await store.runs.get(id))?.status !== "succeeded" && Date.now() < end;
            )
              await new Promise((next) => setTimeout(next, 100));
          const turns = await store.sessions.listTurns({
            agentId: "main",
            origin: "hook",
            key: "hook:one",
            via: { path: "agent", credential: "hooks.token" },
          });
          expect(turns.slice(0, 2).map(({ runId }) => runId)).toEqual([underWay, behind]);
          expect(
            turns
              .slice(2)
              .map(({ runId }) => runId)
              .toSorted(),
          ).toEqual(after.toSorted());
          // What was refused has left nothing.
          expect((await store.events.list({})).length).toBe(4);
        } finally {
          await store.close();
        }
        for (const gateway of gateways) expect(await gateway.stop()).toBe(0);
      } finally {
        await postgres.remove();
      }
    },
  );
});

describePostgres("PostgreSQL does not answer one of two gateways", () => {
  it(
    "which says so, is out of service, and in again; the other one goes on",
    { timeout: 300_000 },
    async () => {
      const schema = newSchema();
      const proxy = await createCuttingProxy(new URL(schema.url));
      try {
        const cutUrl = new URL(schema.url);
        cutUrl.port = String(proxy.port);
        const [cut, other] = [await start(cutUrl.href), await start(schema.url)];
        await accepted(cut, "before");
        proxy.cut(true);
        await Promise.all([
          refused(cut, "agent", { message: "lost?" }),
          refused(cut, "wake", { text: "lost?" }),
          refused(cut, "shop", { id: 1 }),
        ]);
        expect(await statusOf(cut, "livez")).toBe(200);
        await comesTo(() => statusOf(cut, "readyz"), 503, 60_000);
        expect(await (await operator(cut, "metrics")).text()).toMatch(
          /^rouse_hooks_total\{[^}]*outcome="unrecorded"[^}]*\} 1$/m,
        );
        expect(await statusOf(other, "readyz")).toBe(200);
        await accepted(other, "meanwhile");
        proxy.cut(false);
        await comesTo(() => statusOf(cut, "readyz"), 200, 60_000);
        await accepted(cut, "again");
        for (const gateway of [cut, other]) expect(await gateway.stop()).toBe(0);
      } finally {
        await Promise.all(
          programs.splice(0).map((program) => program.kill().catch(() => undefined)),
        );
        proxy.close();
        await schema.drop();
      }
    },
  );
});
