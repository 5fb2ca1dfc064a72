import { spawn, type ChildProcess } from "node:child_process";
import type { Writable } from "node:stream";

/**
 * Reads lists of process ids, a line each, and kills those of the last one when its input ends: that is when the process which
 * writes them has ended, however. Waits without using the processor, and is not ended by Ctrl-C in a terminal.
 */
const SCRIPT =
  'trap "" HUP INT TERM; pids=; while read -r line; do pids=$line; done; [ -z "$pids" ] || kill -9 $pids';

export interface OrphanGuard {
  /** Takes a child of this process in, until it exits. */
  add(child: ChildProcess): void;
}

/**
 * Kills the children of this process that are still there when this process was killed itself. A child that loops never notices
 * that its parent is gone. A shell of its own waits for that, from the first child on and while there is one; a system without
 * `/bin/sh`, and Windows, where children end with their parent, have none.
 */
export function createOrphanGuard(): OrphanGuard {
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

  return {
    add(child) {
      const { pid } = child;
      if (pid === undefined) return;
      pids.add(pid);
      tell();
      child.once("exit", () => {
        pids.delete(pid);
        tell();
      });
    },
  };
}
