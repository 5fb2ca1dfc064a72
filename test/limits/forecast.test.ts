import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { createBudgets, Admission } from "../../src/queue/admission.ts";
import { openStore } from "../../src/store/open.ts";
import type { LimitReason, RunRecord, StoreHandle } from "../../src/store/types.ts";
import { run } from "../store/suite/make.ts";
import { silent } from "../store/home.ts";
import { describePostgres, madeSchema, type Schema } from "../store/postgres.ts";

const HOUR_MS = 3_600_000;

let handle: StoreHandle;
let admission: Admission;
async function open(url: string, limits: object): Promise<void> {
  handle = await openStore({ url, clock: systemClock, log: silent });
  const budgets = createBudgets(limits, { settings: () => undefined, budgets: [], mappings: [] });
  const snapshot = () => ({ budgets, agents: { default: { id: "main" } } });
  admission = new Admission({ ...handle, clock: systemClock, log: silent, snapshot });
}

const addRuns = async (count: number): Promise<RunRecord[]> => {
  const runs = Array.from({ length: count }, () => run({ createdAt: Date.now() }));
  await handle.store.commit((tx) => runs.forEach((one) => tx.runs.add(one)));
  return runs;
};
/** Asks for the start of runs at the same moment, and keeps what was decided. Returns in how many hours the parked ones may start. */
async function start(runs: readonly RunRecord[]): Promise<number[]> {
  const decided = await Promise.all(runs.map((one) => admission.start(one, Date.now())));
  await handle.store.commit((tx) =>
    runs.forEach(({ id }, n) => {
      const parked = decided[n];
      tx.runs.update(
        id,
        parked
          ? { status: "parked", hold: { reason: "limit", ...parked, since: Date.now() } }
          : { status: "running", attempts: 1, startedAt: Date.now() },
      );
    }),
  );
  runs.forEach(({ id }, n) => decided[n] ?? admission.started(id));
  const toHours = ({ until = 0 }: LimitReason): number =>
    Math.round((until - Date.now()) / HOUR_MS);
  return decided.flatMap((parked) => (parked ? [toHours(parked)] : [])).toSorted((x, y) => x - y);
}

function testForecasts(getUrl: () => string): void {
  it("runs that are parked at the same moment get moments of their own: as many an hour as may start", async () => {
    await open(getUrl(), { runsPerHour: 3 });
    expect(await start(await addRuns(12))).toEqual([1, 1, 1, 2, 2, 2, 3, 3, 3]);
    // Those that come later are behind them, and are not counted twice when the store has counted them.
    expect(await start(await addRuns(2))).toEqual([4, 4]);
    await admission.usage();
    expect(await start(await addRuns(2))).toEqual([4, 5]);
    await handle.store.close();
  });
}

describe("forecasts of `runsPerHour`, on SQLite", () => {
  let dir: string;
  beforeEach(() => void (dir = mkdtempSync(join(tmpdir(), "rouse-forecast-"))));
  afterEach(() => rmSync(dir, { recursive: true, force: true }));
  testForecasts(() => `sqlite:${join(dir, "rouse.db")}`);
});

describePostgres("forecasts of `runsPerHour`, on PostgreSQL", () => {
  let schema: Schema;
  beforeEach(async () => void (schema = await madeSchema()));
  testForecasts(() => schema.url);
});
