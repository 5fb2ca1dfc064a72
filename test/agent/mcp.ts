import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { createRequire } from "node:module";
import { join } from "node:path";
import type { Answer, Call } from "../channels/wire.ts";
import type { ModelServer, Said } from "./vendors.ts";
import { createModelWorld, type ModelWorld } from "./world.ts";

export const EVERYTHING = createRequire(import.meta.url).resolve(
  "@modelcontextprotocol/server-everything/dist/index.js",
);
export const LEDGER_SERVER = join(import.meta.dirname, "ledger-mcp-server.mjs");

/** Programs that this process, or one that it started, has started and that run, by their command line. */
export function findChildren(words: string): number[] {
  return readdirSync("/proc").flatMap((pid) => {
    try {
      const status = readFileSync(`/proc/${pid}/status`, "utf8");
      const parent = Number(/^PPid:\s+(\d+)/m.exec(status)?.[1]);
      if (parent !== process.pid || /^State:\s+Z/m.test(status)) return [];
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(words) ? [Number(pid)] : [];
    } catch {
      return [];
    }
  });
}

export async function findPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as AddressInfo;
  await new Promise((closed) => server.close(closed));
  return port;
}

/** The protocol's reference server over HTTP, which can be killed and started again on the same port. */
export interface HttpServer {
  url: string;
  start(): Promise<void>;
  kill(): Promise<void>;
}

export async function createHttpServer(transport: "streamableHttp" | "sse"): Promise<HttpServer> {
  const port = await findPort();
  const origin = `http://127.0.0.1:${port}`;
  let child: ChildProcess | undefined;
  return {
    url: `${origin}/${transport === "sse" ? "sse" : "mcp"}`,
    async start() {
      child = spawn(process.execPath, [EVERYTHING, transport], {
        env: { ...process.env, PORT: String(port) },
        stdio: "ignore",
      });
      for (let i = 0; i < 500; i++) {
        if (
          await fetch(`${origin}/none`).then(
            () => true,
            () => false,
          )
        )
          return;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      throw new Error("the MCP server did not start");
    },
    async kill() {
      const running = child;
      child = undefined;
      if (!running || running.exitCode !== null || running.signalCode !== null) return;
      const exited = new Promise((resolve) => running.once("exit", resolve));
      running.kill("SIGKILL");
      await exited;
    },
  };
}

interface ToolCall {
  name: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- tools take inputs of every shape
  arguments?: any;
}

/** Answers a request of an MCP client as a server over HTTP whose tools `call` calls. */
export function answerMcp(
  { method, body }: Pick<Call, "method" | "body">,
  tools: readonly { name: string; [field: string]: unknown }[],
  call: (of: ToolCall) => object,
): Answer {
  if (method !== "POST") return { status: 405 };
  const {
    id,
    method: asked,
    params,
  } = body as {
    id?: number;
    method: string;
    params: ToolCall & { protocolVersion: string };
  };
  if (id === undefined) return { status: 202 };
  const results: Record<string, () => object> = {
    initialize: () => ({
      protocolVersion: params.protocolVersion,
      capabilities: { tools: {} },
      serverInfo: { name: "town", version: "1" },
    }),
    "tools/list": () => ({
      // Many servers say so where the protocol says nothing.
      nextCursor: null,
      tools: tools.map((tool) => ({ inputSchema: { type: "object", properties: {} }, ...tool })),
    }),
    "tools/call": () => call(params),
  };
  return { status: 200, json: { jsonrpc: "2.0", id, result: results[asked]?.() ?? {} } };
}

export type McpWorld = ModelWorld;

/** A gateway whose agent has all tools of the servers, and whose model says what `says` returns, by the number of the request. */
export async function createMcpWorld(
  servers: object,
  says: (call: number, model: ModelServer) => Said | Promise<Said>,
  { config = {}, agent = {}, ...options }: Parameters<typeof createModelWorld>[0] = {},
): Promise<McpWorld> {
  const names = Object.keys(servers).map((name) => `${name}.*`);
  let asked = 0;
  const world = await createModelWorld({
    ...options,
    config: { hooks: { tools: names }, mcp: { servers }, ...config },
    agent: { tools: names, ...agent },
  });
  world.model.handler = () => says(asked++, world.model);
  return world;
}

/** A start, a call or a cancellation that reached the ledger's server. */
export interface Entry {
  pid: number;
  started?: boolean;
  call?: string;
  key?: string;
  cancelled?: number;
}

export const readLedger = (file: string): Entry[] =>
  existsSync(file)
    ? readFileSync(file, "utf8")
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line) as Entry)
    : [];
