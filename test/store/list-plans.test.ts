/** The plans of all lists with all combinations of their filters: no statement reads more rows than its window has. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { expect, it } from "vitest";
import { createSource } from "../../plugins/postgres/records/reads.ts";
import { PAGES, type Page } from "../../src/store/sql/read-table.ts";
import { search, type ListSource } from "../../src/store/sql/search.ts";
import { createSqliteSource } from "../../src/store/sqlite/records.ts";
import { prepareDatabase } from "../../src/store/sqlite/schema.ts";
import { Statements } from "../../src/store/sqlite/connection.ts";
import type { ListQuery, Lists, SearchedKind } from "../../src/store/types.ts";
import { createTestClock, START } from "./suite/make.ts";
import { openStore } from "../../src/store/open.ts";
import { silent } from "./home.ts";
import { describePostgres, newSchema, plainly } from "./postgres.ts";

const ROWS = 6000;
const WINDOW = 100;
/** Rows of a window that names the rows by another table, and these rows. */
const NAMED_ROWS = 1000;
const LIMIT = 10;

type Values<Q> = { [Name in Exclude<keyof Q, "limit">]-?: Q[Name][] };
/** Values of every filter that a list has. A new filter needs an entry here. */
const FILTERS: { [K in SearchedKind]: Values<Lists[K]["of"]> } = {
  events: {
    outcome: ["accepted", "failed"],
    path: ["a"],
    mapping: ["none"],
    failedRuns: [true],
    partlyFailed: [true],
    since: [START],
    idPrefix: ["evt_0"],
    before: ["evt_5500"],
  },
  runs: {
    status: ["succeeded", "failed"],
    sessionKey: ["s"],
    eventId: ["evt_1003"],
    kinds: [["schedule"]],
    endedSince: [START + 1000],
    endedUntil: [START + 5000],
    since: [START],
    idPrefix: ["run_0"],
    before: ["run_5500"],
  },
  deliveries: {
    status: ["delivered", "failed", "unknown"],
    channel: ["none"],
    since: [START],
    idPrefix: ["dlv_0"],
    before: ["dlv_5500"],
  },
  systemEvents: {
    agentId: ["main"],
    state: ["parked"],
    since: [START],
    idPrefix: ["sev_0"],
    before: ["sev_5500"],
  },
  approvals: {
    state: ["open", "decided"],
    runId: ["run_1"],
    agents: [["none"], []],
    since: [START],
    idPrefix: ["apr_0"],
    before: ["apr_5500"],
  },
  sessions: {
    origin: ["hook", "api"],
    agentId: ["none"],
    since: [START],
    before: ["main/hook/5500"],
  },
};

/** All combinations of the filters, each of them left out once. */
function combine(filters: Record<string, readonly unknown[]>): ListQuery[] {
  let all: Record<string, unknown>[] = [{}];
  for (const [name, values] of Object.entries(filters))
    all = all.flatMap((query) => [query, ...values.map((value) => ({ ...query, [name]: value }))]);
  return all.map((query) => ({ ...query, limit: LIMIT }));
}
const QUERIES = (Object.keys(FILTERS) as SearchedKind[]).flatMap((kind) =>
  combine(FILTERS[kind]).map((query) => [kind, query] as const),
);

const pick = (of: string, ...values: string[]): string =>
  `CASE ${of} % ${values.length} ${values.map((value, n) => `WHEN ${n} THEN '${value}'`).join(" ")} END`;

/** Statements that fill the tables; `numbers` is a table `n(i)`, `sessionId` a column and its value, or empty. */
function fill(numbers: string, sessionId: readonly [string, string] | readonly []): string[] {
  const at = `${START} + i`;
  const inserts: [string, string, string][] = [
    [
      "events",
      "id, at, path, credential, outcome, mapping, head",
      `'evt_' || i, ${at}, ${pick("i", "a", "b")}, 'token', ${pick("(i / 2)", "accepted", "failed")}, 'm', '{}'`,
    ],
    [
      "runs",
      "id, event_id, session_key, status, created, ended, spec, record",
      `'run_' || i, 'evt_' || i, ${pick("i", "s", "t")}, ${pick("(i / 2)", "succeeded", "failed")}, ${at}, ${at}, '{}', '{}'`,
    ],
    [
      "deliveries",
      "id, status, channel, created, record",
      `'dlv_' || i, ${pick("i", "delivered", "failed", "unknown")}, 'c', ${at}, '{}'`,
    ],
    [
      "approvals",
      "id, run_id, code, at, state, record",
      `'apr_' || i, 'run_' || i % 2, i, ${at}, ${pick("(i / 2)", "open", "decided")}, '{}'`,
    ],
    [
      "sessions",
      ["session, agent, origin, key, turns, created, used", ...sessionId.slice(0, 1)].join(", "),
      [
        `'main/hook/' || i, 'main', ${pick("i", "hook", "api")}, i, 1, ${at}, ${at}`,
        ...sessionId.slice(1),
      ].join(", "),
    ],
  ];
  return inserts.map(
    ([table, columns, values]) =>
      `INSERT INTO ${table} (${columns}) SELECT ${values} FROM ${numbers}`,
  );
}

