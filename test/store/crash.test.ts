import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, it } from "vitest";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../src/core/clock.ts";
import { openStore } from "../../src/store/open.ts";
import type { StoreHandle } from "../../src/store/types.ts";
import { silent } from "./home.ts";

/** Runs the child on a store until it dies by a SIGKILL: its own, or ours after `ms`. Returns the lines that it said whole. */
async function killed(file: string, mode: string, ms = 10_000): Promise<string[]> {
  const child = spawn(process.execPath, ["--conditions=rouse-source", join(import.meta.dirname, "crash-child.ts"), file, mode], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  let timer: NodeJS.Timeout | undefined;
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
    timer ??= setTimeout(() => child.kill("SIGKILL"), ms);
  });
  const [, signal] = (await once(child, "close")) as [number | null, string];
  clearTimeout(timer);
  expect(signal).toBe("SIGKILL");
  return text.split("\n").slice(0, -1);
}

const open = (file: string): Promise<StoreHandle> => openStore({ url: `sqlite:${file}`, clock: systemClock, log: silent });

async function inFolder(work: (file: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "rouse-crash-"));
  try {
    await work(join(folder, "rouse.db"));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

describe("a process that is killed", () => {
  it("between its answer and the taking up: the work is there, once", () =>
    inFolder(async (file) => {
      const [line] = await killed(file, "accepted");
      const { store, queue } = await open(file);
      await queue.recover();
      const jobs = await queue.fetch("turn", 10);
      expect(jobs.map((one) => `accepted ${one.id}`)).toEqual([line]);
      expect(jobs).toMatchObject([{ attempts: 1 }]);
      expect(await store.queuedSystemEvents("main", 10)).toHaveLength(1);
      await store.close();
    }));

  it("after a start: the start is counted, and the job comes again", () =>
    inFolder(async (file) => {
      await killed(file, "fetched");
      const { store, queue } = await open(file);
      expect(await queue.fetch("turn", 10)).toEqual([]);
      expect(await queue.recover()).toBe(1);
      expect(await queue.fetch("turn", 10)).toMatchObject([{ attempts: 2 }]);
      await store.close();
    }));

  it("at any moment under load, again and again: nothing acknowledged is lost, and nothing is done twice", () =>
    inFolder(async (file) => {
      const lines: string[] = [];
      for (const ms of [35, 80, 120, 60]) lines.push(...(await killed(file, "load", ms)));
      const idsOf = (word: string): string[] => lines.flatMap((line) => (line.startsWith(`${word} `) ? [line.slice(word.length + 1)] : []));
      const [accepted, done] = [idsOf("accepted"), idsOf("done")];
      expect(accepted.length).toBeGreaterThan(20);
      expect(done.length).toBeGreaterThan(5);
      expect(new Set(done).size).toBe(done.length);
      const { store, queue } = await open(file);
      await queue.recover();
      for (const id of done) {
        expect(await store.getRun(id)).toMatchObject({ status: "succeeded", deliveryId: `d-${id}` });
        expect(await store.getDelivery(`d-${id}`)).toMatchObject({ status: "pending" });
      }
      // What is left comes out of the queue, each run once.
      const rest = new Set<string>();
      for (let jobs = await queue.fetch("turn", 100); jobs.length > 0; jobs = await queue.fetch("turn", 100)) {
        for (const one of jobs) {
          expect(rest.has(one.id)).toBe(false);
          rest.add(one.id);
        }
        await store.commit((tx) => {
          for (const one of jobs) tx.completeJob(one);
        });
      }
      const ended = new Set<string>();
      for (const id of accepted) if ((await store.getRun(id))?.status === "succeeded") ended.add(id);
      expect(accepted.filter((id) => !ended.has(id) && !rest.has(id))).toEqual([]);
      expect([...rest].filter((id) => ended.has(id))).toEqual([]);
      const counts = await store.counts();
      expect(counts["deliveries.pending"]).toBe(counts["runs.succeeded"]);
      expect(counts["systemEvents.queued"]).toBe(counts["events.accepted"]);
      await store.close();
    }));
});
