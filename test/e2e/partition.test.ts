import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { openStore } from "../../src/store/open.ts";
import { silent } from "../store/home.ts";
import { describePostgres, newSchema } from "../store/postgres.ts";
import { createProxy, type Proxy } from "../store/proxy.ts";
import {
  createProcessWorld,
  pause,
  until,
  type GatewayProcess,
  type ProcessWorld,
} from "./process-world.ts";
import type { ChatRequest } from "./provider.ts";

const SESSION = "hook:one";
/** Longer than a lease and the time in which another gateway takes over, shorter than the longest wait for the same model. */
const RETRY_AFTER_S = 19;

const PLUGIN = `
import { z } from "zod";
import { definePlugin } from "rouse/plugin";
export default definePlugin({
  id: "acme",
  tools: () => [{ name: "look", description: "Looks.", input: z.object({}), execute: async () => "seen" }],
});
`;

interface Call {
  /** Which gateway asked, by its API key. */
  by: string;
  task: string;
  step: number;
  at: number;
}

interface Gateway {
  name: string;
  program: GatewayProcess;
  proxy: Proxy;
}

const CALL = { calls: [{ id: "call_1", name: "acme__look", arguments: "{}" }] };

function toCall({ headers, body }: ChatRequest): Call {
  const last = body.messages.findLastIndex(({ role }) => role === "user");
  const task = /task (\d)/.exec(JSON.stringify(body.messages[last]?.content))?.[1] ?? "?";
  const step = body.messages.slice(last).filter(({ role }) => role === "tool").length;
  return {
    by: String(headers.authorization).replace(/^Bearer key-0123456789-/, ""),
    task,
    step,
    at: performance.now(),
  };
}

/** Starts two gateways on one database, each behind a proxy of its own. */
async function startPair(world: ProcessWorld, storeUrl: string): Promise<Gateway[]> {
  mkdirSync(join(world.dir, "plugins"));
  writeFileSync(join(world.dir, "plugins/acme.ts"), PLUGIN);
  const start = async (name: string): Promise<Gateway> => {
    const proxy = await createProxy(new URL(storeUrl));
    const url = new URL(storeUrl);
    [url.hostname, url.port] = ["127.0.0.1", String(proxy.port)];
    const program = await world.start([], {
      STORE_URL: url.href,
      MODEL_KEY: `key-0123456789-${name}`,
      ROUSE_LOG_LEVEL: "warn",
      ROUSE_STATE_DIR: join(world.dir, name),
    });
    return { name, program, proxy };
  };
  const first = await start("a");
  return [first, await start("b")];
}

describePostgres("a gateway whose connections hang for longer than its lease", () => {
  it("calls no model for a run that another gateway has taken", async () => {
    const schema = newSchema();
    const world = await createProcessWorld(
      {
        store: { url: "${STORE_URL}" },
        hooks: { tools: ["acme.*"] },
        plugins: { settings: { acme: {} } },
        agents: {
          defaults: { model: "local/big", heartbeat: { every: 0 } },
          list: [{ id: "main", tools: ["acme.*"] }],
        },
      },
      "${MODEL_KEY}",
    );
    const { provider } = world;
    const calls: Call[] = [];
    let gateways: Gateway[] = [];
    let gone: Gateway | undefined;
    let leftAt = 0;
    const returned = Promise.withResolvers<void>();
    provider.answer = async (request, response) => {
      const call = toCall(request);
      calls.push(call);
      // In the second step of the first run, the provider asks the gateway to wait, which is cut off meanwhile.
      if (call.task === "1" && call.step === 1 && gone === undefined) {
        gone = gateways.find(({ name }) => name === call.by) as Gateway;
        leftAt = performance.now();
        gone.proxy.set("hanging");
        response.writeHead(429, {
          "retry-after": String(RETRY_AFTER_S),
          "content-type": "application/json",
        });
        return void response.end(JSON.stringify({ error: { message: "not now" } }));
      }
      // The other gateway's call is under way for as long as the first one is away, and for a while after it is back.
      if (call.task === "1" && call.step === 1) await returned.promise;
      return call.task === "1" && call.step < 2 ? CALL : "done";
    };
    try {
      gateways = await startPair(world, schema.url);
      const runs: string[] = [];
      for (const [n, { program }] of gateways.entries())
        runs.push(await program.accept(`task ${n + 1}.`, { sessionKey: SESSION }));
      const takenOver = (): Call | undefined =>
        calls.find(({ by }) => gone !== undefined && by !== gone.name);
      await until(() => takenOver() !== undefined, 40_000);
      const since = (takenOver() as Call).at;
      const { name, proxy, program } = gone as unknown as Gateway;
      // It would ask again while it is still cut off.
      await pause(leftAt + (RETRY_AFTER_S + 3) * 1000 - performance.now());
      proxy.set("open");
      await pause(3000);
      returned.resolve();
      const { store } = await openStore({ url: schema.url, clock: systemClock, log: silent });
      const succeeded = async (): Promise<boolean> =>
        (await Promise.all(runs.map((id) => store.runs.get(id)))).every(
          (run) => run?.status === "succeeded",
        );
      await until(succeeded, 40_000);
      const session = (await store.runs.get(runs[0] as string))?.spec.session;
      const turns = session ? await store.sessions.listTurns(session) : [];
      await store.close();
      // Once it is back, the second run may well be its own.
      expect(
        calls.filter(({ by, task, at }) => by === name && task === "1" && at >= since),
      ).toEqual([]);
      await until(() => program.output().includes("another gateway has a job"), 40_000);
      // Each step that has an answer was asked once, in the order of the session.
      const other = takenOver()?.by;
      expect(calls.map(({ by, task, step }) => `${task}.${step} ${by}`)).toEqual([
        `1.0 ${name}`,
        `1.1 ${name}`,
        `1.1 ${other}`,
        `1.2 ${other}`,
        expect.stringMatching(/^2\.0 /),
      ]);
      expect(turns.map(({ runId }) => runId).toSorted()).toEqual(runs.toSorted());
    } finally {
      returned.resolve();
      for (const { proxy } of gateways) proxy.set("open");
      await world.close();
      for (const { proxy } of gateways) proxy.close();
      await schema.drop();
    }
  });
});