/** Reads three windows of each list, and gives every statement to `check`. */
async function searchAll(
  source: ListSource,
  check: (text: string, values: readonly unknown[]) => Promise<string | undefined>,
): Promise<string[]> {
  const bad: string[] = [];
  for (const [kind, query] of QUERIES) {
    const checked: ListSource = {
      ...source,
      window: WINDOW,
      isNone: async () => false,
      async query<T>(text: string, values: Parameters<ListSource["query"]>[1]) {
        const problem = await check(text, values);
        if (problem !== undefined)
          bad.push(`${kind} ${JSON.stringify(query)}: ${text}: ${problem}`);
        // The rows themselves are of no interest: only where the windows begin and end.
        return text.endsWith("LIMIT ?") ? [] : source.query<T>(text, values);
      },
    };
    await search(checked, PAGES[kind] as Page<ListQuery, unknown>, query, {
      ms: Infinity,
      windows: 3,
    });
  }
  return bad;
}

const BOUND = /(?<![+\w.])(?:seq|id|event_id|\(used, session\)|\(ended, seq\)) (?:<=|>=|<)/g;

it("SQLite: every list reads windows of an index, whatever filters it has", async () => {
  const folder = mkdtempSync(join(tmpdir(), "rouse-list-plans-"));
  const db = new DatabaseSync(join(folder, "rouse.db"));
  prepareDatabase(db, START);
  const numbers = `(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${ROWS}) SELECT i FROM n)`;
  for (const statement of fill(numbers, [])) db.exec(statement);
  db.exec(`INSERT INTO system_events (id, agent, at, state, record)
    SELECT 'sev_' || i, 'main', ${START} + i, ${pick("i", "parked", "queued")}, '{}' FROM ${numbers}`);
  const check = async (text: string, values: readonly unknown[]): Promise<string | undefined> => {
    const plan = (
      db.prepare(`EXPLAIN QUERY PLAN ${text}`).all(...(values as SQLInputValue[])) as {
        detail: string;
      }[]
    ).map(({ detail }) => detail);
    const [bounds, used] = [text.match(BOUND) ?? [], plan.join("\n").match(/[<>]/g) ?? []];
    if (used.length < bounds.length)
      return `a bound of the window is no bound of an index: ${plan.join("; ")}`;
    // Without a bound, and sorted, all rows would be read before the first is answered.
    if (bounds.length === 0 && plan.some((step) => step.includes("TEMP B-TREE")))
      return `sorts all rows: ${plan.join("; ")}`;
    return undefined;
  };
  expect(await searchAll(createSqliteSource(new Statements(db)), check)).toEqual([]);
  db.close();
  rmSync(folder, { recursive: true });
});

interface PlanNode {
  "Node Type": string;
  "Actual Rows": number;
  "Actual Loops": number;
  "Rows Removed by Filter"?: number;
  "Rows Removed by Index Recheck"?: number;
  Plans?: PlanNode[];
}

/** Rows that the scans of a plan have read. */
function countRead(node: PlanNode): number {
  const removed =
    (node["Rows Removed by Filter"] ?? 0) + (node["Rows Removed by Index Recheck"] ?? 0);
  const own = node["Node Type"].includes("Scan")
    ? (node["Actual Rows"] + removed) * node["Actual Loops"]
    : 0;
  return (node.Plans ?? []).reduce((sum, plan) => sum + countRead(plan), own);
}

describePostgres("plans of lists on PostgreSQL", () => {
  it(
    "every list reads as many rows as a window has, whatever filters it has",
    { timeout: 180_000 },
    async () => {
      const schema = newSchema();
      const { store } = await openStore({ url: schema.url, clock: createTestClock(), log: silent });
      try {
        await plainly(async (client) => {
          await client.query(`SET search_path TO "${schema.name}"`);
          const numbers = `generate_series(1, ${ROWS}) AS n(i)`;
          for (const statement of fill(numbers, ["id", "decode(md5(i::text), 'hex')"]))
            await client.query(statement);
          await client.query(`INSERT INTO system_events (id, agent, at, state, record)
          SELECT 'sev_' || i, 'main', ${START} + i, ${pick("i", "parked", "queued")}, '{}' FROM ${numbers}`);
          // So small a table is read whole otherwise, whatever indexes it has.
          await client.query("ANALYZE; SET enable_seqscan TO off; SET enable_bitmapscan TO off");
          const sql = {
            query: async <T>(text: string, values: readonly unknown[] = []) =>
              (await client.query(text, [...values])).rows as T[],
          };
          const check = async (
            text: string,
            values: readonly unknown[],
          ): Promise<string | undefined> => {
            let place = 0;
            const numbered = text.replaceAll("?", () => `$${++place}`);
            const { rows } = await client.query(`EXPLAIN (ANALYZE, FORMAT JSON) ${numbered}`, [
              ...values,
            ]);
            const read = countRead(
              (rows[0] as { "QUERY PLAN": { Plan: PlanNode }[] })["QUERY PLAN"][0]
                ?.Plan as PlanNode,
            );
            const most = text.includes("event_id IS NOT NULL") ? NAMED_ROWS : 4 * WINDOW;
            return read > most ? `reads ${read} rows` : undefined;
          };
          expect(await searchAll(createSource(sql), check)).toEqual([]);
        });
      } finally {
        await store.close();
        await schema.drop();
      }
    },
  );
});
