import type { SQLInputValue } from "node:sqlite";
import { limitOf } from "../list-limit.ts";
import type { ListQuery } from "../types.ts";
import type { Statements } from "./statements.ts";

/** Rows that are looked at between two turns of the event loop: a filter that finds nothing must not hold up hooks. */
const WINDOW = 2000;
/** Rows are in order of time but for what waited before it was written: a body that came slowly, a run that took long. */
const DISORDER_MS = 3_600_000;

/** Conditions of a list, joined by AND. */
export class Where {
  readonly #parts: string[] = [];
  readonly values: SQLInputValue[] = [];

  and(sql: string, value: SQLInputValue | undefined): this {
    if (value === undefined) return this;
    this.#parts.push(sql);
    this.values.push(value);
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

export interface Listing {
  table: "events" | "runs" | "deliveries" | "system_events";
  /** The column of the row's time. */
  at: "at" | "created";
  where: Where;
  query: ListQuery;
}

/** The number that rows must lie below: that of `before`, or one above the newest. Undefined where `before` is not there. */
function startOf(sql: Statements, { table, query }: Listing): number | undefined {
  if (query.before !== undefined) return sql.get<{ seq: number }>(`SELECT seq FROM ${table} WHERE id = ?`, query.before)?.seq;
  return (sql.get<{ seq: number | null }>(`SELECT max(seq) AS seq FROM ${table}`)?.seq ?? 0) + 1;
}

/** Rows newest first, looked for window by window. */
export async function listNewest<Row>(sql: Statements, listing: Listing): Promise<Row[]> {
  const { table, at, where, query } = listing;
  const limit = limitOf(query);
  const since = query.since ?? 0;
  where.and("instr(id, ?) = 1", query.idPrefix);
  const found: Row[] = [];
  const oldest = sql.get<{ seq: number | null }>(`SELECT min(seq) AS seq FROM ${table}`)?.seq ?? 0;
  let below = startOf(sql, listing) ?? 0;
  while (below > oldest && below > 0) {
    const from = below - WINDOW;
    const text = `SELECT * FROM ${table} WHERE seq < ? AND seq >= ? AND ${at} >= ?${where.sql} ORDER BY seq DESC LIMIT ?`;
    found.push(...sql.all<Row>(text, below, from, since, ...where.values, limit - found.length));
    if (found.length >= limit) break;
    const next = sql.get<{ at: number }>(`SELECT ${at} AS at FROM ${table} WHERE seq < ? ORDER BY seq DESC LIMIT 1`, from);
    if (!next || next.at < since - DISORDER_MS) break;
    below = from;
    await new Promise((resolve) => setImmediate(resolve));
  }
  return found;
}
