import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { setPriority } from "node:os";
import { fileURLToPath } from "node:url";
import type { Extractor as PluginExtractor } from "../../contract/kinds.ts";
import { compiledCodeEnv, killGroup } from "../../core/process-group.ts";
import { plural } from "../../core/text.ts";
import type { Chunk } from "../chunk.ts";
import type { IndexForm } from "../words/tokenize.ts";
import type { DocumentError, DocumentErrorCode } from "../types.ts";
import type { ExtractLimits } from "./types.ts";

export interface ExtractCall {
  file: string;
  sha256: string;
  filename: string;
  /** As its owner gave it; goes before the one in the document. */
  title: string | null;
  /** The folder that is made for the chunks, or the file for the text. */
  out: string;
  limits: ExtractLimits;
  /** Writes the document's text and no chunks. A text past the limit is an error, or cut with a note. */
  text?: "whole" | "cut";
  /** The extractors of plugins. */
  plugins: readonly PluginExtractor[];
}

/** A chunk and what it is found by. */
export type IndexedChunk = Chunk & IndexForm;

/** The caller's part of a document's extraction. */
type DocumentCall = Omit<ExtractCall, "plugins">;

export interface ExtractDone {
  mimeType: string;
  title: string | null;
  pages: number | null;
  chunks: number;
  /** The codes of the languages of its chunks. */
  languages: string[];
}

export type ExtractReply =
  | { kind: "started" }
  | { kind: "progress"; part: number }
  /** `tired`: so much is in memory that the next document would be blamed for this one. */
  | ({ kind: "done"; tired: boolean } & ExtractDone)
  | { kind: "failed"; tired: boolean; error: DocumentError };

export type ExtractResult =
  | ({ ok: true } & ExtractDone)
  | { ok: false; error: DocumentError }
  | { ok: false; stopped: true };

interface RunOptions {
  signal: AbortSignal;
  /** @param part from 0 to 1 */
  onProgress(part: number): void;
}

export interface ExtractorProcess {
  /** Reads a document and writes its chunks to `out`. Never throws. Aborting ends the child. */
  run(call: DocumentCall, options: RunOptions): Promise<ExtractResult>;
  close(): Promise<void>;
}

const IDLE_MS = 30_000;
const START_MS = 20_000;
const NICENESS = 5;
const extension = import.meta.url.endsWith(".ts") ? ".ts" : ".js";
const CHILD = fileURLToPath(new URL(`./child${extension}`, import.meta.url));

/** Ends a process and the programs that it has started. */
const end = ({ pid }: ChildProcess): void => (pid === undefined ? undefined : killGroup(pid));

const fail = (code: DocumentErrorCode, message: string): ExtractResult => ({
  ok: false,
  error: { code, message },
});

interface ExtractorOptions {
  memoryMb: number;
  /** The time that the reading of one document may take, in milliseconds. */
  timeout: number;
  env: Record<string, string | undefined>;
  /** The file that a process runs, for a test. */
  child?: string;
}

function spawn({ memoryMb, env, child: file = CHILD }: ExtractorOptions): ChildProcess {
  const child = fork(file, [String(memoryMb)], {
    env: {
      PATH: env["PATH"] ?? "",
      NODE_ENV: env["NODE_ENV"] ?? "",
      ...compiledCodeEnv(),
    },
    execArgv: [`--max-old-space-size=${Math.floor(memoryMb * 0.75)}`, "--no-warnings"],
    stdio: ["ignore", "ignore", "ignore", "ipc"],
    // A group of its own: the programs that it starts end with it.
    detached: true,
  });
  try {
    if (child.pid !== undefined) setPriority(child.pid, NICENESS);
  } catch {
    // Not allowed here, or it has ended already.
  }
  return child.on("error", () => end(child));
}

