import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { writeStart } from "../../src/turns/execute.ts";
import type { Try } from "../../src/turns/try.ts";
import { openStore } from "../../src/store/open.ts";
import { STORE_UNAVAILABLE, type Job, type RunRecord, type Store } from "../../src/store/types.ts";
import { silent } from "../store/home.ts";

const RUN: RunRecord = {
  id: "run_1",
  eventId: null,
  kind: "channel",
  status: "queued",
  spec: {
    session: { agentId: "main", origin: "channel", key: "room" },
    name: "Telegram",
    hook: "telegram",
    input: [],
    channel: "telegram",
    to: "1",
    incoming: { from: "1", direct: true, replyTo: "1" },
  },
  warnings: [],
  attempts: 0,
  restarts: 0,
  createdAt: 1,
};

let dir: string;
let handle: Awaited<ReturnType<typeof openStore>>;
let current: Try;
let job: Job;
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "rouse-start-"));
  handle = await openStore({
    url: `sqlite:${join(dir, "rouse.db")}`,
    clock: systemClock,
    log: silent,
  });
  await handle.store.commit((tx) => {
    tx.runs.add(RUN);
    tx.jobs.add({ id: RUN.id, kind: "turn", key: "one", data: {}, enqueuedAt: RUN.createdAt });
  });
  [job] = (await handle.queue.fetch("turn", 1)) as [Job];
  current = {
    kind: { job },
    deps: { store: handle.store, clock: systemClock, log: silent },
    signal: new AbortController().signal,
    run: RUN,
    isStored: true,
  } as unknown as Try;
});
afterEach(async () => {
  await handle.store.close();
  rmSync(dir, { recursive: true, force: true });
});

const start = { status: "running" as const, attempts: 1, startedAt: 5 };
const begin = () => writeStart(start, "queued", { input: {} }, current);
const getStatus = async () => (await handle.store.runs.get(RUN.id))?.status;

it("a run that was cancelled after it was read does not begin", async () => {
  await handle.store.commit((tx) => tx.runs.update(RUN.id, { status: "cancelled", endedAt: 4 }));
  expect(await begin()).toBe(false);
  expect(await getStatus()).toBe("cancelled");
  // The next gateway that takes the job sees that there is nothing to do.
  expect(await handle.queue.fetch("turn", 1)).toMatchObject([{ id: RUN.id }]);
});

it("a run whose start was written, though the answer of the store was lost, continues", async () => {
  const { store } = handle;
  let isLost = true;
  const commit: Store["commit"] = async (...args) => {
    const done = await store.commit(...args);
    if (!isLost) return done;
    isLost = false;
    throw Object.assign(new Error(STORE_UNAVAILABLE.message), { code: STORE_UNAVAILABLE.code });
  };
  Object.assign(current.deps, { store: { ...store, commit } });
  expect(await begin()).toBe(true);
  expect([await getStatus(), isLost]).toEqual(["running", false]);
});
