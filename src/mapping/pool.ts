import { fork, type ChildProcess } from "node:child_process";
import { setPriority } from "node:os";
import { fileURLToPath } from "node:url";
import type { Logger } from "../core/log.ts";
import type { CodeError } from "../core/debug.ts";
import { ConsoleBuffer, type ConsoleMessage, type Thrown } from "./debug.ts";
import type { Explained } from "./expression.ts";

/** A call of a module, a look whether it could be called, or an expression that took too long in the gateway's own process. */
export type Call =
  | { id: number; kind: "check"; file: string; version: string; exportName: string | undefined }
  | { id: number; kind: "module"; file: string; version: string; exportName: string | undefined; input: unknown }
  | { id: number; kind: "jsonata"; source: string; input: unknown; now: number; timeoutMs: number };

export type CallFailure = "load" | "no_function" | "threw" | "too_large" | "timeout" | "died" | "expression" | "closed";
/** `thrown` is what the module threw, `error` why an expression failed: both for the operator alone. */
type Failed = { ok: false; reason: CallFailure; message?: string; thrown?: Thrown; error?: CodeError };
export type Reply = { id: number } & ({ ok: true; value: unknown } | Failed);
/** What a module printed comes with its result, however the call ended. */
export type CallResult = ({ ok: true; value: unknown } | Failed) & { console?: ConsoleBuffer };

export interface TransformPool {
  /** Loads a module and looks for its function. What was well stays well until the file changes. */
  checkModule(call: { owner: string; file: string; version: string; exportName?: string; timeoutMs: number }): Promise<CallResult>;
  /** Runs a module's function. `owner`: the mapping; one mapping never holds the whole pool. */
  runModule(call: {
    owner: string;
    file: string;
    version: string;
    exportName?: string;
    input: unknown;
    timeoutMs: number;
  }): Promise<CallResult>;
  runExpression(call: {
    owner: string;
    source: string;
    input: Record<string, unknown>;
    now: number;
    timeoutMs: number;
  }): Promise<Explained>;
  /** Ends children once their calls are done: files have changed. */
  recycle(): void;
  close(): Promise<void>;
}

interface Task {
  call: Call;
  owner: string;
  timeoutMs: number;
  /** Whether it was with a child before that ended, maybe through another's doing. */
  repeated: boolean;
  printed: ConsoleBuffer;
  resolve(result: CallResult): void;
}

interface Child {
  process: ChildProcess;
  /** What it was sent, in order; it works on the first. */
  tasks: Task[];
  timer: NodeJS.Timeout | undefined;
  idle: NodeJS.Timeout | undefined;
  owner: string | undefined;
  /** All whose calls it has had: what one of them left running may end it during another's call. */
  owners: Set<string>;
  /** Its process has started: from then on the time is the call's own. */
  ready: boolean;
  retired: boolean;
  timedOut: boolean;
}

const SIZE = 2;
/** Calls that a child is sent ahead, so that it does not wait for the next one. */
const AHEAD = 16;
const IDLE_MS = 60_000;
const HEAP_MB = 128;
const START_MS = 10_000;
/** A timer that is later than this shows that the process stood still. */
const LATE_MS = 100;
/** What a child sends first. */
export const READY = 0;
const EXPRESSION_GRACE_MS = 1_000;
const CHILD_NICENESS = 5;
const extension = import.meta.url.endsWith(".ts") ? ".ts" : ".js";
/** In a clone `#plugin` means a source file, in a child as in its parent. */
const SOURCE_CONDITION = extension === ".ts" ? ["--conditions=rouse-source"] : [];
const CHILD = fileURLToPath(new URL(`./child${extension}`, import.meta.url));

const withPrinted = (result: CallResult, { printed }: Task): CallResult =>
  printed.lines.length > 0 ? { ...result, console: printed } : result;

/** A child that loops takes what is left of the processor: accepting hooks goes before evaluating them. */
function yieldTo(child: ChildProcess): void {
  try {
    if (child.pid !== undefined) setPriority(child.pid, CHILD_NICENESS);
  } catch {
    // Not allowed here, or it has ended already: it runs like any other.
  }
}

