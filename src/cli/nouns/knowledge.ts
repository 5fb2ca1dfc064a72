import { createReadStream } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { basename, extname, join, resolve } from "node:path";
import { Readable } from "node:stream";
import { OPERATOR_TENANT } from "../../config/checks.ts";
import { RouseError } from "../../core/errors.ts";
import { FORMATS } from "../../knowledge/formats.ts";
import {
  DOCUMENT_STATES,
  ON_DUPLICATE,
  type DocumentRecord,
  type Passage,
} from "../../knowledge/types.ts";
import { asking, type AskedGateway, LIMIT_OPTION, type Given, type Noun } from "../command.ts";
import { read, withId, type AdminClient } from "../gateway/connect.ts";
import { noSuch, unreadable, usage } from "../failure.ts";
import { EXIT, type CliIo } from "../io.ts";
import { readCount } from "../options.ts";
import { printBlock, printDetail, printRows } from "../print.ts";
import { withProgress } from "../progress.ts";
import { bytes, cell, localTime, shellWord } from "../text.ts";
import { plural } from "../../core/text.ts";

const TENANT_OPTION = {
  "--tenant <id>": { about: "whose documents", default: OPERATOR_TENANT },
} as const;
const ADD_OPTIONS = {
  ...TENANT_OPTION,
  "--agent <id>": {
    about: "an agent that may search it (repeatable; default: all)",
    repeat: "list",
  },
  "--title <text>": "what it is called",
  "--external-id <id>": "your name for it: a new version takes the old one's place",
  "--metadata <name=value>": { about: "a fact about it (repeatable)", repeat: "pairs" },
  "--on-duplicate <how>": {
    about: "for a file that is indexed already",
    choices: ON_DUPLICATE,
    default: "skip",
  },
} as const;

type AddOptions = Given<typeof ADD_OPTIONS>;
type Documents = AdminClient["knowledge"]["documents"];

/** The time for which one request waits for a document to be ready or failed. */
const WAIT_SECONDS = "1";

/** A document, and whether its bytes were there already. */
type AddedDocument = DocumentRecord & { duplicate?: boolean };

/** The files that are meant: of a folder, all below it that have an ending which can be read. */
async function findFiles(paths: readonly string[], io: CliIo): Promise<string[]> {
  const endings = new Set(
    Object.values(FORMATS).flatMap(({ extensions }) =>
      extensions.map((extension) => `.${extension}`),
    ),
  );
  const files: string[] = [];
  for (const path of paths) {
    const full = resolve(io.cwd, path);
    const found = await stat(full).catch((error: unknown) => {
      throw unreadable(path, error);
    });
    if (!found.isDirectory()) files.push(full);
    else
      for (const entry of await readdir(full, { recursive: true, withFileTypes: true }))
        if (entry.isFile() && endings.has(extname(entry.name).toLowerCase()))
          files.push(join(entry.parentPath, entry.name));
  }
  if (files.length === 0) throw noSuch("there is no file that can be read");
  return files.toSorted();
}

async function upload(
  documents: Documents,
  file: string,
  { tenant, agent, title, externalId, metadata, onDuplicate }: AddOptions,
): Promise<AddedDocument> {
  const query = {
    tenant,
    filename: basename(file),
    agent,
    title,
    externalId,
    metadata: metadata && JSON.stringify(metadata),
    onDuplicate,
  };
  const source = createReadStream(file);
  const body = Readable.toWeb(source) as ReadableStream<Uint8Array>;
  const options = {
    headers: { "content-type": "application/octet-stream" },
    init: { body, duplex: "half" as const },
  };
  const answer = read(documents.$post({ query }, options)).finally(() => source.destroy());
  const { document, duplicate } = await answer;
  return { ...document, duplicate };
}

