import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { startProgram, type Program } from "./program.ts";
import { createProvider, modelConfig, type Provider } from "./provider.ts";

export const ROUSE = resolve(import.meta.dirname, "../../bin/rouse.js");
export const TOKEN = "process-hook-token-0123456789";
export const OPERATOR_TOKEN = "process-operator-token-0123456789";

export interface ShownRun {
  status: string;
  reply: string | null;
  attempts: number;
  endedAt: string | null;
  error: { code: string; message: string } | null;
}

export interface ProcessAnswer {
  status: number;
  headers: Headers;
  body: { runId: string; error?: { code: string } } & Record<string, unknown>;
}

/** A gateway as a process, and what is asked of it. */
export interface GatewayProcess extends Program {
  /** Posts JSON to a hook with the hook token. A sender that waits too long gives up. */
  post(path: string, body: object, headers?: Record<string, string>): Promise<ProcessAnswer>;
  /** Gives a task to an agent, whose reply goes nowhere. Returns the id of its run. */
  accept(message: string, more?: object): Promise<string>;
  run(id: string): Promise<ShownRun>;
  /** Asks with the operator's token. */
  admin(path: string, init?: RequestInit): Promise<Response>;
  /** The status of a page that needs no token. */
  statusOf(path: string): Promise<number>;
}

/** A folder with a config and a model, on which gateways run as processes. */
export interface ProcessWorld {
  dir: string;
  provider: Provider;
  /** Starts a gateway; `env` adds to its environment. */
  start(flags?: readonly string[], env?: Record<string, string>): Promise<GatewayProcess>;
  /** Kills what runs. */
  close(): Promise<void>;
}

export const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

export async function until(done: () => boolean | Promise<boolean>, ms = 75_000): Promise<void> {
  for (const end = performance.now() + ms; !(await done()); await pause(50))
    if (performance.now() > end) throw new Error("what was waited for did not come");
}

/** Adds the requests of tests to a running program. */
export function toGateway(program: Program): GatewayProcess {
  const ask = (path: string, token: string, init: RequestInit = {}): Promise<Response> =>
    fetch(`${program.url}${path}`, {
      ...init,
      headers: {
        authorization: `Bearer ${token}`,
        "content-type": "application/json",
        ...(init.headers as Record<string, string>),
      },
    });
  const gateway: GatewayProcess = {
    ...program,
    async post(path, body, headers = {}) {
      const init = { method: "POST", body: JSON.stringify(body), headers };
      const answer = await ask(`/hooks/${path}`, TOKEN, {
        ...init,
        signal: AbortSignal.timeout(30_000),
      });
      const { status } = answer;
      return {
        status,
        headers: answer.headers,
        body: (await answer.json()) as ProcessAnswer["body"],
      };
    },
    async accept(message, more = {}) {
      const task = { message, deliver: false, wakeMode: "next-heartbeat", ...more };
      const { status, body } = await gateway.post("agent", task);
      if (status !== 202) throw new Error(`${status} ${JSON.stringify(body)}`);
      return body.runId;
    },
    run: async (id) =>
      ((await (await ask(`/hooks/runs/${id}`, TOKEN)).json()) as { run: ShownRun }).run,
    admin: (path, init) => ask(path, OPERATOR_TOKEN, init),
    statusOf: async (path) => (await fetch(`${program.url}${path}`)).status,
  };
  return gateway;
}

/** `apiKey`: the key of the model, which may name a variable. */
export async function createProcessWorld(
  config: object = {},
  apiKey = "model-key-0123456789",
): Promise<ProcessWorld> {
  const dir = mkdtempSync(join(tmpdir(), "rouse-process-"));
  const provider = await createProvider();
  const { hooks, gateway, ...rest } = config as Record<string, object | undefined>;
  const whole = {
    gateway: { port: 0, drainSeconds: 1, token: OPERATOR_TOKEN, ...gateway },
    hooks: { enabled: true, token: TOKEN, allowRequestSessionKey: true, ...hooks },
    ...modelConfig({ ...provider, apiKey }),
    ...rest,
  };
  writeFileSync(join(dir, "rouse.json5"), JSON.stringify(whole));
  const programs: Program[] = [];
  return {
    dir,
    provider,
    async start(flags = [], env = {}) {
      const program = await startProgram(process.execPath, [ROUSE, "start", ...flags], {
        cwd: dir,
        env: { ROUSE_LOG_LEVEL: process.env["FLEET_LOG"] ?? "silent", ...env },
      });
      programs.push(program);
      return toGateway(program);
    },
    async close() {
      await Promise.all(programs.map((program) => program.kill().catch(() => undefined)));
      await provider.close();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
