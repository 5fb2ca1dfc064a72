import { Worker } from "node:worker_threads";
import { compiledCodeEnv } from "../../core/process-group.ts";
import { RouseError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import { STORE_UNAVAILABLE } from "../../store/types.ts";
import {
  CLOSE,
  type Calls,
  type CallMessage,
  type ReplyMessage,
  type WorkerSettings,
} from "./protocol.ts";

const extension = import.meta.url.endsWith(".ts") ? ".ts" : ".js";
const WORKER = new URL(`./worker${extension}`, import.meta.url);

/** A thread runs TypeScript as it is in a clone, where published entries mean source files. */
const EXEC_ARGV = ["--no-warnings", ...(extension === ".ts" ? ["--conditions=rouse-source"] : [])];

/** The thread that has the documents open. */
export interface Database {
  /** @throws RouseError that the call threw, `store_unavailable` where the database or the thread failed. */
  call<K extends keyof Calls>(
    name: K,
    ...args: Parameters<Calls[K]>
  ): Promise<Awaited<ReturnType<Calls[K]>>>;
  /** Waits for what was asked. */
  close(): Promise<void>;
}

interface Waiting {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/**
 * Opens the database in a thread of its own.
 * @throws RouseError `config_invalid` or `store_unavailable` where it cannot be opened.
 */
export async function openDatabase(
  settings: WorkerSettings,
  { log, env = {} }: { log: Logger; env?: Record<string, string | undefined> | undefined },
): Promise<Database> {
  // Those that the module of the database reads.
  const passed = Object.entries(env).filter(([name]) => settings.sql?.env.test(name));
  const worker = new Worker(WORKER, {
    workerData: settings,
    execArgv: EXEC_ARGV,
    env: { ...Object.fromEntries(passed), ...compiledCodeEnv() },
    stdin: false,
  });
  const waiting = new Map<number, Waiting>();
  let nextId = 1;
  let dead = false;

  const die = (): void => {
    dead = true;
    for (const { reject } of waiting.values()) reject(new RouseError(STORE_UNAVAILABLE));
    waiting.clear();
  };
  worker.on("message", (reply: ReplyMessage) => {
    const call = waiting.get(reply.id);
    waiting.delete(reply.id);
    if (reply.ok) return call?.resolve(reply.value);
    // The database's own messages quote nothing.
    if (reply.error.code === "store_unavailable")
      log.error({ reason: reply.error.reason }, "the knowledge database failed");
    call?.reject(new RouseError(reply.error));
  });
  worker.on("error", (error) => {
    log.error({ err: error }, "the thread of the knowledge database ended");
    die();
  });
  worker.once("exit", die);

  const call = (name: string, args: unknown[]): Promise<unknown> => {
    if (dead) return Promise.reject(new RouseError(STORE_UNAVAILABLE));
    const id = nextId++;
    return new Promise((resolve, reject) => {
      waiting.set(id, { resolve, reject });
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, no window
      worker.postMessage({ id, name, args } satisfies CallMessage);
    });
  };
  await new Promise((resolve, reject) => waiting.set(0, { resolve, reject })).catch(
    async (error: unknown) => {
      await worker.terminate();
      throw error;
    },
  );
  return {
    call: async (name, ...args) => (await call(name, args)) as never,
    async close() {
      if (dead) return;
      const ended = new Promise<void>((resolve) => worker.once("exit", () => resolve()));
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, no window
      worker.postMessage({ id: nextId++, name: CLOSE, args: [] } satisfies CallMessage);
      await ended;
    },
  };
}
