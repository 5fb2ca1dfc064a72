import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { openStore } from "../../src/store/open.ts";
import { silent } from "../store/home.ts";
import { describePostgres, newSchema } from "../store/postgres.ts";
import { createProxy, type Proxy } from "../store/proxy.ts";
import { startProgram, type Program } from "./program.ts";
import { createProvider, modelConfig, type ChatRequest, type Provider } from "./provider.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const TOKEN = "partition-hook-token-0123456789";
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
  program: Program;
  proxy: Proxy;
}

const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));
async function until(
  done: () => boolean | Promise<boolean>,
  ms: number,
  what: string,
): Promise<void> {
  for (const end = performance.now() + ms; !(await done()); await pause(50))
    if (performance.now() > end) throw new Error(`it took more than ${ms / 1000} s until ${what}`);
}

/** Answers with a call of the tool. */
function callTool(response: ServerResponse): undefined {
  const call = {
    id: "call_1",
    type: "function",
    function: { name: "acme__look", arguments: "{}" },
  };
  const choices = [
    {
      index: 0,
      finish_reason: "tool_calls",
      message: { role: "assistant", content: null, tool_calls: [call] },
    },
  ];
  response.setHeader("content-type", "application/json");
  response.end(
    JSON.stringify({ id: "c", object: "chat.completion", created: 1, model: "m", choices }),
  );
}

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

/** Two gateways on one database, each behind a proxy of its own. */
async function startPair(dir: string, storeUrl: string, provider: Provider): Promise<Gateway[]> {
  const { models, agents } = modelConfig(provider) as {
    models: { providers: { local: object } };
    agents: object;
  };
  models.providers.local = { ...models.providers.local, apiKey: "${MODEL_KEY}" };
  const config = {
    gateway: { port: 0, drainSeconds: 1 },
    store: { url: "${STORE_URL}" },
    hooks: { enabled: true, token: TOKEN, allowRequestSessionKey: true, tools: ["acme.*"] },
    plugins: { settings: { acme: {} } },
    models,
    agents: { ...agents, list: [{ id: "main", tools: ["acme.*"] }] },
  };
  mkdirSync(join(dir, "plugins"));
  writeFileSync(join(dir, "plugins/acme.ts"), PLUGIN);
  writeFileSync(join(dir, "rouse.json5"), JSON.stringify(config));
  const start = async (name: string): Promise<Gateway> => {
    const proxy = await createProxy(new URL(storeUrl));
    const url = new URL(storeUrl);
    [url.hostname, url.port] = ["127.0.0.1", String(proxy.port)];
    const env = {
      STORE_URL: url.href,
      MODEL_KEY: `key-0123456789-${name}`,
      ROUSE_LOG_LEVEL: "warn",
      ROUSE_STATE_DIR: join(dir, name),
    };
    const program = await startProgram(process.execPath, [join(ROOT, "bin/rouse.js"), "start"], {
      cwd: dir,
      env,
    });
    return { name, program, proxy };
  };
  const first = await start("a");
  return [first, await start("b")];
}

