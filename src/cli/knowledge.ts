import { createReadStream } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { basename, extname, join, resolve } from "node:path";
import type { Command } from "commander";
import { RouseError } from "../core/errors.ts";
import { createLogger } from "../core/log.ts";
import { evaluate } from "../knowledge/evaluate.ts";
import { stageFile } from "../knowledge/stage.ts";
import {
  DEFAULT_TENANT,
  DOCUMENT_STATES,
  ON_DUPLICATE,
  type DocumentRecord,
  type DocumentStatus,
  type Format,
  type OnDuplicate,
  type Passage,
} from "../knowledge/types.ts";
import { usage } from "./failure.ts";
import type { CliIo } from "./io.ts";
import { withKnowledge, type OpenKnowledge } from "./knowledge-open.ts";
import { pairs, reading, type CommonOptions } from "./options.ts";
import { printBlock, printFields, printJson, printTable } from "./print.ts";
import { createProgress } from "./progress.ts";
import { bytes, cell, shortTime } from "./text.ts";

interface TenantOptions extends CommonOptions {
  tenant: string;
}

interface AddOptions extends TenantOptions {
  agent?: string[];
  title?: string;
  externalId?: string;
  metadata?: Record<string, string>;
  onDuplicate: string;
}

interface ListOptions extends TenantOptions {
  status?: string;
  agent?: string;
  limit?: string;
  after?: string;
}

interface SearchOptions extends TenantOptions {
  agent?: string;
  limit?: string;
}

const WAIT_MS = 24 * 60 * 60 * 1000;

function oneOf<T extends string>(option: string, value: string, allowed: readonly T[]): T {
  const found = allowed.find((one) => one === value);
  if (found === undefined) throw usage(`${option}: write one of ${allowed.join(", ")}`);
  return found;
}

function numberOf(option: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^[1-9]\d*$/.test(text)) throw usage(`${option}: write a whole number above 0`);
  return Number(text);
}

const notFound = (id: string): RouseError => new RouseError({ code: "not_found", message: `there is no document ${id}` });

/** The files that are meant: of a folder, all below it that have an ending which can be read. */
async function filesOf(paths: readonly string[], formats: readonly Format[], io: CliIo): Promise<string[]> {
  const endings = new Set(formats.flatMap(({ extensions }) => extensions.map((extension) => `.${extension}`)));
  const files: string[] = [];
  for (const path of paths) {
    const full = resolve(io.cwd, path);
    const found = await stat(full).catch(() => undefined);
    if (!found) throw usage(`${path} cannot be read`);
    if (!found.isDirectory()) files.push(full);
    else
      for (const entry of await readdir(full, { recursive: true, withFileTypes: true }))
        if (entry.isFile() && endings.has(extname(entry.name).toLowerCase())) files.push(join(entry.parentPath, entry.name));
  }
  if (files.length === 0) throw usage("there is no file that can be read");
  return files.toSorted();
}

async function addFile(open: OpenKnowledge, file: string, options: AddOptions): Promise<{ document: DocumentRecord; duplicate: boolean }> {
  const staged = await stageFile(open.stateDir, createReadStream(file), open.fileBytes);
  return open.knowledge.add({
    tenant: options.tenant,
    ...staged,
    filename: basename(file),
    onDuplicate: oneOf<OnDuplicate>("--on-duplicate", options.onDuplicate, ON_DUPLICATE),
    ...(options.agent === undefined ? {} : { agentIds: options.agent }),
    ...(options.title === undefined ? {} : { title: options.title }),
    ...(options.externalId === undefined ? {} : { externalId: options.externalId }),
    ...(options.metadata === undefined ? {} : { metadata: options.metadata }),
  });
}

/** One file that is refused keeps no other from being added. */
function refused(error: unknown, file: string, io: CliIo): undefined {
  if (!(error instanceof RouseError) || !["body_too_large", "duplicate_document"].includes(error.code)) throw error;
  io.err(`rouse: ${cell(basename(file))}: ${error.message}\n`);
  io.exitCode = 1;
}

