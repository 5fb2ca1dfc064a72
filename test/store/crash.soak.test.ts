import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, it } from "vitest";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../src/core/clock.ts";
import { openStore } from "../../src/store/open.ts";
import type { Job, StoreHandle } from "../../src/store/types.ts";
import { until } from "../../src/testing/harness.ts";
import { job } from "./suite/make.ts";
import { scale } from "../soak.ts";
import { silent } from "./home.ts";
import { describePostgres, newSchema } from "./postgres.ts";

const CHILD = join(import.meta.dirname, "crash-child.ts");

/** So many runs end in each life under load, however slow the machine is. */
const DONE = 3;

/**
 * Runs the child on a store until it dies by a SIGKILL: its own, or, if `ms` is given, ours: when so many milliseconds are over, and
 * it has carried out some runs. Returns the lines that it said whole.
 */
async function killed(url: string, mode: string, ms?: number): Promise<string[]> {
  const child = spawn(process.execPath, ["--conditions=rouse-source", CHILD, url, mode], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  let begun: number | undefined;
  const timer = setInterval(() => {
    const isOver = ms !== undefined && begun !== undefined && performance.now() - begun >= ms;
    if (isOver && (text.match(/^done .*\n/gm) ?? []).length >= DONE) child.kill("SIGKILL");
  }, 1);
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
    begun ??= performance.now();
  });
  const [, signal] = (await once(child, "close")) as [number | null, string];
  clearInterval(timer);
  expect(signal).toBe("SIGKILL");
  return text.split("\n").slice(0, -1);
}

const open = (url: string): Promise<StoreHandle> =>
  openStore({ url, clock: systemClock, log: silent });

async function inFolder(work: (url: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "rouse-crash-"));
  try {
    await work(`sqlite:${join(folder, "rouse.db")}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function inSchema(work: (url: string) => Promise<void>): Promise<void> {
  const schema = newSchema();
  try {
    await work(schema.url);
  } finally {
    await schema.drop();
  }
}

/** Frees what the dead held: at once where one process has the store for itself, else when their leases are over. Returns how many. */
async function recovered({ store, queue }: StoreHandle): Promise<number> {
  let freed = 0;
  for (
    const end = Date.now() + 60_000;
    Date.now() < end;
    await new Promise((resolve) => setTimeout(resolve, 100))
  ) {
    freed += await queue.recover();
    if ((await queue.waiting("turn")).count === (await store.counts())["jobs.turn"]) break;
  }
  return freed;
}

/**
 * They wait most of the time, for leases that end: all at the same time. With `alone`, one process has the store for itself: it frees what
 * the dead held, and not whoever looks first.
 */
function crashes(inStore: typeof inFolder, lives: readonly number[], alone: boolean): void {
  it.concurrent("between its answer and the taking up: the work is there, once", () =>
    inStore(async (url) => {
      const [line] = await killed(url, "accepted");
      const { store, queue } = await open(url);
      await queue.recover();
      const jobs = await queue.fetch("turn", 10);
      expect(jobs.map((one) => `accepted ${one.id}`)).toEqual([line]);
      expect(jobs).toMatchObject([{ attempts: 1 }]);
      expect(await store.systemEvents.listQueued({ agentId: "main", limit: 10 })).toHaveLength(1);
      await store.close();
    }));

  it.concurrent("after a start: the start is counted, and the job comes again", () =>
    inStore(async (url) => {
      await killed(url, "fetched");
      const handle = await open(url);
      expect(await handle.queue.fetch("turn", 10)).toEqual([]);
      const freed = await recovered(handle);
      if (alone) expect(freed).toBe(1);
      expect(await handle.queue.fetch("turn", 10)).toMatchObject([{ attempts: 2 }]);
      await handle.store.close();
    }));

  it.concurrent(
    "at any moment under load, again and again: nothing acknowledged is lost, and nothing is done twice",
    { timeout: 180_000 },
    () =>
      inStore(async (url) => {
        const lines: string[] = [];
        for (const ms of lives) lines.push(...(await killed(url, "load", ms)));
        const handle = await open(url);
        await recovered(handle);
        await account(handle, lines, lives.length);
        await handle.store.close();
      }),
  );
}

async function account(
  { store, queue }: StoreHandle,
  lines: readonly string[],
  lives: number,
): Promise<void> {
  const idsOf = (word: string): string[] =>
    lines.flatMap((line) => (line.startsWith(`${word} `) ? [line.slice(word.length + 1)] : []));
  const [accepted, done] = [idsOf("accepted"), idsOf("done")];
  expect(done.length).toBeGreaterThanOrEqual(lives * DONE);
  expect(new Set(done).size).toBe(done.length);
  for (const id of done) {
    expect(await store.runs.get(id)).toMatchObject({
      status: "succeeded",
      deliveryId: `d-${id}`,
    });
    expect(await store.deliveries.get(`d-${id}`)).toMatchObject({ status: "pending" });
  }
  // What is left comes out of the queue, each run once.
  const rest = new Set<string>();
  for (
    let jobs = await queue.fetch("turn", 100);
    jobs.length > 0;
    jobs = await queue.fetch("turn", 100)
  ) {
    for (const one of jobs) {
      expect(rest.has(one.id)).toBe(false);
      rest.add(one.id);
    }
    await store.commit((tx) => {
      for (const one of jobs) tx.jobs.settle(one);
    });
  }
  const ended = new Set<string>();
  for (const id of accepted) if ((await store.runs.get(id))?.status === "succeeded") ended.add(id);
  expect(accepted.filter((id) => !ended.has(id) && !rest.has(id))).toEqual([]);
  expect([...rest].filter((id) => ended.has(id))).toEqual([]);
  const counts = await store.counts();
  expect(counts["deliveries.pending"]).toBe(counts["runs.succeeded"]);
  expect(counts["systemEvents.queued"]).toBe(counts["events.accepted"]);
}

describe("a process that is killed, on SQLite", () =>
  crashes(inFolder, scale([35, 80, 120], [35, 80, 120, 60, 150, 20, 250, 50]), true));

describePostgres("a process that is killed, on PostgreSQL", () => {
  crashes(inSchema, scale([300, 150], [400, 150, 250, 500, 100]), false);

  it.concurrent("not killed, but not heard of either: its job goes to another, and it settles nothing any more", () =>
    inSchema(async (url) => {
      const handle = await open(url);
      await handle.store.commit((tx) => tx.jobs.add(job("one")));
      const child = spawn(process.execPath, ["--conditions=rouse-source", CHILD, url, "held"], {
        stdio: ["pipe", "pipe", "inherit"],
      });
      const said: string[] = [];
      child.stdout.setEncoding("utf8").on("data", (chunk: string) => said.push(chunk.trim()));
      await until(() => said.length > 0, 60_000);
      expect(said).toEqual(["held one"]);
      child.kill("SIGSTOP");
      let taken: Job[] = [];
      handle.queue.onReady(
        () => void handle.queue.fetch("turn", 1).then((jobs) => (taken = [...taken, ...jobs])),
      );
      expect(await handle.queue.fetch("turn", 1)).toEqual([]);
      await until(() => taken.length > 0, 60_000);
      expect(taken).toMatchObject([{ id: "one", attempts: 2 }]);
      child.kill("SIGCONT");
      child.stdin.write("go\n");
      await once(child, "close");
      expect(said).toEqual(["held one", "done false"]);
      expect(await handle.store.values.get("late")).toBeUndefined();
      expect(await handle.store.commit((tx) => tx.jobs.settle(taken[0] as Job), taken[0])).toBe(
        true,
      );
      await handle.store.close();
    }));
});
