import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, onTestFinished } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { plainText } from "../../src/core/text.ts";
import { openStore } from "../../src/store/open.ts";
import type { RunRecord } from "../../src/store/types.ts";
import { manualClock } from "../delivery/support.ts";
import { openStoreIn, silent } from "../store/home.ts";
import { describePostgres, newSchema } from "../store/postgres.ts";
import { createProvider, modelConfig, type Provider } from "./provider.ts";
import { createProcessWorld, pause, type GatewayProcess, type ShownRun } from "./process-world.ts";
import { createWorld } from "./world.ts";

let dir: string;
let provider: Provider;
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "rouse-given-up-"));
  provider = await createProvider();
});
afterEach(async () => {
  await provider.close();
  rmSync(dir, { recursive: true, force: true });
});

/** Has a gateway without workers accept a run. Returns its id. */
async function accept(config: object = modelConfig(provider)): Promise<string> {
  const world = await createWorld({ dir, config, workers: false });
  const order = { message: "task", deliver: false, wakeMode: "next-heartbeat" };
  const { runId } = (await world.post("/hooks/agent", order)).body;
  await world.stop();
  return runId;
}

/** Changes a run behind a gateway that is stopped. */
async function changeRun(runId: string, change: Partial<RunRecord>): Promise<void> {
  const { store } = await openStoreIn(dir);
  await store.commit((tx) => tx.runs.update(runId, change));
  await store.close();
}

/** Starts a gateway that goes on with the run. Returns the ended run. */
async function goOn(runId: string, config: object = modelConfig(provider)): Promise<ShownRun> {
  const world = await createWorld({ dir, config });
  const run = await world.until(async () => {
    const shown = (await world.admin(`/admin/v1/runs/${runId}`)).body.run as ShownRun;
    return shown.endedAt !== null && shown;
  });
  await world.stop();
  return run;
}

it("attempts: a run that the queue gave to a gateway which ended before its start has no attempt", async () => {
  const runId = await accept();
  for (let taken = 0; taken < 5; taken++) {
    const { store, queue } = await openStoreIn(dir);
    await queue.recover();
    expect(await queue.fetch("turn", 1)).toMatchObject([{ id: runId, attempts: taken + 1 }]);
    await store.close();
  }
  expect(await goOn(runId)).toMatchObject({ status: "succeeded", attempts: 1 });
});

it("crash: a run that a kill interrupted continues, even if the limits have no room for another start", async () => {
  const config = {
    ...modelConfig(provider),
    hooks: { limits: { concurrent: 1, runsPerHour: 2 } },
  };
  const cut = await accept(config);
  for (let others = 0; others < 3; others++) await accept(config);
  await changeRun(cut, { status: "running", attempts: 1 });
  provider.answer = async () => {
    await new Promise((done) => setTimeout(done, 100));
    return "done";
  };
  expect(await goOn(cut, config)).toMatchObject({ status: "succeeded", attempts: 2 });
});

it("crash: other sessions wait a minute at most for a run that two kills interrupted", async () => {
  const suspect = await accept();
  await changeRun(suspect, { status: "running", attempts: 2, crashCount: 1 });
  // It never ends, as a turn does that waits long for its tools.
  provider.answer = (request) => (provider.text(request).includes("task") ? undefined : "done");
  const clock = manualClock(Date.now());
  const passWhile = async <T>(work: Promise<T>, stepMs: number): Promise<T> => {
    let isOver = false;
    void work.finally(() => (isOver = true)).catch(() => undefined);
    for (; !isOver; await new Promise((done) => setTimeout(done, 20))) await clock.advance(stepMs);
    return work;
  };
  const program = await passWhile(createWorld({ dir, clock, config: modelConfig(provider) }), 20);
  const reach = (check: () => Promise<boolean> | boolean): Promise<unknown> =>
    passWhile(
      program.until(async () => check()),
      20,
    );
  await reach(() => provider.requests.length === 1);
  const begun = clock.now();
  const order = async (): Promise<string> =>
    (
      await program.post("/hooks/agent", {
        message: "other",
        deliver: false,
        wakeMode: "next-heartbeat",
      })
    ).body.runId;
  const status = async (id: string): Promise<string> =>
    (await program.get(`/hooks/runs/${id}`)).body.run.status;
  const early = await order();
  await clock.advance(begun + 50_000 - clock.now());
  expect([await status(early), provider.requests.length]).toEqual(["queued", 1]);
  await clock.advance(10_500);
  await reach(async () => (await status(early)) === "succeeded");
  const late = await order();
  await reach(async () => (await status(late)) === "succeeded");
  expect(clock.now() - begun).toBeLessThan(75_000);
  expect(await status(suspect)).toBe("running");
  await passWhile(program.stop(), 1000);
});

