import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { zipSync, unzipSync } from "fflate";
import { knowledgeSchema } from "../../src/config/schema/knowledge.ts";
import { systemClock, type Clock } from "../../src/core/clock.ts";
import { createLogger } from "../../src/core/log.ts";
import { createKnowledge } from "../../src/knowledge/knowledge.ts";
import { stageBytes } from "../../src/knowledge/stage.ts";
import type { DocumentRecord, Embedder, Knowledge, NewDocument } from "../../src/knowledge/types.ts";

export const FIXTURES = resolve(import.meta.dirname, "../fixtures/knowledge");
const MOST_BYTES = 50_000_000;
const WAIT_MS = 25_000;

type Upload = Partial<Omit<NewDocument, "file" | "sha256" | "bytes">>;

export interface KnowledgeWorld {
  dir: string;
  knowledge: Knowledge;
  /** Adds bytes and returns what `add` says. */
  upload(content: string | Uint8Array, upload?: Upload): Promise<{ document: DocumentRecord; duplicate: boolean }>;
  /** Adds bytes and waits until the document is ready or failed. */
  index(content: string | Uint8Array, upload?: Upload): Promise<DocumentRecord>;
  fixture(name: string, upload?: Upload): Promise<DocumentRecord>;
  /** The texts that a question finds, best first. */
  found(text: string, scope?: { tenant?: string; agentId?: string }): Promise<string[]>;
  /** How many rows each table of the database has. */
  rows(): Record<string, number>;
  restart(): Promise<void>;
  close(): Promise<void>;
}

export interface WorldOptions {
  config?: Record<string, unknown>;
  embed?: Embedder;
  clock?: Clock;
  extractionChild?: string;
  start?: boolean;
}

/** Documents in a folder of their own. */
export async function createWorld(options: WorldOptions = {}): Promise<KnowledgeWorld> {
  const dir = await mkdtemp(join(tmpdir(), "rouse-knowledge-"));
  const { config = {}, embed, clock = systemClock, extractionChild, start = true } = options;
  const open = (): Promise<Knowledge> =>
    createKnowledge({
      dir,
      clock,
      log: createLogger("silent"),
      config: knowledgeSchema.parse(config),
      ...(embed ? { embed } : {}),
      ...(extractionChild === undefined ? {} : { extractionChild }),
    });
  let knowledge = await open();
  if (start) await knowledge.start();

  const upload: KnowledgeWorld["upload"] = async (content, more = {}) => {
    const bytes = typeof content === "string" ? Buffer.from(content) : content;
    return knowledge.add({ tenant: "t", filename: "text.txt", ...more, ...(await stageBytes(dir, bytes, MOST_BYTES)) });
  };
  const index: KnowledgeWorld["index"] = async (content, more) => {
    const { document } = await upload(content, more);
    const ended = await knowledge.wait(document.id, WAIT_MS);
    if (!ended) throw new Error("the document is gone");
    return ended;
  };
  return {
    dir,
    get knowledge() {
      return knowledge;
    },
    upload,
    index,
    fixture: async (name, more) => index(await readFile(join(FIXTURES, name)), { filename: basename(name), ...more }),
    found: async (text, { tenant = "t", agentId } = {}) =>
      (await knowledge.search({ tenant, text, ...(agentId === undefined ? {} : { agentId }) })).map((passage) => passage.text),
    rows() {
      const db = new DatabaseSync(join(dir, "knowledge.db"), { readOnly: true });
      const count = (table: string): number => (db.prepare(`SELECT count(*) AS n FROM ${table}`).get() as { n: number }).n;
      const all = Object.fromEntries(["documents", "chunks", "passages", "vectors", "words_docsize"].map((table) => [table, count(table)]));
      db.close();
      return all;
    },
    async restart() {
      await knowledge.close();
      knowledge = await open();
      await knowledge.start();
    },
    async close() {
      await knowledge.close();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** A zipped fixture with one entry changed. */
export async function withEntry(name: string, entry: string, change: (content: Buffer) => Buffer): Promise<Uint8Array> {
  const entries = unzipSync(await readFile(join(FIXTURES, name)));
  const content = entries[entry];
  if (!content) throw new Error(`${name} has no ${entry}`);
  return zipSync({ ...entries, [entry]: change(Buffer.from(content)) });
}
