import { spawn } from "node:child_process";
import { once } from "node:events";
import { afterEach, beforeEach, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { openStore } from "../../src/store/open.ts";
import { silent } from "../store/home.ts";
import { describePrivatePostgres, startPrivatePostgres } from "./private-postgres.ts";
import {
  createProcessWorld,
  pause,
  ROUSE,
  until,
  type GatewayProcess,
  type ProcessWorld,
} from "./process-world.ts";

let world: ProcessWorld;
beforeEach(async () => {
  const mapping = {
    id: "shop",
    match: { path: "shop" },
    sessionKey: "hook:shop",
    messageTemplate: "order {{id}}",
    deliver: false,
  };
  world = await createProcessWorld({
    gateway: { drainSeconds: 5 },
    store: { url: "${STORE_URL}" },
    hooks: { mappings: [mapping] },
  });
});
afterEach(() => world.close());

const command = async (url: string, ...args: string[]): Promise<{ code: number; said: string }> => {
  const env = { PATH: process.env["PATH"] ?? "", HOME: process.env["HOME"] ?? "", STORE_URL: url };
  const child = spawn(process.execPath, [ROUSE, ...args], {
    cwd: world.dir,
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let said = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => void (said += chunk.toString()));
  const [code] = (await once(child, "close")) as [number];
  return { code, said };
};
const accepted = (to: GatewayProcess, message: string): Promise<string> =>
  to.accept(message, { sessionKey: "hook:one" });
const comesTo = (of: GatewayProcess, status: number): Promise<void> =>
  until(async () => (await of.statusOf("/readyz")) === status);
const refused = async (to: GatewayProcess, path: string, body: object): Promise<void> => {
  const { status, headers, body: answer } = await to.post(path, body);
  expect([path, status, answer.error?.code]).toEqual([path, 503, "store_unavailable"]);
  expect(headers.get("retry-after")).toMatch(/^[1-9]\d*$/);
};

describePrivatePostgres("PostgreSQL is gone", () => {
  it(
    "and every gateway says so as docs/operations.md has it, and recovers by itself",
    { timeout: 400_000 },
    async () => {
      const postgres = await startPrivatePostgres();
      try {
        const url = postgres.url.href;
        const { provider } = world;
        const start = () => world.start([], { STORE_URL: url });
        const gateways = [await start(), await start()];
        const [first] = gateways as [GatewayProcess, GatewayProcess];
        for (const gateway of gateways) expect(await gateway.statusOf("/readyz")).toBe(200);
        let release = (_text: string): void => undefined;
        provider.answer = () => new Promise((done) => (release = done));
        const underWay = await accepted(first, "begun before");
        await until(() => provider.requests.length === 1);
        const behind = await accepted(first, "waits behind it");

        await postgres.stop("fast");
        for (const gateway of gateways) {
          await refused(gateway, "agent", { message: "lost?" });
          await refused(gateway, "wake", { text: "lost?" });
          await refused(gateway, "shop", { id: 1 });
        }
        for (const gateway of gateways) {
          await comesTo(gateway, 503);
          expect(await gateway.statusOf("/livez")).toBe(200);
          const metrics = await gateway.admin("/metrics");
          expect(metrics.status).toBe(200);
          expect(await metrics.text()).toMatch(
            /^rouse_hooks_total\{[^}]*outcome="unrecorded"[^}]*\} [1-9]/m,
          );
          // No gateway has ended, so none has to be started again.
          expect(gateway.child.exitCode).toBe(null);
        }
        expect((await first.admin("/readyz?detail")).status).toBe(503);
        expect((await command(url, "doctor")).code).toBe(1);
        const late = await command(url, "start");
        expect([late.code, late.said]).toEqual([
          1,
          expect.stringContaining("is PostgreSQL running there?"),
        ]);
        // The turn comes to its end while there is nobody to write it down.
        provider.answer = () => "done";
        release("done");
        await pause(1000);

        await postgres.start();
        for (const gateway of gateways) await comesTo(gateway, 200);
        const after = await Promise.all(gateways.map((gateway) => accepted(gateway, "after it")));
        const { store } = await openStore({ url, clock: systemClock, log: silent });
        try {
          for (const id of [underWay, behind, ...after])
            await until(async () => (await store.runs.get(id))?.status === "succeeded");
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
          expect((await store.runs.get(underWay))?.attempts).toBe(1);
          // Rejected hooks have left nothing in the store.
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
