import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { zipSync, unzipSync } from "fflate";
import { describe } from "vitest";
import { knowledgeSchema } from "../../src/config/schema/knowledge.ts";
import { systemClock, type Clock } from "../../src/core/clock.ts";
import { createLogger } from "../../src/core/log.ts";
import { createExtractor } from "../../src/knowledge/extract/extractor.ts";
import { createKnowledge } from "../../src/knowledge/knowledge.ts";
import { stageBytes } from "../../src/knowledge/upload-staging.ts";
import type {
  DocumentRecord,
  Embedder,
  Knowledge,
  NewDocument,
} from "../../src/knowledge/types.ts";
import { describePostgres, newSchema, plainly, sqlSource, type Schema } from "../store/postgres.ts";

export const FIXTURES = resolve(import.meta.dirname, "../fixtures/knowledge");
const MOST_BYTES = 50_000_000;
const WAIT_MS = 55_000;

type Upload = Partial<Omit<NewDocument, "file" | "sha256" | "bytes">>;

export interface KnowledgeWorld {
  dir: string;
  /** The documents are in PostgreSQL. */
  isShared: boolean;
  knowledge: Knowledge;
  /** Adds bytes and returns what `add` says. */
  upload(
    content: string | Uint8Array,
    upload?: Upload,
  ): Promise<{ document: DocumentRecord; duplicate: boolean }>;
  /** Adds bytes and waits until the document is ready or failed. */
  index(content: string | Uint8Array, upload?: Upload): Promise<DocumentRecord>;
  fixture(name: string, upload?: Upload): Promise<DocumentRecord>;
  /** The texts that a question finds, best first. */
  found(text: string, scope?: { tenant?: string; agentIds?: string[] }): Promise<string[]>;
  /** The number of rows in each table. */
  rows(): Promise<Record<string, number>>;
  /** The hashes of the files that are kept. */
  files(): Promise<string[]>;
  /** Takes a file away behind the program's back. */
  loseFile(sha256: string): Promise<void>;
  /** Runs a statement on the tables of documents. */
  execute: Execute;
  restart(): Promise<void>;
  /** Deletes all documents, for the next test. */
  empty(): Promise<void>;
  close(): Promise<void>;
}

export interface WorldOptions {
  config?: Record<string, unknown>;
  embed?: Embedder;
  clock?: Clock;
  extractionChild?: string;
  start?: boolean;
  env?: Record<string, string | undefined>;
}

/** Runs a statement on the tables of documents. */
type Execute = (sql: string) => Promise<Record<string, unknown>[]>;

const onFile =
  (dir: string): Execute =>
  async (sql) => {
    const db = new DatabaseSync(join(dir, "knowledge.db"));
    db.exec("PRAGMA busy_timeout=5000");
    const rows = db.prepare(sql).all();
    db.close();
    return rows;
  };

const onSchema =
  ({ name }: Schema): Execute =>
  (sql) =>
    plainly(async (client) => {
      await client.query(`SET search_path TO "${name}"`);
      return (await client.query<Record<string, unknown>>(sql)).rows;
    });

const count = (table: string): string => `SELECT count(*) AS n FROM ${table}`;
const FILE_NAMES =
  "SELECT sha256 FROM knowledge_files UNION SELECT sha256 FROM knowledge_file_parts ORDER BY sha256";

/** Counts the rows in the tables of documents and in those of the gateway's own index. */
async function countRows(dir: string, execute: Execute): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const table of ["documents", "passages", "vectors"])
    counts[table] = Number((await execute(count(`knowledge_${table}`)))[0]?.["n"]);
  const db = new DatabaseSync(join(dir, "knowledge-index.db"), { readOnly: true });
  for (const table of ["chunks", "words_docsize", "grams_docsize"])
    counts[table] = Number(db.prepare(count(table)).get()?.["n"]);
  db.close();
  return counts;
}

/** Makes worlds whose documents are in PostgreSQL: each in a schema of its own, or in one that is given. */
export const onPostgres: MakeWorld = (options = {}, schema = newSchema()) =>
  createWorld(options, schema);

