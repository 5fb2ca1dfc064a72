import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Clock } from "../../src/core/clock.ts";
import { createGateway, REAL, type StartedGateway } from "../gateway.ts";
import { createLogger } from "../../src/core/log.ts";
import type { Plugin } from "../../src/contract/define.ts";
import { expectDocumented } from "../http/conformance.ts";

export const TOKEN = "test-hook-token-0123456789";

/** A gateway on a folder of its own, with what it wrote to its terminal and its log. */
export interface World {
  gateway: StartedGateway;
  dir: string;
  url: string;
  printed: string[];
  logged: string[];
  /** Writes a file below the folder. */
  write(name: string, content: string | object): void;
  /** Posts JSON to a hook with the hook token. */
  post(path: string, body: unknown, headers?: Record<string, string>): Promise<Answer>;
  get(path: string, headers?: Record<string, string>): Promise<Answer>;
  admin(path: string, init?: RequestInit): Promise<Answer>;
  /** Gives an agent work by the hook of the agents; the reply goes nowhere. Returns the id of the run. */
  orderRun(more?: object): Promise<string>;
  /** Waits for the end of a run, and returns it as its sender sees it. */
  endedRun(runId: string): Promise<Answer["body"]>;
  /** Runs a command in the folder, as a process in a pipe would. */
  rouse(...args: string[]): Promise<{ code: number; out: string; err: string }>;
  /** Takes the files over, and first, if it is given, writes the config as `createWorld` does. */
  reload(config?: object): Promise<void>;
  /** Waits until `read` gives something. */
  until<T>(read: () => Promise<T | undefined | false>): Promise<T>;
  stop(): Promise<void>;
}

export interface Answer {
  status: number;
  headers: Headers;
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of every shape
  body: any;
}

export interface WorldOptions {
  config?: object;
  files?: Record<string, string | object>;
  env?: Record<string, string>;
  /** Starts the gateway, which then listens. Default: true. */
  start?: boolean;
  workers?: boolean;
  logLevel?: "silent" | "warn" | "trace";
  dir?: string;
  clock?: Clock;
  fetch?: typeof fetch;
  /** Plugins that are there without a file. */
  plugins?: readonly Plugin[];
}

export async function createWorld(options: WorldOptions = {}): Promise<World> {
  const dir = options.dir ?? mkdtempSync(join(tmpdir(), "rouse-test-"));
  const write = (name: string, content: string | object): void => {
    mkdirSync(dirname(join(dir, name)), { recursive: true });
    writeFileSync(join(dir, name), typeof content === "string" ? content : JSON.stringify(content));
  };
  const writeConfig = (config: object): void => {
    const { hooks, gateway: ofGateway, ...rest } = config as Record<string, object | undefined>;
    // By default, the turn of a channel's message begins 0.8 s later, in case another message follows.
    const sessions = rest["channels"] && { sessions: { quietTime: "30ms", ...rest["sessions"] } };
    write("rouse.json5", {
      gateway: { port: 0, drainSeconds: 1, ...ofGateway },
      hooks: { enabled: true, token: TOKEN, ...hooks },
      ...rest,
      ...sessions,
    });
  };
  writeConfig(options.config ?? {});
  for (const [name, content] of Object.entries(options.files ?? {})) write(name, content);
  const printed: string[] = [];
  const logged: string[] = [];
  const log = createLogger(options.logLevel ?? "silent", {
    write: (line: string) => void logged.push(line),
  });
  const gateway = await createGateway({
    cwd: dir,
    env: options.env ?? {},
    workers: options.workers ?? true,
    clock: options.clock ?? REAL.clock,
    fetch: options.fetch ?? REAL.fetch,
    print: (text) => void printed.push(text),
    log,
    ...(options.plugins && { plugins: options.plugins }),
  }).catch((error: unknown) => {
    // The test's report shows the message alone.
    const issues = (error as { issues?: { path: string; message: string }[] }).issues ?? [];
    if (error instanceof Error)
      error.message += issues.map(({ path, message }) => `\n  ${path}: ${message}`).join("");
    throw error;
  });
  const url = options.start === false ? "http://127.0.0.1" : (await gateway.start()).url;

  const request = async (path: string, init: RequestInit): Promise<Answer> => {
    const response = await gateway.fetch(new Request(`http://127.0.0.1${path}`, init));
    const text = await response.text();
    const isJson = response.headers.get("content-type")?.includes("json");
    const body: unknown = isJson && text !== "" ? JSON.parse(text) : text;
    // The answer to a handshake has the sender's form, so the document does not have it. It is no event and has no id.
    if (response.status >= 300 || response.headers.has("x-request-id") || init.method !== "POST")
      expectDocumented(init.method ?? "GET", path, response.status, body);
    return { status: response.status, headers: response.headers, body };
  };

  const world: World = {
    gateway,
    dir,
    url,
    printed,
    logged,
    write,
    post: (path, body, headers = {}) =>
      request(path, {
        method: "POST",
        body:
          typeof body === "string" || body instanceof Uint8Array
            ? (body as string)
            : JSON.stringify(body),
        headers: {
          authorization: `Bearer ${TOKEN}`,
          "content-type": "application/json",
          ...headers,
        },
      }),
    get: (path, headers = { authorization: `Bearer ${TOKEN}` }) => request(path, { headers }),
    admin: (path, init = {}) =>
      request(path, {
        ...init,
        headers: {
          authorization: `Bearer ${gateway.operatorToken}`,
          "content-type": "application/json",
        },
      }),
    async rouse(...args) {
      const { createCli } = await import("../cli/world.ts");
      return (await createCli(dir)).rouse(args, { env: options.env ?? {} });
    },
    async orderRun(more = {}) {
      const silent = { wakeMode: "next-heartbeat", deliver: false };
      const order = { message: "Do it.", ...silent, ...more };
      return (await world.post("/hooks/agent", order)).body.runId as string;
    },
    endedRun: (runId) =>
      world.until(async () => {
        const { run } = (await world.get(`/hooks/runs/${runId}`)).body;
        return run.endedAt !== null && run;
      }),
    async reload(config) {
      if (config) writeConfig(config);
      const reloaded = await gateway.reload();
      if (!reloaded.ok) throw new Error(`the config has problems: ${JSON.stringify(reloaded)}`);
    },
    async until(read) {
      for (let i = 0; i < 3000; i++) {
        const value = await read();
        if (value !== undefined && value !== false) return value;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      throw new Error("what was waited for did not come");
    },
    async stop() {
      await gateway.stop();
      if (options.dir === undefined) rmSync(dir, { recursive: true, force: true });
    },
  };
  return world;
}
