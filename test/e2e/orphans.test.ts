import { mkdtempSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, it } from "vitest";
import { listChildren } from "../operate/what-if-world.ts";
import { startProgram, type Program } from "./program.ts";

const ROUSE = resolve(import.meta.dirname, "../../bin/rouse.js");
const TOKEN = "orphans-hook-token-0123456789";
const LOOP = "export default () => { for (;;); };\n";

let dir: string;
let program: Program;
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "rouse-orphans-"));
  mkdirSync(join(dir, "transforms"));
  writeFileSync(join(dir, "transforms/loop.js"), LOOP);
  const mapping = {
    id: "loop",
    match: { path: "loop" },
    transform: { module: "loop.js" },
    deliver: false,
  };
  const config = {
    gateway: { port: 0 },
    hooks: { enabled: true, token: TOKEN, transformTimeoutSeconds: 600, mappings: [mapping] },
  };
  writeFileSync(join(dir, "rouse.json5"), JSON.stringify(config));
  program = await startProgram(process.execPath, [ROUSE, "start", "--no-workers"], { cwd: dir });
});
afterEach(async () => {
  for (const { pid } of list("")) process.kill(pid, "SIGKILL");
  await sleep(50);
  rmSync(dir, { recursive: true, force: true });
});

/** The gateway's processes, by a part of their command. */
const list = (file: string): { pid: number }[] => listChildren(file, program.child.pid);

const TICKS_PER_SECOND = 100;
/** User and system time of a process, in seconds. */
function readCpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "latin1")
    .replace(/^.*\) /, "")
    .split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

async function until(holds: () => boolean): Promise<void> {
  for (let tries = 0; !holds(); tries++) {
    if (tries === 600) throw new Error("it did not come so far within 30 s");
    await sleep(50);
  }
}

/** Posts a hook whose transform loops, and waits until it does. */
async function loop(): Promise<number> {
  const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
  void fetch(`${program.url}/hooks/loop`, { method: "POST", headers, body: "{}" }).catch(
    () => undefined,
  );
  const begun = new Map<number, number>();
  let busy: number | undefined;
  await until(() => {
    for (const { pid } of list("transform-worker")) {
      const seconds = readCpuSeconds(pid);
      begun.set(pid, begun.get(pid) ?? seconds);
      // To start takes a part of a second.
      if (seconds - (begun.get(pid) ?? 0) > 2) busy = pid;
    }
    return busy !== undefined;
  });
  return busy as number;
}

it.runIf(process.platform === "linux")(
  "a transform that loops ends with a gateway that is killed",
  async () => {
    await loop();
    const shells = list("/bin/sh");
    process.kill(program.child.pid as number, "SIGKILL");
    await until(() => list("").length === 0);
    expect(shells).toHaveLength(1);
  },
);

it.runIf(process.platform === "linux")(
  "and with one that is stopped, which leaves nothing behind either",
  async () => {
    await loop();
    process.kill(program.child.pid as number, "SIGTERM");
    await until(() => list("").length === 0);
  },
);
