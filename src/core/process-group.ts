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
