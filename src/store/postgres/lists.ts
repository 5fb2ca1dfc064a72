import { limitOf } from "../list-limit.ts";
import type { ListQuery } from "../types.ts";
import type { Sql } from "./db.ts";

/** Rows that one statement looks at: a filter that finds nothing must not run into the time that a statement has. */
const WINDOW = 20_000;
/** Rows are in order of time but for what waited before it was written, and for what gateways wrote at the same moment. */
const DISORDER_MS = 3_600_000;

/** Conditions of a list, joined by AND. */
export class Where {
  readonly #parts: string[] = [];
  readonly values: unknown[] = [];

  /** `column = value`, where there is a value. */
  is(column: string, value: string | undefined): this {
    if (value === undefined) return this;
    this.values.push(value);
    this.#parts.push(`${column} = $${this.values.length + FIXED}`);
    return this;
  }

  /** `column` begins with a value, where there is one. */
  startsWith(column: string, value: string | undefined): this {
    if (value === undefined) return this;
    this.values.push(value);
    this.#parts.push(`starts_with(${column}, $${this.values.length + FIXED})`);
    return this;
  }

  always(sql: string, on: boolean | undefined): this {
    if (on) this.#parts.push(sql);
    return this;
  }

  get sql(): string {
    return this.#parts.map((part) => ` AND ${part}`).join("");
  }
}

/** Values that come before those of the conditions: below, from, since, limit. */
const FIXED = 4;

export interface Listing {
  table: "events" | "runs" | "deliveries" | "system_events";
  columns: string;
  /** The column of the row's time. */
  at: "at" | "created";
  where: Where;
  query: ListQuery;
}

async function one<T>(sql: Sql, text: string, values: readonly unknown[] = []): Promise<T | undefined> {
  return (await sql.query<T>(text, values))[0];
}

/** The number that rows must lie below: that of `before`, or one above the newest. 0 where `before` is not there. */
async function startOf(sql: Sql, { table, query }: Listing): Promise<number> {
  if (query.before !== undefined)
    return (await one<{ seq: number }>(sql, `SELECT seq FROM ${table} WHERE id = $1`, [query.before]))?.seq ?? 0;
  return ((await one<{ seq: number }>(sql, `SELECT seq FROM ${table} ORDER BY seq DESC LIMIT 1`))?.seq ?? 0) + 1;
}

/** Rows newest first, looked for window by window. */
export async function listNewest<Row>(sql: Sql, listing: Listing): Promise<Row[]> {
  const { table, columns, at, where, query } = listing;
  const limit = limitOf(query);
  const since = query.since ?? 0;
  where.startsWith("id", query.idPrefix);
  const found: Row[] = [];
  let below = await startOf(sql, listing);
  while (below > 0) {
    const from = below - WINDOW;
    const text = `SELECT ${columns} FROM ${table} WHERE seq < $1 AND seq >= $2 AND ${at} >= $3${where.sql} ORDER BY seq DESC LIMIT $4`;
    found.push(...(await sql.query<Row>(text, [below, from, since, limit - found.length, ...where.values])));
    if (found.length >= limit) break;
    const next = await one<{ seq: number; at: number }>(
      sql,
      `SELECT seq, ${at} AS at FROM ${table} WHERE seq < $1 ORDER BY seq DESC LIMIT 1`,
      [from],
    );
    if (!next || next.at < since - DISORDER_MS) break;
    // Numbers that were given to what was not kept, or that are gone, are no windows of their own.
    below = next.seq + 1;
  }
  return found;
}
