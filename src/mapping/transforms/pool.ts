import { hasSpellings, writeJson } from "../../core/json.ts";
import { ConsoleBuffer } from "../debug.ts";
import type { Explained } from "../template-context.ts";
import { createMemoryWatch, createOrphanGuard, startTransformProcess } from "./process.ts";
import {
  moduleKey,
  READY,
  receiveMessages,
  toResult,
  writeMessage,
  type TransformCall,
  type CallResult,
  type ModuleTarget,
  type TransformProgress,
  type Reply,
} from "./messages.ts";
import { NO_MODULES, type TransformPermissions } from "./permissions.ts";

export interface TransformPool {
  /** Loads a module and looks for its function. What was well stays well until the file changes. */
  checkModule(target: ModuleTarget): Promise<CallResult>;
  /** Runs a module's function. */
  runModule(target: ModuleTarget & { input: unknown }): Promise<CallResult>;
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
  call: TransformCall;
  owner: string;
  timeoutMs: number;
  /** Those of a module; an expression has none of these. */
  permissions?: TransformPermissions;
  loadMs?: number;
  /** The text of the module. */
  built?: string;
  /** True if it was with a child before that ended, maybe through another's doing. */
  repeated: boolean;
  printed: ConsoleBuffer;
  resolve(result: CallResult): void;
}

interface Child extends ReturnType<typeof startTransformProcess> {
  permissions: TransformPermissions;
  /** The tasks that it was sent, in order; it works on the first. */
  tasks: Task[];
  timer: NodeJS.Timeout | undefined;
  idle: NodeJS.Timeout | undefined;
  owner: string | undefined;
  /** True if it has answered a call: what that left behind, running or as garbage, may end it during another call. */
  isUsed: boolean;
  /** Versions of modules that it was sent, and those that it has loaded. */
  sent: Set<string>;
  loaded: Set<string>;
  /** Its process has started: from then on the time is the call's own. */
  ready: boolean;
  retired: boolean;
  timedOut: "timeout" | "load_timeout" | undefined;
}

const SIZE = 2;
/** Calls that a child is sent ahead, so that it does not wait for the next one. */
const AHEAD = 16;
const IDLE_MS = 60_000;
const START_MS = 30_000;
/** A timer that is later than this shows that the process stood still. */
const LATE_MS = 100;
const EXPRESSION_GRACE_MS = 1_000;
/** The longest message of a child: twice its longest result, since signs may be escaped. */
const MAX_CHARS = 16_000_000;

/** Returns whether a child may do what a task's module may do, and no more. */
const suits = (child: Child, { permissions }: Task): boolean =>
  permissions === undefined || permissions.id === child.permissions.id;

/** Returns whether a child has yet to load the module of a task. */
const mustLoad = (child: Child, { call, loadMs }: Task): boolean =>
  loadMs !== undefined && call.kind !== "jsonata" && !child.loaded.has(moduleKey(call));

const withPrinted = (result: CallResult, { printed }: Task): CallResult =>
  printed.lines.length > 0 ? { ...result, console: printed } : result;

