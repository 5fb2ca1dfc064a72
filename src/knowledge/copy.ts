import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { RouseError } from "../core/errors.ts";
import {
  sameTable,
  toColumns,
  type CopiedCount,
  type CopiedTable,
  type OnProgress,
} from "../store/copied-table.ts";
import type { SqlDatabase } from "../store/sql.ts";
import type { CopyTarget } from "../store/types.ts";
import { namesBeside } from "./backup.ts";
import { prepareKnowledge } from "./db/schema.ts";
import { Files } from "./shared/files.ts";
import { SHARED_MIGRATIONS, MIGRATIONS_TABLE } from "./shared/schema.ts";
import { chunkTokens } from "./shared/terms.ts";
import { DocumentTokenizer } from "./tokenize.ts";

const seq = { order: "seq", numbered: "seq" };
/** Documents that were being indexed in the source are queued again. */
const STATUS =
  "CASE WHEN status IN ('extracting', 'indexing') THEN 'queued' ELSE status END AS status";
const DOCUMENTS = sameTable(
  "knowledge_documents",
  "n:seq t:id t:tenant t:sha256 n:bytes t:filename t:title t:found_title t:metadata t:agents t:mime_type t:status t:error t:external_id " +
    "n:version t:replaces n:generation n:building n:chunk_count n:page_count n:created n:indexed n:form",
  { ...seq, from: "documents" },
);

/** The document whose chunks were tokenized last. */
let last: { document: unknown; tokenizer: DocumentTokenizer } | undefined;

/** Tokenizes a chunk again, in the same way as when it was indexed: an index of SQLite does not keep the tokens. */
function getTokens(row: Record<string, unknown>): { tokens: string; length: number } {
  const headings = JSON.parse(String(row["headings"])) as string[];
  const text = `${(row["title"] as string | null) ?? ""}\n${headings.join("\n")}\n${String(row["text"])}`;
  const document = `${String(row["doc"])} ${String(row["generation"])}`;
  if (last?.document !== document) last = { document, tokenizer: new DocumentTokenizer() };
  const { tokens, length } = chunkTokens(String(row["tenant"]), last.tokenizer.toIndexForm(text));
  return { tokens: `{${tokens.join(",")}}`, length };
}

const FROM_CHUNKS =
  "FROM chunks c JOIN passages p ON p.seq = c.seq JOIN documents d ON d.seq = c.doc";

const TABLES: readonly CopiedTable[] = [
  { ...DOCUMENTS, select: DOCUMENTS.select.replace(/\bstatus\b/, STATUS) },
  {
    name: "knowledge_chunks",
    columns: [
      ...toColumns("n:seq n:doc n:generation n:n n:gram_count n:words"),
      { name: "tokens", type: "text", write: "tokens::bigint[]", read: "tokens::text" },
    ],
    select: `SELECT c.seq, c.doc, c.generation, c.gram_count, p.n, p.text, p.headings, d.tenant, coalesce(d.title, d.found_title) AS title ${FROM_CHUNKS} ORDER BY c.seq`,
    count: `SELECT count(*) AS n ${FROM_CHUNKS}`,
    values(row) {
      const { tokens, length } = getTokens(row);
      return [
        row["seq"],
        row["doc"],
        row["generation"],
        row["n"],
        row["gram_count"],
        length,
        tokens,
      ];
    },
    numbered: "seq",
  },
  sameTable("knowledge_languages", "t:tenant t:language", {
    order: "tenant, language",
    from: "languages",
  }),
  sameTable("knowledge_passages", "n:seq t:text t:headings n:page n:start_at n:end_at", {
    order: "seq",
    from: "passages",
  }),
  sameTable("knowledge_vectors", "n:id n:seq t:model n:dimension b:vector", {
    order: "id",
    from: "vectors",
    numbered: "id",
  }),
];

/** What can be found of a document, and of a tenant, is a part of the ranking. */
const FINISH: readonly string[] = [
  `UPDATE knowledge_documents d SET words = (
    SELECT coalesce(sum(words), 0) FROM knowledge_chunks c WHERE c.doc = d.seq AND c.generation = d.generation)`,
  "DELETE FROM knowledge_sizes",
  `INSERT INTO knowledge_sizes (tenant, chunks, words)
    SELECT tenant, sum(chunk_count), sum(words) FROM knowledge_documents WHERE generation > 0 GROUP BY tenant`,
];

/** Reads a file back and says whether it is what its name says. */
async function isWhole(db: SqlDatabase, sha256: string): Promise<boolean> {
  const hash = createHash("sha256");
  for (let n = 0; ; n++) {
    const [part] = await db.query<{ data: Buffer }>(
      "SELECT data FROM knowledge_file_parts WHERE sha256 = $1 AND n = $2",
      [sha256, n],
    );
    if (!part) return hash.digest("hex") === sha256;
    hash.update(part.data);
  }
}

async function copyFiles(
  from: DatabaseSync,
  db: SqlDatabase,
  folder: string,
  onProgress: OnProgress,
): Promise<CopiedCount> {
  const files = new Files(db);
  const names = from.prepare("SELECT DISTINCT sha256 FROM documents ORDER BY sha256").all() as {
    sha256: string;
  }[];
  // A file that is missing in the source's folder too is reported when the document is indexed again, as in the source.
  const there = names.filter(({ sha256 }) => existsSync(join(folder, sha256)));
  const all = createHash("sha256");
  for (const [index, { sha256 }] of there.entries()) {
    await files.put(sha256, join(folder, sha256));
    if (!(await isWhole(db, sha256)))
      throw new RouseError({
        code: "internal",
        message: `the file ${sha256} of a document is damaged in ${folder}, or in its copy`,
      });
    all.update(sha256);
    onProgress("knowledge_files", index + 1, there.length);
  }
  return { table: "knowledge_files", rows: there.length, hash: all.digest("hex") };
}

/** Documents in files: their database, and the folder of the files as they were uploaded. */
export interface DocumentFiles {
  database: string;
  files: string;
}

/** The documents that belong to the store in `file`: those of the same backup, of the same folder, or else of the state folder. */
export function findDocumentFiles(file: string, stateDir: string): DocumentFiles {
  const inFolder = (dir: string): DocumentFiles => ({
    database: join(dir, "knowledge.db"),
    files: join(dir, "knowledge"),
  });
  const places = [namesBeside(file), inFolder(dirname(file))];
  return places.find(({ database }) => existsSync(database)) ?? inFolder(stateDir);
}

/** Copies documents into the database of a store, with their files, passages and vectors; nothing if there are none. */
export async function copyKnowledge(
  options: DocumentFiles & { target: CopyTarget; now: number; onProgress: OnProgress },
): Promise<CopiedCount[]> {
  const { database, files, target, now, onProgress } = options;
  if (!existsSync(database)) return [];
  await target.sql.migrate(SHARED_MIGRATIONS, MIGRATIONS_TABLE);
  const from = new DatabaseSync(database);
  try {
    prepareKnowledge(from, now);
    const copied = await target.copyTables(database, TABLES, FINISH, onProgress);
    return [...copied, await copyFiles(from, target.sql, files, onProgress)];
  } finally {
    from.close();
  }
}
