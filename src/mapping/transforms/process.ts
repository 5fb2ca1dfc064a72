import { execFile, spawn, type ChildProcess } from "node:child_process";
import { readFileSync, existsSync } from "node:fs";
import { promisify } from "node:util";
import { getPriority, setPriority } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { CHANNEL } from "./messages.ts";
import type { TransformPermissions } from "./permissions.ts";
import type { Socket } from "node:net";
import type { Writable } from "node:stream";

/** Memory of a child, buffers and all: the heap has a limit of its own, buffers lie outside it. */
const MAX_KB = 768 * 1024;
const LOOK_MS = 20;
/** The interval of checks if each of them starts a process. */
const SLOW_LOOK_MS = 500;

/** The resident memory of a process in kB, from Linux's `/proc`; 0 if it has ended. */
export function memoryFromProc(pid: number): number {
  try {
    return Number(
      /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0,
    );
  } catch {
    return 0;
  }
}

/** The resident memory of processes in kB, from `ps`: for systems without `/proc`. */
export async function memoryFromPs(pids: readonly number[]): Promise<Map<number, number>> {
  const { stdout } = await promisify(execFile)("ps", ["-o", "pid=,rss=", "-p", pids.join(",")]);
  return new Map(
    [...stdout.matchAll(/^\s*(\d+)\s+(\d+)\s*$/gm)].map(([, pid, size]) => [
      Number(pid),
      Number(size),
    ]),
  );
}

/**
 * Creates the watch of children, which ends those that use more than 768 MB. They are watched from outside: a child that is busy cannot look, and what a
 * child that runs users' code reports of itself proves nothing. Windows has neither `/proc` nor `ps`: only the heap is limited there.
 */
export function createMemoryWatch(): (child: ChildProcess) => void {
  const children = new Set<ChildProcess>();
  let timer: NodeJS.Timeout | undefined;

  const look = async (): Promise<void> => {
    const pids = [...children].flatMap(({ pid }) => pid ?? []);
    const sizes =
      process.platform === "linux"
        ? new Map(pids.map((pid) => [pid, memoryFromProc(pid)]))
        : await memoryFromPs(pids);
    for (const child of children)
      if ((sizes.get(child.pid ?? 0) ?? 0) > MAX_KB) child.kill("SIGKILL");
  };

  const lookLater = (): void => {
    if (timer !== undefined || children.size === 0 || process.platform === "win32") return;
    const again = (): void => {
      timer = undefined;
      lookLater();
    };
    // A `ps` that fails fails the next time too: the heap's own limit holds.
    timer = setTimeout(
      () => void look().then(again, again),
      process.platform === "linux" ? LOOK_MS : SLOW_LOOK_MS,
    );
    timer.unref();
  };

  return (child) => {
    children.add(child);
    child.once("exit", () => children.delete(child));
    lookLater();
  };
}

/** Enough for the largest bodies that senders send (25 MB), several times over: as text, as a value, and while the next call waits. */
const HEAP_MB = 256;
const NICENESS = 5;
const extension = import.meta.url.endsWith(".ts") ? ".ts" : ".js";
/** In a clone `#plugin` means a source file, in a child as in its parent. */
const SOURCE_CONDITION = extension === ".ts" ? ["--conditions=rouse-source"] : [];
const CHILD = fileURLToPath(new URL(`./transform-worker${extension}`, import.meta.url));
/** Newer versions of Node deny the network too, unless it is allowed. */
const NETWORK = process.allowedNodeEnvironmentFlags.has("--allow-net") ? ["--allow-net"] : [];

/** Node grants what is below a folder only if that is there when the process starts; packages may be installed later. */
const withBelow = (path: string): string[] => (existsSync(path) ? [path] : [path, join(path, "*")]);

function permissionFlags({
  read,
  write,
  childProcess,
  worker,
  addons,
}: TransformPermissions): string[] {
  return [
    "--permission",
    // SQLite opens files without asking for permission.
    "--no-experimental-sqlite",
    ...read.flatMap(withBelow).map((path) => `--allow-fs-read=${path}`),
    ...write.flatMap(withBelow).map((path) => `--allow-fs-write=${path}`),
    ...(childProcess ? ["--allow-child-process"] : []),
    ...(worker ? ["--allow-worker"] : []),
    ...(addons ? ["--allow-addons"] : []),
    ...NETWORK,
  ];
}

/** A child that loops takes what is left of the processor: accepting hooks goes before evaluating them. It never goes before its parent. */
function yieldTo(child: ChildProcess): void {
  try {
    if (child.pid !== undefined) setPriority(child.pid, Math.max(NICENESS, getPriority()));
  } catch {
    // Not allowed here, or it has ended already: it runs like any other.
  }
}

/**
 * Starts a process that runs users' code with the given permissions, without the gateway's environment but for the path of
 * programs. One that cannot be started has no channel.
 */
export function startTransformProcess(
  permissions: TransformPermissions,
  env: Record<string, string | undefined>,
): { process: ChildProcess; channel: Socket | undefined } {
  const flags = [
    ...SOURCE_CONDITION,
    ...permissionFlags(permissions),
    `--max-old-space-size=${HEAP_MB}`,
    "--no-warnings",
  ];
  const child = spawn(process.execPath, [...flags, CHILD], {
    env: { PATH: env["PATH"] ?? "", NODE_ENV: env["NODE_ENV"] ?? "" },
    stdio: ["ignore", "ignore", "ignore", "pipe"],
  });
  yieldTo(child);
  const { stdio } = child as { stdio?: ChildProcess["stdio"] };
  return { process: child, channel: stdio?.[CHANNEL] as Socket | undefined };
}

/**
 * Reads lists of process ids, a line each, and kills those of the last one when its input ends: that is when the process which
 * writes them has ended, however. Waits without using the processor, and is not ended by Ctrl-C in a terminal.
 */
const SCRIPT =
  'trap "" HUP INT TERM; pids=; while read -r line; do pids=$line; done; [ -z "$pids" ] || kill -9 $pids';

/**
 * Creates the guard that kills the children of this process that are still there when this process was killed itself. A child that loops never notices
 * that its parent is gone. A shell of its own waits for that, from the first child on and while there is one; a system without
 * `/bin/sh`, and Windows, where children end with their parent, have none.
 */
export function createOrphanGuard(): (child: ChildProcess) => void {
  const pids = new Set<number>();
  let shell: ChildProcess | undefined;

  const start = (): ChildProcess => {
    const started = spawn("/bin/sh", ["-c", SCRIPT], {
      stdio: ["pipe", "ignore", "ignore"],
      env: {},
      cwd: "/",
    });
    const forget = (): void => void (shell === started && (shell = undefined));
    started.once("error", forget).once("exit", forget);
    // Writing to a shell that has ended is no error of this process.
    started.stdin?.on("error", forget);
    started.unref();
    (started.stdin as (Writable & { unref?(): void }) | null)?.unref?.();
    return started;
  };

  const tell = (): void => {
    if (process.platform === "win32") return;
    shell ??= start();
    shell.stdin?.write(`${[...pids].join(" ")}\n`);
    if (pids.size > 0) return;
    shell.stdin?.end();
    shell = undefined;
  };

  return (child) => {
    const { pid } = child;
    if (pid === undefined) return;
    pids.add(pid);
    tell();
    child.once("exit", () => {
      pids.delete(pid);
      tell();
    });
  };
}
