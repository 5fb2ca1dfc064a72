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
import { renderChunkLine } from "./db/lines.ts";
import { MAX_FUSED } from "./db/protocol.ts";
import { embedPending } from "./embed.ts";
import { createSearch } from "./search.ts";
import { withRetries, type EvaluatedModels } from "./evaluated-models.ts";
import { stageBytes } from "./upload-staging.ts";
import { DocumentTokenizer } from "./tokenize.ts";

/** Means over all queries that have judgements, with linear gain. */
interface Figures {
  ndcg10: number;
  map: number;
  recall100: number;
}

export interface Evaluation extends Figures {
  documents: number;
  chunks: number;
  queries: number;
  /** The same by words alone, and equally deep, if the figures are those of a search with models. */
  byWords?: Figures;
  indexSeconds: number;
  /** How long all passages took to get their vectors. */
  embedSeconds?: number;
  /** Of one search, in milliseconds. */
  searchMs: { p50: number; p95: number };
}

const TENANT = "eval";
/** Passages that are looked at for each query: what MAP is usually taken over. */
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
      throw new RouseError(
        { code: "usage", message: `${file}: line ${number} is no JSON` },
        { cause: error },
      );
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

const discounted = (gains: readonly number[]): number =>
  gains.reduce((sum, gain, index) => sum + gain / Math.log2(index + 2), 0);

/** The three figures of one ranking. `relevant`: the judged documents with their grades; those of 0 are not relevant. */
export function measure(
  ranking: readonly string[],
  relevant: ReadonlyMap<string, number>,
): Figures {
  const grades = [...relevant.values()].filter((grade) => grade > 0);
  const gains = ranking.map((id) => Math.max(0, relevant.get(id) ?? 0));
  const ideal = discounted(grades.toSorted((a, b) => b - a).slice(0, 10));
  let hits = 0;
  let precision = 0;
  for (const [index, gain] of gains.entries()) if (gain > 0) precision += ++hits / (index + 1);
  return {
    ndcg10: ideal === 0 ? 0 : discounted(gains.slice(0, 10)) / ideal,
    map: grades.length === 0 ? 0 : precision / grades.length,
    recall100:
      grades.length === 0
        ? 0
        : gains.slice(0, 100).filter((gain) => gain > 0).length / grades.length,
  };
}

