import { readdir, stat } from "node:fs/promises";
import { basename, extname, join, resolve } from "node:path";
import { RouseError } from "../core/errors.ts";
import { FORMATS } from "../knowledge/formats.ts";
import { ON_DUPLICATE, type DocumentRecord } from "../knowledge/types.ts";
import { usage } from "./failure.ts";
import type { CliIo } from "./io.ts";
import {
  notFound,
  parseChoice,
  withKnowledge,
  type Described,
  type KnowledgeAccess,
  type TenantOptions,
} from "./knowledge-open.ts";
import { printJson } from "./print.ts";
import { createProgress } from "./progress.ts";
import { bytes, cell } from "./text.ts";

export interface AddOptions extends TenantOptions {
  agent?: string[];
  title?: string;
  externalId?: string;
  metadata?: Record<string, string>;
  onDuplicate: string;
}

interface AddedDocument {
  document: DocumentRecord;
  duplicate: boolean;
}
interface FoundFile {
  path: string;
  size: number;
}

/** The files that are meant: of a folder, all below it that have an ending which can be read. */
async function findFiles(paths: readonly string[], io: CliIo): Promise<FoundFile[]> {
  const endings = new Set(
    Object.values(FORMATS).flatMap(({ extensions }) =>
      extensions.map((extension) => `.${extension}`),
    ),
  );
  const files: string[] = [];
  for (const path of paths) {
    const full = resolve(io.cwd, path);
    const found = await stat(full).catch(() => undefined);
    if (!found) throw usage(`${path} cannot be read`);
    if (!found.isDirectory()) files.push(full);
    else
      for (const entry of await readdir(full, { recursive: true, withFileTypes: true }))
        if (entry.isFile() && endings.has(extname(entry.name).toLowerCase()))
          files.push(join(entry.parentPath, entry.name));
  }
  if (files.length === 0) throw usage("there is no file that can be read");
  return Promise.all(
    files.toSorted().map(async (path) => ({ path, size: (await stat(path)).size })),
  );
}

function describedBy(options: AddOptions, file: string): Described {
  return {
    tenant: options.tenant,
    filename: basename(file),
    onDuplicate: parseChoice("--on-duplicate", options.onDuplicate, ON_DUPLICATE),
    ...(options.agent === undefined ? {} : { agentIds: options.agent }),
    ...(options.title === undefined ? {} : { title: options.title }),
    ...(options.externalId === undefined ? {} : { externalId: options.externalId }),
    ...(options.metadata === undefined ? {} : { metadata: options.metadata }),
  };
}

/** One file that is reportSkipped keeps no other from being added. */
function reportSkipped(error: unknown, file: string, io: CliIo): undefined {
  if (
    !(error instanceof RouseError) ||
    !["body_too_large", "duplicate_document"].includes(error.code)
  )
    throw error;
  io.err(`rouse: ${cell(basename(file))}: ${error.message}\n`);
  io.exitCode = 1;
}

/** Brings the files to where they are read, one after the other. */
async function uploadAll(
  knowledge: KnowledgeAccess,
  files: readonly FoundFile[],
  options: AddOptions,
  io: CliIo,
): Promise<AddedDocument[]> {
  const total = files.reduce((sum, { size }) => sum + size, 0);
  const progress = createProgress(io, "uploading", files.length);
  const added: AddedDocument[] = [];
  let sent = 0;
  let before = 0;
  try {
    for (const [index, { path, size }] of files.entries()) {
      const onBytes = (count: number): void => {
        sent += count;
        const part = size === 0 ? 0 : Math.min(1, (sent - before) / size);
        progress.update(
          index + part,
          `${bytes(Math.min(sent, total))} of ${bytes(total)} ${cell(basename(path))}`,
        );
      };
      const one = await knowledge
        .addFile(path, describedBy(options, path), onBytes)
        .catch((error: unknown) => reportSkipped(error, path, io));
      if (one) added.push(one);
      before += size;
      sent = before;
    }
  } finally {
    progress.end();
  }
  return added;
}

