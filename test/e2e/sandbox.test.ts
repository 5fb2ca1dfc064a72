import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readlinkSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";

// Transforms run in the gateway that the command line starts, with its real config, state and environment.

const ROOT = resolve(import.meta.dirname, "../..");
const ROUSE = join(ROOT, "bin/rouse.js");
const TOKEN = "sandbox-token-0123456789";
const SECRET = "canary-secret-90aa";
/** Far above those that Node closes by itself. */
const DESCRIPTOR = 60;
const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };

const SPY = `import fs from "node:fs";
export default ({ payload }: { payload: { file: string | number } }) => ({
  message: fs.readFileSync(payload.file === "environ" ? "/proc/" + process.ppid + "/environ" : payload.file, "utf8"),
});`;

let dir: string;
let gateway: ReturnType<typeof spawn>;
let url: string;
let output = "";

function writeConfig(hooks: object = {}): void {
  const mappings = [
    { id: "spy", match: { path: "spy" }, deliver: false, transform: { module: "spy.ts" } },
  ];
  const config = {
    gateway: { port: 0, drainSeconds: 0 },
    hooks: { enabled: true, token: TOKEN, mappings, ...hooks },
  };
  writeFileSync(join(dir, "rouse.json5"), JSON.stringify(config));
}

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "rouse-sandbox-"));
  mkdirSync(join(dir, "transforms"));
  writeFileSync(join(dir, "transforms", "spy.ts"), SPY);
  writeFileSync(join(dir, "transforms", "own.txt"), "its own file");
  writeFileSync(join(dir, "secret.txt"), SECRET);
  writeConfig();
  const secret = openSync(join(dir, "secret.txt"), "r");
  const stdio = [
    "ignore",
    "pipe",
    "pipe",
    ...Array.from({ length: DESCRIPTOR - 3 }, () => "ignore" as const),
    secret,
  ];
  const env = {
    PATH: process.env["PATH"] ?? "",
    HOME: dir,
    ROUSE_LOG_LEVEL: "silent",
    A_SECRET: SECRET,
  };
  gateway = spawn(process.execPath, [ROUSE, "start"], { cwd: dir, env, stdio: stdio as "pipe"[] });
  closeSync(secret);
  url = await new Promise<string>((done, failed) => {
    const read = (chunk: Buffer): void => {
      output += chunk.toString();
      const found = /listens on (http:\/\/\S+)/.exec(output)?.[1];
      if (found !== undefined) done(found);
    };
    gateway.stdout?.on("data", read);
    gateway.stderr?.on("data", read);
    gateway.once("exit", () => failed(new Error(output)));
  });
});
afterAll(async () => {
  const ended = once(gateway, "exit");
  gateway.kill("SIGTERM");
  await ended;
  rmSync(dir, { recursive: true, force: true });
});

/** The transform's result for a file: the reply of the echo model, or the error. */
async function spy(file: string | number): Promise<string> {
  const answer = await fetch(`${url}/hooks/spy`, {
    method: "POST",
    headers,
    body: JSON.stringify({ file, at: Math.random() }),
  });
  const { runId, error } = (await answer.json()) as { runId?: string; error?: { message: string } };
  if (runId === undefined) return `${answer.status}: ${error?.message}`;
  for (;;) {
    const { run } = (await (await fetch(`${url}/hooks/runs/${runId}`, { headers })).json()) as {
      run: { status: string; reply: string | null };
    };
    if (run.status === "succeeded") return run.reply ?? "";
    if (run.status === "failed") return "failed";
    await new Promise((next) => setTimeout(next, 20));
  }
}

it("a transform reads its own files", async () =>
  expect(await spy(join(dir, "transforms", "own.txt"))).toContain("its own file"));

it.each([
  "rouse.json5",
  ".rouse/rouse.db",
  ".rouse/gateway-token",
  ".rouse/hook-token",
  "secret.txt",
  "/etc/hostname",
])("a transform cannot read %s", async (name) => {
  expect(await spy(resolve(dir, name))).toBe(
    "500: the transform spy.ts did something that transforms may not do: see hooks.transformPermissions",
  );
});

it("a transform cannot read the gateway's environment", async () =>
  expect(await spy("environ")).toMatch(/^500: .*see hooks\.transformPermissions$/));

it("a transform has none of the files that were open when the gateway was started", async () => {
  // The gateway itself has it: a transform would have it too.
  expect(readlinkSync(`/proc/${gateway.pid}/fd/${DESCRIPTOR}`)).toBe(
    join(realpathSync(dir), "secret.txt"),
  );
  expect(await spy(DESCRIPTOR)).toMatch(/^500: .*threw an error$/);
});

it("SIGUSR1 opens no inspector", async () => {
  gateway.kill("SIGUSR1");
  expect(await spy(join(dir, "transforms", "own.txt"))).toContain("its own file");
  await new Promise((next) => setTimeout(next, 200));
  expect(output).not.toContain("Debugger listening");
  await expect(fetch("http://127.0.0.1:9229/json/version")).rejects.toThrow("fetch failed");
});

it("a changed config grants a file, by a path from the config's folder", async () => {
  writeConfig({ transformPermissions: { read: ["secret.txt"] } });
  await expect.poll(() => spy(join(dir, "secret.txt"))).toContain(SECRET);
  expect(await spy(join(dir, "rouse.json5"))).toMatch(/^500: /);
  writeConfig();
  await expect.poll(() => spy(join(dir, "secret.txt"))).toMatch(/^500: /);
});

it.each([
  [".", "the config file"],
  ["transforms", "the state folder"],
])("a folder of transforms (%s) that holds %s is refused", (transformsDir, what) => {
  writeConfig({ transformsDir });
  if (transformsDir === ".") writeFileSync(join(dir, "spy.ts"), SPY);
  const env = {
    ...process.env,
    ROUSE_STATE_DIR:
      transformsDir === "." ? join(dir, "../elsewhere") : join(dir, "transforms", "state"),
  };
  const { status, stdout, stderr } = spawnSync(process.execPath, [ROUSE, "config", "validate"], {
    cwd: dir,
    env,
    encoding: "utf8",
  });
  writeConfig();
  expect([status, `${stdout}${stderr}`.replaceAll(/\s+/g, " ")]).toEqual([
    3,
    expect.stringContaining(`contains ${what} (`),
  ]);
});
