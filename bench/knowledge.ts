/**
 * Documents indexed in a second, and the time of a search, on made-up text whose words are as frequent as in English
 * (Zipf). With `--text`, the documents are paragraphs of a file of text, and the questions are its sentences: of any language.
 * `npm run bench:knowledge -- [--documents 1000] [--chunks 50000] [--questions 200] [--text FILE] [--store postgres://…] [--json] [--write]`
 *
 * With `--set`, how well passages are found of a folder in the BEIR layout (`corpus.jsonl`, `queries.jsonl`, `qrels.tsv`): by
 * words alone, or with the models of endpoints, which get the texts. Keys are in EMBEDDINGS_KEY and RERANKER_KEY.
 * `npm run bench:knowledge -- --set FOLDER [--store postgres://…] [--embeddings URL,MODEL] [--reranker URL,MODEL]`
 */
import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { parseArgs } from "node:util";
import { knowledgeSchema } from "../src/config/schema/knowledge.ts";
import { systemClock } from "../src/core/clock.ts";
import { createLogger } from "../src/core/log.ts";
import { createEmbedder } from "../src/knowledge/models/embed.ts";
import { createKnowledge } from "../src/knowledge/knowledge.ts";
import { createReranker } from "../src/knowledge/models/rerank.ts";
import type { SearchModels } from "../src/knowledge/types.ts";
import { withDb } from "../plugins/postgres/client/db.ts";
import { ENV, MODULE } from "../plugins/postgres/sql.ts";
import { stageBytes } from "../src/knowledge/upload-staging.ts";
import { evaluate } from "./evaluate.ts";
import { median, type Row } from "./measure.ts";
import {
  getCircumstances,
  renderCircumstances,
  renderMachine,
  renderRows,
  writeRun,
} from "./results.ts";

const { values } = parseArgs({
  options: {
    documents: { type: "string", default: "1000" },
    chunks: { type: "string", default: "50000" },
    questions: { type: "string", default: "200" },
    text: { type: "string" },
    set: { type: "string" },
    embeddings: { type: "string" },
    reranker: { type: "string" },
    store: { type: "string" },
    json: { type: "boolean" },
    write: { type: "boolean" },
  },
});
if (values.write && (values.text ?? values.store) !== undefined)
  throw new Error(
    "docs/performance.md has the figures of made-up text in a file: --write takes neither --text nor --store",
  );
const DOCUMENTS = Number(values.documents);
const CHUNKS = Number(values.chunks);
const QUESTIONS = Number(values.questions);
const LETTERS = 20_000;
const VOCABULARY = 50_000;

/** Mulberry32: the same text in every run. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const next = random(1);
const SYLLABLES =
  "ba ce di fo gu ha ki lo me nu pa ri sa to va we xi yo za stra ment tion ing er".split(" ");
const syllable = (): string => SYLLABLES[Math.floor(next() * SYLLABLES.length)] as string;
const COMMON =
  "the of and to a in is that for it as was with be by on not he his but at are this have from or had an they which one you".split(
    " ",
  );
const words = [
  ...COMMON,
  ...Array.from({ length: VOCABULARY }, () =>
    Array.from({ length: 2 + Math.floor(next() * 3) }, syllable).join(""),
  ),
];
/** Zipf's law: the word of rank r in proportion to 1/r. */
const word = (): string => words[Math.floor(words.length ** next()) - 1] as string;
const sentence = (): string => {
  const text = Array.from({ length: 8 + Math.floor(next() * 20) }, word).join(" ");
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}. `;
};

const madeUpSection = (): string => {
  const heading = `# ${word()} ${word()}\n\n`;
  return (
    heading +
    Array.from({ length: 5 }, () => `${Array.from({ length: 5 }, sentence).join("")}\n\n`).join("")
  );
};

const madeUpQuestion = (): string => {
  const some = Array.from(
    { length: 5 },
    () => words[Math.floor(30 + (VOCABULARY / 10) ** next() * 3)] as string,
  );
  return `what is the ${some[0]} ${some[1]} of ${some[2]} in ${some[3]} ${some[4]}`;
};

interface Material {
  section(): string;
  question(): string;
}

/** Paragraphs of a file, and its sentences of 15 to 120 letters. */
function readMaterial(file: string): Material {
  const text = readFileSync(file, "utf8");
  const paragraphs = text.split(/\n\s*\n/).filter((paragraph) => paragraph.trim() !== "");
  const sentences = text
    .split(/(?<=[.!?。！？])\s*|\n+/)
    .filter(({ length }) => length >= 15 && length <= 120);
  const pick = (of: readonly string[]): string => of[Math.floor(next() * of.length)] ?? "";
  return { section: () => `${pick(paragraphs)}\n\n`, question: () => pick(sentences) };
}

const material: Material =
  values.text === undefined
    ? { section: madeUpSection, question: madeUpQuestion }
    : readMaterial(values.text);

