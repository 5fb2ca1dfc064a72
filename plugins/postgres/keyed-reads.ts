import { createBatch, type Sql } from "#store-kit";

/**
 * Reads by key: what is asked for by the same statement during one turn of the event loop goes to PostgreSQL as one.
 * @param text a statement with the parts of a key as `$1`, `$2` and so on; PostgreSQL has no types for them, so they are cast
 * where an operator does not say them
 * @param types the types of these parts
 * @returns the rows of a key
 */
export function createKeyedRead<Row, Key extends readonly unknown[]>(
  sql: Sql,
  text: string,
  types: { readonly [N in keyof Key]: string },
): (...key: Key) => Promise<Row[]> {
  const lists = types.map((type, n) => `$${n + 1}::${type}[]`).join(", ");
  const names = types.map((_, n) => `k${n + 1}`).join(", ");
  const all = `SELECT given.nth, found.* FROM unnest(${lists}) WITH ORDINALITY AS given (${names}, nth)
    CROSS JOIN LATERAL (${text.replaceAll(/\$(\d+)/g, "given.k$1")}) AS found`;
  const ask = createBatch(async (keys: readonly Key[]) => {
    const values = types.map((_, n) => keys.map((key) => key[n]));
    const found = keys.map((): Row[] => []);
    for (const { nth, ...row } of await sql.query<{ nth: number }>(all, values))
      found[nth - 1]?.push(row as Row);
    return found;
  });
  return (...key) => ask(key);
}
