import { createReadStream } from "node:fs";
import { mkdtemp, open, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { RouseError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { splitChunks } from "./chunk.ts";
import { getSqlSource } from "../store/open.ts";
import type { StoreDriver } from "../store/types.ts";
import { openDatabase, type Database } from "./db/client.ts";
import { stageBytes } from "./upload-staging.ts";
import { DocumentTokenizer } from "./tokenize.ts";

export interface Evaluation {
  documents: number;
  chunks: number;
  queries: number;
  /** Means over all queries that have judgements, with linear gain. */
  ndcg10: number;
  map: number;
  recall100: number;
  indexSeconds: number;
  /** Of one search, in milliseconds. */
  searchMs: { p50: number; p95: number };
}

const TENANT = "eval";
/** Documents that are looked at for each query: what MAP is usually taken over. */
const DEPTH = 1000;
const FLUSH = 4 * 2 ** 20;

interface Line {
  _id: string;
  title?: string;
  text: string;
}

async function* jsonLines(file: string): AsyncGenerator<Line> {
  const lines = createInterface({ input: createReadStream(file, "utf8"), crlfDelay: Infinity });
  let number = 0;
  for await (const line of lines) {
    number++;
    if (line.trim() === "") continue;
    try {
      yield JSON.parse(line) as Line;
    } catch (error) {
      throw new RouseError({ code: "usage", message: `${file}: line ${number} is no JSON` }, { cause: error });
    }
  }
}

/** Judgements by query: `query-id corpus-id score`, with tabs between, after a line of names. */
async function readJudgements(file: string): Promise<Map<string, Map<string, number>>> {
  const judgements = new Map<string, Map<string, number>>();
  for (const line of (await readFile(file, "utf8")).split(/\r?\n/).slice(1)) {
    const [query, document, score] = line.split("\t");
    if (query === undefined || document === undefined) continue;
    const of = judgements.get(query) ?? new Map<string, number>();
    judgements.set(query, of.set(document, Number(score ?? 1)));
  }
  return judgements;
}

const discounted = (gains: readonly number[]): number => gains.reduce((sum, gain, index) => sum + gain / Math.log2(index + 2), 0);

/** The three figures of one ranking. `relevant`: the judged documents with their grades; those of 0 are not relevant. */
export function measure(
  ranking: readonly string[],
  relevant: ReadonlyMap<string, number>,
): { ndcg10: number; map: number; recall100: number } {
  const grades = [...relevant.values()].filter((grade) => grade > 0);
  const gains = ranking.map((id) => Math.max(0, relevant.get(id) ?? 0));
  const ideal = discounted(grades.toSorted((a, b) => b - a).slice(0, 10));
  let hits = 0;
  let precision = 0;
  for (const [index, gain] of gains.entries()) if (gain > 0) precision += ++hits / (index + 1);
  return {
    ndcg10: ideal === 0 ? 0 : discounted(gains.slice(0, 10)) / ideal,
    map: grades.length === 0 ? 0 : precision / grades.length,
    recall100: grades.length === 0 ? 0 : gains.slice(0, 100).filter((gain) => gain > 0).length / grades.length,
  };
}

/** Writes the chunks of the corpus; returns the document of each chunk, in order. */
async function writeCorpus(corpus: string, out: string): Promise<{ owners: string[]; documents: number }> {
  const owners: string[] = [];
  let documents = 0;
  await using file = await open(out, "w");
  let waiting = "";
  for await (const { _id, title = "", text } of jsonLines(corpus)) {
    documents++;
    const tokenizer = new DocumentTokenizer();
    for (const chunk of splitChunks([{ kind: "text", text }])) {
      waiting += `${JSON.stringify({ ...chunk, ...tokenizer.toIndexForm(`${title}\n${chunk.text}`) })}\n`;
      owners.push(_id);
    }
    if (waiting.length < FLUSH) continue;
    await file.write(waiting);
    waiting = "";
  }
  await file.write(waiting);
  return { owners, documents };
}

async function indexCorpus(
  dir: string,
  writer: Database<"writer">,
  file: string,
  chunks: number,
  onProgress: (done: number) => void,
): Promise<void> {
  const staged = await stageBytes(dir, Buffer.from("corpus"), 100);
  await writer.call("add", { tenant: TENANT, ...staged, filename: "corpus.jsonl" }, 0);
  const [job] = await writer.call("take", 1);
  if (!job) throw new RouseError({ code: "internal", message: "the index cannot be built" });
  for (let offset = 0, first = 0; ;) {
    const done = { mimeType: "application/json", title: null, pages: null, chunks };
    const part = await writer.call("indexPart", { id: job.id, generation: job.generation, file, offset, first, done, now: 0 });
    if (part.state !== "more") return;
    ({ offset, next: first } = part);
    onProgress(first);
  }
}

const percentile = (sorted: readonly number[], part: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0;

/**
 * Builds an index of its own from a folder in the BEIR layout (`corpus.jsonl`, `queries.jsonl`, `qrels.tsv`) and measures
 * how well the search by words finds what it should. A document ranks with its best chunk. With `store`, the index
 * is made in that store's database, in a place of its own, which is dropped at the end.
 * @throws RouseError `usage` for a file that is not as it should be; a missing file's own error.
 */
export async function evaluate(
  folder: string,
  options: {
    log: Logger;
    env?: Record<string, string | undefined>;
    onProgress?(done: number, total: number): void;
    store?: { driver: StoreDriver; url: string } | undefined;
  },
): Promise<Evaluation> {
  const { log, env, onProgress = () => undefined, store } = options;
  const judgements = await readJudgements(join(folder, "qrels.tsv"));
  const dir = await mkdtemp(join(tmpdir(), "rouse-eval-"));
  const scratch = store && (await store.driver.scratch?.({ url: store.url, env }));
  const sql = scratch && getSqlSource(store.driver, scratch.url);
  const settings = { database: join(dir, "knowledge.db"), sql, files: join(dir, "knowledge"), now: 0 };
  let writer: Database<"writer"> | undefined;
  let reader: Database<"reader"> | undefined;
  try {
    writer = await openDatabase({ role: "writer", ...settings }, { log, env });
    reader = await openDatabase({ role: "reader", ...settings }, { log, env });
    const began = performance.now();
    const chunkFile = join(dir, "chunks");
    const { owners, documents } = await writeCorpus(join(folder, "corpus.jsonl"), chunkFile);
    await indexCorpus(dir, writer, chunkFile, owners.length, (done) => onProgress(done, owners.length));
    const indexSeconds = (performance.now() - began) / 1000;
    const sums = { ndcg10: 0, map: 0, recall100: 0 };
    const times: number[] = [];
    for await (const { _id, text } of jsonLines(join(folder, "queries.jsonl"))) {
      const relevant = judgements.get(_id);
      if (!relevant) continue;
      const start = performance.now();
      const found = await reader.call("rank", { tenant: TENANT, text, limit: DEPTH });
      times.push(performance.now() - start);
      // Chunks are numbered from 1 in the order in which they were written.
      const ranking = [...new Set(found.map(({ seq }) => owners[seq - 1] ?? ""))];
      const figures = measure(ranking, relevant);
      sums.ndcg10 += figures.ndcg10;
      sums.map += figures.map;
      sums.recall100 += figures.recall100;
    }
    const queries = times.length;
    if (queries === 0) throw new RouseError({ code: "usage", message: `${folder}: no query has a judgement` });
    times.sort((a, b) => a - b);
    return {
      documents,
      chunks: owners.length,
      queries,
      ndcg10: sums.ndcg10 / queries,
      map: sums.map / queries,
      recall100: sums.recall100 / queries,
      indexSeconds,
      searchMs: { p50: percentile(times, 0.5), p95: percentile(times, 0.95) },
    };
  } finally {
    await reader?.close();
    await writer?.close();
    await scratch?.drop();
    await rm(dir, { recursive: true, force: true });
  }
}
