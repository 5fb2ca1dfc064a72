import type { Command } from "commander";
import { OPERATOR_TENANT } from "../config/checks.ts";
import {
  DOCUMENT_STATES,
  ON_DUPLICATE,
  type DocumentStatus,
  type Passage,
} from "../knowledge/types.ts";
import { usage } from "./failure.ts";
import type { CliIo } from "./io.ts";
import { add, reindex, type AddOptions } from "./knowledge-add.ts";
import { notFound, parseChoice, withKnowledge, type TenantOptions } from "./knowledge-open.ts";
import { pairs, reading } from "./options.ts";
import { printBlock, printFields, printJson, printTable } from "./print.ts";
import { bytes, cell, localTime, shortTime } from "./text.ts";

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

function parseNumber(option: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^[1-9]\d*$/.test(text)) throw usage(`${option}: write a whole number above 0`);
  return Number(text);
}

async function list(options: ListOptions, io: CliIo): Promise<void> {
  const limit = parseNumber("--limit", options.limit);
  const page = await withKnowledge(options, io, (knowledge) =>
    knowledge.list(options.tenant, {
      ...(limit === undefined ? {} : { limit }),
      ...(options.after === undefined ? {} : { after: options.after }),
      ...(options.agent === undefined ? {} : { agent: options.agent }),
      ...(options.status === undefined
        ? {}
        : { status: parseChoice<DocumentStatus>("--status", options.status, DOCUMENT_STATES) }),
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
  if (page.hasMore)
    io.out(`\nmore: rouse knowledge list --after ${page.documents.at(-1)?.id ?? ""}\n`);
}

async function show(id: string, options: TenantOptions, io: CliIo): Promise<void> {
  const document = await withKnowledge(options, io, (knowledge) =>
    knowledge.get(options.tenant, id),
  );
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
    added: localTime(document.createdAt),
    indexed: document.indexedAt === null ? null : localTime(document.indexedAt),
    sha256: document.sha256,
    ...Object.fromEntries(
      Object.entries(document.metadata).map(([name, value]) => [
        `metadata ${cell(name)}`,
        String(value),
      ]),
    ),
  });
}

interface PassagesOptions extends TenantOptions {
  from?: string;
  limit?: string;
}

async function passages(id: string, options: PassagesOptions, io: CliIo): Promise<void> {
  const limit = parseNumber("--limit", options.limit);
  if (options.from !== undefined && !/^\d+$/.test(options.from))
    throw usage("--from: write a whole number, 0 for the first passage");
  const query = {
    ...(limit === undefined ? {} : { limit }),
    ...(options.from === undefined ? {} : { from: Number(options.from) }),
  };
  const page = await withKnowledge(options, io, (knowledge) =>
    knowledge.passages(options.tenant, id, query),
  );
  if (!page) throw notFound(id);
  if (options.json) return printJson(io, page);
  if (page.passages.length === 0) io.err("no passages\n");
  for (const passage of page.passages) {
    const where = [...passage.headings, ...(passage.page === null ? [] : [`page ${passage.page}`])];
    printBlock(
      io,
      `${passage.chunkId}${where.length === 0 ? "" : `  ${cell(where.join(" › "))}`}`,
      passage.text,
    );
  }
  const next = (page.passages.at(-1)?.number ?? 0) + 1;
  if (page.hasMore) io.out(`\nmore: rouse knowledge passages ${id} --from ${next}\n`);
}

async function remove(ids: string[], options: TenantOptions, io: CliIo): Promise<void> {
  await withKnowledge(options, io, async (knowledge) => {
    for (const id of ids) {
      if (!(await knowledge.remove(options.tenant, id))) throw notFound(id);
      if (!options.json) io.out(`${id}  deleted\n`);
    }
  });
  if (options.json) printJson(io, { deleted: ids });
}

function printPassage(passage: Passage, rank: number, io: CliIo): void {
  const where = [
    passage.title ?? passage.filename,
    ...passage.headings,
    ...(passage.page === null ? [] : [`page ${passage.page}`]),
  ];
  printBlock(io, `${rank}  ${cell(where.join(" › "))}  ${passage.chunkId}`, passage.text);
}

async function search(words: string[], options: SearchOptions, io: CliIo): Promise<void> {
  const limit = parseNumber("--limit", options.limit);
  const passages = await withKnowledge(options, io, (knowledge) =>
    knowledge.search({
      tenant: options.tenant,
      text: words.join(" "),
      ...(options.agent === undefined ? {} : { agent: options.agent }),
      ...(limit === undefined ? {} : { limit }),
    }),
  );
  if (options.json) return printJson(io, { passages });
  if (passages.length === 0) io.err("nothing found\n");
  for (const [index, passage] of passages.entries()) printPassage(passage, index + 1, io);
}

const collect = (value: string, before: string[] = []): string[] => [...before, value];

export function register(program: Command, io: CliIo): void {
  const knowledge = program
    .command("knowledge")
    .description("documents that agents look things up in");
  const tenant = (command: Command): Command =>
    command.option("--tenant <id>", "whose documents", OPERATOR_TENANT);
  reading(
    tenant(knowledge.command("add <path...>").description("index files, and those of folders"))
      .option("--agent <id>", "an agent that may search it (repeatable; default: all)", collect)
      .option("--title <text>", "what it is called")
      .option("--external-id <id>", "your name for it: a new version takes the old one's place")
      .option("--metadata <name=value>", "a fact about it (repeatable)", pairs)
      .option(
        "--on-duplicate <how>",
        `for bytes that are there already: ${ON_DUPLICATE.join(", ")}`,
        "skip",
      ),
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
  reading(
    tenant(knowledge.command("show <id>").description("what is known of a document")),
    "rouse knowledge show doc_1k7u",
  ).action((id: string, options: TenantOptions) => show(id, options, io));
  reading(
    tenant(
      knowledge
        .command("passages <id>")
        .description("the passages of a document, in the order of its text"),
    )
      .option(
        "--from <n>",
        "the number of the first one (default 0); a passage is named <document>#<number>",
      )
      .option("--limit <n>", "how many (default 50, at most 500)"),
    "rouse knowledge passages doc_1k7u --from 12 --limit 3",
  ).action((id: string, options: PassagesOptions) => passages(id, options, io));
  reading(
    tenant(
      knowledge
        .command("remove <id...>")
        .description("delete documents with all that was indexed of them"),
    ),
    "rouse knowledge remove doc_1k7u",
  ).action((ids: string[], options: TenantOptions) => remove(ids, options, io));
  reading(
    tenant(
      knowledge
        .command("reindex <id...>")
        .description(
          "read documents again; the previous version stays searchable until the new one is ready",
        ),
    ),
    "rouse knowledge reindex doc_1k7u",
  ).action((ids: string[], options: TenantOptions) => reindex(ids, options, io));
  reading(
    tenant(
      knowledge
        .command("search <text...>")
        .description("the passages that a question finds, best first"),
    )
      .option("--agent <id>", "only what this agent may see")
      .option("--limit <n>", "how many (default 8)"),
    "rouse knowledge search how long is lost property kept",
  ).action((words: string[], options: SearchOptions) => search(words, options, io));
}
