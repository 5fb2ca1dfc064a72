import { fork, type ChildProcess } from "node:child_process";
import { setPriority } from "node:os";
import { fileURLToPath } from "node:url";
import type { Extractor as PluginExtractor } from "../../contract/kinds.ts";
import { compiledCodeEnv, killGroup } from "../../core/process-group.ts";
import { plural } from "../../core/text.ts";
import type { Chunk } from "../chunk.ts";
import type { IndexForm } from "../words/tokenize.ts";
import type { DocumentError } from "../types.ts";
import type { ExtractLimits } from "./types.ts";

export interface ExtractCall {
  id: number;
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
type DocumentCall = Omit<ExtractCall, "id" | "plugins">;

export interface ExtractDone {
  mimeType: string;
  title: string | null;
  pages: number | null;
  chunks: number;
  /** The codes of the languages of its chunks. */
  languages: string[];
}

export type ExtractReply =
  | { id: number; kind: "started" }
  | { id: number; kind: "progress"; part: number }
  | ({ id: number; kind: "done"; tired: boolean } & ExtractDone)
  | { id: number; kind: "failed"; tired: boolean; error: DocumentError };

export type ExtractResult =
  | ({ ok: true } & ExtractDone)
  | { ok: false; error: DocumentError }
  | { ok: false; stopped: true };

export interface ExtractorProcess {
  /** Reads a document and writes its chunks to `out`. Never throws. Aborting ends the child. */
  run(
    call: DocumentCall,
    options: { signal: AbortSignal; onProgress(part: number): void },
  ): Promise<ExtractResult>;
  close(): Promise<void>;
}

const IDLE_MS = 30_000;
const START_MS = 20_000;
const NICENESS = 5;
const extension = import.meta.url.endsWith(".ts") ? ".ts" : ".js";
const CHILD = fileURLToPath(new URL(`./child${extension}`, import.meta.url));

/** Ends a process and the programs that it has started. */
const end = ({ pid }: ChildProcess): void => (pid === undefined ? undefined : killGroup(pid));

interface Running {
  id: number;
  settle(result: ExtractResult): void;
  onProgress(part: number): void;
  signal: AbortSignal;
  onAbort(): void;
}

/** A process that reads documents, one at a time; started when first needed, ended after half a minute without work. */
class Reader {
  readonly #options: ExtractorOptions;
  #process: ChildProcess | undefined;
  #running: Running | undefined;
  #timer: NodeJS.Timeout | undefined;
  #nextId = 1;

  constructor(options: ExtractorOptions) {
    this.#options = options;
  }

  get busy(): boolean {
    return this.#running !== undefined;
  }

  run(
    call: Omit<ExtractCall, "id">,
    options: { signal: AbortSignal; onProgress(part: number): void },
  ): Promise<ExtractResult> {
    const id = this.#nextId++;
    return new Promise((settle) => {
      const onAbort = (): void => this.#stop({ ok: false, stopped: true });
      this.#running = { id, settle, onAbort, ...options };
      if (options.signal.aborted) return this.#finish({ ok: false, stopped: true });
      options.signal.addEventListener("abort", onAbort, { once: true });
      const started = this.#process !== undefined;
      const child = (this.#process ??= this.#spawn());
      this.#watch(started ? this.#options.timeout : START_MS + this.#options.timeout);
      child.ref();
      child.channel?.ref();
      child.send({ ...call, id } satisfies ExtractCall, (error) => error && end(child));
    });
  }

  #spawn(): ChildProcess {
    const { memoryMb, env, child: file = CHILD } = this.#options;
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
    child.on("message", (reply: ExtractReply) => child === this.#process && this.#onReply(reply));
    child.once("exit", (_code, signal) => child === this.#process && this.#onExit(signal));
    child.on(
      "error",
      () => child === this.#process && (child.pid === undefined ? this.#onExit(null) : end(child)),
    );
    return child;
  }

  #watch(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      const { timeout } = this.#options;
      const message = `the document took longer than ${plural(timeout / 1000, "second")} to read`;
      if (this.busy) this.#stop({ ok: false, error: { code: "timeout", message } });
      else this.#letGo();
    }, ms);
  }

  #onReply(reply: ExtractReply): void {
    // The start is over: from now on the time is the document's own.
    if (reply.kind === "started") return void (this.busy && this.#watch(this.#options.timeout));
    if (reply.id !== this.#running?.id) return;
    if (reply.kind === "progress") return this.#running.onProgress(reply.part);
    const { id: _id, kind: _kind, tired, ...rest } = reply;
    // Memory that a large document left must not count against the next one.
    if (tired) this.#letGo();
    this.#finish("error" in rest ? { ok: false, ...rest } : { ok: true, ...rest });
  }

  #onExit(signal: NodeJS.Signals | null): void {
    this.#process = undefined;
    clearTimeout(this.#timer);
    const { memoryMb } = this.#options;
    // A heap that is full aborts the process; memory outside the heap makes the process end itself.
    if (signal === "SIGKILL" || signal === "SIGABRT" || signal === "SIGTRAP")
      return this.#fail({
        code: "too_large",
        message: `the document takes more than ${memoryMb} MB of memory to read`,
      });
    this.#fail({ code: "broken_document", message: "the process that read the document ended" });
  }

  #fail(error: DocumentError): void {
    this.#finish({ ok: false, error });
  }

  #finish(result: ExtractResult): void {
    const running = this.#running;
    this.#running = undefined;
    running?.signal.removeEventListener("abort", running.onAbort);
    if (this.#process) {
      this.#watch(IDLE_MS);
      this.#timer?.unref();
      this.#process.unref();
      this.#process.channel?.unref();
    }
    running?.settle(result);
    this.#options.onFree();
  }

  /**
   * Ends the work and its process. The process may have sent its result already: the next document must not be given to a
   * process that is about to end.
   */
  #stop(result: ExtractResult): void {
    clearTimeout(this.#timer);
    this.#letGo();
    this.#finish(result);
  }

  /** Ends a process that has no work; the next document gets another one, also while this one is still ending. */
  #letGo(): void {
    const child = this.#process;
    this.#process = undefined;
    if (child) end(child);
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer);
    const child = this.#process;
    if (!child) return;
    child.ref();
    const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
    end(child);
    await ended;
  }
}

interface ExtractorOptions {
  memoryMb: number;
  /** The time that the reading of one document may take, in milliseconds. */
  timeout: number;
  env: Record<string, string | undefined>;
  child?: string;
  onFree(): void;
}

export interface ExtractorSettings extends Omit<ExtractorOptions, "onFree"> {
  workers: number;
  /** Returns the current extractors of plugins. */
  plugins(): readonly PluginExtractor[];
}

/** Processes that read documents. `child`: the file that such a process runs, for a test. */
export function createExtractor({
  workers,
  plugins,
  ...rest
}: ExtractorSettings): ExtractorProcess {
  const waiting: (() => void)[] = [];
  const onFree = (): void => waiting.shift()?.();
  const readers = Array.from({ length: workers }, () => new Reader({ ...rest, onFree }));
  return {
    async run(call, { signal, onProgress }) {
      let reader: Reader | undefined;
      while (!(reader = readers.find(({ busy }) => !busy)))
        await new Promise<void>((resolve) => waiting.push(resolve));
      return reader.run({ ...call, plugins: plugins() }, { signal, onProgress });
    },
    async close() {
      await Promise.all(readers.map((reader) => reader.close()));
    },
  };
}
