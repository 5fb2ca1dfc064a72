import { execFile, type ChildProcess } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";

/** Memory of a child, buffers and all: the heap has a limit of its own, buffers lie outside it. */
const MAX_KB = 768 * 1024;
const LOOK_MS = 20;
/** Where each look starts a process. */
const SLOW_LOOK_MS = 500;

/** The resident memory of a process in kB, from Linux's `/proc`; 0 if it has ended. */
export function memoryFromProc(pid: number): number {
  try {
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

/** The resident memory of processes in kB, from `ps`: for systems without `/proc`. */
export async function memoryFromPs(pids: readonly number[]): Promise<Map<number, number>> {
  const { stdout } = await promisify(execFile)("ps", ["-o", "pid=,rss=", "-p", pids.join(",")]);
  return new Map([...stdout.matchAll(/^\s*(\d+)\s+(\d+)\s*$/gm)].map(([, pid, size]) => [Number(pid), Number(size)]));
}

export interface MemoryWatch {
  add(child: ChildProcess): void;
}

/**
 * Ends children that use more than 768 MB. They are watched from outside: a child that is busy cannot look, and one that
 * runs users' code must not have to be believed. Windows has neither `/proc` nor `ps`: only the heap is limited there.
 */
export function createMemoryWatch(): MemoryWatch {
  const children = new Set<ChildProcess>();
  let timer: NodeJS.Timeout | undefined;

  const look = async (): Promise<void> => {
    const pids = [...children].flatMap(({ pid }) => pid ?? []);
    const sizes = process.platform === "linux" ? new Map(pids.map((pid) => [pid, memoryFromProc(pid)])) : await memoryFromPs(pids);
    for (const child of children) if ((sizes.get(child.pid ?? 0) ?? 0) > MAX_KB) child.kill("SIGKILL");
  };

  const lookLater = (): void => {
    if (timer !== undefined || children.size === 0 || process.platform === "win32") return;
    const again = (): void => {
      timer = undefined;
      lookLater();
    };
    // A `ps` that fails fails the next time too: the heap's own limit holds.
    timer = setTimeout(() => void look().then(again, again), process.platform === "linux" ? LOOK_MS : SLOW_LOOK_MS);
    timer.unref();
  };

  return {
    add(child) {
      children.add(child);
      child.once("exit", () => children.delete(child));
      lookLater();
    },
  };
}
