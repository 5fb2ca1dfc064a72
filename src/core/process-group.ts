import { writeFileSync } from "node:fs";
import { getCompileCacheDir } from "node:module";
import { dirname } from "node:path";

/** A quarter of the processor if all other processes want all of it: enough to end within a time that people wait. */
const GROUP_NICENESS = "5";

/**
 * Lowers the priority of a process group against all others (`detached` of `fork`). If Linux groups processes by their sessions,
 * the priority of a process counts only inside of its group.
 */
export function lowerGroup(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/autogroup`, GROUP_NICENESS);
  } catch {
    // Another system, or one that does not group processes so: the priority of each process counts.
  }
}

/**
 * The variable by which a child keeps compiled code in the folder of this process, if it has one (`bin/rouse.js`): Node hands that on to
 * no child. Without it a child compiles all that it loads each time, which is most of the time that it takes to start.
 */
export function compiledCodeEnv(): { NODE_COMPILE_CACHE?: string } {
  const folder = getCompileCacheDir();
  // Node has a folder in it for each of its versions.
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) };
}

/**
 * Ends a process that leads a process group (`detached` of `fork`), with all that it has started. A process that loops does not
 * notice that its parent is gone. Windows has no groups: there the process alone is ended.
 */
export function killGroup(pid: number): void {
  try {
    process.kill(process.platform === "win32" ? pid : -pid, "SIGKILL");
  } catch {
    // It has ended already, and left nothing behind.
  }
}
