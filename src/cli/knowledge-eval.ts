import { resolve } from "node:path";
import type { Command } from "commander";
import { readProviders } from "../config/providers.ts";
import { systemClock } from "../core/clock.ts";
import { BUILTIN_PLUGINS } from "../gateway/snapshot.ts";
import { configuredSearchModels, searchModelIssues } from "../knowledge/configured.ts";
import { evaluate } from "../knowledge/evaluate.ts";
import type { EvaluatedModels } from "../knowledge/evaluated-models.ts";
import type { SearchModels } from "../knowledge/types.ts";
import { usage } from "./failure.ts";
import { SYSTEM, type CliIo } from "./io.ts";
import { createCommandLogger } from "./log.ts";
import { reading, type CommonOptions } from "./options.ts";
import { printFields, printJson } from "./print.ts";
import { createProgress } from "./progress.ts";
import { configInvalid, loadSettings } from "./settings.ts";
import { findDriver } from "./store-driver.ts";

interface EvalOptions extends CommonOptions {
  store?: string;
  embeddings?: boolean;
  reranker?: boolean;
}

/** The options that add a model to what is measured, with the model's setting in `platform.knowledge`. */
const MODELS = [
  { name: "embeddings", made: "embed", what: "embedding" },
  { name: "reranker", made: "rerank", what: "reranking" },
] as const;

/** The models of the config that the options ask for; undefined if they ask for none. */
async function readModels(options: EvalOptions, io: CliIo): Promise<EvaluatedModels | undefined> {
  const asked = MODELS.filter(({ name }) => options[name]);
  if (asked.length === 0) return undefined;
  const { config } = await loadSettings(options, io);
  const kinds = readProviders(BUILTIN_PLUGINS);
  const issues = searchModelIssues(config, kinds);
  if (issues.length > 0) throw configInvalid({ issues });
  const configured = configuredSearchModels({ config, env: io.env, fetch: SYSTEM.fetch, kinds });
  const models: SearchModels = {};
  for (const { name, made, what } of asked) {
    const provider = config.platform.knowledge[name]?.provider;
    if (provider === undefined)
      throw usage(
        `--${name}: the config names no ${name}. Set platform.knowledge.${name} to { provider: "<one of models.providers>", model: "<its ${what} model>" }, or leave out --${name}`,
      );
    if (!configured[made])
      throw usage(
        `platform.knowledge.${name}: the provider "${provider}" has no address: set models.providers.${provider}.baseUrl`,
      );
    Object.assign(models, { [made]: configured[made] });
  }
  return { models, clock: systemClock };
}

const toFour = (figure: number): string => figure.toFixed(4);

async function evaluateFolder(folder: string, options: EvalOptions, io: CliIo): Promise<void> {
  const { store: url } = options;
  const driver =
    url === undefined ? undefined : await findDriver(url, options, io).catch(() => undefined);
  if (url !== undefined && !driver?.scratch)
    throw usage('--store: write "postgres://user:password@host:5432/database"');
  const store = url !== undefined && driver ? { url, driver } : undefined;
  const evaluated = await readModels(options, io);
  const progress = createProgress(io, "measuring");
  const log = createCommandLogger(options, io);
  const onProgress = (what: string, done: number, total: number): void =>
    progress.update(done, `${what} ${done}/${total} ${what === "asking" ? "questions" : "chunks"}`);
  const figures = await evaluate(resolve(io.cwd, folder), {
    log,
    env: io.env,
    onProgress,
    store,
    evaluated,
  }).finally(() => progress.end());
  if (options.json) return printJson(io, figures);
  const { byWords, embedSeconds } = figures;
  const besideWords = (name: "ndcg10" | "map" | "recall100"): string =>
    `${toFour(figures[name])}${byWords ? ` (by words alone ${toFour(byWords[name])})` : ""}`;
  printFields(io, {
    documents: figures.documents,
    chunks: figures.chunks,
    queries: figures.queries,
    "nDCG@10": besideWords("ndcg10"),
    MAP: besideWords("map"),
    "recall@100": besideWords("recall100"),
    "indexed in": `${figures.indexSeconds.toFixed(1)} s`,
    "vectors in": embedSeconds === undefined ? null : `${embedSeconds.toFixed(1)} s`,
    "search p50": `${figures.searchMs.p50.toFixed(1)} ms`,
    "search p95": `${figures.searchMs.p95.toFixed(1)} ms`,
  });
}

/** Adds `rouse knowledge eval`. */
export function addEvalCommand(knowledge: Command, io: CliIo): void {
  reading(
    knowledge
      .command("eval <folder>")
      .description(
        "measure the search on a folder with corpus.jsonl, queries.jsonl and qrels.tsv (BEIR); keeps nothing",
      )
      .option(
        "--embeddings",
        "search by meaning as well, with platform.knowledge.embeddings; sends all texts of the folder to its endpoint",
      )
      .option(
        "--reranker",
        "order what is found by platform.knowledge.reranker; sends the questions and their passages to its endpoint",
      )
      .option(
        "--store <url>",
        "measure the one in this PostgreSQL, in a schema that is made for it and dropped",
      ),
    "rouse knowledge eval ./beir/scifact",
    "rouse knowledge eval ./beir/scifact --embeddings --reranker --json",
    "rouse knowledge eval ./beir/scifact --store postgres://localhost:5432/rouse",
  ).action((folder: string, options: EvalOptions) => evaluateFolder(folder, options, io));
}
