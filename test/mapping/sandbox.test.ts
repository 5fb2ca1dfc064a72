import { fork } from "node:child_process";
import { once } from "node:events";
import {
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, describe, expect, it } from "vitest";
import { createTransformPool } from "../../src/mapping/transforms/pool.ts";
import { ATTACKS, type Targets } from "./transform-attacks.ts";
import { compileModules } from "./world.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const SECRET = "canary-secret-51c7";
const ATTACKER = readFileSync(join(import.meta.dirname, "transform-attacks.ts"), "utf8");

const outside = realpathSync(mkdtempSync(join(tmpdir(), "rouse-outside-")));
const pool = createTransformPool(process.env);
afterAll(async () => {
  await pool.close();
  rmSync(outside, { recursive: true, force: true });
});

function makeTargets(dir: string): Targets {
  const folder = join(dir, ".rouse");
  mkdirSync(folder, { recursive: true });
  const [secret, database, writable] = [
    join(folder, "secret.json"),
    join(folder, "rouse.db"),
    join(outside, "writable"),
  ];
  writeFileSync(secret, JSON.stringify({ secret: SECRET }));
  const made = new DatabaseSync(database);
  made.exec(`CREATE TABLE IF NOT EXISTS secrets (value); INSERT INTO secrets VALUES ('${SECRET}')`);
  made.close();
  mkdirSync(writable, { recursive: true });
  const [addon = ""] = globSync("node_modules/@oxlint/binding-*/*.node", { cwd: ROOT });
  return { secret, folder, database, writable, addon: join(ROOT, addon) };
}

describe("an attack by a transform", async () => {
  const files = {
    "transforms/attacks.ts": ATTACKER,
    "transforms/nothing.mjs": "",
    "rouse.json5": SECRET,
  };
  const { run, issues, dir } = await compileModules(["attacks.ts"], files, pool);
  const targets = makeTargets(dir);

  it("comes from a module that loads", () => expect(issues).toEqual([]));

  it("would go through in a process without limits", async () => {
    // The same files, so that nothing but the limits makes the difference.
    for (const name of ["transform-attacks.ts", "transform-attacks-child.ts"])
      writeFileSync(
        join(dir, "transforms", name),
        readFileSync(join(import.meta.dirname, name), "utf8"),
      );
    const execArgv = ["--no-warnings"];
    const child = fork(join(dir, "transforms", "transform-attacks-child.ts"), [], {
      execArgv,
      cwd: dir,
      stdio: ["ignore", "ignore", "ignore", "ipc"],
    });
    child.send(targets);
    const [results] = (await once(child, "message")) as [Record<string, string>];
    for (const name of readdirSync(targets.writable))
      rmSync(join(targets.writable, name), { recursive: true });
    rmSync(join(dir, "transforms", "written"));
    expect(Object.entries(results).filter(([, result]) => result !== "went through")).toEqual([]);
  });

  it.each(Object.keys(ATTACKS))("that %s is denied", async (attack) => {
    const before = readdirSync(dir, { recursive: true });
    expect(await run("attacks.ts", { ...targets, attack })).toMatch(
      /^failed: the transform attacks\.ts (?:threw an error|did something that transforms may not do)/,
    );
    expect(readdirSync(targets.writable)).toEqual([]);
    expect(readdirSync(dir, { recursive: true })).toEqual(before);
    expect(await run("attacks.ts", { ...targets, attack: "fine" })).toBe('got "fine"');
  });

  it("finds nothing of the gateway in the environment", async () => {
    process.env["ROUSE_CANARY"] = SECRET;
    const seen = await run("attacks.ts", { ...targets, attack: "environment" });
    delete process.env["ROUSE_CANARY"];
    expect(seen).toContain("PATH");
    expect(seen).not.toMatch(/canary/i);
  });

  it.each(["writes no message", "sends a message of Node's own"])(
    "that %s ends its own process at most",
    async (attack) => {
      await run("attacks.ts", { ...targets, attack });
      expect(await run("attacks.ts", { ...targets, attack: "fine" })).toBe('got "fine"');
    },
  );
});
