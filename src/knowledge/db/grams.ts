import type { Statements } from "../../store/sqlite/statements.ts";

/**
 * The index of n-grams. FTS5 keeps only which chunks have an n-gram, without places and frequencies: a text has several times as
 * many n-grams as words. Each is kept with a mark of its tenant, so that a look brings only chunks of that tenant; the mark
 * alone stands for all of them. A mark is short, because each n-gram has it. No n-gram has its last character.
 */
export const toMark = (number: number): string => `${number.toString(36)}·`;

const GET_NUMBER = "SELECT number FROM gram_tenants WHERE tenant = ?";

/** Gives a tenant its mark. */
export function addMark(sql: Statements, tenant: string): string {
  sql.run("INSERT OR IGNORE INTO gram_tenants (tenant) VALUES (?)", tenant);
  return toMark(sql.get<{ number: number }>(GET_NUMBER, tenant)?.number ?? 0);
}

/** The mark of a tenant; undefined if none of its documents was indexed. */
export function getMark(sql: Statements, tenant: string): string | undefined {
  const row = sql.get<{ number: number }>(GET_NUMBER, tenant);
  return row && toMark(row.number);
}

/** What `grams` holds of a chunk. `grams` are separated by spaces. `replaceAll` makes a string of many parts, which takes long to read. */
export const toGramBody = (mark: string, grams: string): string =>
  `${mark} ${mark}${grams.split(" ").join(` ${mark}`)}`;
