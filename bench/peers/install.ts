/** Programs beside Rouse: how they are installed, and started on a port. */
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { pause, toServer, type Server } from "../servers.ts";

/** A post to a program, as a row. */
export interface PeerSide {
  row: string;
  path: string;
  /** The work of the program on a request. */
  note?: string;
}

export interface Peer {
  /** It answers after the accepted request is on disk. */
  stores: boolean;
  sides: readonly PeerSide[];
  /** Installs it if it is missing. Returns what starts it; undefined if it cannot be installed. */
  prepare(): (() => Promise<Server>) | undefined;
}

export const CACHE = join(
  process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"),
  "rouse-bench",
);
const START_MS = 30_000;

export const run = (command: string, args: readonly string[], cwd: string): string =>
  execFileSync(command, args, {
    cwd,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
    timeout: 300_000,
  });

/** Returns the folder that has these npm packages, or undefined if they cannot be installed. Their install scripts do not run. */
export function installPackages(packages: Readonly<Record<string, string>>): string | undefined {
  const names = Object.entries(packages).map(([name, version]) => `${name}@${version}`);
  const dir = join(CACHE, names.join("+").replaceAll("/", "-"));
  const done = join(dir, "installed");
  if (existsSync(done)) return dir;
  console.error(`installs ${names.join(" and ")} into ${dir}`);
  try {
    mkdirSync(dir, { recursive: true });
    writeFileSync(join(dir, "package.json"), '{ "private": true }');
    run("npm", ["install", "--no-audit", "--no-fund", "--ignore-scripts", ...names], dir);
    writeFileSync(done, "");
    return dir;
  } catch {
    return undefined;
  }
}

export async function findPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address() as AddressInfo;
  await new Promise((done) => server.close(done));
  return port;
}

export interface Program {
  name: string;
  command: readonly string[];
  port: number;
  /** Beside the path and a folder of its own as the home and the working folder. */
  env?: Record<string, string>;
  files?: Record<string, string>;
  /** It starts a process for each request. */
  hasChildren?: boolean;
  /** Returns true if it takes requests: a program may listen before it knows its hooks. */
  isReady(): Promise<boolean>;
}

/** Starts a program in a temporary folder, and waits until it is ready. */
export async function startProgram({
  name,
  command,
  port,
  env = {},
  files = {},
  hasChildren = false,
  isReady,
}: Program): Promise<Server> {
  const dir = mkdtempSync(join(tmpdir(), "rouse-bench-peer-"));
  for (const [file, text] of Object.entries(files)) writeFileSync(join(dir, file), text);
  const [file = "", ...args] = command;
  const began = performance.now();
  const child = spawn(file, args, {
    cwd: dir,
    stdio: "ignore",
    env: { PATH: process.env["PATH"] ?? "", HOME: dir, NODE_ENV: "production", ...env },
  });
  const server = toServer(child, port, 0, {
    cleanUp: () => rmSync(dir, { recursive: true, force: true }),
    hasChildren,
  });
  try {
    while (!(await isReady().catch(() => false))) {
      if (child.exitCode !== null || performance.now() - began > START_MS)
        throw new Error(`${name} does not answer on its port`);
      await pause(50);
    }
    return server;
  } catch (error) {
    await server.stop();
    throw error;
  }
}

/** Resolves when a server uses at most a tenth of a processor: a program may work on what it has answered before. */
export async function untilIdle({ cpuMicros }: Server): Promise<void> {
  const STEP_MS = 100;
  for (let known = cpuMicros(), quiet = 0; quiet < 2;) {
    await pause(STEP_MS);
    const now = cpuMicros();
    quiet = now - known <= STEP_MS * 100 ? quiet + 1 : 0;
    known = now;
  }
}

/** Several processes as one server: requests go to the first, CPU time and memory are the sums. */
export function joinServers(front: Server, ...others: readonly Server[]): Server {
  const all = [front, ...others];
  return {
    port: front.port,
    readyMs: front.readyMs,
    cpuMicros: () => all.reduce((sum, one) => sum + one.cpuMicros(), 0),
    rssMb: () => all.reduce((sum, one) => sum + one.rssMb(), 0),
    async stop() {
      for (const one of all) await one.stop();
    },
  };
}
