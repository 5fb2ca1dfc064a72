import { fork, type ChildProcess, type SendHandle } from "node:child_process";
import { existsSync } from "node:fs";
import { setPriority } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { TransformPermissions } from "./transform-permissions.ts";

const HEAP_MB = 128;
const NICENESS = 5;
const extension = import.meta.url.endsWith(".ts") ? ".ts" : ".js";
/** In a clone `#plugin` means a source file, in a child as in its parent. */
const SOURCE_CONDITION = extension === ".ts" ? ["--conditions=rouse-source"] : [];
const CHILD = fileURLToPath(new URL(`./transform-worker${extension}`, import.meta.url));
/** Newer versions of Node deny the network too, unless it is allowed. */
const NETWORK = process.allowedNodeEnvironmentFlags.has("--allow-net") ? ["--allow-net"] : [];

/** Node grants what is below a folder only if that is there when the process starts; packages may be installed later. */
const withBelow = (path: string): string[] => (existsSync(path) ? [path] : [path, join(path, "*")]);

function permissionFlags({ read, write, childProcess, worker, addons }: TransformPermissions): string[] {
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

/** A child that loops takes what is left of the processor: accepting hooks goes before evaluating them. */
function yieldTo(child: ChildProcess): void {
  try {
    if (child.pid !== undefined) setPriority(child.pid, NICENESS);
  } catch {
    // Not allowed here, or it has ended already: it runs like any other.
  }
}

/** Starts a process that runs users' code with the given permissions, without the gateway's environment but for the path of programs. */
export function startTransformProcess(permissions: TransformPermissions, env: Record<string, string | undefined>): ChildProcess {
  const child = fork(CHILD, [], {
    env: { PATH: env["PATH"] ?? "", NODE_ENV: env["NODE_ENV"] ?? "" },
    execArgv: [...SOURCE_CONDITION, ...permissionFlags(permissions), `--max-old-space-size=${HEAP_MB}`, "--no-warnings"],
    stdio: ["ignore", "ignore", "ignore", "ipc"],
    serialization: "json",
  });
  yieldTo(child);
  return child;
}

/** A module may send open sockets along with a message. */
export function closeHandle(handle: SendHandle | undefined): void {
  if (handle && "destroy" in handle) handle.destroy();
  else if (handle && "close" in handle) handle.close();
}
