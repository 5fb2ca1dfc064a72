import fs, { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { until } from "../../src/testing/harness.ts";
import { createGateway, type StartedGateway } from "../gateway.ts";
import { createProvider, modelConfig, type Provider } from "./provider.ts";

/** The disk: how many syncs of the log were asked for, and those that it has not confirmed while it is held. */
const disk = { syncs: 0, isHeld: false, held: [] as (() => void)[] };
const realSync = fs.fdatasync;

/** Files of a process share its modules, so that a mock of the module would come too late. */
function setSync(
  sync: (file: number, done: (error: NodeJS.ErrnoException | null) => void) => void,
): void {
  fs.fdatasync = sync as typeof fs.fdatasync;
  syncBuiltinESMExports();
}

const TOKEN = "durable-start-token-0123456789";
const RUNS = 5;

let dir: string;
let provider: Provider;
let gateway: StartedGateway;
let url: string;
beforeEach(async () => {
  setSync((file, done) => {
    disk.syncs++;
    if (disk.isHeld) disk.held.push(() => realSync(file, done));
    else realSync(file, done);
  });
  dir = mkdtempSync(join(tmpdir(), "rouse-durable-start-"));
  provider = await createProvider();
  const config = {
    gateway: { port: 0, drainSeconds: 1 },
    hooks: { enabled: true, token: TOKEN },
    ...modelConfig(provider),
  };
  writeFileSync(join(dir, "rouse.json5"), JSON.stringify(config));
  gateway = await createGateway({ cwd: dir, env: {}, workers: true });
  ({ url } = await gateway.start());
});
afterEach(async () => {
  confirm();
  await gateway.stop();
  setSync(realSync);
  await provider.close();
  rmSync(dir, { recursive: true, force: true });
});

const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };

async function post(): Promise<string> {
  const body = JSON.stringify({ message: "task", deliver: false, wakeMode: "next-heartbeat" });
  const answer = await fetch(`${url}/hooks/agent`, { method: "POST", headers, body });
  return ((await answer.json()) as { runId: string }).runId;
}

const getStatus = async (id: string): Promise<string> =>
  (
    (await (await fetch(`${url}/hooks/runs/${id}`, { headers })).json()) as {
      run: { status: string };
    }
  ).run.status;

async function ended(id: string): Promise<void> {
  for (let looks = 0; (await getStatus(id)) !== "succeeded"; looks++) {
    if (looks > 500) throw new Error("the run does not end");
    await new Promise((next) => setTimeout(next, 10));
  }
}

/** Lets the disk confirm one sync. */
const confirmOne = (): void => disk.held.shift()?.();

function confirm(): void {
  disk.isHeld = false;
  while (disk.held.length > 0) confirmOne();
}

it("the model is called once the start of the run is on disk, and not before", async () => {
  // The writes of the gateway's start are on disk before the disk is held.
  await ended(await post());
  expect(provider.requests).toHaveLength(1);
  disk.isHeld = true;
  const accepted = post();
  await until(() => disk.held.length === 1);
  expect(disk.held).toHaveLength(1);
  confirmOne();
  const id = await accepted;
  // The start of the run.
  await until(() => disk.held.length === 1);
  expect(disk.held).toHaveLength(1);
  for (let turns = 0; turns < 100; turns++) await new Promise((next) => setImmediate(next));
  expect(provider.requests).toHaveLength(1);
  // A gateway that is busy may have a commit of its own between.
  await until(() => {
    confirmOne();
    return provider.requests.length === 2;
  });
  expect(provider.requests).toHaveLength(2);
  confirm();
  await ended(id);
});

it("a run on its own takes three syncs: its hook, its start and its end", async () => {
  const before = disk.syncs;
  for (let n = 0; n < RUNS; n++) {
    const id = await post();
    await ended(id);
  }
  expect(disk.syncs - before).toBeGreaterThan(RUNS);
  expect(disk.syncs - before).toBeLessThanOrEqual(3 * RUNS);
});
