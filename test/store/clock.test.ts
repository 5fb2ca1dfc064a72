import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createStepWatch, systemClock } from "../../src/core/clock.ts";
import { createLogger } from "../../src/core/log.ts";
import { PullWorker } from "../../src/queue/worker.ts";
import { openStore } from "../../src/store/open.ts";
import type { Job, StoreHandle } from "../../src/store/types.ts";
import { until } from "../../src/testing/harness.ts";
import { createTestClock, HOUR, job, type TestClock } from "./suite/make.ts";
import { silent } from "./home.ts";
import { createDatabase, describePostgres } from "./postgres.ts";

interface Line {
  stepMs?: number;
  msg: string;
}

/** A log whose lines are kept, of those about steps of a clock. */
function createStepLog() {
  const lines: Line[] = [];
  const log = createLogger("warn", { write: (line) => void lines.push(JSON.parse(line) as Line) });
  return {
    log,
    steps: () =>
      lines.filter((line) => line.stepMs !== undefined).map(({ stepMs, msg }) => [stepMs, msg]),
  };
}

const ids = (jobs: readonly Job[]): string[] => jobs.map((one) => one.id);

describe("a step of the clock", () => {
  it("is logged with its size, once, and time that passes is none", () => {
    const clock = createTestClock();
    const { log, steps } = createStepLog();
    const watch = createStepWatch(clock, log);
    clock.advance(10 * HOUR);
    expect(watch.look()).toBe(0);
    clock.set(900);
    expect(watch.look()).toBe(0);
    clock.set(-HOUR);
    expect([watch.look(), watch.look()]).toEqual([-HOUR, 0]);
    clock.set(2 * HOUR);
    expect([watch.look(), watch.look()]).toEqual([2 * HOUR, 0]);
    expect(steps()).toEqual([
      [-HOUR, expect.stringContaining("set back")],
      [2 * HOUR, expect.stringContaining("set forward")],
    ]);
  });

  it("is none where the source of time has no monotonic clock", () => {
    let at = 0;
    const { log, steps } = createStepLog();
    const watch = createStepWatch({ now: () => at }, log);
    at -= HOUR;
    expect([watch.look(), steps()]).toEqual([0, []]);
  });
});

describe("SQLite and the clock", () => {
  let folder: string;
  let clock: TestClock;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "rouse-clock-"));
    clock = createTestClock();
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const file = (): string => join(folder, "rouse.db");
  const open = (log = silent): Promise<StoreHandle> =>
    openStore({ url: `sqlite:${file()}`, clock, log });

  it("logs a step when jobs are asked for", async () => {
    const { log, steps } = createStepLog();
    const { store, queue } = await open(log);
    clock.set(-HOUR);
    await queue.fetch("turn", 1);
    await queue.fetch("turn", 1);
    expect(steps()).toEqual([[-HOUR, expect.any(String)]]);
    await store.close();
  });

  it("a worker whose fetch is refused takes the job when the queue can be read again", async () => {
    const { store, queue } = await open();
    await store.commit((tx) => tx.jobs.add(job("a")));
    const db = new DatabaseSync(file());
    db.exec("ALTER TABLE jobs RENAME TO away");
    const refused = vi.spyOn(queue, "fetch");
    const started: string[] = [];
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    // The wait after a refused fetch never ends: what remains is the regular look.
    const endless = { ...systemClock, sleep: () => new Promise<void>(() => undefined) };
    const worker = new PullWorker({
      store,
      queue,
      clock: endless,
      log: silent,
      kind: "turn",
      limit: () => 1,
      async execute(one) {
        started.push(one.id);
        await store.commit((tx) => tx.jobs.settle(one), one);
      },
    });
    try {
      worker.start();
      await expect(refused.mock.results[0]?.value).rejects.toMatchObject({
        code: "store_unavailable",
      });
      db.exec("ALTER TABLE away RENAME TO jobs");
      vi.advanceTimersByTime(30_000);
      await until(() => started.length > 0);
      expect(started).toEqual(["a"]);
    } finally {
      vi.useRealTimers();
      await Promise.race([worker.stop(0), until(() => worker.active.size === 0)]);
      db.close();
      await store.close();
    }
  });
});

describePostgres("PostgreSQL and the clock", () => {
  const { open: openAt, close, query } = createDatabase();
  const open = (log = silent): Promise<StoreHandle> => openAt(undefined, { log });

  it("a delay lasts as long as it was to, also where the database's clock is set back; two gateways make up for it once", async () => {
    const first = await open();
    await first.store.commit((tx) => {
      tx.jobs.add(job("soon", { key: "a", runAt: Date.now() + 2000 }));
      tx.jobs.add(job("later", { key: "b", runAt: Date.now() + HOUR }));
      tx.jobs.add(job("at once", { key: "c", enqueuedAt: Date.now() }));
    });
    await close(first);
    // Sets the rows as they are after the database's clock went back by an hour, with a gateway that died just then.
    await query(`
      UPDATE jobs SET run_at = run_at + ${HOUR}, ready = ready + ${HOUR} WHERE run_at > 0;
      INSERT INTO marks VALUES ('clock', (extract(epoch FROM now()) * 1000)::bigint + ${HOUR}) ON CONFLICT (name) DO UPDATE SET seq = excluded.seq;
      INSERT INTO holders (seen, gateway) VALUES (now() + interval '1 hour', 'gone');`);
    const { log, steps } = createStepLog();
    const [a, b] = await Promise.all([open(log), open(log)]);
    expect(steps()).toEqual([
      [expect.any(Number), expect.stringContaining("PostgreSQL's clock was set back")],
    ]);
    expect(Math.abs((steps()[0]?.[0] as number) + HOUR)).toBeLessThan(60_000);
    expect(ids(await a.queue.fetch("turn", 5))).toContain("at once");
    let taken: string[] = [];
    for (
      const end = Date.now() + 20_000;
      taken.length === 0 && Date.now() < end;
      await until(() => false, 50)
    )
      taken = ids(await b.queue.fetch("turn", 5));
    expect(taken).toEqual(["soon"]);
    expect(await query("SELECT 1 FROM holders WHERE seen > now()")).toEqual([]);
  });
});