/** Waits until every document is ready or failed. A turn of the bar is the share of all that is to be done. */
async function waitUntilIndexed(
  knowledge: KnowledgeAccess,
  documents: readonly DocumentRecord[],
  io: CliIo,
): Promise<DocumentRecord[]> {
  const progress = createProgress(io, "indexing", documents.length);
  const parts = new Map<string, number>();
  const show = (id: string, part: number, name: string): void => {
    parts.set(id, part);
    progress.update(
      [...parts.values()].reduce((sum, one) => sum + one, 0),
      cell(name),
    );
  };
  const settle = async (document: DocumentRecord): Promise<DocumentRecord> => {
    for (let last = document; ;) {
      const now = await knowledge.wait(last.tenant, last.id);
      // Deleted meanwhile, or what has taken its place is ready.
      if (!now) return last;
      const isOver = now.status === "ready" || now.status === "failed";
      show(now.id, isOver ? 1 : now.progress, now.filename);
      if (isOver) return now;
      last = now;
    }
  };
  try {
    const unique = [...new Map(documents.map((document) => [document.id, document])).values()];
    const ended = new Map(
      (await Promise.all(unique.map(settle))).map((document) => [document.id, document]),
    );
    return documents.map((document) => ended.get(document.id) ?? document);
  } finally {
    progress.end();
  }
}

function renderDocument(document: DocumentRecord): string {
  const what = document.error
    ? `${document.error.code}: ${document.error.message}`
    : `${document.chunkCount} chunks`;
  return `${document.id}  ${document.status}  ${cell(document.filename)}  ${what}`;
}

/** Waits where somebody does the work, and says how it went. */
async function finish(
  knowledge: KnowledgeAccess,
  added: readonly AddedDocument[],
  works: boolean,
  io: CliIo,
): Promise<AddedDocument[]> {
  if (!works) {
    io.err(
      "the gateway runs without workers: the documents stay queued until one with workers starts\n",
    );
    return [...added];
  }
  const documents = await waitUntilIndexed(
    knowledge,
    added.map(({ document }) => document),
    io,
  );
  if (documents.some(({ status }) => status !== "ready")) io.exitCode = 1;
  return added.map(({ document, duplicate }, index) => ({
    document: documents[index] ?? document,
    duplicate,
  }));
}

export async function add(paths: string[], options: AddOptions, io: CliIo): Promise<void> {
  parseChoice("--on-duplicate", options.onDuplicate, ON_DUPLICATE);
  const files = await findFiles(paths, io);
  if (files.length > 1 && (options.title !== undefined || options.externalId !== undefined))
    throw usage("--title and --external-id name one document: add it alone");
  const results = await withKnowledge(options, io, async (knowledge) => {
    const works = await knowledge.start();
    return finish(knowledge, await uploadAll(knowledge, files, options, io), works, io);
  });
  if (options.json)
    return printJson(io, {
      documents: results.map(({ document, duplicate }) => ({ ...document, duplicate })),
    });
  for (const { document, duplicate } of results)
    io.out(`${renderDocument(document)}${duplicate ? "  (was there already)" : ""}\n`);
}

export async function reindex(ids: string[], options: TenantOptions, io: CliIo): Promise<void> {
  const results = await withKnowledge(options, io, async (knowledge) => {
    const works = await knowledge.start();
    const queued: AddedDocument[] = [];
    for (const id of ids) {
      const document = await knowledge.reindex(options.tenant, id);
      if (!document) throw notFound(id);
      queued.push({ document, duplicate: false });
    }
    return finish(knowledge, queued, works, io);
  });
  if (options.json) return printJson(io, { documents: results.map(({ document }) => document) });
  for (const { document } of results) io.out(`${renderDocument(document)}\n`);
}