async function add(paths: string[], options: AddOptions, io: CliIo): Promise<void> {
  oneOf("--on-duplicate", options.onDuplicate, ON_DUPLICATE);
  const results = await withKnowledge(options, io, async (open) => {
    const files = await filesOf(paths, open.knowledge.formats(), io);
    if (files.length > 1 && (options.title !== undefined || options.externalId !== undefined))
      throw usage("--title and --external-id name one document: add it alone");
    await open.knowledge.start();
    const progress = createProgress(io, "indexing", files.length);
    let done = 0;
    const ended: { document: DocumentRecord; duplicate: boolean }[] = [];
    try {
      const waits: Promise<unknown>[] = [];
      for (const file of files) {
        const added = await addFile(open, file, options).catch((error: unknown) => refused(error, file, io));
        if (!added) continue;
        const { document, duplicate } = added;
        const wait = open.knowledge.wait(document.id, WAIT_MS).then((last) => {
          ended.push({ document: last ?? document, duplicate });
          progress.update(++done, cell(basename(file)));
        });
        waits.push(wait);
      }
      await Promise.all(waits);
    } finally {
      progress.end();
    }
    return ended;
  });
  if (results.some(({ document }) => document.status !== "ready")) io.exitCode = 1;
  if (options.json) return printJson(io, { documents: results.map(({ document, duplicate }) => ({ ...document, duplicate })) });
  for (const { document, duplicate } of results) io.out(`${lineOf(document)}${duplicate ? "  (was there already)" : ""}\n`);
}

function lineOf(document: DocumentRecord): string {
  const what = document.error ? `${document.error.code}: ${document.error.message}` : `${document.chunkCount} chunks`;
  return `${document.id}  ${document.status}  ${cell(document.filename)}  ${what}`;
}

async function list(options: ListOptions, io: CliIo): Promise<void> {
  const limit = numberOf("--limit", options.limit);
  const page = await withKnowledge(options, io, ({ knowledge }) =>
    knowledge.list(options.tenant, {
      ...(limit === undefined ? {} : { limit }),
      ...(options.after === undefined ? {} : { after: options.after }),
      ...(options.agent === undefined ? {} : { agentId: options.agent }),
      ...(options.status === undefined ? {} : { status: oneOf<DocumentStatus>("--status", options.status, DOCUMENT_STATES) }),
    }),
  );
  if (options.json) return printJson(io, page);
  const rows = page.documents.map((document) => [
    document.id,
    document.error ? `${document.status} (${document.error.code})` : document.status,
    bytes(document.bytes),
    String(document.chunkCount),
    shortTime(new Date(document.createdAt).toISOString(), io.now()),
    document.filename,
  ]);
  printTable(io, ["DOCUMENT", "STATUS", "SIZE", "CHUNKS", "ADDED", "FILE"], rows);
  if (page.hasMore) io.out(`\nmore: rouse knowledge list --after ${page.documents.at(-1)?.id ?? ""}\n`);
}

async function show(id: string, options: TenantOptions, io: CliIo): Promise<void> {
  const document = await withKnowledge(options, io, ({ knowledge }) => knowledge.get(options.tenant, id));
  if (!document) throw notFound(id);
  if (options.json) return printJson(io, document);
  printFields(io, {
    document: document.id,
    file: document.filename,
    title: document.title,
    status: document.status,
    error: document.error && `${document.error.code}: ${document.error.message}`,
    type: document.mimeType,
    size: bytes(document.bytes),
    pages: document.pageCount,
    chunks: document.chunkCount,
    vectors: document.embeddedCount === 0 ? null : document.embeddedCount,
    agents: document.agentIds.join(" ") || "all",
    "external id": document.externalId,
    version: document.version,
    added: new Date(document.createdAt).toLocaleString(),
    indexed: document.indexedAt === null ? null : new Date(document.indexedAt).toLocaleString(),
    sha256: document.sha256,
    ...Object.fromEntries(Object.entries(document.metadata).map(([name, value]) => [`metadata ${cell(name)}`, String(value)])),
  });
}

async function remove(ids: string[], options: TenantOptions, io: CliIo): Promise<void> {
  await withKnowledge(options, io, async ({ knowledge }) => {
    for (const id of ids) {
      if (!(await knowledge.remove(options.tenant, id))) throw notFound(id);
      io.out(`${id}  deleted\n`);
    }
  });
}

