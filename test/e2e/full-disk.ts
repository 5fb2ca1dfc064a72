import { execFile } from "node:child_process";
import { statSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { startProgram, type Program } from "./program.ts";

const ROUSE = resolve(import.meta.dirname, "../../bin/rouse.js");
const run = promisify(execFile);

/** A gateway whose files can be kept from growing, which is what a full disk is to a program that only writes. */
export interface DiskBound {
  program: Program;
  /** From now on no file may be longer than the store's longest is; with some KB of `room`, than that. */
  fill(room?: number): Promise<void>;
  /** There is room again. */
  empty(): Promise<void>;
}

/** Starts a gateway in `dir` that gets an error, and no signal, where the disk is full. */
export async function startDiskBound(dir: string, ...args: string[]): Promise<DiskBound> {
  const command = `trap '' XFSZ; exec "$0" "$@"`;
  const env = { ROUSE_LOG_LEVEL: process.env["FLEET_LOG"] ?? "silent" };
  const program = await startProgram("bash", ["-c", command, process.execPath, ROUSE, "start", ...args], { cwd: dir, env });
  const limit = (bytes: number | "unlimited"): Promise<unknown> =>
    run("prlimit", ["--pid", String(program.child.pid), `--fsize=${bytes}:unlimited`]);
  return {
    program,
    async fill(room = 0) {
      const sizes = ["rouse.db", "rouse.db-wal"].map((name) => statSync(join(dir, ".rouse", name)).size);
      await limit(Math.max(...sizes) + room * 1024);
    },
    empty: async () => void (await limit("unlimited")),
  };
}
