import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import {
  sameTable,
  type CopiedCount,
  type CopiedTable,
  type OnProgress,
} from "../store/copied-table.ts";
import { prepareDatabase } from "../store/sqlite/schema.ts";
import type { CopyTarget } from "../store/types.ts";
import { nameBeside } from "./backup.ts";
import { FILE_MIGRATIONS, MIGRATIONS_TABLE, SHARED_MIGRATIONS } from "./catalog/schema.ts";

const DOCUMENTS = sameTable(
  "knowledge_documents",
  "n:seq t:id t:tenant t:sha256 n:bytes t:filename t:title t:found_title t:metadata t:agents t:mime_type t:status t:error t:external_id " +
    "n:version t:replaces n:generation n:building n:chunk_count n:page_count n:created n:indexed n:form t:languages",
  { order: "seq", numbered: "seq" },
);
/** Documents that were being indexed in the source are queued again. */
const STATUS =
  "CASE WHEN status IN ('extracting', 'indexing') THEN 'queued' ELSE status END AS status";

const TABLES: readonly CopiedTable[] = [
  sameTable("knowledge_catalog", "t:id", { order: "id" }),
  { ...DOCUMENTS, select: DOCUMENTS.select.replace(/\bstatus\b/, STATUS) },
  sameTable("knowledge_changes", "n:doc n:n", { order: "doc" }),
  sameTable("knowledge_files", "t:sha256 n:touched", { order: "sha256" }),
  sameTable("knowledge_file_parts", "t:sha256 n:n b:data", { order: "sha256, n" }),
  sameTable(
    "knowledge_passages",
    "n:seq n:doc n:generation n:n n:page n:start_at n:end_at n:gram_count t:headings t:text t:words t:grams",
    { order: "seq", numbered: "seq" },
  ),
  sameTable("knowledge_vectors", "n:id n:seq t:model n:dimension b:vector", {
    order: "id",
    numbered: "id",
  }),
];

/** The documents that belong to the store in `file`: those of the same backup, of the same folder, or else of the state folder. */
export function findDocuments(file: string, stateDir: string): string {
  const places = [nameBeside(file), join(dirname(file), "knowledge.db")];
  return places.find((database) => existsSync(database)) ?? join(stateDir, "knowledge.db");
}

/** Copies documents into the database of a store, with their files, passages and vectors; nothing if there are none. */
export async function copyKnowledge(options: {
  database: string;
  target: CopyTarget;
  now: number;
  onProgress: OnProgress;
}): Promise<CopiedCount[]> {
  const { database, target, now, onProgress } = options;
  if (!existsSync(database)) return [];
  await target.sql.migrate(SHARED_MIGRATIONS, MIGRATIONS_TABLE);
  const from = new DatabaseSync(database);
  prepareDatabase(from, now, FILE_MIGRATIONS);
  from.close();
  return target.copyTables(database, TABLES, [], onProgress);
}
