import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { countMails, createMailWorld, mailConfig, mailPlugins } from "../runs/mail.ts";
import { startDiskBound, type DiskBound } from "./full-disk.ts";
import { createProcessWorld, pause, TOKEN, until, type ProcessWorld } from "./process-world.ts";

let world: ProcessWorld;
let disk: DiskBound;
beforeEach(async () => void (world = await createProcessWorld()));
afterEach(async () => {
  await disk.program.kill();
  await world.close();
});

const ready = (): Promise<number> => disk.program.statusOf("/readyz");

it("room on a full disk is noticed by a gateway that gets no hooks", async () => {
  disk = await startDiskBound(world.dir);
  expect(await ready()).toBe(200);
  await disk.fill();
  await until(async () => (await disk.program.post("agent", { message: "x" })).status === 503);
  expect(await ready()).toBe(503);
  await disk.empty();
  await until(async () => (await ready()) === 200);
});

it("a full disk: hooks get 503 and no promise, and what was promised before is there at the next start", async () => {
  disk = await startDiskBound(world.dir, "--no-workers");
  const promised: string[] = [];
  for (let n = 0; n < 5; n++) promised.push(await disk.program.accept("x"));
  await disk.fill();
  for (let n = 0; n < 3; n++) {
    const { status, headers, body } = await disk.program.post("agent", { message: "x" });
    expect([status, body.error?.code]).toEqual([503, "store_unavailable"]);
    expect(Number(headers.get("retry-after"))).toBeGreaterThan(0);
  }
  expect(await disk.program.statusOf("/livez")).toBe(200);
  // Nothing can be written of them: the counter tells.
  expect(await (await disk.program.admin("/metrics")).text()).toContain(
    'rouse_hooks_total{path="agent",outcome="unrecorded"} 3',
  );
  // Stored work can still be read.
  expect((await disk.program.run(promised[0] ?? "")).status).toBe("queued");
  expect(disk.program.output()).not.toContain(TOKEN);
  await disk.program.kill();
  disk = await startDiskBound(world.dir, "--no-workers");
  for (const runId of promised)
    expect(await disk.program.run(runId)).toMatchObject({ status: "queued" });
  await disk.program.accept("room again");
});

it("a full disk: finished turns are kept and written once there is room, with one model call each; readiness tells of it", async () => {
  const { provider } = world;
  const waiting: ((text: string) => void)[] = [];
  provider.answer = () => new Promise((done) => waiting.push(done));
  disk = await startDiskBound(world.dir);
  const ids: string[] = [];
  for (let n = 0; n < 4; n++) ids.push(await disk.program.accept("task ".repeat(2000)));
  await until(() => waiting.length === 4);
  expect(await ready()).toBe(200);

  await disk.fill();
  for (const answer of waiting) answer("an answer that was paid for");
  await until(async () => (await ready()) === 503);
  // Several tries to write it have failed by then.
  await pause(2000);
  expect(await ready()).toBe(503);
  expect(provider.requests).toHaveLength(4);

  await disk.empty();
  for (const id of ids) {
    await until(async () => (await disk.program.run(id)).status === "succeeded");
    expect(await disk.program.run(id)).toMatchObject({ attempts: 1 });
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
      for (const [name, text] of Object.entries({
        ...mailPlugins(mail),
        "rouse.json5": JSON.stringify({
          ...config,
          gateway,
          hooks: { ...hooks, enabled: true, token: TOKEN },
        }),
      })) {
        mkdirSync(dirname(join(world.dir, name)), { recursive: true });
        writeFileSync(join(world.dir, name), text);
      }
      disk = await startDiskBound(world.dir);
      let isFull = false;
      mail.watch = async ({ kind, index }, when) => {
        const isMoment = kind === (moment === "a tool answers" ? "mail" : "model");
        if (index !== 1 || !isMoment || when !== "before") return;
        await disk.fill();
        isFull = true;
      };
      const runId = await disk.program.accept("Mail them.", { agentId: "post" });
      await until(() => isFull);
      await until(async () => (await ready()) === 503);
      await pause(1000);
      await disk.empty();
      await until(async () =>
        ["succeeded", "failed", "waiting"].includes((await disk.program.run(runId)).status),
      );
      expect(await disk.program.run(runId)).toMatchObject({ status: "succeeded", attempts: 1 });
      expect(countMails(mail.sent)).toEqual({ 1: 1, 2: 1, 3: 1 });
      expect(mail.requests).toHaveLength(4);
    } finally {
      await mail.close();
    }
  },
);
