/**
 * A transform module that attacks its gateway. Each attack gives what it got, or throws. The tests run every one of them
 * without permissions' limits too: an attack that fails there would prove nothing.
 */
import child_process from "node:child_process";
import cluster from "node:cluster";
import fs from "node:fs";
import inspector from "node:inspector";
import module from "node:module";
import os from "node:os";
import { join } from "node:path";
import { kill } from "node:process";
import v8 from "node:v8";
import wasi from "node:wasi";
import worker from "node:worker_threads";

export interface Targets {
  /** A file that holds a secret, as `{ "secret": "…" }`; its folder; a native addon; a folder to write into. */
  secret: string;
  folder: string;
  addon: string;
  writable: string;
  database: string;
}

type Hidden = Record<string, (...values: unknown[]) => unknown>;
const hidden = process as unknown as Hidden;
const require = module.createRequire(import.meta.url);

function readDatabase(path: string): unknown {
  const { DatabaseSync } = process.getBuiltinModule("node:sqlite");
  const database = new DatabaseSync(":memory:");
  database.exec(`ATTACH '${path}' AS found`);
  return database.prepare("SELECT value FROM found.secrets").get();
}

const started = (what: NodeJS.EventEmitter, event: string): Promise<unknown> =>
  new Promise((resolve, reject) => what.once(event, () => resolve(event)).once("error", reject));

export const ATTACKS: Record<string, (targets: Targets) => unknown> = {
  "reads a secret": ({ secret }) => fs.readFileSync(secret, "utf8"),
  "reads a secret by way of ..": ({ secret, folder }) =>
    fs.readFileSync(`${import.meta.dirname}/../${secret.slice(folder.length - 6)}`, "utf8"),
  "reads a secret by a Buffer": ({ secret }) => fs.readFileSync(Buffer.from(secret), "utf8"),
  "reads a secret with a promise": ({ secret }) => fs.promises.readFile(secret, "utf8"),
  "reads a secret as a blob": async ({ secret }) => (await fs.openAsBlob(secret)).text(),
  "reads a secret as a stream": ({ secret }) => fs.createReadStream(secret).toArray(),
  "requires a secret": ({ secret }) => require(secret) as unknown,
  "imports a secret": async ({ secret }) =>
    (await import(secret, { with: { type: "json" } })) as unknown,
  "reads a secret through /proc/self/root": ({ secret }) =>
    fs.readFileSync(`/proc/self/root${secret}`, "utf8"),
  "loads a secret as environment": ({ secret }) => process.loadEnvFile(secret),
  "lists the folder": ({ folder }) => fs.readdirSync(folder),
  "opens the folder": ({ folder }) => fs.opendirSync(folder).readSync()?.name,
  "watches the folder": ({ folder }) => fs.watch(folder).close(),
  "looks at a secret": ({ secret }) => fs.statSync(secret).size,
  "copies the folder": ({ folder, writable }) =>
    fs.cpSync(folder, join(writable, "copy"), { recursive: true }),
  "reads a database": ({ database }) => readDatabase(database),
  "reads the parent's environment": () => fs.readFileSync(`/proc/${process.ppid}/environ`, "utf8"),
  "reads its own environment": () => fs.readFileSync("/proc/self/environ", "utf8"),
  "looks at the parent's descriptors": () => fs.readdirSync(`/proc/${process.ppid}/fd`),
  "reads the parent's memory": () => fs.closeSync(fs.openSync(`/proc/${process.ppid}/mem`, "r")),
  "writes a file": ({ writable }) => fs.writeFileSync(join(writable, "written"), "x"),
  "writes a file with a promise": ({ writable }) =>
    fs.promises.writeFile(join(writable, "written-later"), "x"),
  "writes beside itself": () => fs.writeFileSync(join(import.meta.dirname, "written"), "x"),
  "makes a folder": ({ writable }) => fs.mkdtempSync(join(writable, "made-")),
  "makes a link": ({ folder, writable }) => fs.symlinkSync(folder, join(writable, "link")),
  "makes a hard link": ({ secret, writable }) => fs.linkSync(secret, join(writable, "hard-link")),
  "writes a report": ({ writable }) => process.report.writeReport(join(writable, "report")),
  "writes a database": ({ writable }) =>
    new (process.getBuiltinModule("node:sqlite").DatabaseSync)(join(writable, "made.db")).exec(
      "CREATE TABLE a (b)",
    ),
  "starts a process": () => child_process.execFileSync(process.execPath, ["-e", "0"]),
  "starts a process and waits": () =>
    started(child_process.spawn(process.execPath, ["-e", "0"]), "spawn"),
  "starts a shell": () => child_process.execSync("true"),
  "forks a process": () =>
    started(child_process.fork(join(import.meta.dirname, "nothing.mjs")), "spawn"),
  "forks a cluster": () => started(cluster.fork().process, "spawn"),
  "starts a worker": () => started(new worker.Worker("0", { eval: true }), "online"),
  "starts a thread of hooks": () => module.register(new URL("data:text/javascript,")),
  "loads an addon": ({ addon }) => process.dlopen({ exports: {} }, addon),
  "requires an addon": ({ addon }) => require(addon) as unknown,
  "starts WASI": ({ folder }) => new wasi.WASI({ version: "preview1", preopens: { "/": folder } }),
  "signals the parent": () => process.kill(process.ppid, 0),
  "signals with an import": () => kill(process.ppid, 0),
  "signals by what lies below": () => (hidden["_kill"] as Hidden[string])(process.ppid, 0),
  "changes the parent's priority": () => os.setPriority(process.ppid, os.getPriority(process.ppid)),
  "opens its inspector": () => {
    inspector.open(0, "127.0.0.1");
    inspector.close();
  },
  "connects to its inspector": () => new inspector.Session().connect(),
  "takes a binding": () => Object.keys((hidden["binding"] as Hidden[string])("fs") as object),
  "changes V8's flags": () => v8.setFlagsFromString("--allow-natives-syntax"),
  "changes its folder": () => process.chdir("/"),
  "opens another process's inspector": () =>
    (hidden["_debugProcess"] as Hidden[string])(process.pid),
};

/** Actions that a module may take in spite of its limits. */
const HONEST: Record<string, (targets: Targets) => unknown> = {
  fine: () => "fine",
  environment: () => JSON.stringify(process.env),
  "writes no message": () => fs.writeSync(3, "none\n"),
  "sends a message of Node's own": () => process.send?.({ cmd: "NODE_HANDLE_ACK" }),
};

export default async ({
  payload,
}: {
  payload: Targets & { attack: string };
}): Promise<{ message: string }> => {
  const got = await (ATTACKS[payload.attack] ?? HONEST[payload.attack])?.(payload);
  return { message: `got ${JSON.stringify(got) ?? "through"}` };
};