/** One file that is refused keeps no other from being added. */
function reportSkipped(error: unknown, file: string, io: CliIo): void {
  if (
    !(error instanceof RouseError) ||
    !["body_too_large", "duplicate_document"].includes(error.code)
  )
    throw error;
  io.err(`rouse: ${cell(basename(file))}: ${error.message}\n`);
  io.exitCode = EXIT.failure;
}

/** Brings the files to where they are read, one after the other. */
const uploadAll = (
  documents: Documents,
  files: readonly string[],
  options: AddOptions,
  io: CliIo,
): Promise<AddedDocument[]> =>
  withProgress(io, "uploading", files.length, async (progress) => {
    const added: AddedDocument[] = [];
    for (const [done, path] of files.entries()) {
      progress.update(done, cell(basename(path)));
      try {
        added.push(await upload(documents, path, options));
      } catch (error) {
        reportSkipped(error, path, io);
      }
    }
    return added;
  });

/** Waits until every document is ready or failed, or was deleted or replaced meanwhile. */
const waitUntilIndexed = (
  documents: Documents,
  added: readonly AddedDocument[],
  io: CliIo,
): Promise<AddedDocument[]> =>
  withProgress(io, "indexing", added.length, async (progress) => {
    const settled: AddedDocument[] = [];
    for (const document of added) {
      let last = document;
      while (last.status !== "ready" && last.status !== "failed") {
        progress.update(settled.length + last.progress, cell(last.filename));
        const query = { tenant: last.tenant, wait: WAIT_SECONDS };
        const asked = read(documents[":id"].$get({ ...withId(last.id), query }));
        const now = await asked.catch(orUndefined);
        if (!now) break;
        last = { ...last, ...now.document };
      }
      settled.push(last);
      progress.update(settled.length, cell(last.filename));
    }
    return settled;
  });

const orUndefined = (error: unknown): undefined => {
  if (error instanceof RouseError && error.code === "not_found") return undefined;
  throw error;
};

/** Starts the indexing of what `queue` adds, and waits for it if somebody does the work. */
async function index(
  { api, io, indexDocuments }: AskedGateway,
  queue: (documents: Documents) => Promise<AddedDocument[]>,
): Promise<{ documents: AddedDocument[] }> {
  const { documents } = api.knowledge;
  const works = await indexDocuments();
  const added = await queue(documents);
  if (works) {
    const settled = await waitUntilIndexed(documents, added, io);
    if (settled.some(({ status }) => status !== "ready")) io.exitCode = EXIT.failure;
    return { documents: settled };
  }
  io.err(
    "the gateway runs without workers: the documents stay queued until one with workers starts\n",
  );
  return { documents: added };
}

function printDocuments({ documents }: { documents: AddedDocument[] }, io: CliIo): void {
  for (const { id, status, filename, error, chunkCount, duplicate } of documents) {
    const what = error ? `${error.code}: ${error.message}` : plural(chunkCount, "passage");
    const known = duplicate ? "  (was there already)" : "";
    io.out(`${id}  ${status}  ${cell(filename)}  ${what}${known}\n`);
  }
}

/** Has documents read again. */
async function reindexAll(
  documents: Documents,
  ids: readonly string[],
  { tenant }: AddOptions,
): Promise<AddedDocument[]> {
  const all: AddedDocument[] = [];
  for (const id of ids) {
    const again = documents[":id"].reindex.$post({ ...withId(id), query: { tenant } });
    all.push((await read(again)).document);
  }
  return all;
}

const isDocument = (name: string): boolean => name.startsWith("doc_");

const add = asking({
  usage: "add <path...>",
  about:
    "index files, and those of folders; or read documents again that are named by their ids: the previous version stays searchable until the new one is ready",
  examples: [
    "rouse knowledge add handbook.pdf --agent support",
    "rouse knowledge add ./manuals",
    "rouse knowledge add doc_1k7u",
  ],
  options: ADD_OPTIONS,
  async ask(to, given, names) {
    if (names.every(isDocument))
      return index(to, (documents) => reindexAll(documents, names, given));
    const files = await findFiles(names, to.io);
    if (files.length > 1 && (given.title !== undefined || given.externalId !== undefined))
      throw usage("--title and --external-id name one document: add it alone");
    return index(to, (documents) => uploadAll(documents, files, given, to.io));
  },
  print: printDocuments,
});

