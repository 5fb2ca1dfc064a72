import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, it } from "vitest";
import { listChildren } from "../operate/what-if-world.ts";
import {
  createProcessWorld,
  until,
  type GatewayProcess,
  type ProcessWorld,
} from "./process-world.ts";

const LOOP = "export default () => { for (;;); };\n";

let world: ProcessWorld;
let program: GatewayProcess;
beforeEach(async () => {
  const mapping = {
    id: "loop",
    match: { path: "loop" },
    transform: { module: "loop.js" },
    deliver: false,
  };
  world = await createProcessWorld({
    hooks: { transformTimeoutSeconds: 600, mappings: [mapping] },
  });
  mkdirSync(join(world.dir, "transforms"));
  writeFileSync(join(world.dir, "transforms/loop.js"), LOOP);
  program = await world.start(["--no-workers"]);
});
afterEach(async () => {
  for (const { pid } of list("")) process.kill(pid, "SIGKILL");
  await sleep(50);
  await world.close();
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

/** Posts a hook whose transform loops, and waits until it does. */
async function loop(): Promise<number> {
  void program.post("loop", {}).catch(() => undefined);
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
  "orphans: a looping transform ends with a gateway that is killed",
  async () => {
    await loop();
    const shells = list("/bin/sh");
    process.kill(program.child.pid as number, "SIGKILL");
    await until(() => list("").length === 0);
    expect(shells).toHaveLength(1);
  },
);

it.runIf(process.platform === "linux")(
  "orphans: a looping transform ends with a gateway that is stopped, and leaves nothing behind",
  async () => {
    await loop();
    process.kill(program.child.pid as number, "SIGTERM");
    await until(() => list("").length === 0);
  },
);
