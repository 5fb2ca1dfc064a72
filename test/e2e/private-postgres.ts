import { execFile } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { describe, it } from "vitest";

const run = promisify(execFile);
const SYSTEM = "/usr/lib/postgresql";

/** The folder of PostgreSQL's own programs, the newest that there is. */
function binaries(): string | undefined {
  const versions = existsSync(SYSTEM)
    ? readdirSync(SYSTEM).toSorted((a, b) => Number(b) - Number(a))
    : [];
  const folders = [
    ...versions.map((version) => join(SYSTEM, version, "bin")),
    ...(process.env["PATH"] ?? "").split(delimiter),
  ];
  return folders.find(
    (folder) => existsSync(join(folder, "initdb")) && existsSync(join(folder, "pg_ctl")),
  );
}

/** A server of this test's own, which may be stopped without anybody noticing. */
export interface PrivatePostgres {
  url: URL;
  start(): Promise<void>;
  /** `fast` ends every connection; `immediate` is as a crash of the server. */
  stop(mode: "fast" | "immediate"): Promise<void>;
  /** Suspends all processes of the server, as a machine that hangs does: connections stay, and nothing is answered. */
  freeze(): Promise<void>;
  thaw(): Promise<void>;
  remove(): Promise<void>;
}

const isRoot = process.getuid?.() === 0;

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Makes a server in a folder of its own, and starts it. It refuses to run as root, who lends it the user `postgres`. */
export async function startPrivatePostgres(): Promise<PrivatePostgres> {
  const bin = binaries();
  if (bin === undefined) throw new Error("PostgreSQL's programs are not there");
  const dir = mkdtempSync(join(tmpdir(), "rouse-pg-"));
  const as = (program: string, args: string[]): Promise<unknown> => {
    const command = join(bin, program);
    const [file, all] = isRoot
      ? (["runuser", ["-u", "postgres", "--", command, ...args]] as const)
      : ([command, args] as const);
    // pg_ctl hands its output on to the server, which would keep the pipe open.
    return run("sh", ["-c", 'exec "$0" "$@" >/dev/null 2>&1 </dev/null', file, ...all], {
      cwd: dir,
    });
  };
  if (isRoot) {
    const { stdout } = await run("sh", ["-c", "id -u postgres; id -g postgres"]);
    const [uid, gid] = stdout.trim().split("\n").map(Number) as [number, number];
    chownSync(dir, uid, gid);
  }
  const data = join(dir, "data");
  const port = await freePort();
  await as("initdb", ["-D", data, "-U", "rouse", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"]);
  const start = async (): Promise<void> => {
    const options = `-p ${port} -k ${dir} -c listen_addresses=127.0.0.1`;
    await as("pg_ctl", ["-D", data, "-w", "-t", "60", "-o", options, "start"]);
  };
  const stop = async (mode: "fast" | "immediate"): Promise<void> =>
    void (await as("pg_ctl", ["-D", data, "-w", "-m", mode, "stop"]));
  /** The server's main process, and those that it has started. */
  const listProcesses = async (): Promise<number[]> => {
    const main = Number(readFileSync(join(data, "postmaster.pid"), "utf8").split("\n")[0]);
    const { stdout } = await run("ps", ["-o", "pid=", "--ppid", String(main)]).catch(() => ({
      stdout: "",
    }));
    return [main, ...stdout.trim().split(/\s+/).filter(Boolean).map(Number)];
  };
  const signal = async (name: "SIGSTOP" | "SIGCONT"): Promise<void> => {
    for (const pid of await listProcesses()) process.kill(pid, name);
  };
  await start();
  return {
    url: new URL(`postgres://rouse@127.0.0.1:${port}/postgres?schema=rouse`),
    start,
    stop,
    freeze: () => signal("SIGSTOP"),
    thaw: () => signal("SIGCONT"),
    async remove() {
      await signal("SIGCONT").catch(() => undefined);
      await stop("immediate").catch(() => undefined);
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** Tests that stop and start PostgreSQL: left out where its programs are not there, or failing where they are required. */
export function describePrivatePostgres(name: string, tests: () => void): void {
  if (binaries() !== undefined) return void describe(name, tests);
  const why = `PostgreSQL's programs (initdb, pg_ctl) are neither in ${SYSTEM} nor in PATH`;
  if (process.env["TEST_POSTGRES_REQUIRED"] === "1")
    return void describe(name, () =>
      it("finds PostgreSQL's programs", () => Promise.reject(new Error(why))),
    );
  process.stderr.write(`${why}: "${name}" is left out.\n`);
  describe.skip(name, tests);
}