export type MakeWorld = (options?: WorldOptions, schema?: Schema) => Promise<KnowledgeWorld>;

/** Runs tests on both databases; those of PostgreSQL where one answers. */
export function describeBoth(tests: (make: MakeWorld) => void): void {
  describe("in a file", () => tests((options) => createWorld(options)));
  describePostgres("in PostgreSQL", () => tests(onPostgres));
}

/** Documents in a folder of their own, or in a schema of PostgreSQL. */
export async function createWorld(
  options: WorldOptions = {},
  schema?: Schema,
): Promise<KnowledgeWorld> {
  const dir = await mkdtemp(join(tmpdir(), "rouse-knowledge-"));
  const { config = {}, embed, clock = systemClock, extractionChild, start = true, env } = options;
  const execute = schema ? onSchema(schema) : onFile(dir);
  const settings = knowledgeSchema.parse({ workers: 1, ...config });
  const child = extractionChild === undefined ? {} : { child: extractionChild };
  const extractor = createExtractor({
    // Each process that reads documents takes longer to start than a test needs it.
    ...settings,
    env: env ?? {},
    plugins: () => [],
    ...child,
  });
  const open = (): Promise<Knowledge> =>
    createKnowledge({
      dir,
      sql: schema && sqlSource(schema),
      clock,
      log: createLogger("silent"),
      config: settings,
      extractor,
      ...(embed ? { embed } : {}),
      ...(env ? { env } : {}),
    });
  let knowledge = await open();
  if (start) await knowledge.start();

  const tenants = new Set<string>();
  const upload: KnowledgeWorld["upload"] = async (content, more = {}) => {
    const bytes = typeof content === "string" ? Buffer.from(content) : content;
    const { tenant = "t" } = more;
    tenants.add(tenant);
    return knowledge.add({
      tenant,
      filename: "text.txt",
      ...more,
      ...(await stageBytes(dir, bytes, MOST_BYTES)),
    });
  };
  const index: KnowledgeWorld["index"] = async (content, more) => {
    const { document } = await upload(content, more);
    const ended = await knowledge.wait(document.id, WAIT_MS);
    if (!ended) throw new Error("the document is gone");
    return ended;
  };
  return {
    dir,
    isShared: schema !== undefined,
    get knowledge() {
      return knowledge;
    },
    upload,
    index,
    fixture: async (name, more) =>
      index(await readFile(join(FIXTURES, name)), { filename: basename(name), ...more }),
    found: async (text, { tenant = "t", agentIds } = {}) =>
      (
        await knowledge.search({ tenant, text, ...(agentIds === undefined ? {} : { agentIds }) })
      ).map((passage) => passage.text),
    execute,
    async rows() {
      // A search takes in what it does not have yet.
      await knowledge.search({ tenant: "t", text: "nothing" });
      return countRows(dir, execute);
    },
    files: async () => (await execute(FILE_NAMES)).map(({ sha256 }) => String(sha256)),
    async loseFile(sha256) {
      for (const table of ["files", "file_parts"])
        await execute(`DELETE FROM knowledge_${table} WHERE sha256 = '${sha256}'`);
    },
    async restart() {
      await knowledge.close();
      knowledge = await open();
      await knowledge.start();
    },
    async empty() {
      for (const tenant of tenants) {
        const { documents } = await knowledge.list(tenant, { limit: 100 });
        for (const { id } of documents) await knowledge.remove(tenant, id);
      }
    },
    async close() {
      await knowledge.close();
      await extractor.close();
      await schema?.drop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** A zipped fixture with one entry changed. */
export async function withEntry(
  name: string,
  entry: string,
  change: (content: Buffer) => Buffer,
): Promise<Uint8Array> {
  const entries = unzipSync(await readFile(join(FIXTURES, name)));
  const content = entries[entry];
  if (!content) throw new Error(`${name} has no ${entry}`);
  return zipSync({ ...entries, [entry]: change(Buffer.from(content)) });
}
