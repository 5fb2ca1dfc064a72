import { mkdtempSync, rmSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { createAdmission } from "../../src/limits/admission.ts";
import { createBudgets } from "../../src/limits/budgets.ts";
import { openStore } from "../../src/store/open.ts";
import { prepareDatabase, SQLITE_MIGRATIONS } from "../../src/store/sqlite/schema.ts";
import { silent } from "../store/home.ts";

let dir: string;
const file = (): string => join(dir, "rouse.db");
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "rouse-limits-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const HOUR_MS = 3_600_000;
/** The migration that brought counters. */
const COUNTERS = SQLITE_MIGRATIONS.findIndex((sql) => sql.includes("CREATE TABLE run_counts"));

/** A store as the version before counters left it: runs that are parked until a moment, and some that have ended. */
function seed(parked: number, ended: number): void {
  const db = new DatabaseSync(file());
  prepareDatabase(db, Date.now(), SQLITE_MIGRATIONS.slice(0, COUNTERS));
  const at = Date.now() - HOUR_MS / 2;
  const run = (status: string, more: string): string =>
    `json_object('id', '${status}_' || n, 'kind', 'hook', 'mapping', 'shop', 'status', '${status}', 'attempts', 0 ${more})`;
  const numbers = (count: number): string =>
    `WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < ${count})`;
  const columns = "INSERT INTO runs (id, session_key, status, created, ended, spec, record)";
  db.exec(
    `${numbers(parked)} ${columns} SELECT 'parked_' || n, 'hook:' || n, 'parked', ${at}, NULL, '{}',
      ${run("parked", ", 'parked', json_object('scope', 'hooks', 'limit', 'runsPerHour', 'until', 5000000000000)")} FROM c;
    INSERT INTO jobs (kind, id, key, data, enqueued, run_at, ready)
      SELECT 'turn', id, id, json_object('type', 'run', 'runId', id), ${at}, 3000000000000, 3000000000000 FROM runs;
    ${numbers(ended)} ${columns} SELECT 'succeeded_' || n, 'hook:' || n, 'succeeded', ${at}, ${at}, '{}',
      ${run("succeeded", `, 'startedAt', ${at}, 'endedAt', ${at}, 'usage', json_object('totalTokens', 14, 'costUsd', 0.02)`)} FROM c;`,
  );
  db.close();
}

const admit = async (limits: object) => {
  const handle = await openStore({ url: `sqlite:${file()}`, clock: systemClock, log: silent });
  const budgets = createBudgets(limits, {
    settings: () => undefined,
    budgets: [],
    mappings: [{ id: "shop" }],
  });
  const context = () => ({ budgets, agents: { default: { id: "main" } } });
  return {
    ...handle,
    admission: createAdmission({ ...handle, clock: systemClock, log: silent, context }),
  };
};

it("what an earlier version has left counts, and its parked runs are released when there is room", async () => {
  seed(5, 3);
  const { admission, store, queue } = await admit({ runsPerHour: 5, tokensPerDay: 1000 });
  expect(await admission.usage()).toMatchObject([
    { usage: { startedLastHour: 3, running: 0, waiting: 5, tokensLastDay: 42, costLastDay: 0.06 } },
  ]);
  await admission.recount();
  expect(await queue.fetch("turn", 10)).toHaveLength(2);
  await store.close();
});

it("start and reload read a bounded number of the runs that wait", async () => {
  seed(20_000, 1);
  const { admission, store } = await admit({ concurrent: 2, runsPerHour: 1 });
  const list = vi.spyOn(store, "list");
  const get = vi.spyOn(store, "get");
  await admission.recount();
  await admission.recount();
  const read = (
    await Promise.all(list.mock.results.map(async ({ value }) => (await value) as unknown[]))
  ).flat();
  expect(read.length + get.mock.calls.length).toBeLessThanOrEqual(1000);
  expect(await admission.usage()).toMatchObject([{ usage: { waiting: 20_000 } }]);
  await store.close();
});