it("crash: only the run that ends the process is given up, and none of those that ran with it", async () => {
  const AT_ONCE = 8;
  const processes = await createProcessWorld({
    agents: { defaults: { model: "local/big", heartbeat: { every: 0 }, maxConcurrent: AT_ONCE } },
  });
  onTestFinished(() => processes.close());
  const idle = await processes.start(["--no-workers"]);
  const ids = await Promise.all(
    Array.from({ length: AT_ONCE }, (_, n) =>
      idle.accept(n === 3 ? "poison" : `task ${n}`, { sessionKey: `hook:${n}` }),
    ),
  );
  await idle.stop();

  let gateway: GatewayProcess | undefined;
  let asked = 0;
  /** Runs that were under way each time that the process ended. */
  const together: number[] = [];
  processes.provider.answer = async (request) => {
    asked++;
    // The last try of each is alone.
    const isLast = together.length >= 2;
    if (processes.provider.text(request).includes("poison")) {
      while (!isLast && asked < AT_ONCE) await pause(20);
      together.push(asked);
      await gateway?.kill();
      return undefined;
    }
    // Those that are under way beside the poison never come to their end.
    const round = together.length;
    while (!isLast && together.length === round) await pause(20);
    return "done";
  };
  const readRuns = (of: GatewayProcess): Promise<ShownRun[]> => Promise.all(ids.map(of.run));
  const allEnded = async (of: GatewayProcess): Promise<boolean> =>
    (await readRuns(of)).every(({ status }) => ["succeeded", "failed"].includes(status));
  for (let starts = 0; starts < AT_ONCE; starts++) {
    asked = 0;
    const started = (gateway = await processes.start());
    while (started.child.signalCode === null && !(await allEnded(started).catch(() => false)))
      await pause(50);
    if (started.child.signalCode === null) break;
  }
  expect(together.slice(0, 2)).toEqual([AT_ONCE, AT_ONCE]);
  expect(together).toHaveLength(3);
  const runs = await readRuns(gateway as GatewayProcess);
  expect(runs.map(({ status }) => status)).toEqual(
    ids.map((_, n) => (n === 3 ? "failed" : "succeeded")),
  );
  expect(runs[3]).toMatchObject({
    attempts: 3,
    error: { code: "crashed", message: expect.stringContaining("started 3 times") },
  });
});

describePostgres("a start of another gateway that came to no end", () => {
  it.each([
    [true, "succeeded"],
    [false, "failed"],
  ])("with that gateway alive: %s; the run has %s", async (isAlive, status) => {
    const schema = newSchema();
    const config = { store: { url: schema.url }, ...modelConfig(provider) };
    const runId = await accept(config);
    const other = await openStore({ url: schema.url, clock: systemClock, log: silent });
    // The gateway is known to the others from its first sign of life on.
    await other.queue.recover();
    await other.store.commit((tx) =>
      tx.runs.update(runId, {
        status: "running",
        attempts: 3,
        crashCount: 2,
        gateway: other.cluster.id,
      }),
    );
    if (!isAlive) await other.store.close();
    const run = await goOn(runId, config);
    expect([run.status, run.error?.code]).toEqual([status, isAlive ? undefined : "crashed"]);
    if (isAlive) await other.store.close();
    const { store } = await openStore({ url: schema.url, clock: systemClock, log: silent });
    const told = await store.systemEvents.list({ limit: 10 });
    await store.close();
    expect(
      told.some(({ text }) => plainText(text).includes("started 3 times without coming to an end")),
    ).toBe(!isAlive);
    await schema.drop();
  });
});
