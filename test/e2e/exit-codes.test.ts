import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo, type Server } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DatabaseSync } from "node:sqlite";
import { createCli } from "../cli/world.ts";

/** The cases that a process of its own is started for. */
const PROCESSES = ["a port that is taken", "an unknown key"];
const BIN = resolve(import.meta.dirname, "../../bin/rouse.js");
const TOKEN = "exit-hook-token-0123456789";

interface Case {
  files?: Record<string, string>;
  config?: (port: number) => object;
  said: RegExp;
}

/** `seconds`: for loading; a process that ends by itself is given the time that it takes to start on busy cores. */
const code =
  (module: string, seconds = 60): (() => object) =>
  () => ({
    hooks: {
      mappings: [{ id: "m", match: { path: "m" }, transform: { module } }],
      transformTimeoutSeconds: 1,
      transformLoadSeconds: seconds,
    },
  });

/** With the same files the next start may go well: a service manager has to try again. */
const TRANSIENT: Record<string, Case> = {
  "a port that is taken": {
    config: (port) => ({ gateway: { port } }),
    said: /port \d+ of 127\.0\.0\.1 is taken/,
  },
  "a PostgreSQL that does not answer": {
    config: () => ({ store: { url: "postgres://u:p@127.0.0.1:1/x" } }),
    said: /cannot be used just now \(ECONNREFUSED\)/,
  },
  "a store that is none": {
    files: { "other.db": "x".repeat(5000) },
    config: () => ({ store: { url: "sqlite:other.db" } }),
    said: /not a database/,
  },
  "a store of a newer version": {
    config: () => ({ store: { url: "sqlite:newer.db" } }),
    said: /newer version/,
  },
  "a state folder that cannot be made": {
    files: { plain: "" },
    config: () => ({ stateDir: "plain/state" }),
    said: /cannot be used|ENOTDIR/,
  },
  "a secret file that is not there": {
    config: () => ({ gateway: { token: { file: "later" } } }),
    said: /gateway\.token: .*there is no file/,
  },
  "a module that loads for ever": {
    files: {
      "transforms/slow.js":
        "await new Promise(() => setInterval(() => undefined, 1000)); export default () => null;",
    },
    config: code("slow.js", 1),
    said: /transform\.module: /,
  },
  "a module whose process ends when it is loaded": {
    files: { "transforms/ends.js": "process.exit(0);" },
    config: code("ends.js"),
    said: /ended its process/,
  },
};

/** The files prove it, or a variable that is not set: the next start would end the same way. */
const PROVED: Record<string, Case> = {
  "an unknown key": { config: () => ({ gatway: {} }), said: /gatway: is not known/ },
  "a variable that is not set": {
    config: () => ({ gateway: { token: "${NOT_SET_ANYWHERE}" } }),
    said: /NOT_SET_ANYWHERE/,
  },
  "a store address of no known kind": {
    config: () => ({ store: { url: "mysql://host/x" } }),
    said: /sqlite:/,
  },
  "a module that does not compile": {
    files: { "transforms/bad.ts": "export default (" },
    config: code("bad.ts"),
    said: /bad\.ts:1:17/,
  },
  "a module that is not there": { config: code("gone.js"), said: /no such file/ },
  "a problem of each kind": {
    files: { "transforms/ends.js": "process.exit(0);" },
    config: () => ({ ...code("ends.js")(), gatway: {} }),
    said: /gatway: is not known[\s\S]*ended its process/,
  },
};

let taken: Server;
let dir: string;
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "rouse-exit-"));
  taken = createServer();
  await new Promise<void>((done) => taken.listen(0, "127.0.0.1", done));
});
afterAll(() => {
  taken.close();
  rmSync(dir, { recursive: true, force: true });
});

/** Runs a command with a config of its own in a folder of its own. */
async function rouse(
  name: string,
  args: string[],
  { files = {}, config }: Case,
): Promise<{ exit: unknown; said: string }> {
  const cwd = join(dir, name.replaceAll(" ", "-"), args.join("-"));
  const {
    hooks = {},
    gateway = {},
    ...rest
  } = (config?.((taken.address() as AddressInfo).port) ?? {}) as Record<string, object>;
  const whole = {
    ...rest,
    gateway: { port: 0, ...gateway },
    hooks: { enabled: true, token: TOKEN, ...hooks },
  };
  for (const [file, text] of Object.entries({ ...files, "rouse.json5": JSON.stringify(whole) })) {
    mkdirSync(dirname(join(cwd, file)), { recursive: true });
    writeFileSync(join(cwd, file), text);
  }
  if (name.includes("newer")) {
    const db = new DatabaseSync(join(cwd, "newer.db"));
    db.exec(
      "CREATE TABLE migrations (version INTEGER PRIMARY KEY, at INTEGER NOT NULL); INSERT INTO migrations VALUES (99, 0)",
    );
    db.close();
  }
  // One start of each end is a process: what the others come to is the same value.
  if (!PROCESSES.includes(name)) {
    const known = process.listeners("SIGUSR1");
    const { code, out, err } = await (await createCli(cwd)).rouse(args);
    for (const one of process.listeners("SIGUSR1"))
      if (!known.includes(one)) process.off("SIGUSR1", one);
    return { exit: code, said: out + err };
  }
  const env = { PATH: process.env["PATH"], HOME: process.env["HOME"] };
  return new Promise((done) => {
    // One that starts after all is ended: it has no exit code then.
    execFile(
      process.execPath,
      [BIN, ...args],
      { cwd, env, timeout: 100_000 },
      (error, stdout, stderr) => done({ exit: error ? error.code : 0, said: stdout + stderr }),
    );
  });
}

describe("rouse start ends with exit code 1, so that it is started again", () => {
  it.each(Object.entries(TRANSIENT))("at %s", async (name, given) => {
    const { exit, said } = await rouse(name, ["start"], given);
    expect([exit, said]).toEqual([1, expect.stringMatching(given.said)]);
  });
});

describe("rouse start ends with exit code 3, so that it is left alone", () => {
  it.each(Object.entries(PROVED))("at %s", async (name, given) => {
    const { exit, said } = await rouse(name, ["start"], given);
    expect([exit, said]).toEqual([3, expect.stringMatching(given.said)]);
  });
});

it.each([
  ["a module whose process ends when it is loaded", TRANSIENT, 1],
  ["a secret file that is not there", TRANSIENT, 1],
  ["a variable that is not set", PROVED, 3],
  ["a problem of each kind", PROVED, 3],
])("rouse config validate: %s has the exit code of `rouse start`", async (name, cases, wanted) => {
  const given = cases[name] as Case;
  expect(await rouse(name, ["config", "validate"], given)).toEqual({
    exit: wanted,
    said: expect.stringMatching(given.said),
  });
  const { exit, said } = await rouse(name, ["config", "validate", "--json"], given);
  const { issues } = JSON.parse(said) as { issues: { transient?: true }[] };
  expect([exit, issues.every((issue) => issue.transient === true)]).toEqual([wanted, wanted === 1]);
});
