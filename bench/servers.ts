import { fork, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { tmpdir } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import type { LoadJob, LoadResult } from "./load.ts";

export const ROOT = resolve(import.meta.dirname, "..");
export const TOKEN = "bench-hook-token-0123456789";

const stopped = new AbortController();
let signal = stopped.signal;

/** Ends the row that is measured, and each after it: their processes, folders, schemas and databases are removed. */
export const stopAll = (): void => stopped.abort(new Error("stopped"));

/** Measures one row. Fails, when all that it started has ended, if that takes longer than `ms`. */
export async function withTimeLimit<T>(ms: number, work: () => Promise<T>): Promise<T> {
  const limit = new AbortController();
  const timer = setTimeout(() => limit.abort(new Error(`not measured within ${ms / 1000} s`)), ms);
  signal = AbortSignal.any([stopped.signal, limit.signal]);
  try {
    signal.throwIfAborted();
    return await work();
  } catch (error) {
    throw signal.aborted ? signal.reason : error;
  } finally {
    clearTimeout(timer);
  }
}

/** Is aborted when the row has to end. */
export const getSignal = (): AbortSignal => signal;

/** Waits, but not beyond the time of the row. */
export const pause = (ms: number): Promise<void> => sleep(ms, undefined, { signal });

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
const STOP_MS = 10_000;

/** User and system time of a process so far, in microseconds; 0 where it has ended. `ended` adds that of children that have. */
export function readCpuMicros(pid: number, ended = false): number {
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

/** `hasChildren`: the CPU time includes that of ended children. */
export function toServer(
  child: ChildProcess,
  port: number,
  readyMs: number,
  options: { cleanUp(): void; hasChildren?: boolean },
): Server {
  const pid = child.pid as number;
  return {
    port,
    readyMs,
    cpuMicros: () => readCpuMicros(pid, options.hasChildren),
    rssMb: () =>
      Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1024,
    async stop() {
      const ended = once(child, "exit");
      const kill = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
      if (child.exitCode === null && child.kill("SIGTERM")) await ended;
      clearTimeout(kill);
      options.cleanUp();
    },
  };
}

/** Waits until a process says on its standard output where it listens. */
async function started(child: ChildProcess, cleanUp: () => void): Promise<Server> {
  const began = performance.now();
  let output = "";
  const kill = (): boolean => child.kill("SIGKILL");
  signal.addEventListener("abort", kill);
  if (signal.aborted) kill();
  try {
    const port = await new Promise<number>((done, fail) => {
      child.stdout?.on("data", (chunk: Buffer) => {
        output += chunk.toString();
        const found = /listens on http:\/\/127\.0\.0\.1:(\d+)/.exec(output)?.[1];
        if (found) done(Number(found));
      });
      child.once("exit", () => fail(new Error(`a server ended before it listened: ${output}`)));
    });
    return toServer(child, port, performance.now() - began, { cleanUp });
  } catch (error) {
    cleanUp();
    throw error;
  } finally {
    signal.removeEventListener("abort", kill);
  }
}

/** A server that stands beside this file. */
export function startScript(
  name: string,
  args: readonly string[],
  cleanUp: () => void = () => undefined,
): Promise<Server> {
  const script = join(ROOT, "bench", name);
  return started(
    spawn(process.execPath, [script, ...args], { stdio: ["ignore", "pipe", "inherit"] }),
    cleanUp,
  );
}

/** The same server stack with no work at all. */
export const startEcho = (): Promise<Server> => startScript("echo.ts", []);

/** The same server stack with the least that a durable accept does, on a file of its own. */
export function startDurableEcho(): Promise<Server> {
  const dir = mkdtempSync(join(tmpdir(), "rouse-bench-echo-"));
  return startScript("durable-echo.ts", [join(dir, "records")], () =>
    rmSync(dir, { recursive: true, force: true }),
  );
}

const CLONE = join(ROOT, "bin/rouse.js");

export interface GatewayOptions {
  /** False: hooks are accepted and wait. */
  workers?: boolean;
  /** Files beside the config, by path. */
  files?: Record<string, string>;
  /** The program of another checkout or package. */
  program?: string;
  /** Options of Node. */
  nodeArgs?: readonly string[];
}

/** The gateway as users start it, on a folder of its own. */
export function startGateway(config: object, options: GatewayOptions = {}): Promise<Server> {
  const { workers = true, files = {}, program = CLONE, nodeArgs = [] } = options;
  const dir = mkdtempSync(join(tmpdir(), "rouse-bench-"));
  const { hooks = {}, ...rest } = config as { hooks?: object };
  const settings = {
    gateway: { port: 0, drainSeconds: 0 },
    log: { level: "silent" },
    hooks: { enabled: true, token: TOKEN, ...hooks },
    ...rest,
  };
  for (const [name, text] of Object.entries({
    "rouse.json5": JSON.stringify(settings),
    ...files,
  })) {
    mkdirSync(dirname(join(dir, name)), { recursive: true });
    writeFileSync(join(dir, name), text);
  }
  const child = spawn(
    process.execPath,
    [...nodeArgs, program, "start", ...(workers ? [] : ["--no-workers"])],
    {
      cwd: dir,
      stdio: ["ignore", "pipe", "inherit"],
      env: { PATH: process.env["PATH"] ?? "" },
    },
  );
  return started(child, () => rmSync(dir, { recursive: true, force: true }));
}

const STUCK_MS = 20_000;

/** Gives a job to a script beside this file, in a process of its own, and returns what it answers. */
export async function runScript<R>(
  name: string,
  job: { ms: number; path: string; port: number },
): Promise<R> {
  const child = fork(join(ROOT, "bench", name));
  const ended = new AbortController();
  child.once("exit", () => ended.abort(new Error(`${name} ended without a result`)));
  const stuck = AbortSignal.timeout(job.ms + STUCK_MS);
  child.send(job);
  try {
    const [result] = (await once(child, "message", {
      signal: AbortSignal.any([signal, stuck, ended.signal]),
    })) as [R];
    return result;
  } catch (error) {
    throw stuck.aborted
      ? new Error(`${job.path} on port ${job.port} does not answer all requests`)
      : error;
  } finally {
    child.kill();
  }
}

/** Sends load from a process of its own. */
export const load = (job: LoadJob): Promise<LoadResult> => runScript("load.ts", job);

/** Starts servers, and stops them whatever happens. */
export async function withServers<T, S extends readonly Promise<Server>[] | []>(
  servers: S,
  work: (servers: { [I in keyof S]: Server }) => Promise<T>,
): Promise<T> {
  const starts = await Promise.allSettled(servers);
  const running = starts.flatMap((start) => (start.status === "fulfilled" ? [start.value] : []));
  try {
    for (const start of starts) if (start.status === "rejected") throw start.reason;
    return await work(running as unknown as { [I in keyof S]: Server });
  } finally {
    for (const server of running) await server.stop();
  }
}
