import { hash } from "node:crypto";
import type { DedupeEntry, DedupeRecord, Ms } from "../types.ts";
import { toDedupeRecord, type DedupeRest, type DedupeRow } from "../sql/rows.ts";
import type { Statements } from "./statements.ts";

/** Hex digits of a digest that a JavaScript number holds exactly. */
const DIGITS = 13;

/**
 * Duplicate keys. Rows are appended, and found by a number made of scope and key (52 bits of SHA-256): keys are random,
 * and an index on them as they are would touch another page for every hook. Two keys may share a number: each row says
 * whose it is.
 */
export function keyNumber(scope: string, key: string): number {
  return Number.parseInt(hash("sha256", `${scope}\n${key}`, "hex").slice(0, DIGITS), 16);
}

type Row = DedupeRow & { seq: number };

function findRow(sql: Statements, scope: string, key: string): Row | undefined {
  const rows = sql.all<Row>(
    "SELECT seq, scope, key, expires, record FROM dedupe WHERE number = ?",
    keyNumber(scope, key),
  );
  return rows.find((row) => row.scope === scope && row.key === key);
}

/** The record that holds a key, where it is not expired. */
export function findDedupeKey(
  sql: Statements,
  scope: string,
  key: string,
  now: Ms,
): DedupeRecord | undefined {
  const row = findRow(sql, scope, key);
  return row && row.expires > now ? toDedupeRecord(row) : undefined;
}

/** Binds a duplicate key to an event; a key that is expired goes to the new event. False if another event holds it: nothing is written. */
export function bindKey(sql: Statements, eventId: string, entry: DedupeEntry, now: Ms): boolean {
  const { scope, key, expiresAt, ...rest } = entry;
  const known = findRow(sql, scope, key);
  if (known && known.expires > now) return false;
  if (known) sql.run("DELETE FROM dedupe WHERE seq = ?", known.seq);
  const record: DedupeRest = { ...rest, eventId };
  sql.run(
    "INSERT INTO dedupe (number, scope, key, expires, record) VALUES (?, ?, ?, ?, ?)",
    keyNumber(scope, key),
    scope,
    key,
    expiresAt,
    JSON.stringify(record),
  );
  return true;
}
