import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { countMails, createMailWorld, mailConfig, mailPlugins } from "../runs/mail.ts";
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
  const config = {
    gateway: { port: 0, drainSeconds: 1 },
    hooks: { enabled: true, token: TOKEN },
    ...modelConfig(provider),
  };
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
    if (looks > 1500) throw new Error("what was waited for did not come");
    await new Promise((next) => setTimeout(next, 50));
  }
};

it("a full disk is noticed by a gateway without work, and so is room on it", async () => {
  disk = await startDiskBound(dir);
  const { url } = disk.program;
  const ready = async (): Promise<number> => (await fetch(`${url}/readyz`)).status;
  expect(await ready()).toBe(200);
  await disk.fill();
  await until(async () => (await ready()) === 503);
  await disk.empty();
  await until(async () => (await ready()) === 200);
  expect(provider.requests).toHaveLength(0);
});

it("a full disk: finished turns are kept and written once there is room, with one model call each; readiness tells of it", async () => {
  const waiting: ((text: string) => void)[] = [];
  provider.answer = () => new Promise((done) => waiting.push(done));
  disk = await startDiskBound(dir);
  const { url } = disk.program;
  const post = (): Promise<Response> =>
    fetch(`${url}/hooks/agent`, {
      method: "POST",
      headers,
      body: JSON.stringify({
        message: "task ".repeat(2000),
        deliver: false,
        wakeMode: "next-heartbeat",
      }),
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
    (
      (await (await fetch(`${url}/hooks/runs/${id}`, { headers })).json()) as {
        run: { status: string; attempts: number };
      }
    ).run;
  for (const id of ids) {
    await until(async () => (await statusOf(id)).status === "succeeded");
    expect(await statusOf(id)).toMatchObject({ attempts: 1 });
  }
  await until(async () => (await ready()) === 200);
  expect(provider.requests).toHaveLength(4);
});

it.each(["the model answers", "a tool answers"])(
  "a disk that is full when %s: the step is kept, and nothing is asked or called twice",
  async (moment) => {
    const mail = await createMailWorld();
    try {
      const { hooks, ...config } = mailConfig(mail) as { hooks: object };
      const gateway = { port: 0, drainSeconds: 1 };
      writeFileSync(
        join(dir, "rouse.json5"),
        JSON.stringify({ ...config, gateway, hooks: { ...hooks, enabled: true, token: TOKEN } }),
      );
      for (const [name, source] of Object.entries(mailPlugins(mail))) {
        mkdirSync(dirname(join(dir, name)), { recursive: true });
        writeFileSync(join(dir, name), source);
      }
      const bound = (disk = await startDiskBound(dir));
      const { url } = bound.program;
      const unready = async (): Promise<boolean> => (await fetch(`${url}/readyz`)).status === 503;
      let isFull = false;
      mail.watch = async ({ kind, index }, when) => {
        if (
          index !== 1 ||
          kind !== (moment === "a tool answers" ? "mail" : "model") ||
          when !== "before"
        )
          return;
        await bound.fill();
        isFull = true;
      };
      const answer = await fetch(`${url}/hooks/agent`, {
        method: "POST",
        headers,
        body: JSON.stringify({
          message: "Mail them.",
          agentId: "post",
          deliver: false,
          wakeMode: "next-heartbeat",
        }),
      });
      const { runId } = (await answer.json()) as { runId: string };
      await until(() => isFull);
      await until(unready);
      await new Promise((next) => setTimeout(next, 1000));
      await bound.empty();
      const read = async (): Promise<object & { status: string }> =>
        (
          (await (await fetch(`${url}/hooks/runs/${runId}`, { headers })).json()) as {
            run: { status: string };
          }
        ).run;
      await until(async () => ["succeeded", "failed", "waiting"].includes((await read()).status));
      expect(await read()).toMatchObject({ status: "succeeded", attempts: 1 });
      expect(countMails(mail.sent)).toEqual({ 1: 1, 2: 1, 3: 1 });
      expect(mail.requests).toHaveLength(4);
    } finally {
      await mail.close();
    }
  },
);