async function post({ program }: Gateway, task: string): Promise<string> {
  const answer = await fetch(`${program.url}/hooks/agent`, {
    method: "POST",
    headers: { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" },
    body: JSON.stringify({
      message: `task ${task}.`,
      sessionKey: SESSION,
      deliver: false,
      wakeMode: "next-heartbeat",
    }),
  });
  expect(answer.status).toBe(202);
  return ((await answer.json()) as { runId: string }).runId;
}

/**
 * Two runs of a session. In the second step of the first, the provider asks the gateway to wait; `leave` takes the gateway away
 * meanwhile, and `comeBack` returns it once the other gateway has asked the model. Returns all calls.
 */
async function play(
  leave: (gateway: Gateway) => number,
  comeBack: (gateway: Gateway, leftAt: number) => Promise<void>,
): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), "rouse-partition-"));
  const schema = newSchema();
  const provider = await createProvider();
  const calls: Call[] = [];
  let gateways: Gateway[] = [];
  let gone: Gateway | undefined;
  let leftAt = 0;
  let returned = Promise.withResolvers<void>();
  provider.answer = async (request, response) => {
    const call = toCall(request);
    calls.push(call);
    if (call.task === "1" && call.step === 1 && gone === undefined) {
      gone = gateways.find(({ name }) => name === call.by) as Gateway;
      leftAt = performance.now();
      response.writeHead(429, {
        "retry-after": String(leave(gone)),
        "content-type": "application/json",
      });
      return void response.end(JSON.stringify({ error: { message: "not now" } }));
    }
    // The other gateway's call is under way for as long as the first one is away, and for a while after it is back.
    if (call.task === "1" && call.step === 1) await returned.promise;
    return call.task === "1" && call.step < 2 ? callTool(response) : "done";
  };
  try {
    gateways = await startPair(dir, schema.url, provider);
    const runs = [await post(gateways[0] as Gateway, "1"), await post(gateways[1] as Gateway, "2")];
    const takenOver = (): Call | undefined =>
      calls.find(({ by }) => gone !== undefined && by !== gone.name);
    await until(() => takenOver() !== undefined, 40_000, "the other gateway went on");
    const since = (takenOver() as Call).at;
    await comeBack(gone as unknown as Gateway, leftAt);
    returned.resolve();
    const { store } = await openStore({ url: schema.url, clock: systemClock, log: silent });
    const succeeded = async (): Promise<boolean> =>
      (await Promise.all(runs.map((id) => store.runs.get(id)))).every(
        (run) => run?.status === "succeeded",
      );
    await until(succeeded, 40_000, "both runs had ended");
    const session = (await store.runs.get(runs[0] as string))?.spec.session;
    const turns = session ? await store.sessions.listTurns(session) : [];
    await store.close();
    // Once it is back, the second run may well be its own.
    expect(
      calls.filter(({ by, task, at }) => by === gone?.name && task === "1" && at >= since),
    ).toEqual([]);
    await until(
      () => (gone as unknown as Gateway).program.output().includes("another gateway has a job"),
      40_000,
      "the loss was noticed",
    );
    // Each step that has an answer was asked once, in the order of the session.
    const other = takenOver()?.by;
    expect(calls.map(({ by, task, step }) => `${task}.${step} ${by}`)).toEqual([
      `1.0 ${gone?.name}`,
      `1.1 ${gone?.name}`,
      `1.1 ${other}`,
      `1.2 ${other}`,
      expect.stringMatching(/^2\.0 /),
    ]);
    expect(turns.map(({ runId }) => runId).toSorted()).toEqual(runs.toSorted());
  } finally {
    returned.resolve();
    for (const { proxy } of gateways) proxy.set("open");
    await Promise.all(gateways.map(({ program }) => program.kill()));
    for (const { proxy } of gateways) proxy.close();
    await provider.close();
    await schema.drop();
    rmSync(dir, { recursive: true, force: true });
  }
}

describePostgres("a gateway that is away for longer than its lease", () => {
  it.concurrent("calls no model for a run that another gateway has taken: its connections hang", async () => {
    await play(
      ({ proxy }) => {
        proxy.set("hanging");
        return RETRY_AFTER_S;
      },
      async ({ proxy }, leftAt) => {
        // It would ask again while it is still cut off.
        await pause(leftAt + (RETRY_AFTER_S + 3) * 1000 - performance.now());
        proxy.set("open");
        await pause(3000);
      },
    );
  });

  it.concurrent("calls no model for a run that another gateway has taken: its process was suspended", async () => {
    await play(
      ({ program }) => {
        // After the answer has left.
        setTimeout(() => program.child.kill("SIGSTOP"), 300);
        return 1;
      },
      async ({ program }) => {
        program.child.kill("SIGCONT");
        await pause(6000);
      },
    );
  });
});
