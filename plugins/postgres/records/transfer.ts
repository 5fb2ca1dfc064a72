import {
  checkReadable,
  FIRST_TIME,
  notEmpty,
  type ExportedRow,
  type Shapes,
  type SourceTable,
  type Sql,
  type StoreDriver,
  type TableRules,
  type TargetTable,
  toSelects,
  toTargets,
  USAGE_NUMBERS,
} from "#store-kit";
import { withDb, type Db } from "../client/db.ts";
import { digest } from "../client/digest.ts";
import { ALIVE } from "../cluster/holders.ts";
import { migrate } from "../schema/migrate.ts";
import { readStatus } from "../tools.ts";

const LIMITS = { connections: 2, statementMs: 600_000, gathers: true };
/** Rows of one look: a body may have megabytes. */
const READ_ROWS = 50;
/** One statement writes so many rows, or so many characters, whichever comes first. */
const MAX_ROWS = 1000;
const MAX_CHARS = 4_000_000;

const text = (row: ExportedRow, column: string): string => String(row[column]);
/** The differences between the tables of a store in PostgreSQL and the export. */
export const POSTGRES_RULES: TableRules = {
  migrations: { leftOut: "each store has its own" },
  counts: { leftOut: "counted again while rows are written" },
  count_deltas: { leftOut: "counted again while rows are written" },
  parked: { leftOut: "written again by triggers of the jobs" },
  holders: { leftOut: "gateways that run" },
  leases: { leftOut: "gateways that run" },
  budgets: { leftOut: "what gateways that run have reserved" },
  reserved: { leftOut: "what gateways that run have reserved" },
  windows: { leftOut: "an open batch ends at its time, and the next event begins a new one" },
  marks: { from: "marks WHERE name NOT IN ('intake', 'written', 'clock')" },
  dedupe: {
    omit: ["id"],
    write: (row) => ({ ...row, id: digest(text(row, "scope"), text(row, "key")) }),
  },
  sessions: {
    omit: ["id"],
    write: (row) => ({ ...row, id: digest(text(row, "session")) }),
  },
  turns: {
    columns: { session: "sessions.session" },
    from: "turns JOIN sessions ON sessions.id = turns.session",
    write: (row) => ({ ...row, session: digest(text(row, "session")) }),
  },
  // A job that a gateway holds starts again, before all others. Imported jobs that may start stand before all that comes later.
  jobs: {
    isLast: true,
    omit: ["name", "holder"],
    columns: {
      key: "jobs.name",
      ready: "CASE WHEN jobs.holder IS NULL THEN jobs.ready ELSE 0 END",
    },
    write(row) {
      const key = text(row, "key");
      const ready = row["ready"] as number | null;
      const place = ready !== null && ready < FIRST_TIME ? ready - FIRST_TIME : ready;
      return { ...row, key: digest(key), name: key, ready: place };
    },
  },
  // Each gateway has rows of its own.
  usage: {
    omit: ["part"],
    from: `(SELECT counter, width, at, ${USAGE_NUMBERS.map((name) => `sum(${name})::bigint AS ${name}`).join(", ")} FROM usage GROUP BY 1, 2, 3) AS usage`,
  },
};

/** The types of the columns, by table. */
async function readShapes(sql: Sql): Promise<Shapes> {
  const columns = await sql.query<{ table: string; name: string; type: string }>(
    `SELECT relname AS table, attname AS name, format_type(atttypid, NULL) AS type
      FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
      WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'
        AND attnum > 0 AND NOT attisdropped
      ORDER BY attnum`,
  );
  return new Map(
    [...Map.groupBy(columns, ({ table }) => table)].map(([table, of]) => [
      table,
      new Map(of.map(({ name, type }) => [name, type])),
    ]),
  );
}

async function* readRows(sql: Sql, table: string, select: string): AsyncGenerator<ExportedRow> {
  await sql.query(`DECLARE exported_${table} NO SCROLL CURSOR FOR ${select}`);
  for (;;) {
    const rows = await sql.query<ExportedRow>(`FETCH ${READ_ROWS} FROM exported_${table}`);
    yield* rows;
    if (rows.length < READ_ROWS) return;
  }
}

async function listTables(sql: Sql, rules: TableRules): Promise<SourceTable[]> {
  const tables: SourceTable[] = [];
  for (const { table, count, select } of toSelects(await readShapes(sql), rules)) {
    const [counted] = await sql.query<{ n: number }>(count);
    const read = () => readRows(sql, table, select);
    tables.push({ name: table, rows: counted?.n ?? 0, read });
  }
  return tables;
}

