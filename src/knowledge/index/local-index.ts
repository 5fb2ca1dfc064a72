import { closeSync, openSync, rmSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { setImmediate } from "node:timers/promises";
import { Statements } from "../../store/sqlite/connection.ts";
import type { DocumentCatalog } from "../catalog/catalog.ts";

/** The version of these tables: a file of another one is built again. */
const VERSION = 3;
/** Passages, and documents, that are taken in at a time: calls have their turn in between. */
const PAGE = 200;

/**
 * The index of words. A passage is visible if its generation is the document's. `words` keeps no text of its own, only
 * the index. Texts are divided and reduced to stems before, so that both tokenizers only divide at spaces.
 */
const TABLES = `
  -- Which catalog this is the index of, and the last change and passage of it that are in here.
  CREATE TABLE state (catalog TEXT NOT NULL, change INTEGER NOT NULL, passage INTEGER NOT NULL);
  CREATE TABLE documents (
    seq INTEGER PRIMARY KEY, tenant TEXT NOT NULL, agents TEXT NOT NULL, generation INTEGER NOT NULL);
  CREATE INDEX documents_tenant ON documents(tenant);
  -- \`length\`: how many words it has; \`gram_count\`: how many n-grams of it are in \`grams\`, 0 if it is not there.
  CREATE TABLE chunks (
    seq INTEGER PRIMARY KEY, doc INTEGER NOT NULL, generation INTEGER NOT NULL, length INTEGER NOT NULL,
    gram_count INTEGER NOT NULL);
  CREATE INDEX chunks_doc ON chunks(doc, generation);
  CREATE VIRTUAL TABLE words USING fts5(body, content='', contentless_delete=1, tokenize=ascii);
  CREATE VIRTUAL TABLE word_places USING fts5vocab(words, instance);
  -- Only which chunks have an n-gram: a text has several times as many n-grams as words.
  CREATE VIRTUAL TABLE grams USING fts5(body, content='', contentless_delete=1, detail=none, tokenize=ascii);
  -- Those of the documents of a tenant, also of deleted ones.
  CREATE TABLE languages (tenant TEXT NOT NULL, language TEXT NOT NULL, PRIMARY KEY (tenant, language)) WITHOUT ROWID;
  PRAGMA user_version = ${VERSION};
`;

function openFile(file: string): DatabaseSync {
  // For its owner alone: its companions take over its mode.
  closeSync(openSync(file, "a", 0o600));
  const db = new DatabaseSync(file);
  // Changes that a power failure takes are read from the catalog again.
  db.exec(
    "PRAGMA page_size=8192; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-64000; PRAGMA mmap_size=268435456;",
  );
  return db;
}

/** Opens the file if it is an index of this catalog that is not ahead of it; else begins a new one. */
function openIndex(file: string, catalog: string, last: Place): DatabaseSync {
  try {
    const db = openFile(file);
    const version = db.prepare("PRAGMA user_version").get() as { user_version: number };
    const state =
      version.user_version === VERSION
        ? (db.prepare("SELECT * FROM state").get() as State | undefined)
        : undefined;
    if (state?.catalog === catalog && state.change <= last.change && state.passage <= last.passage)
      return db;
    db.close();
  } catch {
    // It is damaged, or no database at all.
  }
  for (const end of ["", "-wal", "-shm"]) rmSync(`${file}${end}`, { force: true });
  const db = openFile(file);
  db.exec(`BEGIN; ${TABLES}`);
  db.prepare("INSERT INTO state (catalog, change, passage) VALUES (?, 0, 0)").run(catalog);
  db.exec("COMMIT");
  return db;
}

/** A position in the order of a catalog. */
interface Place {
  change: number;
  passage: number;
}

type State = Place & { catalog: string };

interface PassageRow {
  seq: number;
  doc: number;
  generation: number;
  gram_count: number;
  words: string;
  grams: string;
}

/** A document as it is now; of one that cannot be found, its number alone. */
interface ChangeRow {
  n: number;
  doc: number;
  tenant: string | null;
  agents: string;
  generation: number;
  languages: string;
}

/** One statement: both are of the same moment. */
const LAST = `SELECT coalesce((SELECT max(n) FROM knowledge_changes), 0) AS change,
  coalesce((SELECT max(seq) FROM knowledge_passages), 0) AS passage`;

const PASSAGES = `SELECT p.seq, p.doc, p.generation, p.gram_count, p.words, p.grams
  FROM knowledge_passages p JOIN knowledge_documents d ON d.seq = p.doc WHERE p.seq > $1 AND p.seq <= $2 ORDER BY p.seq LIMIT ${PAGE}`;

const CHANGES = `SELECT c.n, c.doc, d.tenant, d.agents, d.generation, d.languages
  FROM knowledge_changes c LEFT JOIN knowledge_documents d ON d.seq = c.doc AND d.generation > 0
  WHERE c.n > $1 AND c.n <= $2 ORDER BY c.n LIMIT ${PAGE}`;

/**
 * The full-text index of a gateway: a file of its own, filled from the catalog in the order of its numbers. It is built again
 * where it is missing, damaged, or of another catalog.
 */
export class LocalIndex {
  readonly sql: Statements;
  readonly #catalog: DocumentCatalog;
  readonly #onChange: () => void;
  #last: Promise<void> = Promise.resolve();
  #next: Promise<void> | undefined;

  private constructor(sql: Statements, catalog: DocumentCatalog, onChange: () => void) {
    this.sql = sql;
    this.#catalog = catalog;
    this.#onChange = onChange;
  }

  /** @param onChange is called when other passages than before may be found */
  static async open(
    file: string,
    catalog: DocumentCatalog,
    onChange: () => void,
  ): Promise<LocalIndex> {
    const [known] = await catalog.query<{ id: string }>("SELECT id FROM knowledge_catalog");
    const [last] = await catalog.query<Place>(LAST);
    const db = openIndex(file, known?.id ?? "", last ?? { change: 0, passage: 0 });
    return new LocalIndex(new Statements(db), catalog, onChange);
  }

  /** Takes in all that the catalog had when it was asked. */
  catchUp(): Promise<void> {
    // A caller that asks while one is under way shares the next one.
    this.#next ??= this.#last
      .catch(() => undefined)
      .then(() => {
        this.#next = undefined;
        return (this.#last = this.#takeIn());
      });
    return this.#next;
  }

  get #place(): Place {
    return this.sql.get<Place>("SELECT change, passage FROM state") as Place;
  }

  async #takeIn(): Promise<void> {
    const [last] = await this.#catalog.query<Place>(LAST);
    if (!last) return;
    // Passages before what makes them visible.
    for (let from = this.#place.passage; from < last.passage; from = this.#place.passage) {
      const rows = await this.#catalog.query<PassageRow>(PASSAGES, [from, last.passage]);
      const to = rows.length < PAGE ? last.passage : (rows.at(-1) as PassageRow).seq;
      this.#commit("passage", to, () => rows.forEach((row) => this.#add(row)));
      await setImmediate();
    }
    for (let from = this.#place.change; from < last.change; from = this.#place.change) {
      const rows = await this.#catalog.query<ChangeRow>(CHANGES, [from, last.change]);
      const to = rows.length < PAGE ? last.change : (rows.at(-1) as ChangeRow).n;
      this.#commit("change", to, () => rows.forEach((row) => this.#change(row)));
      await setImmediate();
    }
  }

  #commit(what: keyof Place, to: number, work: () => void): void {
    const { db } = this.sql;
    db.exec("BEGIN");
    try {
      work();
      this.sql.run(`UPDATE state SET ${what} = ?`, to);
      db.exec("COMMIT");
    } catch (error) {
      if (db.isTransaction) db.exec("ROLLBACK");
      throw error;
    }
    this.#onChange();
  }

  #add({ seq, doc, generation, gram_count: gramCount, words, grams }: PassageRow): void {
    this.sql.run(
      "INSERT INTO chunks (seq, doc, generation, length, gram_count) VALUES (?, ?, ?, ?, ?)",
      seq,
      doc,
      generation,
      words.split(" ").length,
      gramCount,
    );
    this.sql.run("INSERT INTO words (rowid, body) VALUES (?, ?)", seq, words);
    if (gramCount > 0) this.sql.run("INSERT INTO grams (rowid, body) VALUES (?, ?)", seq, grams);
  }

  #change({ doc, tenant, agents, generation, languages }: ChangeRow): void {
    // Of a later generation are those of an index that is being built.
    this.#drop(doc, tenant === null ? Infinity : generation);
    if (tenant === null) return void this.sql.run("DELETE FROM documents WHERE seq = ?", doc);
    this.sql.run(
      "INSERT OR REPLACE INTO documents (seq, tenant, agents, generation) VALUES (?, ?, ?, ?)",
      doc,
      tenant,
      agents,
      generation,
    );
    for (const language of languages.split(" ").filter((code) => code !== ""))
      this.sql.run(
        "INSERT OR IGNORE INTO languages (tenant, language) VALUES (?, ?)",
        tenant,
        language,
      );
  }

  /** Deletes the chunks of a document that are of an earlier generation. */
  #drop(doc: number, before: number): void {
    const which = "SELECT seq FROM chunks WHERE doc = ?1 AND generation < ?2";
    // Most documents have none, and FTS5 writes what it has in memory before it deletes.
    if (!this.sql.get(`${which} LIMIT 1`, doc, before)) return;
    this.sql.run(`DELETE FROM words WHERE rowid IN (${which})`, doc, before);
    this.sql.run(`DELETE FROM grams WHERE rowid IN (${which} AND gram_count > 0)`, doc, before);
    this.sql.run("DELETE FROM chunks WHERE doc = ?1 AND generation < ?2", doc, before);
  }

  close(): void {
    this.sql.db.close();
  }
}
