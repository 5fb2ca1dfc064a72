import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { acquireLock, readGateway } from "../../src/store/lock.ts";

let stateDir: string;
const children: ChildProcess[] = [];
beforeEach(() => {
  stateDir = join(mkdtempSync(join(tmpdir(), "rouse-lock-")), "state");
});
afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
  rmSync(join(stateDir, ".."), { recursive: true, force: true });
});

const info = {
  pid: 4711,
  url: "http://127.0.0.1:1",
  adminUrl: "http://127.0.0.1:2",
  startedAt: 5,
  version: "1.2.3",
};

/** A process that holds the state folder until it is killed. */
async function holder(how = "alone"): Promise<ChildProcess> {
  const child = spawn(
    process.execPath,
    ["--conditions=rouse-source", join(import.meta.dirname, "lock-child.ts"), stateDir, how],
    {
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  children.push(child);
  await once(child.stdout, "data");
  return child;
}

describe("the lock of a state folder", () => {
  it("is held once, and free after its release", async () => {
    const lock = await acquireLock(stateDir, info);
    await expect(acquireLock(stateDir)).rejects.toMatchObject({
      code: "store_locked",
      message: expect.stringMatching(`4711.*${stateDir}`),
    });
    lock.release();
    lock.release();
    (await acquireLock(stateDir)).release();
  });

  it("tells who holds it, readable for the owner alone, and nothing after its release", async () => {
    expect(readGateway(stateDir)).toBeUndefined();
    expect(existsSync(stateDir)).toBe(false);
    const lock = await acquireLock(stateDir);
    expect(readGateway(stateDir)).toMatchObject({ pid: process.pid });
    await lock.describe(info);
    expect(readGateway(stateDir)).toEqual(info);
    expect(statSync(join(stateDir, "gateway.json")).mode & 0o777).toBe(0o600);
    expect(statSync(join(stateDir, "gateway.lock")).mode & 0o777).toBe(0o600);
    // Having looked took nothing from its holder.
    await expect(acquireLock(stateDir)).rejects.toMatchObject({ code: "store_locked" });
    lock.release();
    expect(readGateway(stateDir)).toBeUndefined();
    expect(existsSync(join(stateDir, "gateway.json"))).toBe(false);
  });

  it("holds against another process, and is free once that is killed, whatever it left", async () => {
    const child = await holder();
    expect(readGateway(stateDir)).toMatchObject({ pid: child.pid });
    await expect(acquireLock(stateDir)).rejects.toMatchObject({
      code: "store_locked",
      message: expect.stringContaining(String(child.pid)),
    });
    child.kill("SIGKILL");
    await once(child, "exit");
    expect(existsSync(join(stateDir, "gateway.json"))).toBe(true);
    expect(readGateway(stateDir)).toBeUndefined();
    const lock = await acquireLock(stateDir);
    expect(readGateway(stateDir)).toMatchObject({ pid: process.pid });
    lock.release();
  });

  it("lets another's short look pass", async () => {
    (await acquireLock(stateDir)).release();
    const look = new DatabaseSync(join(stateDir, "gateway.lock"), { readOnly: true });
    look.exec("BEGIN; SELECT count(*) FROM sqlite_schema;");
    setTimeout(() => look.close(), 30);
    const lock = await acquireLock(stateDir, info);
    expect(readGateway(stateDir)).toEqual(info);
    lock.release();
  });

  it("can be shared by those whose work is elsewhere, and by no one with one who needs it alone", async () => {
    const [first, second] = [await holder("shared"), await holder("shared")];
    const own = await acquireLock(stateDir, info, { shared: true });
    await expect(acquireLock(stateDir)).rejects.toMatchObject({
      code: "store_locked",
      message: expect.stringContaining(String(first.pid)),
    });
    expect(readGateway(stateDir)).toMatchObject({ pid: first.pid });
    first.kill("SIGKILL");
    await once(first, "exit");
    expect(readGateway(stateDir)).toMatchObject({ pid: second.pid });
    own.release();
    await expect(acquireLock(stateDir)).rejects.toMatchObject({ code: "store_locked" });
    second.kill("SIGKILL");
    await once(second, "exit");
    expect(readGateway(stateDir)).toBeUndefined();
    const alone = await holder();
    await expect(acquireLock(stateDir, info, { shared: true })).rejects.toMatchObject({
      code: "store_locked",
      message: expect.stringContaining(String(alone.pid)),
    });
  });

  it("survives a description that is cut off", async () => {
    const lock = await acquireLock(stateDir);
    writeFileSync(join(stateDir, "gateway.json"), '{"pid":');
    expect(readGateway(stateDir)).toBeUndefined();
    await expect(acquireLock(stateDir)).rejects.toMatchObject({
      code: "store_locked",
      message: expect.stringContaining("another process"),
    });
    lock.release();
  });

  it("says so where the folder cannot be used", async () => {
    writeFileSync(join(stateDir, "..", "plain"), "");
    await expect(acquireLock(join(stateDir, "..", "plain", "state"))).rejects.toMatchObject({
      code: "config_invalid",
      issues: [{ path: "stateDir" }],
    });
  });
});
