import type {
  SourceAudience,
  SourceDocuments,
  SourceEntry,
  SyncReport,
} from "../contract/kinds.ts";
import { OPERATOR_TENANT } from "../config/checks.ts";
import { safeError } from "../core/errors.ts";
import { sha256Hex } from "../core/secret.ts";
import type { DocumentRecord, Knowledge } from "./types.ts";
import type { StagedFile } from "./upload-staging.ts";

const PAGE = 500;
/** More entries than this at one place are a mistake, such as the root of a disk. */
const MAX_ENTRIES = 20_000;
/** As much of an entry's id as the metadata of a document keeps. */
const MAX_ID = 500;
const MAX_FAILED = 20;

/** The documents of one place, by their external ids; a version that waits for its index stands beside the one before. */
async function findDocuments(
  tenant: string,
  prefix: string,
  knowledge: Pick<Knowledge, "list">,
): Promise<Map<string, DocumentRecord[]>> {
  const found = new Map<string, DocumentRecord[]>();
  for (let last: DocumentRecord | undefined; ;) {
    const { documents, hasMore } = await knowledge.list(tenant, {
      limit: PAGE,
      externalIdPrefix: prefix,
      ...(last && { after: last.id }),
    });
    for (const document of documents) {
      const externalId = document.externalId ?? "";
      found.set(externalId, [...(found.get(externalId) ?? []), document]);
    }
    last = documents.at(-1);
    if (!hasMore) return found;
  }
}

const isSame = (one: readonly string[], other: readonly string[]): boolean =>
  one.toSorted().join("\n") === other.toSorted().join("\n");

const getMessage = (error: unknown): string =>
  error instanceof Error ? error.message : (safeError(error).code ?? "it cannot be read");

/** Creates what keeps the documents of a plugin's source as they are outside. `stage` writes bytes into a file for `add`. */
export function createDocumentSync(
  plugin: string,
  knowledge: Pick<Knowledge, "add" | "list" | "remove">,
  stage: (bytes: Uint8Array) => Promise<StagedFile>,
): SourceDocuments {
  /** Versions that were read although the content was the same. */
  const versions = new Map<string, string>();

  async function sync(
    place: string,
    entries: Iterable<SourceEntry> | AsyncIterable<SourceEntry>,
    { tenant = OPERATOR_TENANT, agents = [], signal }: SourceAudience & { signal: AbortSignal },
  ): Promise<SyncReport> {
    const prefix = `source:${plugin}:${sha256Hex(place).slice(0, 16)}:`;
    const here = await findDocuments(tenant, prefix, knowledge);
    const report = { added: 0, replaced: 0, removed: 0, unchanged: 0, kept: 0 };
    const failed: { id: string; message: string }[] = [];
    const seen = new Set<string>();

    const take = async (entry: SourceEntry): Promise<void> => {
      const { id, filename, version } = entry;
      const externalId = `${prefix}${sha256Hex(id).slice(0, 32)}`;
      seen.add(externalId);
      if (seen.size > MAX_ENTRIES)
        throw new Error(`the place has more than ${MAX_ENTRIES} documents`);
      const [current] = here.get(externalId) ?? [];
      const isKnown = current !== undefined && isSame(current.agentIds, agents);
      const known = versions.get(externalId) ?? current?.metadata["version"];
      if (isKnown && version === known) return void report.unchanged++;
      try {
        const bytes = await entry.read(signal);
        if (bytes === "gone") return void seen.delete(externalId);
        if (isKnown && current.sha256 === sha256Hex(bytes)) report.unchanged++;
        else {
          const staged = await stage(bytes);
          const about = { id: id.slice(0, MAX_ID), version: version.slice(0, MAX_ID) };
          const metadata = { source: plugin, ...about };
          const upload = { ...staged, tenant, filename, agentIds: agents, externalId, metadata };
          // Two places may have the same file: each keeps its own document.
          await knowledge.add({ ...upload, onDuplicate: "keep" });
          if (current) report.replaced++;
          else report.added++;
        }
        versions.set(externalId, version);
      } catch (error) {
        if (signal.aborted) throw error;
        if (failed.length < MAX_FAILED) failed.push({ id, message: getMessage(error) });
      }
    };

    for await (const entry of entries) {
      signal.throwIfAborted();
      await take(entry);
    }
    const gone = [...here].filter(([externalId]) => !seen.has(externalId));
    if (seen.size === 0) return { ...report, failed, kept: gone.length };
    for (const [externalId, documents] of gone) {
      for (const { id } of documents) await knowledge.remove(tenant, id);
      versions.delete(externalId);
      report.removed++;
    }
    return { ...report, failed };
  }
  return { sync };
}