/** Writes the chunks of the corpus; returns the document of each chunk, in order. */
async function writeCorpus(
  corpus: string,
  out: string,
): Promise<{ owners: string[]; documents: number }> {
  const owners: string[] = [];
  let documents = 0;
  await using file = await open(out, "w");
  let waiting = "";
  for await (const { _id, title = "", text } of jsonLines(corpus)) {
    documents++;
    const tokenizer = new DocumentTokenizer();
    for (const chunk of splitChunks([{ kind: "text", text }])) {
      const headings = title === "" ? [] : [title];
      waiting += renderChunkLine({
        ...chunk,
        headings,
        ...tokenizer.toIndexForm(`${title}\n${chunk.text}`),
      });
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
    const part = await writer.call("indexPart", {
      id: job.id,
      generation: job.generation,
      file,
      offset,
      first,
      done,
      now: 0,
    });
    if (part.state !== "more") return;
    ({ offset, next: first } = part);
    onProgress(first);
  }
}

const percentile = (sorted: readonly number[], part: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0;

/** Returns the places of chunks in the corpus, from 0, best first. */
type RankChunks = (text: string) => Promise<number[]>;

const rankByWords =
  (reader: Database<"reader">, limit: number): RankChunks =>
  async (text) =>
    // Chunks are numbered from 1 in the order in which they were written.
    (await reader.call("rank", { tenant: TENANT, text, limit })).map(({ seq }) => seq - 1);

const rankByPath =
  (search: ReturnType<typeof createSearch>): RankChunks =>
  async (text) =>
    (await search({ tenant: TENANT, text, limit: MAX_FUSED })).map(({ chunkId }) =>
      Number(chunkId.slice(chunkId.lastIndexOf("#") + 1)),
    );

/** Sums up the figures of one way to search over all queries. */
class Measured {
  readonly times: number[] = [];
  readonly #rank: RankChunks;
  readonly #sums: Figures = { ndcg10: 0, map: 0, recall100: 0 };

  constructor(rank: RankChunks) {
    this.#rank = rank;
  }

  async ask(
    text: string,
    relevant: ReadonlyMap<string, number>,
    owners: readonly string[],
  ): Promise<void> {
    const start = performance.now();
    const found = await this.#rank(text);
    this.times.push(performance.now() - start);
    const { ndcg10, map, recall100 } = measure(
      [...new Set(found.map((place) => owners[place] ?? ""))],
      relevant,
    );
    this.#sums.ndcg10 += ndcg10;
    this.#sums.map += map;
    this.#sums.recall100 += recall100;
  }

  getMeans(): Figures {
    const { ndcg10, map, recall100 } = this.#sums;
    const queries = this.times.length;
    return { ndcg10: ndcg10 / queries, map: map / queries, recall100: recall100 / queries };
  }
}

interface EvaluateOptions {
  log: Logger;
  env?: Record<string, string | undefined>;
  onProgress?(what: "indexing" | "embedding" | "asking", done: number, total: number): void;
  store?: { driver: StoreDriver; url: string } | undefined;
  /** Default: words alone are measured. */
  evaluated?: EvaluatedModels | undefined;
}

interface Index {
  dir: string;
  writer: Database<"writer">;
  reader: Database<"reader">;
}

interface TestSet {
  /** The document of each chunk. */
  owners: readonly string[];
  judgements: ReadonlyMap<string, ReadonlyMap<string, number>>;
}

/** Asks all queries that have judgements. */
async function measureAll(
  folder: string,
  { owners, judgements }: TestSet,
  ways: readonly Measured[],
  { onProgress }: EvaluateOptions,
): Promise<void> {
  let asked = 0;
  for await (const { _id, text } of jsonLines(join(folder, "queries.jsonl"))) {
    const relevant = judgements.get(_id);
    if (!relevant) continue;
    for (const way of ways) await way.ask(text, relevant, owners);
    asked++;
    onProgress?.("asking", asked, judgements.size);
  }
  if (asked === 0)
    throw new RouseError({ code: "usage", message: `${folder}: no query has a judgement` });
}

async function measureIndex(
  folder: string,
  { dir, writer, reader }: Index,
  options: EvaluateOptions,
): Promise<Evaluation> {
  const { onProgress, evaluated } = options;
  const judgements = await readJudgements(join(folder, "qrels.tsv"));
  const chunkFile = join(dir, "chunks");
  const began = performance.now();
  const { owners, documents } = await writeCorpus(join(folder, "corpus.jsonl"), chunkFile);
  await indexCorpus(dir, writer, chunkFile, owners.length, (done) =>
    onProgress?.("indexing", done, owners.length),
  );
  const indexed = performance.now();
  const strict = evaluated && withRetries(evaluated);
  const embedder = strict?.embedder;
  if (embedder)
    await embedPending({ embedder, reader, writer }, new AbortController().signal, (done) =>
      onProgress?.("embedding", done, owners.length),
    );
  const embedded = performance.now();
  const byWords = new Measured(rankByWords(reader, strict ? MAX_FUSED : DEPTH));
  const path =
    strict &&
    new Measured(
      rankByPath(createSearch({ reader, models: evaluated.models, makeCall: strict.makeCall })),
    );
  await measureAll(folder, { owners, judgements }, path ? [path, byWords] : [byWords], options);
  const { times } = path ?? byWords;
  times.sort((a, b) => a - b);
  return {
    documents,
    chunks: owners.length,
    queries: times.length,
    ...(path ?? byWords).getMeans(),
    ...(path && { byWords: byWords.getMeans() }),
    ...(embedder && { embedSeconds: (embedded - indexed) / 1000 }),
    indexSeconds: (indexed - began) / 1000,
    searchMs: { p50: percentile(times, 0.5), p95: percentile(times, 0.95) },
  };
}

/**
 * Builds an index of its own from a folder in the BEIR layout (`corpus.jsonl`, `queries.jsonl`, `qrels.tsv`) and measures
 * how well the search finds what it should: by words alone, or with `evaluated` models as a gateway that has them searches. A document
 * ranks with its best chunk. With `store`, the index is made in that store's database, in a place of its own, which is dropped
 * at the end.
 * @throws RouseError `usage` for a file that is not as it should be; EndpointError if a model gives no answer; a missing
 * file's own error.
 */
export async function evaluate(folder: string, options: EvaluateOptions): Promise<Evaluation> {
  const { log, env, store } = options;
  await using opened = new AsyncDisposableStack();
  const dir = await mkdtemp(join(tmpdir(), "rouse-eval-"));
  opened.defer(() => rm(dir, { recursive: true, force: true }));
  const scratch = store && (await store.driver.scratch?.({ url: store.url, env }));
  if (scratch) opened.defer(() => scratch.drop());
  const sql = scratch && getSqlSource(store.driver, scratch.url);
  const settings = {
    database: join(dir, "knowledge.db"),
    sql,
    files: join(dir, "knowledge"),
    now: 0,
  };
  const writer = await openDatabase({ role: "writer", ...settings }, { log, env });
  opened.defer(() => writer.close());
  const reader = await openDatabase({ role: "reader", ...settings }, { log, env });
  opened.defer(() => reader.close());
  return await measureIndex(folder, { dir, writer, reader }, options);
}
