import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { ROUSE, toGateway, type GatewayProcess } from "./process-world.ts";
import { startProgram } from "./program.ts";

const run = promisify(execFile);

/**
 * A gateway whose writes to files can be made to fail, which is what a full disk is to a program. The log of its store is
 * restarted in place: a bound at the size that the files have would leave room in it.
 */
export interface DiskBound {
  program: GatewayProcess;
  /** From now on no file takes a byte, not even in place of another. */
  fill(): Promise<void>;
  /** There is room again. */
  empty(): Promise<void>;
}

/** Starts a gateway in `dir` that gets an error, and no signal, where the disk is full. */
export async function startDiskBound(dir: string, ...args: string[]): Promise<DiskBound> {
  const command = `trap '' XFSZ; exec "$0" "$@"`;
  const env = { ROUSE_LOG_LEVEL: process.env["FLEET_LOG"] ?? "silent" };
  const program = await startProgram(
    "bash",
    ["-c", command, process.execPath, ROUSE, "start", ...args],
    { cwd: dir, env },
  );
  const limit = (bytes: 0 | "unlimited"): Promise<unknown> =>
    run("prlimit", ["--pid", String(program.child.pid), `--fsize=${bytes}:unlimited`]);
  return {
    program: toGateway(program),
    fill: async () => void (await limit(0)),
    empty: async () => void (await limit("unlimited")),
  };
}