/** Rows of one table that wait for their statement. */
class Inserts {
  readonly #sql: Sql;
  readonly #shapes: Shapes;
  #table = "";
  #rows: ExportedRow[] = [];
  #chars = 0;

  constructor(sql: Sql, shapes: Shapes) {
    this.#sql = sql;
    this.#shapes = shapes;
  }

  async add(table: string, row: ExportedRow): Promise<void> {
    if (table !== this.#table) await this.flush();
    this.#table = table;
    this.#rows.push(row);
    for (const value of Object.values(row))
      this.#chars += typeof value === "string" ? value.length : 8;
    if (this.#rows.length >= MAX_ROWS || this.#chars >= MAX_CHARS) await this.flush();
  }

  async flush(): Promise<void> {
    const rows = this.#rows;
    if (rows.length === 0) return;
    this.#rows = [];
    this.#chars = 0;
    const names = Object.keys(rows[0] ?? {});
    const types = names.map((name) => this.#shapes.get(this.#table)?.get(name) ?? "text");
    const columns = names.map((name) => `"${name}"`).join(", ");
    const lists = types.map((type, n) => `$${n + 1}::${type}[]`).join(", ");
    await this.#sql.query(
      `INSERT INTO ${this.#table} (${columns}) SELECT * FROM unnest(${lists})`,
      names.map((name, n) => rows.map((row) => fit(row[name], types[n] ?? "text"))),
    );
  }
}

/** A value as PostgreSQL takes it. SQLite keeps parts of milliseconds if it is given some: waiting times have them. */
function fit(value: unknown, type: string): unknown {
  return typeof value === "number" && /^(?:bigint|integer)$/.test(type) ? Math.round(value) : value;
}

async function openTables(
  sql: Sql,
  rules: TableRules,
): Promise<{ tables: Map<string, TargetTable>; flush(): Promise<void> }> {
  const shapes = await readShapes(sql);
  const inserts = new Inserts(sql, shapes);
  const tables = toTargets(shapes, rules, (table, row) => inserts.add(table, row));
  return { tables, flush: () => inserts.flush() };
}

/** Refuses a store that gateways use, or that has something. From here on until the import ends, they cannot use it. */
async function takeEmpty(sql: Sql, names: readonly string[], shown: string): Promise<void> {
  const alive = await sql.query(`SELECT id FROM holders WHERE ${ALIVE} LIMIT 1`);
  const remedy = "import into another database or schema (?schema=name), or drop the schema";
  if (alive.length > 0) throw notEmpty(shown, "a gateway runs on it", `stop it, or ${remedy}`);
  await sql.query(`LOCK TABLE ${names.join(", ")} IN ACCESS EXCLUSIVE MODE`);
  for (const name of names)
    if (name !== "marks" && (await sql.query(`SELECT 1 AS one FROM ${name} LIMIT 1`)).length > 0)
      throw notEmpty(shown, name, remedy);
  await sql.query("DELETE FROM marks");
}

/** Numbers go on after the last that was given, also if retention has taken what had it. */
async function renumber(sql: Sql): Promise<void> {
  const numbered = await sql.query<{ table: string; name: string }>(
    `SELECT relname AS table, attname AS name FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
      WHERE relnamespace = current_schema()::regnamespace AND attidentity <> ''`,
  );
  for (const { table, name } of numbered)
    await sql.query(
      `SELECT setval(pg_get_serial_sequence($1, $2), greatest(1, (SELECT max(${name}) FROM ${table}), (SELECT max(seq) FROM marks)))`,
      [table, name],
    );
}

/** Reads a store in PostgreSQL as it is at one moment. */
export const exportTables: StoreDriver["exportTables"] = async (options, use) => {
  checkReadable(await readStatus(options));
  const work = async (sql: Sql) => {
    await sql.query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY");
    return use(await listTables(sql, { ...POSTGRES_RULES, ...options.rules }));
  };
  return withDb(options, (db) => db.transaction(work), LIMITS);
};

/** Fills a store in PostgreSQL in one transaction. */
export const importTables: StoreDriver["importTables"] = (options, use) => {
  const work = async (db: Db) => {
    await migrate(db);
    return db.transaction(async (sql) => {
      const { tables, flush } = await openTables(sql, { ...POSTGRES_RULES, ...options.rules });
      await takeEmpty(sql, [...tables.keys()], db.address.shown);
      const value = await use(tables);
      await flush();
      await sql.query(
        "INSERT INTO count_deltas (name, n) SELECT 'events.' || outcome, count(*) FROM events GROUP BY 1",
      );
      await renumber(sql);
      return value;
    });
  };
  return withDb(options, work, LIMITS);
};
