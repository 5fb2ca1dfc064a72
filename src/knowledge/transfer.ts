import { existsSync } from "node:fs";
import { chmod, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { prepareDatabase } from "../store/sqlite/schema.ts";
import { findFilled, listSqliteTables, openSqliteTables } from "../store/sqlite/transfer.ts";
import {
  notEmpty,
  type SourceTable,
  type TableRules,
  type TargetTable,
} from "../store/sql/transfer.ts";
import { FILE_MIGRATIONS, MIGRATIONS_TABLE } from "./catalog/schema.ts";

/** The differences between the tables of documents, which are the same in both databases, and the export. */
export const DOCUMENT_RULES: TableRules = {
  migrations: { leftOut: "each store has its own" },
  [MIGRATIONS_TABLE]: { leftOut: "each store has its own" },
  knowledge_catalog: { leftOut: "each database has its own" },
  knowledge_claims: { leftOut: "work that is under way" },
  // Documents that are being indexed are queued again.
  knowledge_documents: {
    omit: ["holder", "lease"],
    columns: {
      status: "CASE WHEN status IN ('extracting', 'indexing') THEN 'queued' ELSE status END",
    },
  },
  knowledge_file_parts: { order: "sha256, n" },
};

const databaseIn = (stateDir: string): string => join(stateDir, "knowledge.db");

/** Gives `use` the documents of a state folder as they are at one moment, also while a gateway uses them. */
export async function exportDocuments<T>(
  stateDir: string,
  use: (tables: readonly SourceTable[]) => Promise<T>,
): Promise<T> {
  const database = databaseIn(stateDir);
  if (!existsSync(database)) return use([]);
  using db = new DatabaseSync(database, { readOnly: true, timeout: 5000 });
  db.exec("BEGIN");
  return await use(listSqliteTables(db, DOCUMENT_RULES));
}

/** Fills the documents of a state folder, which must have none, in one transaction. */
export async function importDocuments<T>(
  stateDir: string,
  now: number,
  use: (tables: ReadonlyMap<string, TargetTable>) => Promise<T>,
): Promise<T> {
  const database = databaseIn(stateDir);
  await mkdir(stateDir, { recursive: true, mode: 0o700 });
  using db = new DatabaseSync(database);
  await chmod(database, 0o600);
  prepareDatabase(db, now, FILE_MIGRATIONS);
  const tables = openSqliteTables(db, DOCUMENT_RULES);
  const filled = findFilled(db, tables.keys());
  if (filled !== undefined)
    throw notEmpty(database, filled, "move it away. It may be of an import that was interrupted");
  db.exec("BEGIN IMMEDIATE");
  const value = await use(tables);
  db.exec("COMMIT");
  return value;
}