/** Children that run users' code: started when first needed, ended after a minute without work. */
export function createTransformPool(options: { log: Logger; size?: number }): TransformPool {
  const size = options.size ?? SIZE;
  const children = new Set<Child>();
  let waiting: Task[] = [];
  let nextId = 1;
  let closed = false;

  const spawn = (): Child => {
    const child: Child = {
      process: fork(CHILD, [], {
        env: { PATH: process.env["PATH"] ?? "", NODE_ENV: process.env["NODE_ENV"] ?? "" },
        execArgv: [...SOURCE_CONDITION, `--max-old-space-size=${HEAP_MB}`, "--no-warnings"],
        stdio: ["ignore", "ignore", "ignore", "ipc"],
        serialization: "json",
      }),
      tasks: [],
      timer: undefined,
      idle: undefined,
      owner: undefined,
      owners: new Set(),
      ready: false,
      retired: false,
      timedOut: false,
    };
    yieldTo(child.process);
    child.process.on("message", (message: Reply | ConsoleMessage) => onMessage(child, message));
    child.process.once("exit", () => onExit(child));
    // A process that could not be started has no exit.
    child.process.on("error", () => (child.process.pid === undefined ? onExit(child) : child.process.kill("SIGKILL")));
    children.add(child);
    return child;
  };

  const watchFirst = (child: Child, again = false): void => {
    clearTimeout(child.timer);
    const first = child.tasks[0];
    if (!first) return;
    const allowedMs = child.ready ? first.timeoutMs : START_MS;
    const due = performance.now() + allowedMs;
    child.timer = setTimeout(() => {
      // This process stood still, and maybe the whole machine: the answer may be there already.
      if (!again && performance.now() - due > LATE_MS) return watchFirst(child, true);
      child.timedOut = true;
      child.process.kill("SIGKILL");
    }, allowedMs);
  };

  const rest = (child: Child): void => {
    child.owner = undefined;
    if (child.retired) {
      children.delete(child);
      child.process.disconnect();
      return;
    }
    child.idle = setTimeout(() => {
      child.retired = true;
      if (child.tasks.length === 0) rest(child);
    }, IDLE_MS);
    child.idle.unref();
    child.process.unref();
    child.process.channel?.unref();
  };

  const onMessage = (child: Child, message: Reply | ConsoleMessage | null): void => {
    if (message?.id === READY && !child.ready) {
      child.ready = true;
      watchFirst(child);
      return;
    }
    // A module can send messages too; only the answer to the call counts.
    const task = child.tasks[0];
    if (!task || task.call.id !== message?.id) return;
    if (task.printed.take(message)) return;
    const { id: _id, ...reply } = message as Reply;
    child.tasks.shift();
    watchFirst(child);
    task.resolve(withPrinted(reply, task));
    if (child.tasks.length === 0) rest(child);
    assign();
  };

  const onExit = (child: Child): void => {
    clearTimeout(child.timer);
    clearTimeout(child.idle);
    children.delete(child);
    const [guilty, ...others] = child.tasks;
    child.tasks = [];
    const again = guilty && !closed && !child.timedOut && !guilty.repeated && child.owners.size > 1;
    if (!again) guilty?.resolve(withPrinted({ ok: false, reason: closed ? "closed" : child.timedOut ? "timeout" : "died" }, guilty));
    waiting = [...(again ? [{ ...guilty, repeated: true, printed: new ConsoleBuffer() }] : []), ...others, ...waiting];
    assign();
  };

  /** Children that work for an owner: all but one, so that others always find one. */
  const heldBy = (owner: string): number => [...children].filter((child) => child.owner === owner).length;

  const childFor = (owner: string): Child | undefined => {
    const own = [...children].filter((child) => child.owner === owner && !child.retired && child.tasks.length < AHEAD);
    const most = Math.max(1, size - 1);
    if (heldBy(owner) < most) {
      const free = [...children].find((child) => child.owner === undefined && !child.retired);
      if (free) return free;
      if (children.size < size) return spawn();
    }
    return own.toSorted((a, b) => a.tasks.length - b.tasks.length)[0];
  };

  const assign = (): void => {
    if (waiting.length === 0) return;
    const left: Task[] = [];
    for (const task of waiting) {
      const child = closed ? undefined : childFor(task.owner);
      if (!child) {
        left.push(task);
        continue;
      }
      clearTimeout(child.idle);
      child.process.ref();
      child.process.channel?.ref();
      child.owner = task.owner;
      child.owners.add(task.owner);
      child.tasks.push(task);
      child.process.send?.(task.call, (error) => {
        if (error) child.process.kill("SIGKILL");
      });
      if (child.tasks.length === 1) watchFirst(child);
    }
    waiting = left;
  };

  const add = (call: Call, owner: string, timeoutMs: number): Promise<CallResult> => {
    if (closed) return Promise.resolve({ ok: false, reason: "closed" });
    return new Promise((resolve) => {
      waiting.push({ call, owner, timeoutMs, repeated: false, printed: new ConsoleBuffer(), resolve });
      assign();
    });
  };

  const checked = new Set<string>();

  return {
    async checkModule({ owner, file, version, exportName, timeoutMs }) {
      const key = JSON.stringify([file, version, exportName]);
      if (checked.has(key)) return { ok: true, value: null };
      const result = await add({ id: nextId++, kind: "check", file, version, exportName }, owner, timeoutMs);
      if (result.ok) checked.add(key);
      return result;
    },
    runModule: ({ owner, file, version, exportName, input, timeoutMs }) =>
      add({ id: nextId++, kind: "module", file, version, exportName, input }, owner, timeoutMs),
    async runExpression({ owner, source, input, now, timeoutMs }) {
      const result = await add({ id: nextId++, kind: "jsonata", source, input, now, timeoutMs }, owner, timeoutMs + EXPRESSION_GRACE_MS);
      if (result.ok) return result;
      return {
        ok: false,
        message: result.message ?? (result.reason === "timeout" ? "the expression took too long" : "the expression could not be evaluated"),
        ...(result.error ? { error: result.error } : {}),
      };
    },
    recycle() {
      for (const child of children) {
        child.retired = true;
        clearTimeout(child.idle);
        if (child.tasks.length === 0) rest(child);
      }
    },
    async close() {
      closed = true;
      for (const task of waiting) task.resolve({ ok: false, reason: "closed" });
      waiting = [];
      const ends = [...children].map((child) => new Promise<void>((resolve) => child.process.once("exit", () => resolve())));
      for (const child of children) {
        child.process.ref();
        child.process.kill("SIGKILL");
      }
      await Promise.all(ends);
    },
  };
}