/** Children that run users' code: started when first needed, ended after a minute without work. */
export function createTransformPool(
  env: Record<string, string | undefined>,
  size = SIZE,
): TransformPool {
  const children = new Set<Child>();
  let waiting: Task[] = [];
  let nextId = 1;
  let closed = false;

  /** Of the modules that ran last: children for expressions are started with the same, so that both can use them. */
  let permissions = NO_MODULES;
  const watchMemory = createMemoryWatch();
  const guard = createOrphanGuard();

  const spawn = (): Child => {
    const child: Child = {
      ...startTransformProcess(permissions, env),
      permissions,
      tasks: [],
      timer: undefined,
      idle: undefined,
      owner: undefined,
      isUsed: false,
      sent: new Set(),
      loaded: new Set(),
      ready: false,
      retired: false,
      timedOut: undefined,
    };
    watchMemory(child.process);
    guard(child.process);
    if (child.channel)
      receiveMessages(child.channel, {
        most: MAX_CHARS,
        onMessage: (message: Reply | TransformProgress | null) => onMessage(child, message),
        onBroken: () => child.process.kill("SIGKILL"),
      });
    child.process.once("exit", () => onExit(child));
    // A process that could not be started has no exit.
    child.process.on("error", () =>
      child.process.pid === undefined ? onExit(child) : child.process.kill("SIGKILL"),
    );
    children.add(child);
    return child;
  };

  const watchFirst = (child: Child, again = false): void => {
    clearTimeout(child.timer);
    const first = child.tasks[0];
    if (!first) return;
    const loads = mustLoad(child, first);
    const allowedMs = child.ready
      ? loads && first.loadMs
        ? first.loadMs
        : first.timeoutMs
      : START_MS;
    const due = performance.now() + allowedMs;
    child.timer = setTimeout(() => {
      // This process stood still, and maybe the whole machine: the answer may be there already.
      if (!again && performance.now() - due > LATE_MS) return watchFirst(child, true);
      child.timedOut = loads ? "load_timeout" : "timeout";
      child.process.kill("SIGKILL");
    }, allowedMs);
  };

  const rest = (child: Child): void => {
    child.owner = undefined;
    if (child.retired) {
      children.delete(child);
      child.process.kill("SIGKILL");
      return;
    }
    child.idle = setTimeout(() => {
      child.retired = true;
      if (child.tasks.length === 0) rest(child);
    }, IDLE_MS);
    child.idle.unref();
    child.process.unref();
    child.channel?.unref();
  };

  const retire = (child: Child): void => {
    child.retired = true;
    clearTimeout(child.idle);
    if (child.tasks.length === 0) rest(child);
  };

  const onMessage = (child: Child, message: Reply | TransformProgress | null): void => {
    if (message?.id === READY && !child.ready) {
      child.ready = true;
      watchFirst(child);
      return;
    }
    // A module can send messages too; only the answer to the call counts.
    const task = child.tasks[0];
    if (!task || task.call.id !== message?.id) return;
    if ("loaded" in message) {
      if (task.call.kind === "jsonata" || !mustLoad(child, task)) return;
      child.loaded.add(moduleKey(task.call));
      watchFirst(child);
      return;
    }
    if (task.printed.take(message) || !("ok" in message)) return;
    child.tasks.shift();
    child.isUsed = true;
    watchFirst(child);
    task.resolve(withPrinted(toResult(message), task));
    if (child.tasks.length === 0) rest(child);
    assign();
  };

  const onExit = (child: Child): void => {
    clearTimeout(child.timer);
    clearTimeout(child.idle);
    children.delete(child);
    const [guilty, ...others] = child.tasks;
    child.tasks = [];
    const again = guilty && !closed && !child.timedOut && !guilty.repeated && child.isUsed;
    if (!again)
      guilty?.resolve(
        withPrinted({ ok: false, reason: closed ? "closed" : (child.timedOut ?? "died") }, guilty),
      );
    waiting = [
      ...(again ? [{ ...guilty, repeated: true, printed: new ConsoleBuffer() }] : []),
      ...others,
      ...waiting,
    ];
    assign();
  };

  /** Children that work for an owner: all but one, so that others always find one. */
  const heldBy = (owner: string): number =>
    [...children].filter((child) => child.owner === owner).length;

  const childFor = (task: Task): Child | undefined => {
    if (task.permissions) permissions = task.permissions;
    // Another config's children: they end what they were given.
    for (const child of children) if (!child.retired && !suits(child, task)) retire(child);
    const { owner } = task;
    const usable = [...children].filter((child) => !child.retired);
    const most = Math.max(1, size - 1);
    if (heldBy(owner) < most) {
      const free = usable.find((child) => child.owner === undefined);
      if (free) return free;
      if (children.size < size) return spawn();
    }
    const own = usable.filter((child) => child.owner === owner && child.tasks.length < AHEAD);
    return own.toSorted((a, b) => a.tasks.length - b.tasks.length)[0];
  };

  const send = (child: Child, { call, built }: Task): void => {
    const isNew =
      call.kind !== "jsonata" && built !== undefined && !child.sent.has(moduleKey(call));
    if (isNew) child.sent.add(moduleKey(call));
    if (child.channel) writeMessage(child.channel, isNew ? { ...call, built } : call);
  };

  const assign = (): void => {
    if (waiting.length === 0) return;
    const left: Task[] = [];
    for (const task of waiting) {
      const child = closed ? undefined : childFor(task);
      if (!child) {
        left.push(task);
        continue;
      }
      clearTimeout(child.idle);
      child.process.ref();
      child.channel?.ref();
      child.owner = task.owner;
      child.tasks.push(task);
      send(child, task);
      if (child.tasks.length === 1) watchFirst(child);
    }
    waiting = left;
  };

  const add = (task: Omit<Task, "repeated" | "printed" | "resolve">): Promise<CallResult> => {
    if (closed) return Promise.resolve({ ok: false, reason: "closed" });
    return new Promise((resolve) => {
      waiting.push({ ...task, repeated: false, printed: new ConsoleBuffer(), resolve });
      assign();
    });
  };

  /** The version in which a function was found, by what was asked. */
  const checked = new Map<string, string>();

  return {
    async checkModule({ file, version, exportName, ...task }) {
      const key = JSON.stringify([file, exportName, task.permissions.id]);
      if (checked.get(key) === version) return { ok: true, value: null };
      const result = await add({
        ...task,
        call: { id: nextId++, kind: "check", file, version, exportName },
      });
      if (result.ok) checked.set(key, version);
      return result;
    },
    runModule: ({ file, version, exportName, input, ...task }) =>
      add({ ...task, call: { id: nextId++, kind: "module", file, version, exportName, input } }),
    async runExpression({ owner, source, input, now, timeoutMs }) {
      // The writer that keeps spellings takes longer.
      const json = hasSpellings(input) ? writeJson(input) : JSON.stringify(input);
      const call: TransformCall = {
        id: nextId++,
        kind: "jsonata",
        source,
        input: json,
        now,
        timeoutMs,
      };
      const result = await add({ call, owner, timeoutMs: timeoutMs + EXPRESSION_GRACE_MS });
      if (result.ok) return result;
      return {
        ok: false,
        message:
          result.message ??
          (result.reason === "timeout"
            ? "the expression took too long"
            : "the expression could not be evaluated"),
        ...(result.error ? { error: result.error } : {}),
        ...((result.isTooLong || result.reason === "timeout") && { isTooLong: true }),
      };
    },
    recycle() {
      for (const child of children) retire(child);
    },
    async close() {
      closed = true;
      for (const task of waiting) task.resolve({ ok: false, reason: "closed" });
      waiting = [];
      const ends = [...children].map(
        (child) => new Promise<void>((resolve) => child.process.once("exit", () => resolve())),
      );
      for (const child of children) {
        child.process.ref();
        child.process.kill("SIGKILL");
      }
      await Promise.all(ends);
    },
  };
}