/** A process that reads documents, one at a time; started when first needed, ended after half a minute without work. */
function createReader(options: ExtractorOptions) {
  const { memoryMb, timeout } = options;
  let current: ChildProcess | undefined;
  let idle: NodeJS.Timeout | undefined;

  /** Ends the process. The next document gets another one, also while this one is still ending. */
  const letGo = (): void => {
    if (current) end(current);
    current = undefined;
  };

  async function run(
    call: ExtractCall,
    { signal, onProgress }: RunOptions,
  ): Promise<ExtractResult> {
    if (signal.aborted) return { ok: false, stopped: true };
    clearTimeout(idle);
    const isNew = current === undefined;
    const child = (current ??= spawn(options));
    if (isNew) child.once("exit", () => void (child === current && (current = undefined)));
    const { promise, resolve } = Promise.withResolvers<ExtractResult>();
    let timer: NodeJS.Timeout | undefined;
    /** Ends the work and its process, which may have sent its result already. */
    const stop = (result: ExtractResult): void => {
      letGo();
      resolve(result);
    };
    const watch = (ms: number): void => {
      clearTimeout(timer);
      const message = `the document took longer than ${plural(timeout / 1000, "second")} to read`;
      timer = setTimeout(() => stop(fail("timeout", message)), ms);
    };
    const onReply = (reply: ExtractReply): void => {
      // The start is over: from now on the time is the document's own.
      if (reply.kind === "started") return watch(timeout);
      if (reply.kind === "progress") return onProgress(reply.part);
      const { kind: _, tired, ...rest } = reply;
      if (tired) letGo();
      resolve("error" in rest ? { ok: false, ...rest } : { ok: true, ...rest });
    };
    const onExit = (_code: number | null, killed: NodeJS.Signals | null): void => {
      // A heap that is full aborts the process; memory outside the heap makes the process end itself.
      const isFull = killed === "SIGKILL" || killed === "SIGABRT" || killed === "SIGTRAP";
      stop(
        isFull
          ? fail("too_large", `the document takes more than ${memoryMb} MB of memory to read`)
          : fail("broken_document", "the process that read the document ended"),
      );
    };
    const onAbort = (): void => stop({ ok: false, stopped: true });
    child.on("message", onReply).on("exit", onExit);
    signal.addEventListener("abort", onAbort);
    watch(isNew ? START_MS + timeout : timeout);
    child.ref();
    child.channel?.ref();
    if (child.pid === undefined) onExit(null, null);
    else child.send(call, (error) => error && end(child));
    const result = await promise;
    clearTimeout(timer);
    child.off("message", onReply).off("exit", onExit);
    signal.removeEventListener("abort", onAbort);
    if (child === current) {
      child.unref();
      child.channel?.unref();
      idle = setTimeout(letGo, IDLE_MS).unref();
    }
    return result;
  }

  return {
    run,
    async close(): Promise<void> {
      clearTimeout(idle);
      const child = current;
      if (!child) return;
      child.ref();
      const ended = once(child, "exit");
      letGo();
      await ended;
    },
  };
}

export interface ExtractorSettings extends ExtractorOptions {
  workers: number;
  /** Returns the current extractors of plugins. */
  plugins(): readonly PluginExtractor[];
}

/** Creates the processes that read documents. */
export function createExtractor({
  workers,
  plugins,
  ...options
}: ExtractorSettings): ExtractorProcess {
  const readers = Array.from({ length: workers }, () => createReader(options));
  const free = [...readers];
  const waiting: ((reader: (typeof readers)[number]) => void)[] = [];
  return {
    async run(call, runOptions) {
      const { promise, resolve } = Promise.withResolvers<(typeof readers)[number]>();
      const ready = free.pop();
      if (ready) resolve(ready);
      else waiting.push(resolve);
      const reader = await promise;
      try {
        return await reader.run({ ...call, plugins: plugins() }, runOptions);
      } finally {
        const next = waiting.shift();
        if (next) next(reader);
        else free.push(reader);
      }
    },
    async close() {
      await Promise.all(readers.map((reader) => reader.close()));
    },
  };
}