function makeDocument(): Buffer {
  let text = "";
  while (text.length < LETTERS) text += material.section();
  return Buffer.from(text.slice(0, LETTERS));
}

/** Names a schema that is not there yet, for data that is not kept. */
function makeScratch(url: string): { url: string; drop(): Promise<unknown> } {
  const schema = `rouse_eval_${randomBytes(6).toString("hex")}`;
  const own = new URL(url);
  own.searchParams.set("schema", schema);
  return {
    url: own.href,
    drop: () =>
      withDb({ url: own.href }, (db) => db.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`)),
  };
}

const scratch = values.store === undefined ? undefined : makeScratch(values.store);
const sql = scratch && { url: scratch.url, module: MODULE, env: ENV };

/** The models that the options name, each as `URL,MODEL`. */
function getModels(): SearchModels | undefined {
  const { EMBEDDINGS_KEY, RERANKER_KEY } = process.env;
  const read = (option: string, apiKey: string | undefined) => {
    const [baseUrl = "", model = ""] = option.split(",");
    return {
      baseUrl,
      model,
      fetch,
      provider: "bench",
      ...(apiKey === undefined ? {} : { apiKey }),
    };
  };
  const { embeddings, reranker } = values;
  if (embeddings === undefined && reranker === undefined) return undefined;
  return {
    ...(embeddings !== undefined && { embed: createEmbedder(read(embeddings, EMBEDDINGS_KEY)) }),
    ...(reranker !== undefined && {
      rerank: createReranker({ ...read(reranker, RERANKER_KEY), passages: 50 }),
    }),
  };
}

if (values.set !== undefined) {
  try {
    const log = createLogger("error");
    console.log(
      JSON.stringify(await evaluate(values.set, { log, sql, models: getModels() }), null, 2),
    );
  } finally {
    await scratch?.drop();
  }
  process.exit();
}

const circumstances = getCircumstances();
const dir = mkdtempSync(join(tmpdir(), "rouse-bench-knowledge-"));
const common = {
  dir,
  clock: systemClock,
  log: createLogger("error"),
  config: knowledgeSchema.parse(undefined),
};
const knowledge = await createKnowledge({ ...common, sql });
const delay = monitorEventLoopDelay({ resolution: 5 });

/** Adds documents, many at a time, and waits until all can be found. Returns seconds, and how many chunks they became. */
async function addAll(documents: readonly Buffer[]): Promise<{ seconds: number; chunks: number }> {
  const began = performance.now();
  const waits: Promise<number>[] = [];
  for (let from = 0; from < documents.length; from += 32) {
    const added = await Promise.all(
      documents.slice(from, from + 32).map(async (bytes) => {
        const staged = await stageBytes(dir, bytes, bytes.length);
        return (await knowledge.add({ tenant: "bench", ...staged, filename: "text.md" })).document;
      }),
    );
    for (const { id } of added)
      waits.push(knowledge.wait(id, 600_000).then((document) => document?.chunkCount ?? 0));
  }
  const chunks = (await Promise.all(waits)).reduce((sum, count) => sum + count, 0);
  return { seconds: (performance.now() - began) / 1000, chunks };
}

try {
  await knowledge.start();
  // The first one starts the processes that read.
  await addAll([makeDocument()]);
  delay.enable();
  let { seconds, chunks } = await addAll(Array.from({ length: DOCUMENTS }, makeDocument));
  const perSecond = DOCUMENTS / seconds;
  const indexingDelay = delay.percentile(99) / 1e6;
  while (chunks < CHUNKS)
    chunks += (await addAll(Array.from({ length: 500 }, makeDocument))).chunks;
  delay.reset();
  const times: number[] = [];
  for (let i = 0; i < QUESTIONS; i++) {
    const began = performance.now();
    await knowledge.search({ tenant: "bench", text: material.question() });
    times.push(performance.now() - began);
  }
  const count = (pieces: number): string => pieces.toLocaleString("en");
  const rows: Row[] = [
    { row: `documents of ${count(LETTERS)} letters indexed`, value: perSecond, unit: "a second" },
    { row: `a search among ${count(chunks)} passages, median`, value: median(times), unit: "ms" },
    {
      row: `a search among ${count(chunks)} passages, longest of ${QUESTIONS}`,
      value: Math.max(...times),
      unit: "ms",
    },
    { row: "delay of the event loop, p99: indexing", value: indexingDelay, unit: "ms" },
    {
      row: "delay of the event loop, p99: searching",
      value: delay.percentile(99) / 1e6,
      unit: "ms",
    },
  ];
  if (values.json) console.log(JSON.stringify({ ...circumstances, rows }, null, 2));
  else
    console.log(
      `${renderCircumstances(circumstances)}, on ${renderMachine(circumstances)}.\n\n${renderRows(rows)}`,
    );
  if (values.write) writeRun({ ...circumstances, sections: { Documents: rows } });
} finally {
  await knowledge.close();
  await scratch?.drop();
  rmSync(dir, { recursive: true, force: true });
}
