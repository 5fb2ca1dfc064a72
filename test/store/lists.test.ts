import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, it } from "vitest";
import { createSource } from "../../plugins/postgres/records/reads.ts";
import { PAGES } from "../../src/store/sql/read-table.ts";
import { search, UNLIMITED, type ListSource } from "../../src/store/sql/search.ts";
import { createSqliteSource } from "../../src/store/sqlite/records.ts";
import { prepareDatabase } from "../../src/store/sqlite/schema.ts";
import { Statements } from "../../src/store/sqlite/connection.ts";
import type { Lists } from "../../src/store/types.ts";
import { START, createTestClock, event } from "./suite/make.ts";
import { openStore } from "../../src/store/open.ts";
import { silent } from "./home.ts";
import { describePostgres, newSchema, plainly } from "./postgres.ts";

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

describePostgres("lists on PostgreSQL", () => {
  it("a filter whose count is known to be 0 looks at no row, however many there are", async () => {
    const schema = newSchema();
    const { store } = await openStore({ url: schema.url, clock: createTestClock(), log: silent });
    try {
      await plainly(async (client) => {
        await client.query(`SET search_path TO "${schema.name}"`);
        await client.query(`INSERT INTO events (id, at, path, credential, outcome, head)
          SELECT 'evt_' || i, ${START} + i, 'alerts', 'hooks.token', 'skipped', '{}' FROM generate_series(1, ${ROWS}) AS i`);
        await client.query(`INSERT INTO count_deltas VALUES ('events.skipped', ${ROWS})`);
        let ran = 0;
        const sql = {
          async query<T>(text: string, values: readonly unknown[] = []): Promise<T[]> {
            ran++;
            return (await client.query(text, [...values])).rows.map((row: { n?: string }) => ({
              ...row,
              n: Number(row.n ?? 0),
            })) as T[];
          },
        };
        for (const [kind, query] of queries) {
          ran = 0;
          const found = await findAll(createSource(sql), kind, query);
          expect([kind, query, found, ran]).toEqual([kind, query, [], 1]);
        }
      });
      await store.accept(event({ outcome: "failed" }));
      expect(await store.events.list({ outcome: "failed" })).toHaveLength(1);
    } finally {
      await store.close();
      await schema.drop();
    }
  });
});
