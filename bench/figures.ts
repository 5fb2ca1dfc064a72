/** Figures that stand alone: whole runs, time to start, memory, installed size. */
import { execFileSync } from "node:child_process";
import { lstatSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { load, startGateway, TOKEN, withServers, type Server } from "./servers.ts";

export interface Row {
  row: string;
  ratio: number | null;
  least: number | null;
  /** Requests a second: only for comparison inside one run. */
  perSecond: [number, number | null];
  cpuMicros: [number, number | null];
  errors: number;
  note?: string;
}

export const median = (numbers: number[]): number => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0;

const ROOT = resolve(import.meta.dirname, "..");
const CONNECTIONS = 16;
const REPLY = JSON.stringify({
  id: "c",
  object: "chat.completion",
  created: 1,
  model: "m",
  choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "done" } }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
});

/** Answers that call a tool of the server `tools`, by the number of results that the request has; then words. */
const CALL = {
  role: "assistant",
  content: null,
  tool_calls: [{ id: "call", type: "function", function: { name: "tools__look", arguments: "{}" } }],
};
const toAnswer = (message: object, reason: string): string =>
  JSON.stringify({ ...(JSON.parse(REPLY) as object), choices: [{ index: 0, finish_reason: reason, message }] });

const LOOK = { name: "look", inputSchema: { type: "object", properties: {} }, annotations: { readOnlyHint: true } };

/** Answers a request to the server of tools, whose one tool answers at once. */
function answerTool(body: string): string | undefined {
  const { id, method, params } = JSON.parse(body) as { id?: number; method: string; params?: { protocolVersion?: string } };
  if (id === undefined) return undefined;
  const results: Record<string, object> = {
    initialize: { protocolVersion: params?.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "tools", version: "1" } },
    "tools/list": { tools: [LOOK] },
    "tools/call": { content: [{ type: "text", text: "seen" }] },
  };
  return JSON.stringify({ jsonrpc: "2.0", id, result: results[method] ?? {} });
}

/**
 * A model server in this process that answers at once, after `steps` calls of a tool in each turn; `work` gets the config that
 * names it, and how many turns it has ended.
 */
export async function withModel<T>(work: (config: object, turns: () => number) => Promise<T>, steps = 0): Promise<T> {
  let turns = 0;
  const answer = (url: string, body: string): string | undefined => {
    if (url.startsWith("/mcp")) return answerTool(body);
    if (steps > 0 && body.split('"role":"tool"').length <= steps) return toAnswer(CALL, "tool_calls");
    turns++;
    return REPLY;
  };
  const model = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => (body += chunk.toString()));
    request.on("end", () => {
      const text = request.method === "POST" ? answer(request.url ?? "", body) : undefined;
      response.writeHead(text === undefined ? (request.method === "POST" ? 202 : 405) : 200, { "content-type": "application/json" });
      response.end(text);
    });
  });
  await new Promise<void>((done) => model.listen(0, "127.0.0.1", done));
  const url = `http://127.0.0.1:${(model.address() as AddressInfo).port}`;
  const tools = {
    hooks: { tools: ["tools.*"] },
    mcp: { servers: { tools: { url: `${url}/mcp` } } },
  };
  const config = {
    models: { providers: { local: { type: "openai-compatible", baseUrl: `${url}/v1` } } },
    agents: {
      defaults: { model: "local/m", maxConcurrent: 16, heartbeat: { every: 0 } },
      ...(steps > 0 && { list: [{ id: "main", tools: ["tools.*"] }] }),
    },
    ...(steps > 0 && tools),
  };
  try {
    return await work(config, () => turns);
  } finally {
    model.close();
  }
}

/** Each a run in a session of its own. */
export const RUN_BODY = JSON.stringify({ message: "x", deliver: false, wakeMode: "next-heartbeat" });

/** Hooks posted in a flood beforehand: how many runs end in a second, each with so many steps that call a tool. */
export function wholeRuns(ms: number, steps = 0): Promise<Row> {
  return withModel(
    (config, turns) =>
      withServers([startGateway(config, [])], async ([gateway]) => {
        const server = gateway as Server;
        await load({ port: server.port, path: "/hooks/agent", body: RUN_BODY, token: TOKEN, connections: 1, ms: 500 });
        await load({ port: server.port, path: "/hooks/agent", body: RUN_BODY, token: TOKEN, connections: CONNECTIONS, ms: 1000 });
        const before = turns();
        const cpu = server.cpuMicros();
        await new Promise((done) => setTimeout(done, ms));
        const ran = turns() - before;
        return {
          row: steps === 0 ? "whole runs a second" : `whole runs a second, each with ${steps} tool steps`,
          ratio: null,
          least: steps === 0 ? 400 : null,
          perSecond: [Math.round((ran / ms) * 1000), null],
          cpuMicros: [Math.round((server.cpuMicros() - cpu) / Math.max(1, ran)), null],
          errors: 0,
        };
      }),
    steps,
  );
}

async function startAndMemory(name: string, program?: string): Promise<Row> {
  const ready: number[] = [];
  let rss = 0;
  for (let i = 0; i < 5; i++) {
    await withServers([startGateway({}, [], {}, program)], async ([gateway]) => {
      ready.push((gateway as Server).readyMs);
      await new Promise((done) => setTimeout(done, 1000));
      // The first start of all compiles, and keeps what it compiled.
      if (i > 0) rss = Math.max(rss, (gateway as Server).rssMb());
    });
  }
  const note = `${(median(ready) / 1000).toFixed(2)} s (first ${((ready[0] ?? 0) / 1000).toFixed(2)} s), ${Math.round(rss)} MB`;
  return figure(`${name}: ready after start (at most 0.8 s), memory when idle (at most 120 MB)`, note);
}

/** A row that is no pair. */
export function figure(row: string, note: string): Row {
  return { row, ratio: null, least: null, perSecond: [0, null], cpuMicros: [0, null], errors: 0, note };
}

/** The package as users get it: packed, installed into an empty folder without optional dependencies, and started. */
export async function installed(): Promise<Row[]> {
  const dir = mkdtempSync(join(tmpdir(), "rouse-bench-installed-"));
  const npm = (args: string[], cwd: string): string =>
    execFileSync("npm", args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  try {
    const [packed] = JSON.parse(npm(["pack", "--json", "--pack-destination", dir], ROOT)) as { filename: string }[];
    writeFileSync(join(dir, "package.json"), '{ "private": true }');
    npm(["install", "--no-audit", "--no-fund", "--omit=dev", "--omit=optional", join(dir, packed?.filename ?? "")], dir);
    const bytes = readdirSync(join(dir, "node_modules"), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      // Whole blocks, as they lie on disk.
      .reduce((sum, entry) => sum + lstatSync(join(entry.parentPath, entry.name)).blocks * 512, 0);
    return [
      await startAndMemory("from a clone"),
      await startAndMemory("the installed package", join(dir, "node_modules/rouse/bin/rouse.js")),
      figure("installed size without optional dependencies (at most 100 MB)", `${Math.round(bytes / 2 ** 20)} MB`),
    ];
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
