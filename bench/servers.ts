import { fork, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { mkdirSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { tmpdir } from "node:os";
import type { LoadJob, LoadResult } from "./load.ts";

const ROOT = resolve(import.meta.dirname, "..");
export const TOKEN = "bench-hook-token-0123456789";

/** A server under measurement. */
export interface Server {
  port: number;
  readyMs: number;
  /** User and system time of the process so far, in microseconds. */
  cpuMicros(): number;
  rssMb(): number;
  stop(): Promise<void>;
}

const TICKS_PER_SECOND = 100;

/** User and system time of a process so far, in microseconds; 0 where it has ended. `ended` adds that of children that have. */
export function readCpuSeconds(pid: number, ended = false): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "latin1")
      .replace(/^.*\) /, "")
      .split(" ");
    const ticks = fields.slice(11, ended ? 15 : 13).reduce((sum, field) => sum + Number(field), 0);
    return (ticks / TICKS_PER_SECOND) * 1e6;
  } catch {
    return 0;
  }
}

async function started(child: ChildProcess, cleanUp: () => void): Promise<Server> {
  const began = performance.now();
  let output = "";
  const port = await new Promise<number>((done, fail) => {
    child.stdout?.on("data", (chunk: Buffer) => {
      output += chunk.toString();
      const found = /listens on http:\/\/127\.0\.0\.1:(\d+)/.exec(output)?.[1];
      if (found) done(Number(found));
    });
    child.once("exit", () => fail(new Error(`a server ended: ${output}`)));
  });
  const pid = child.pid as number;
  const readyMs = performance.now() - began;
  return {
    port,
    readyMs,
    cpuMicros: () => readCpuSeconds(pid),
    rssMb: () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1024,
    async stop() {
      child.kill("SIGTERM");
      await once(child, "exit");
      cleanUp();
    },
  };
}

/** A server that stands beside this file. */
export function startScript(name: string, args: readonly string[]): Promise<Server> {
  const script = join(ROOT, "bench", name);
  return started(spawn(process.execPath, [script, ...args], { stdio: ["ignore", "pipe", "inherit"] }), () => undefined);
}

/** The same server stack with no work at all. */
export const startEcho = (): Promise<Server> => startScript("echo.ts", []);

const CLONE = join(ROOT, "bin/rouse.js");

/** The gateway as users start it, on a folder of its own. */
export function startGateway(
  config: object,
  flags: readonly string[],
  files: Record<string, string> = {},
  program = CLONE,
): Promise<Server> {
  const dir = mkdtempSync(join(tmpdir(), "rouse-bench-"));
  const { hooks = {}, ...rest } = config as { hooks?: object };
  writeFileSync(
    join(dir, "rouse.json5"),
    JSON.stringify({
      gateway: { port: 0, drainSeconds: 0 },
      log: { level: "silent" },
      hooks: { enabled: true, token: TOKEN, ...hooks },
      ...rest,
    }),
  );
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, name)), { recursive: true });
    writeFileSync(join(dir, name), text);
  }
  const child = spawn(process.execPath, [program, "start", ...flags], {
    cwd: dir,
    stdio: ["ignore", "pipe", "inherit"],
    env: { PATH: process.env["PATH"] ?? "" },
  });
  return started(child, () => rmSync(dir, { recursive: true, force: true }));
}

/** Sends load from a process of its own. */
export async function load(job: LoadJob): Promise<LoadResult> {
  const child = fork(join(ROOT, "bench/load.ts"));
  child.send(job);
  const [result] = (await once(child, "message")) as [LoadResult];
  child.kill();
  return result;
}

/** Starts servers, and stops them whatever happens. */
export async function withServers<T>(servers: Promise<Server>[], work: (servers: Server[]) => Promise<T>): Promise<T> {
  const running = await Promise.all(servers);
  try {
    return await work(running);
  } finally {
    for (const server of running) await server.stop();
  }
}
