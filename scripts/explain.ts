/**
 * Counts which files and functions of `src` and `plugins` one request runs through, in a gateway that has answered the same request
 * before: a wake, a mapped hook to its delivered reply, and a chat. Prints a table; `--files` lists the files, `--json` prints
 * the functions of each file as JSON.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { Session } from "node:inspector/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { createGateway, definePlugin } from "../src/index.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const TOKEN = "explain-token-for-this-process";
const KEY = "explain-key-for-this-process-0123456789";
const WARM_UP_ROUNDS = 3;
/** A function counts if it runs in `MOST_ROUNDS` of these rounds: a timer of the gateway fires in a few of them, a busy machine skips a look. */
const ROUNDS = 9;
const MOST_ROUNDS = 7;
const IDLE_MS = 50;

const dir = mkdtempSync(join(tmpdir(), "rouse-explain-"));
const channel = definePlugin({
  id: "explained",
  channel: () => ({ defaultTo: "reader", send: async () => ({ status: "sent" }) }),
});
const gateway = await createGateway({
  cwd: dir,
  env: {},
  plugins: [channel],
  config: {
    gateway: { drainSeconds: 1 },
    platform: { apiKeys: [{ id: "explain", key: KEY }] },
    hooks: {
      enabled: true,
      token: TOKEN,
      mappings: [
        {
          id: "order",
          match: { path: "order" },
          action: "agent",
          messageTemplate: "Order {{id}}",
          channel: "explained",
        },
      ],
    },
  },
});
await gateway.start();

async function post(path: string, token: string, body: object): Promise<void> {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const answer = await gateway.fetch(
    new Request(`http://127.0.0.1${path}`, { method: "POST", headers, body: JSON.stringify(body) }),
  );
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${text}`);
}

async function postAndWaitForDelivery(): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const off = gateway.on("delivery.ended", ({ status }) =>
    status === "delivered" ? resolve() : reject(new Error(`the delivery is ${status}`)),
  );
  await post("/hooks/order", TOKEN, { id: 7 });
  await promise;
  off();
}

const requests: Record<string, () => Promise<void>> = {
  "POST /hooks/wake": () => post("/hooks/wake", TOKEN, { text: "Hello", mode: "next-heartbeat" }),
  "mapped hook to delivery": postAndWaitForDelivery,
  "POST /v1/chat/completions": () =>
    post("/v1/chat/completions", KEY, {
      model: "main",
      messages: [{ role: "user", content: "Hello" }],
    }),
};

const session = new Session();
session.connect();
await session.post("Profiler.enable");
await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });

interface CalledFunction {
  file: string;
  /** Its place in the file. */
  offset: number;
}

/** The functions that ran since the last call. The body of a module is none. */
async function takeCalled(): Promise<CalledFunction[]> {
  const { result } = await session.post("Profiler.takePreciseCoverage");
  return result.flatMap(({ url, functions }) => {
    const file = url.startsWith("file:") ? relative(ROOT, fileURLToPath(url)) : "";
    if (!/^(?:src|plugins)\//.test(file)) return [];
    return functions.flatMap(({ ranges: [range] }) =>
      range !== undefined && range.count > 0 && range.startOffset > 0
        ? [{ file, offset: range.startOffset }]
        : [],
    );
  });
}

const idle = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, IDLE_MS));

/** Counts the functions of each file that a request executes. */
async function measure(request: () => Promise<void>): Promise<Record<string, number>> {
  const rounds: CalledFunction[][] = [];
  for (let round = 0; round < WARM_UP_ROUNDS + ROUNDS; round++) {
    await idle();
    await takeCalled();
    await request();
    rounds.push(await takeCalled());
  }
  const called = Map.groupBy(
    rounds.slice(WARM_UP_ROUNDS).flat(),
    ({ file, offset }) => `${file} ${offset}`,
  );
  const files = Map.groupBy(
    [...called.values()]
      .filter((calls) => calls.length >= MOST_ROUNDS)
      .flatMap(([call]) => call ?? []),
    ({ file }) => file,
  );
  return Object.fromEntries(
    [...files.keys()].toSorted().map((file) => [file, files.get(file)?.length ?? 0]),
  );
}

const measured: Record<string, Record<string, number>> = {};
for (const [name, request] of Object.entries(requests)) measured[name] = await measure(request);
session.disconnect();
await gateway.stop();
rmSync(dir, { recursive: true, force: true });

if (process.argv.includes("--json")) console.log(JSON.stringify(measured, null, 2));
else {
  console.log(`${"".padEnd(28)}   files   functions`);
  for (const [name, files] of Object.entries(measured)) {
    const counts = Object.values(files);
    const functions = counts.reduce((sum, count) => sum + count, 0);
    console.log(
      `${name.padEnd(28)}${String(counts.length).padStart(8)}${String(functions).padStart(12)}`,
    );
    if (process.argv.includes("--files"))
      for (const [file, count] of Object.entries(files))
        console.log(`  ${String(count).padStart(4)}  ${file}`);
  }
}