function printPassage(passage: Passage, rank: number, io: CliIo): void {
  const where = [passage.title ?? passage.filename, ...passage.headings, ...(passage.page === null ? [] : [`page ${passage.page}`])];
  printBlock(io, `${rank}  ${cell(where.join(" › "))}  ${passage.id}`, passage.text);
}

async function search(words: string[], options: SearchOptions, io: CliIo): Promise<void> {
  const limit = numberOf("--limit", options.limit);
  const passages = await withKnowledge(options, io, ({ knowledge }) =>
    knowledge.search({
      tenant: options.tenant,
      text: words.join(" "),
      ...(options.agent === undefined ? {} : { agentId: options.agent }),
      ...(limit === undefined ? {} : { limit }),
    }),
  );
  if (options.json) return printJson(io, { passages });
  if (passages.length === 0) io.err("nothing found\n");
  for (const [index, passage] of passages.entries()) printPassage(passage, index + 1, io);
}

async function evaluateFolder(folder: string, options: CommonOptions, io: CliIo): Promise<void> {
  const progress = createProgress(io, "indexing");
  const figures = await evaluate(resolve(io.cwd, folder), createLogger(options.verbose ? "info" : "error"), (done, total) =>
    progress.update(done, `${done}/${total} chunks`),
  ).finally(() => progress.end());
  if (options.json) return printJson(io, figures);
  printFields(io, {
    documents: figures.documents,
    chunks: figures.chunks,
    queries: figures.queries,
    "nDCG@10": figures.ndcg10.toFixed(4),
    MAP: figures.map.toFixed(4),
    "recall@100": figures.recall100.toFixed(4),
    "indexed in": `${figures.indexSeconds.toFixed(1)} s`,
    "search p50": `${figures.searchMs.p50.toFixed(1)} ms`,
    "search p95": `${figures.searchMs.p95.toFixed(1)} ms`,
  });
}

const collect = (value: string, before: string[] = []): string[] => [...before, value];

export function registerKnowledge(program: Command, io: CliIo): void {
  const knowledge = program.command("knowledge").description("documents that agents look things up in");
  const tenant = (command: Command): Command => command.option("--tenant <id>", "whose documents", DEFAULT_TENANT);
  reading(
    tenant(knowledge.command("add <path...>").description("index files, and those of folders"))
      .option("--agent <id>", "an agent that may search it (repeatable; default: all)", collect)
      .option("--title <text>", "what it is called")
      .option("--external-id <id>", "your name for it: a new version takes the old one's place")
      .option("--metadata <name=value>", "a fact about it (repeatable)", pairs)
      .option("--on-duplicate <how>", `for bytes that are there already: ${ON_DUPLICATE.join(", ")}`, "skip"),
    "rouse knowledge add handbook.pdf --agent support",
    "rouse knowledge add ./manuals",
  ).action((paths: string[], options: AddOptions) => add(paths, options, io));
  reading(
    tenant(knowledge.command("list").description("documents, newest first"))
      .option("--status <status>", DOCUMENT_STATES.join(", "))
      .option("--agent <id>", "that an agent may search")
      .option("--limit <n>", "how many (default 50, at most 500)")
      .option("--after <id>", "older than this one: the next page"),
    "rouse knowledge list --status failed",
  ).action((options: ListOptions) => list(options, io));
  reading(tenant(knowledge.command("show <id>").description("what is known of a document")), "rouse knowledge show doc_1k7u").action(
    (id: string, options: TenantOptions) => show(id, options, io),
  );
  reading(
    tenant(knowledge.command("remove <id...>").description("delete documents with all that was indexed of them")),
    "rouse knowledge remove doc_1k7u",
  ).action((ids: string[], options: TenantOptions) => remove(ids, options, io));
  reading(
    tenant(knowledge.command("search <text...>").description("the passages that a question finds, best first"))
      .option("--agent <id>", "only what this agent may see")
      .option("--limit <n>", "how many (default 8)"),
    "rouse knowledge search how long is lost property kept",
  ).action((words: string[], options: SearchOptions) => search(words, options, io));
  reading(
    knowledge
      .command("eval <folder>")
      .description("measure the search by words on a folder with corpus.jsonl, queries.jsonl and qrels.tsv (BEIR); keeps nothing"),
    "rouse knowledge eval ./beir/scifact",
  ).action((folder: string, options: CommonOptions) => evaluateFolder(folder, options, io));
}
