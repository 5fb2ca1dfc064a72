import { createHash, type Hash } from "node:crypto";
import { createReadStream, existsSync, statSync } from "node:fs";
import { chmod, mkdir, open, rename, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { RouseError } from "../core/errors.ts";
import { findFilled, listSqliteTables, openSqliteTables } from "../store/sqlite/transfer.ts";
import {
  notEmpty,
  type Row,
  type SourceTable,
  type TableRules,
  type TargetTable,
} from "../store/transfer.ts";
import { toGramBody, toMark } from "./db/grams.ts";
import { prepareKnowledge } from "./db/schema.ts";
import { chunkTokens } from "./shared/terms.ts";
import { DocumentTokenizer, type IndexForm } from "./tokenize.ts";

const PREFIX = "knowledge_";
/** As PostgreSQL keeps files: in pieces. */
const PIECE = 1024 * 1024;
const FILES = `${PREFIX}files`;
const PARTS = `${PREFIX}file_parts`;

const EMPTY = createHash("sha256").digest("hex");

/** Makes the index of passages again, as when their documents were indexed: they come document by document. */
function createIndexForms(): {
  addDocument(row: Row): void;
  toIndexForm(passage: Row): IndexForm & { tenant: string };
} {
  const documents = new Map<Row[string], { tenant: string; title: string }>();
  let last = { doc: null as Row[string], tokenizer: new DocumentTokenizer() };
  return {
    addDocument: ({ seq = null, tenant, title, found_title: found }) =>
      void documents.set(seq, {
        tenant: String(tenant),
        title: String(title ?? found ?? ""),
      }),
    toIndexForm({ doc = null, headings, text }) {
      const { tenant, title } = documents.get(doc) ?? { tenant: "", title: "" };
      const lines = [title, ...(JSON.parse(String(headings)) as string[]), String(text)];
      if (last.doc !== doc) last = { doc, tokenizer: new DocumentTokenizer() };
      return { tenant, ...last.tokenizer.toIndexForm(lines.join("\n")) };
    },
  };
}

/** The rows of a table that belong to passages which can be found. Those of a half-built index are left out: its document is read again. */
const found = (table: "passages" | "vectors", prefix = ""): string =>
  `${prefix}${table} JOIN ${prefix}chunks ON ${prefix}chunks.seq = ${prefix}${table}.seq
    JOIN ${prefix}documents ON ${prefix}documents.seq = ${prefix}chunks.doc AND ${prefix}documents.generation = ${prefix}chunks.generation`;

/** How the tables of documents in SQLite differ from what is exported. */
function createSqliteRules(): TableRules {
  const forms = createIndexForms();
  const tenants = new Map<string, number>();
  return {
    migrations: { leftOut: "each store has its own" },
    gram_tenants: { leftOut: "made again with the index" },
    chunks: { leftOut: "exported with their passages" },
    documents: {
      write(row) {
        forms.addDocument(row);
        return [["documents", row]];
      },
    },
    passages: {
      isLast: true,
      columns: {
        doc: "chunks.doc",
        generation: "chunks.generation",
        gram_count: "chunks.gram_count",
      },
      from: found("passages"),
      write(row) {
        const { doc, generation, gram_count, ...passage } = row;
        const { tenant, words, grams } = forms.toIndexForm(row);
        const isNew = !tenants.has(tenant);
        if (isNew) tenants.set(tenant, tenants.size + 1);
        const number = tenants.get(tenant) as number;
        return [
          ...(isNew ? [["gram_tenants", { number, tenant }] as const] : []),
          ["chunks", { seq: row["seq"], doc, generation, gram_count }],
          ["passages", passage],
          ["words", { rowid: row["seq"], body: words }],
          ...(gram_count === 0
            ? []
            : [["grams", { rowid: row["seq"], body: toGramBody(toMark(number), grams) }] as const]),
        ];
      },
    },
    vectors: { from: found("vectors") },
  };
}

/** How the tables of documents in PostgreSQL differ from what is exported, and what makes the rest of them. */
export function createPostgresRules(): { rules: TableRules; finish: readonly string[] } {
  const forms = createIndexForms();
  const rules: TableRules = {
    migrations: { leftOut: "each store has its own" },
    claims: { leftOut: "work that is under way" },
    embeddings: { leftOut: "made again of the vectors" },
    sizes: { leftOut: "made again with the index" },
    chunks: { leftOut: "exported with their passages" },
    documents: {
      omit: ["words", "holder", "lease"],
      write(row) {
        forms.addDocument(row);
        return [[`${PREFIX}documents`, row]];
      },
    },
    passages: {
      isLast: true,
      columns: {
        n: `${PREFIX}chunks.n`,
        doc: `${PREFIX}chunks.doc`,
        generation: `${PREFIX}chunks.generation`,
        gram_count: `${PREFIX}chunks.gram_count`,
      },
      from: found("passages", PREFIX),
      write(row) {
        const { n, doc, generation, gram_count, ...passage } = row;
        const { tenant, ...form } = forms.toIndexForm(row);
        const { tokens, length } = chunkTokens(tenant, form);
        const list = `{${tokens.join(",")}}`;
        const { seq } = row;
        return [
          [`${PREFIX}chunks`, { seq, n, doc, generation, gram_count, words: length, tokens: list }],
          [`${PREFIX}passages`, passage],
        ];
      },
    },
    vectors: { from: found("vectors", PREFIX) },
    files: { omit: ["touched"] },
    file_parts: { order: "sha256, n" },
  };
  return {
    rules: Object.fromEntries(Object.entries(rules).map(([name, rule]) => [PREFIX + name, rule])),
    finish: [
      `UPDATE knowledge_documents d SET words = (
        SELECT coalesce(sum(words), 0) FROM knowledge_chunks c WHERE c.doc = d.seq AND c.generation = d.generation)`,
      `INSERT INTO knowledge_sizes (tenant, chunks, words)
        SELECT tenant, sum(chunk_count), sum(words) FROM knowledge_documents WHERE generation > 0 GROUP BY tenant`,
    ],
  };
}

interface DocumentFiles {
  database: string;
  /** The folder of the files as they were uploaded. */
  folder: string;
}

const getFiles = (stateDir: string): DocumentFiles => ({
  database: join(stateDir, "knowledge.db"),
  folder: join(stateDir, "knowledge"),
});

/** The files of documents, as tables. A file that is missing is reported when its document is indexed again. */
function listFiles(db: DatabaseSync, folder: string): SourceTable[] {
  const names = db.prepare("SELECT DISTINCT sha256 FROM documents ORDER BY sha256").all() as {
    sha256: string;
  }[];
  const sizes = names.flatMap(({ sha256 }) => {
    const size = statSync(join(folder, sha256), { throwIfNoEntry: false })?.size;
    return size === undefined ? [] : [{ sha256, size }];
  });
  async function* readParts(): AsyncGenerator<Row> {
    for (const { sha256 } of sizes) {
      let n = 0;
      for await (const data of createReadStream(join(folder, sha256), { highWaterMark: PIECE }))
        yield { sha256, n: n++, data: (data as Buffer).toString("base64") };
    }
  }
  return [
    {
      name: FILES,
      columns: ["sha256"],
      rows: sizes.length,
      read: () => sizes.map(({ sha256 }) => ({ sha256 })),
    },
    {
      name: PARTS,
      columns: ["sha256", "n", "data"],
      rows: sizes.reduce((sum, { size }) => sum + Math.ceil(size / PIECE), 0),
      read: readParts,
    },
  ];
}

/** Gives `use` the documents of a state folder as they are at one moment, also while a gateway uses them. */
export async function exportDocuments<T>(
  stateDir: string,
  use: (tables: readonly SourceTable[]) => Promise<T>,
): Promise<T> {
  const { database, folder } = getFiles(stateDir);
  if (!existsSync(database)) return use([]);
  using db = new DatabaseSync(database, { readOnly: true, timeout: 5000 });
  db.exec("BEGIN");
  const tables = listSqliteTables(db, createSqliteRules(), PREFIX);
  return await use([...tables, ...listFiles(db, folder)]);
}

/** Writes files piece by piece. Their names are the hashes of their content. */
class FileWriter {
  readonly #folder: string;
  #open: { sha256: string; handle: FileHandle; hash: Hash } | undefined;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** An empty file has no piece. */
  async note(sha256: string): Promise<void> {
    if (sha256 === EMPTY) await this.#begin(sha256);
  }

  async #begin(sha256: string): Promise<void> {
    await this.end();
    if (!/^[0-9a-f]{64}$/.test(sha256)) throw damagedFile(sha256);
    const handle = await open(join(this.#folder, `${sha256}.part`), "w", 0o600);
    this.#open = { sha256, handle, hash: createHash("sha256") };
  }

  async add(sha256: string, data: Buffer): Promise<void> {
    if (this.#open?.sha256 !== sha256) await this.#begin(sha256);
    this.#open?.hash.update(data);
    await this.#open?.handle.write(data);
  }

  /** Puts the file that was written last into its place. @throws RouseError `usage` if it is not what its name says. */
  async end(): Promise<void> {
    if (!this.#open) return;
    const { sha256, handle, hash } = this.#open;
    this.#open = undefined;
    await handle.sync();
    await handle.close();
    if (hash.digest("hex") !== sha256) throw damagedFile(sha256);
    await rename(join(this.#folder, `${sha256}.part`), join(this.#folder, sha256));
  }
}

const damagedFile = (sha256: string): RouseError =>
  new RouseError({ code: "usage", message: `the file ${sha256} of a document is damaged` });

/** Fills the documents of a state folder, which must have none, in one transaction. */
export async function importDocuments<T>(
  stateDir: string,
  now: number,
  use: (tables: ReadonlyMap<string, TargetTable>) => Promise<T>,
): Promise<T> {
  const { database, folder } = getFiles(stateDir);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  using db = new DatabaseSync(database);
  await chmod(database, 0o600);
  prepareKnowledge(db, now);
  if (findFilled(db, ["documents"]) !== undefined)
    throw notEmpty(
      database,
      "documents",
      `move it and the folder ${folder} away. They may be of an import that was interrupted`,
    );
  const files = new FileWriter(folder);
  const tables = new Map<string, TargetTable>([
    [FILES, { columns: ["sha256"], put: (row) => files.note(String(row["sha256"])) }],
    [
      PARTS,
      {
        columns: ["sha256", "n", "data"],
        put: (row) => files.add(String(row["sha256"]), Buffer.from(String(row["data"]), "base64")),
      },
    ],
  ]);
  db.exec("BEGIN IMMEDIATE");
  const value = await use(
    new Map([...openSqliteTables(db, createSqliteRules(), PREFIX), ...tables]),
  );
  await files.end();
  db.exec("COMMIT");
  return value;
}