const list = asking({
  usage: "",
  about: "documents, newest first",
  examples: ["rouse knowledge --status failed"],
  options: {
    ...TENANT_OPTION,
    "--status <status>": { about: "of one state", choices: DOCUMENT_STATES },
    "--agent <id>": "that an agent may search",
    ...LIMIT_OPTION,
    "--before <id>": "older than this one: the next page",
  },
  ask: ({ api }, { tenant, status, agent, limit, before: after }) =>
    read(
      api.knowledge.documents.$get({
        query: { tenant, status, agent, limit, after },
      }),
    ),
  print({ documents, hasMore }, io) {
    if (documents.length === 0) return io.out("no documents\n");
    printRows(
      io,
      [
        "id",
        ["status", ({ status, error }) => (error ? `${status} (${error.code})` : status)],
        ["size", (document) => bytes(document.bytes)],
        ["passages", ({ chunkCount }) => chunkCount],
        ["added", ({ createdAt }, time) => time(new Date(createdAt).toISOString())],
        ["file", ({ filename }) => filename],
      ],
      documents,
    );
    const last = documents.at(-1)?.id ?? "";
    if (hasMore) io.out(`\nmore: rouse knowledge --before ${shellWord(last)}\n`);
  },
});

/** Renders the place of a passage: headings and page below the names that are given. */
const renderPlace = (
  { headings, page }: Pick<Passage, "headings" | "page">,
  ...names: string[]
): string => cell([...names, ...headings, ...(page === null ? [] : [`page ${page}`])].join(" › "));

const show = asking({
  usage: "<id>",
  about: "what is known of a document",
  examples: ["rouse knowledge doc_1k7u"],
  options: TENANT_OPTION,
  async ask({ api }, { tenant }, id) {
    const one = api.knowledge.documents[":id"];
    return (await read(one.$get({ ...withId(id), query: { tenant } }))).document;
  },
  print(document, io) {
    const { createdAt, indexedAt } = document;
    printDetail(io, {
      ...document,
      createdAt: localTime(createdAt),
      indexedAt: indexedAt && localTime(indexedAt),
    });
  },
});

const remove = asking({
  usage: "remove <id...>",
  about: "delete documents with all that was indexed of them",
  examples: ["rouse knowledge remove doc_1k7u"],
  options: TENANT_OPTION,
  async ask({ api }, { tenant }, ids) {
    for (const id of ids)
      await api.knowledge.documents[":id"].$delete({ ...withId(id), query: { tenant } });
    return { deleted: ids };
  },
  print: ({ deleted }, io) => deleted.forEach((id) => io.out(`${id}  deleted\n`)),
});

const search = asking({
  usage: "",
  about: "the passages that a question finds, best first: 8, or as many as --limit says",
  examples: ["rouse knowledge --search how long is lost property kept"],
  options: {
    "--search <text...>": "the passages that a question finds, best first (default 8)",
    ...TENANT_OPTION,
    "--agent <id>": "that this agent may see",
    ...LIMIT_OPTION,
  },
  ask({ api }, { tenant, agent, limit, search: words = [] }) {
    const json = { tenant, text: words.join(" "), agent, limit: readCount("limit", limit) };
    return read(api.knowledge.search.$post({ json }));
  },
  print({ passages: found }, io) {
    if (found.length === 0) io.err("nothing found\n");
    for (const [at, passage] of found.entries()) {
      const place = renderPlace(passage, passage.title ?? passage.filename);
      printBlock(io, `${at + 1}  ${place}  ${passage.chunkId}`, passage.text);
    }
  },
});

export const knowledgeCommand: Noun = {
  list,
  show,
  views: { "--search <text...>": search },
  commands: [add, remove],
};
