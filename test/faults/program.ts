import { execFile } from "node:child_process";
import { join } from "node:path";

const RUN = [
  "--conditions=rouse-source",
  "--disable-warning=ExperimentalWarning",
  join(import.meta.dirname, "run.ts"),
];

/** Runs seeds in a process of their own, as the printed command does: there a replay is exact. Returns what it printed. */
export const runProgram = (...args: string[]): Promise<{ isClean: boolean; output: string }> =>
  new Promise((resolve) => {
    execFile(process.execPath, [...RUN, ...args], { maxBuffer: 1e9 }, (error, stdout, stderr) =>
      resolve({ isClean: !error, output: stdout + stderr }),
    );
  });
