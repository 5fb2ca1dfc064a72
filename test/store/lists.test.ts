import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, it } from "vitest";
import { PAGES } from "../../src/store/sql/read-table.ts";
import { search, UNLIMITED, type ListSource } from "../../src/store/sql/search.ts";
import { createSqliteSource } from "../../src/store/sqlite/records.ts";
import { prepareDatabase } from "../../src/store/sqlite/schema.ts";
import { Statements } from "../../src/store/sqlite/connection.ts";
import type { Lists } from "../../src/store/types.ts";
import { START } from "./suite/make.ts";

const ROWS = 2_000;
/** Filters whose count is 0, by kind of record. */
const NONE: { [K in keyof typeof PAGES]: Lists[K]["of"][] } = {
  events: [{ outcome: "failed" }, { outcome: "rejected", path: "alerts" }, { failedRuns: true }],
  runs: [{ status: "failed" }, { status: "parked", sessionKey: "a" }],
  deliveries: [{ status: "failed" }, { status: "unknown", channel: "console" }],
  systemEvents: [{ state: "parked" }],
  approvals: [{ state: "open" }],
  sessions: [{ origin: "api" }],
};
const findAll = async (
  source: ListSource,
  kind: keyof typeof PAGES,
  query: object,
): Promise<unknown[]> =>
  (await search(source, PAGES[kind] as typeof PAGES.events, query, UNLIMITED)).rows;
const queries = (Object.keys(NONE) as (keyof typeof PAGES)[]).flatMap((kind) =>
  NONE[kind].map((query) => [kind, query] as const),
);

it("SQLite: a filter whose count is known to be 0 looks at no row, however many there are", async () => {
  const folder = mkdtempSync(join(tmpdir(), "rouse-lists-"));
  const db = new DatabaseSync(join(folder, "rouse.db"));
  prepareDatabase(db, START);
  db.exec(`
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${ROWS})
    INSERT INTO events SELECT i, 'evt_' || i, ${START} + i, 'alerts', 'hooks.token', 'skipped', NULL, '{}', NULL, NULL FROM n;
    UPDATE counts SET n = ${ROWS} WHERE name = 'events.skipped';
    UPDATE marks SET seq = ${ROWS} WHERE name = 'intake';`);
  const sql = new Statements(db);
  let ran = 0;
  const counting = new Proxy(sql, {
    get:
      (target, name: "get" | "all") =>
      (text: string, ...values: never[]) => {
        ran++;
        return target[name](text, ...values);
      },
  });
  for (const [kind, query] of queries) {
    ran = 0;
    expect([kind, query, await findAll(createSqliteSource(counting), kind, query), ran]).toEqual([
      kind,
      query,
      [],
      1,
    ]);
  }
  // A row that is not counted yet is found.
  db.exec(
    `UPDATE marks SET seq = ${ROWS - 1} WHERE name = 'intake'; UPDATE events SET outcome = 'failed' WHERE seq = ${ROWS}`,
  );
  expect(await findAll(createSqliteSource(sql), "events", { outcome: "failed" })).toMatchObject([
    { id: `evt_${ROWS}` },
  ]);
  db.close();
  rmSync(folder, { recursive: true });
});
