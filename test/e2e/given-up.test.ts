import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createLogger } from "../../src/core/log.ts";
import { systemClock } from "../../src/core/clock.ts";
import { openStore } from "../../src/store/open.ts";
import type { RunRecord } from "../../src/store/types.ts";
import { manualClock } from "../delivery/support.ts";
import { describePostgres, newSchema } from "../store/postgres.ts";
import { createProvider, modelConfig, type Provider } from "./provider.ts";
import { startProgram, type Program } from "./program.ts";
import { createWorld } from "./world.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const TOKEN = "given-up-hook-token-0123456789";
const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };

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

const start = (...flags: string[]): Promise<Program> =>
  startProgram(process.execPath, [join(ROOT, "bin/rouse.js"), "start", ...flags], {
    cwd: dir,
    env: { ROUSE_LOG_LEVEL: "silent" },
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
  const url = `sqlite:${join(dir, ".rouse", "rouse.db")}`;
  const { store } = await openStore({ url, clock: systemClock, log: createLogger("silent") });
  await store.commit((tx) => tx.runs.update(runId, change));
  await store.close();
}

interface Shown {
  status: string;
  attempts: number;
  endedAt: string | null;
  error: { code: string; message: string } | null;
}
/** What the run has come to once a gateway has gone on with it. */
async function goOn(runId: string, config: object = modelConfig(provider)): Promise<Shown> {
  const world = await createWorld({ dir, config });
  const run = await world.until(async () => {
    const shown = (await world.admin(`/admin/v1/runs/${runId}`)).body.run as Shown;
    return shown.endedAt !== null && shown;
  });
  await world.stop();
  return run;
}

it("does not count as a start that the queue gave a run to a gateway that ended before it had begun", async () => {
  const runId = await accept();
  for (let taken = 0; taken < 5; taken++) {
    const { store, queue } = await openStore({
      url: `sqlite:${join(dir, ".rouse", "rouse.db")}`,
      clock: systemClock,
      log: createLogger("silent"),
    });
    await queue.recover();
    expect(await queue.fetch("turn", 1)).toMatchObject([{ id: runId, attempts: taken + 1 }]);
    await store.close();
  }
  expect(await goOn(runId)).toMatchObject({ status: "succeeded", attempts: 1 });
});

it("continues a run that a kill cut off at once where the limits have room for no other start", async () => {
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

it("lets other sessions wait half a minute for a run that two kills have cut off, however slow it is", async () => {
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
  await clock.advance(begun + 29_000 - clock.now());
  expect([await status(early), provider.requests.length]).toEqual(["queued", 1]);
  await clock.advance(1500);
  await reach(async () => (await status(early)) === "succeeded");
  const late = await order();
  await reach(async () => (await status(late)) === "succeeded");
  expect(clock.now() - begun).toBeLessThan(45_000);
  expect(await status(suspect)).toBe("running");
  await passWhile(program.stop(), 1000);
});

it("gives up the run that ends the process alone: none of those that were under way beside it", async () => {
  const AT_ONCE = 8;
  const config = {
    gateway: { port: 0 },
    log: { level: "silent" },
    hooks: { enabled: true, token: TOKEN },
    ...modelConfig(provider),
  } as { agents?: { defaults: object } };
  Object.assign(config.agents?.defaults ?? {}, { maxConcurrent: AT_ONCE });
  writeFileSync(join(dir, "rouse.json5"), JSON.stringify(config));
  const idle = await start("--no-workers");
  const accept8 = async (n: number): Promise<string> => {
    const body = JSON.stringify({
      message: n === 3 ? "poison" : `task ${n}`,
      sessionKey: `hook:${n}`,
      deliver: false,
      wakeMode: "next-heartbeat",
    });
    const answer = await fetch(`${idle.url}/hooks/agent`, { method: "POST", headers, body });
    return ((await answer.json()) as { runId: string }).runId;
  };
  const ids = await Promise.all(Array.from({ length: AT_ONCE }, (_, n) => accept8(n)));
  await idle.stop();

  let program: Program | undefined;
  let asked = 0;
  const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));
  /** Runs that were under way each time that the process ended. */
  const together: number[] = [];
  provider.answer = async (request) => {
    asked++;
    // The last try of each is alone.
    const isLast = together.length >= 2;
    if (provider.text(request).includes("poison")) {
      while (!isLast && asked < AT_ONCE) await pause(20);
      together.push(asked);
      await program?.kill();
      return undefined;
    }
    // Those that are under way beside the poison never come to their end.
    const round = together.length;
    while (!isLast && together.length === round) await pause(20);
    return "done";
  };
  const statusOf = async (id: string): Promise<Shown> =>
    (
      (await (await fetch(`${program?.url}/hooks/runs/${id}`, { headers })).json()) as {
        run: Shown;
      }
    ).run;
  const allEnded = async (): Promise<boolean> =>
    (await Promise.all(ids.map(statusOf))).every(({ status }) =>
      ["succeeded", "failed"].includes(status),
    );
  for (let starts = 0; starts < AT_ONCE; starts++) {
    asked = 0;
    program = await start();
    const ended = await Promise.race([
      new Promise<false>((done) => program?.child.once("exit", () => done(false))),
      (async () => {
        while (!(await allEnded().catch(() => false)) && program?.child.signalCode === null)
          await pause(50);
        return program?.child.signalCode === null;
      })(),
    ]);
    if (ended) break;
  }
  expect(together.slice(0, 2)).toEqual([AT_ONCE, AT_ONCE]);
  expect(together).toHaveLength(3);
  const runs = await Promise.all(ids.map(statusOf));
  expect(runs.map(({ status }) => status)).toEqual(
    ids.map((_, n) => (n === 3 ? "failed" : "succeeded")),
  );
  expect(runs[3]).toMatchObject({
    attempts: 3,
    error: { code: "crashed", message: expect.stringContaining("started 3 times") },
  });
  await program?.kill();
});

describePostgres("a start of another gateway that came to no end", () => {
  it.each([
    [true, "succeeded"],
    [false, "failed"],
  ])("with that gateway alive: %s; the run has %s", async (isAlive, status) => {
    const schema = newSchema();
    const config = { store: { url: schema.url }, ...modelConfig(provider) };
    const runId = await accept(config);
    const other = await openStore({
      url: schema.url,
      clock: systemClock,
      log: createLogger("silent"),
    });
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
    await schema.drop();
  });
});
