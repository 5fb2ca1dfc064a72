import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { startDiskBound, type DiskBound } from "./full-disk.ts";
import { createProvider, modelConfig, type Provider } from "./provider.ts";

const TOKEN = "disk-results-token-0123456789";
const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };

let dir: string;
let provider: Provider;
let disk: DiskBound | undefined;
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "rouse-disk-results-"));
  provider = await createProvider();
  const config = { gateway: { port: 0, drainSeconds: 1 }, hooks: { enabled: true, token: TOKEN }, ...modelConfig(provider) };
  writeFileSync(join(dir, "rouse.json5"), JSON.stringify(config));
});
afterEach(async () => {
  await disk?.program.kill();
  disk = undefined;
  await provider.close();
  rmSync(dir, { recursive: true, force: true });
});

const until = async (done: () => boolean | Promise<boolean>): Promise<void> => {
  for (let looks = 0; !(await done()); looks++) {
    if (looks > 600) throw new Error("what was waited for did not come");
    await new Promise((next) => setTimeout(next, 50));
  }
};

it("a full disk: finished turns are kept and written once there is room, with one model call each; readiness tells of it", async () => {
  const waiting: ((text: string) => void)[] = [];
  provider.answer = () => new Promise((done) => waiting.push(done));
  disk = await startDiskBound(dir);
  const { url } = disk.program;
  const post = (): Promise<Response> =>
    fetch(`${url}/hooks/agent`, {
      method: "POST",
      headers,
      body: JSON.stringify({ message: "task ".repeat(2000), deliver: false, wakeMode: "next-heartbeat" }),
    });
  const ready = async (): Promise<number> => (await fetch(`${url}/readyz`)).status;
  const ids: string[] = [];
  for (let n = 0; n < 4; n++) ids.push(((await (await post()).json()) as { runId: string }).runId);
  await until(() => waiting.length === 4);
  expect(await ready()).toBe(200);

  await disk.fill();
  for (const answer of waiting) answer("an answer that was paid for");
  await until(async () => (await ready()) === 503);
  expect((await post()).status).toBe(503);
  // Several tries to write it have failed by then.
  await new Promise((next) => setTimeout(next, 2000));
  expect(await ready()).toBe(503);
  expect(provider.requests).toHaveLength(4);

  await disk.empty();
  const statusOf = async (id: string): Promise<{ status: string; attempts: number }> =>
    ((await (await fetch(`${url}/hooks/runs/${id}`, { headers })).json()) as { run: { status: string; attempts: number } }).run;
  for (const id of ids) {
    await until(async () => (await statusOf(id)).status === "succeeded");
    expect(await statusOf(id)).toMatchObject({ attempts: 1 });
  }
  await until(async () => (await ready()) === 200);
  expect(provider.requests).toHaveLength(4);
});
