import type { Sql } from "../../store/sql/sql.ts";
import { places } from "./catalog.ts";
import type { Files } from "./files.ts";
import type { DocumentRow } from "./rows.ts";

/** Values of one statement. */
const MAX_VALUES = 500;

function* inParts<T>(all: readonly T[]): Generator<readonly T[]> {
  for (let from = 0; from < all.length; from += MAX_VALUES)
    yield all.slice(from, from + MAX_VALUES);
}

/** Tells the indexes of all gateways to look at documents again. */
export async function noteChanges(sql: Sql, docs: readonly number[]): Promise<void> {
  for (const doc of docs)
    await sql.query(
      `INSERT INTO knowledge_changes (doc, n) VALUES ($1, (SELECT coalesce(max(n), 0) + 1 FROM knowledge_changes))
        ON CONFLICT (doc) DO UPDATE SET n = excluded.n`,
      [doc],
    );
}

/** Deletes what hangs on passages, and the passages. */
async function dropPassages(
  sql: Sql,
  condition: string,
  values: readonly unknown[],
): Promise<void> {
  const gone = await sql.query<{ seq: number }>(
    `DELETE FROM knowledge_passages WHERE ${condition} RETURNING seq`,
    values,
  );
  for (const part of inParts(gone.map(({ seq }) => seq)))
    for (const table of ["knowledge_vectors", "knowledge_claims"])
      await sql.query(`DELETE FROM ${table} WHERE seq IN ${places(part.length)}`, part);
}

/** Deletes those passages of a document that are of another generation than `keep`. */
export const dropGenerations = (sql: Sql, doc: number, keep: number): Promise<void> =>
  dropPassages(sql, "doc = $1 AND generation <> $2", [doc, keep]);

/** Deletes documents with their passages, vectors, and the files that no other document has. */
export async function dropDocuments(
  sql: Sql,
  files: Files,
  rows: readonly DocumentRow[],
): Promise<void> {
  for (const { seq, sha256 } of rows) {
    await sql.query("DELETE FROM knowledge_documents WHERE seq = $1", [seq]);
    await dropPassages(sql, "doc = $1", [seq]);
    await files.dropUnused(sql, [sha256]);
  }
  await noteChanges(
    sql,
    rows.map(({ seq }) => seq),
  );
}

/** Inserts rows, as many as one statement takes at a time. */
export async function insertRows(
  sql: Sql,
  into: string,
  rows: readonly (readonly unknown[])[],
): Promise<void> {
  if (rows.length === 0) return;
  const values = rows.map((row, at) => places(row.length, at * row.length + 1));
  await sql.query(`INSERT INTO ${into} VALUES ${values.join(", ")}`, rows.flat());
}
