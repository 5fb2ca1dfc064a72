import { mkdtempSync, rmSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { createBudgets, Admission } from "../../src/queue/admission.ts";
import { openStore } from "../../src/store/open.ts";
import { prepareDatabase } from "../../src/store/sqlite/schema.ts";
import { PARKED_UNTIL } from "../../src/store/usage.ts";
import { silent } from "../store/home.ts";

let dir: string;
const file = (): string => join(dir, "rouse.db");
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "rouse-limits-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const HOUR_MS = 3_600_000;
/** A store with runs that a limit holds back. */
function seed(parked: number): void {
  const db = new DatabaseSync(file());
  prepareDatabase(db, Date.now());
  const at = Date.now() - HOUR_MS / 2;
  db.exec(
    `WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < ${parked})
      INSERT INTO runs (id, session_key, status, created, spec, record) SELECT 'parked_' || n, 'hook:' || n, 'parked', ${at}, '{}',
        json_object('id', 'parked_' || n, 'kind', 'hook', 'mapping', 'shop', 'status', 'parked', 'attempts', 0,
          'parked', json_object('scope', 'hooks', 'limit', 'runsPerHour', 'until', 5000000000000)) FROM c;
    INSERT INTO usage (counter, width, at, waiting, parked, in_line) SELECT value, 0, 0, ${parked}, ${parked}, ${parked} FROM json_each('["hooks", "mapping:shop"]');
    INSERT INTO jobs (kind, id, key, data, enqueued, run_at, ready)
      SELECT 'turn', id, id, json_object('type', 'run', 'runId', id), ${at}, ${PARKED_UNTIL}, ${PARKED_UNTIL} FROM runs;`,
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
  const snapshot = () => ({ budgets, agents: { default: { id: "main" } } });
  return {
    ...handle,
    admission: new Admission({ ...handle, clock: systemClock, log: silent, snapshot }),
  };
};

it("start and reload read a bounded number of the runs that wait", async () => {
  seed(20_000);
  const { admission, store } = await admit({ concurrent: 2, runsPerHour: 1 });
  const list = vi.spyOn(store.runs, "list");
  const get = vi.spyOn(store.runs, "get");
  await admission.recount();
  await admission.recount();
  const read = (
    await Promise.all(list.mock.results.map(async ({ value }) => (await value) as unknown[]))
  ).flat();
  expect(read.length + get.mock.calls.length).toBeLessThanOrEqual(1000);
  expect(await admission.usage()).toMatchObject([{ usage: { waiting: 20_000 } }]);
  await store.close();
});
