import { createReadStream } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Logger } from "../src/core/log.ts";
import { splitChunks } from "../src/knowledge/chunk.ts";
import { embedPending } from "../src/knowledge/models/embed.ts";
import { createSearch } from "../src/knowledge/search.ts";
import { openDatabase, type Database } from "../src/knowledge/thread/client.ts";
import type { IndexedChunk } from "../src/knowledge/extract/extractor.ts";
import { MAX_FUSED } from "../src/knowledge/index/reader.ts";
import { DocumentTokenizer } from "../src/knowledge/words/tokenize.ts";
import type { SearchModels } from "../src/knowledge/types.ts";
import { stageBytes } from "../src/knowledge/upload-staging.ts";
import type { SqlSource } from "../src/store/sql/sql.ts";

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
  /** Of one search, in milliseconds. */
  searchMs: { p50: number; p95: number };
}

const TENANT = "eval";
/** Passages that are looked at for each query: what MAP is usually taken over. */
const DEPTH = 1000;
const CHUNKS_A_FILE = 1000;
const REQUEST_MS = 60_000;

interface Line {
  _id: string;
  title?: string;
  text: string;
}

async function* jsonLines(file: string): AsyncGenerator<Line> {
  const lines = createInterface({ input: createReadStream(file, "utf8"), crlfDelay: Infinity });
  for await (const line of lines) if (line.trim() !== "") yield JSON.parse(line) as Line;
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

/** Writes the chunks of the corpus into a folder; returns the document of each chunk, in order. */
async function writeCorpus(
  corpus: string,
  folder: string,
): Promise<{ owners: string[]; documents: number; languages: string[] }> {
  const owners: string[] = [];
  const languages = new Set<string>();
  let documents = 0;
  let files = 0;
  let waiting: IndexedChunk[] = [];
  const flush = (): Promise<void> =>
    writeFile(join(folder, String(files++)), JSON.stringify(waiting.splice(0)));
  await mkdir(folder);
  for await (const { _id, title = "", text } of jsonLines(corpus)) {
    documents++;
    const tokenizer = new DocumentTokenizer();
    for (const chunk of splitChunks([{ kind: "text", text }])) {
      const form = tokenizer.toIndexForm(`${title}\n${chunk.text}`);
      for (const language of form.languages) languages.add(language);
      waiting.push({ ...chunk, headings: title === "" ? [] : [title], ...form });
      owners.push(_id);
    }
    if (waiting.length >= CHUNKS_A_FILE) await flush();
  }
  await flush();
  return { owners, documents, languages: [...languages] };
}

/** Returns the places of chunks in the corpus, from 0, best first. */
type RankChunks = (text: string) => Promise<number[]>;

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
    const figures = measure([...new Set(found.map((place) => owners[place] ?? ""))], relevant);
    for (const name of ["ndcg10", "map", "recall100"] as const) this.#sums[name] += figures[name];
  }

  getMeans(): Figures {
    const { ndcg10, map, recall100 } = this.#sums;
    const queries = this.times.length;
    return { ndcg10: ndcg10 / queries, map: map / queries, recall100: recall100 / queries };
  }
}

const percentile = (sorted: readonly number[], part: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0;

interface EvaluateOptions {
  log: Logger;
  /** A schema that is empty. Default: a file. */
  sql?: SqlSource | undefined;
  /** Default: words alone are measured. */
  models?: SearchModels | undefined;
}

async function index(
  dir: string,
  database: Database,
  { folder, ...of }: { folder: string; chunks: number; languages: string[] },
): Promise<void> {
  const staged = await stageBytes(dir, Buffer.from("corpus"), 100);
  await database.call("add", { tenant: TENANT, ...staged, filename: "corpus.jsonl" }, 0);
  const [job] = await database.call("take", 1);
  if (!job) throw new Error("the index cannot be built");
  const { id, generation } = job;
  const done = { mimeType: "application/json", title: null, pages: null, ...of };
  await database.call("index", { id, generation, folder, done, now: 0 });
}

/**
 * Builds an index of its own from a folder in the BEIR layout (`corpus.jsonl`, `queries.jsonl`, `qrels.tsv`) and measures
 * how well the search finds what it should: by words alone, or with models as a gateway that has them searches. A document
 * ranks with its best chunk. A call of a model that fails ends it: figures of a search that did without the model would be
 * taken for those of the model.
 */
export async function evaluate(
  folder: string,
  { log, sql, models }: EvaluateOptions,
): Promise<Evaluation> {
  await using opened = new AsyncDisposableStack();
  const dir = await mkdtemp(join(tmpdir(), "rouse-eval-"));
  opened.defer(() => rm(dir, { recursive: true, force: true }));
  const settings = {
    database: join(dir, "knowledge.db"),
    index: join(dir, "index.db"),
    sql,
    now: 0,
  };
  const environment = { log, env: process.env };
  const database = await openDatabase(settings, environment);
  opened.defer(() => database.close());

  const judgements = await readJudgements(join(folder, "qrels.tsv"));
  const chunks = join(dir, "chunks");
  const began = performance.now();
  const { owners, documents, languages } = await writeCorpus(join(folder, "corpus.jsonl"), chunks);
  await index(dir, database, { folder: chunks, chunks: owners.length, languages });
  await database.call("catchUp");
  const indexSeconds = (performance.now() - began) / 1000;
  if (models?.embed)
    await embedPending({ embedder: models.embed, database }, new AbortController().signal);

  const limit = models ? MAX_FUSED : DEPTH;
  const byWords = new Measured(async (text) =>
    // Chunks are numbered from 1 in the order in which they were written.
    (await database.call("rank", { tenant: TENANT, text, limit })).map(({ seq }) => seq - 1),
  );
  const search =
    models &&
    createSearch({
      database,
      models,
      makeCall: ({ work }) => work(AbortSignal.timeout(REQUEST_MS)),
    });
  const withModels =
    search &&
    new Measured(async (text) =>
      (await search({ tenant: TENANT, text, limit })).map(({ chunkId }) =>
        Number(chunkId.slice(chunkId.lastIndexOf("#") + 1)),
      ),
    );
  for await (const { _id, text } of jsonLines(join(folder, "queries.jsonl"))) {
    const relevant = judgements.get(_id);
    if (!relevant) continue;
    await byWords.ask(text, relevant, owners);
    await withModels?.ask(text, relevant, owners);
  }
  const { times } = withModels ?? byWords;
  times.sort((a, b) => a - b);
  return {
    documents,
    chunks: owners.length,
    queries: times.length,
    ...(withModels ?? byWords).getMeans(),
    ...(withModels && { byWords: byWords.getMeans() }),
    indexSeconds,
    searchMs: { p50: percentile(times, 0.5), p95: percentile(times, 0.95) },
  };
}
