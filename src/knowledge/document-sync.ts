import type {
  SourceAudience,
  SourceDocuments,
  SourceEntry,
  SyncReport,
} from "../contract/kinds.ts";
import { OPERATOR_TENANT } from "../config/checks.ts";
import { safeError } from "../core/errors.ts";
import { sha256Hex } from "../core/secret.ts";
import type { LazyKnowledge } from "./lazy.ts";
import type { DocumentRecord } from "./types.ts";

const PAGE = 500;
/** More entries than this at one place are a mistake, such as the root of a disk. */
const MAX_ENTRIES = 20_000;
/** As much of an entry's id as the metadata of a document keeps. */
const MAX_ID = 500;
const MAX_FAILED = 20;

export interface DocumentSyncOptions {
  knowledge: Pick<LazyKnowledge, "add" | "list" | "remove" | "stageBytes">;
  /** Bytes that a document may have now. */
  maxBytes(): number;
}

/** The documents of one place, by their external ids; a version that waits for its index stands beside the one before. */
async function findDocuments(
  tenant: string,
  prefix: string,
  knowledge: DocumentSyncOptions["knowledge"],
): Promise<Map<string, DocumentRecord[]>> {
  const found = new Map<string, DocumentRecord[]>();
  for (let after: string | undefined; ;) {
    const page = {
      limit: PAGE,
      externalIdPrefix: prefix,
      ...(after === undefined ? {} : { after }),
    };
    const { documents, hasMore } = await knowledge.list(tenant, page);
    for (const document of documents) {
      const { externalId } = document;
      if (externalId !== null) found.set(externalId, [...(found.get(externalId) ?? []), document]);
    }
    after = documents.at(-1)?.id;
    if (!hasMore || after === undefined) return found;
  }
}

const isSame = (one: readonly string[], other: readonly string[]): boolean =>
  one.toSorted().join("\n") === other.toSorted().join("\n");

const getMessage = (error: unknown): string =>
  error instanceof Error ? error.message : (safeError(error).code ?? "it cannot be read");

/** One sync of one place. */
class Sync {
  readonly report: SyncReport = {
    added: 0,
    replaced: 0,
    removed: 0,
    unchanged: 0,
    failed: [],
    kept: 0,
  };
  readonly #seen = new Set<string>();
  readonly #options: SyncOptions;

  constructor(options: SyncOptions) {
    this.#options = options;
  }

  async take(entry: SourceEntry): Promise<void> {
    const { here, versions, agents, signal, prefix } = this.#options;
    const externalId = `${prefix}${sha256Hex(entry.id).slice(0, 32)}`;
    this.#seen.add(externalId);
    if (this.#seen.size > MAX_ENTRIES)
      throw new Error(`the place has more than ${MAX_ENTRIES} documents`);
    const [current] = here.get(externalId) ?? [];
    const isKnown = current !== undefined && isSame(current.agentIds, agents);
    const known = versions.get(externalId) ?? current?.metadata["version"];
    if (isKnown && entry.version === known) return void this.report.unchanged++;
    try {
      const bytes = await entry.read(signal);
      if (bytes === "gone") return void this.#seen.delete(externalId);
      if (isKnown && current.sha256 === sha256Hex(bytes)) this.report.unchanged++;
      else await this.#put(entry, externalId, bytes, current);
      versions.set(externalId, entry.version);
    } catch (error) {
      if (signal.aborted) throw error;
      if (this.report.failed.length < MAX_FAILED)
        this.report.failed.push({ id: entry.id, message: getMessage(error) });
    }
  }

  async #put(
    { id, filename, version }: SourceEntry,
    externalId: string,
    bytes: Uint8Array,
    current: DocumentRecord | undefined,
  ): Promise<void> {
    const { knowledge, maxBytes, tenant, agents, plugin } = this.#options;
    const staged = await knowledge.stageBytes(bytes, maxBytes());
    const metadata = { source: plugin, id: id.slice(0, MAX_ID), version: version.slice(0, MAX_ID) };
    // Two places may have the same file: each keeps its own document.
    await knowledge.add({
      ...staged,
      tenant,
      filename,
      agentIds: agents,
      externalId,
      metadata,
      onDuplicate: "keep",
    });
    if (current) this.report.replaced++;
    else this.report.added++;
  }

  async removeOthers(): Promise<void> {
    const { here, knowledge, tenant, versions } = this.#options;
    const gone = [...here].filter(([externalId]) => !this.#seen.has(externalId));
    if (this.#seen.size === 0) {
      this.report.kept = gone.length;
      return;
    }
    for (const [externalId, documents] of gone) {
      for (const { id } of documents) await knowledge.remove(tenant, id);
      versions.delete(externalId);
      this.report.removed++;
    }
  }
}

interface SyncOptions extends DocumentSyncOptions {
  plugin: string;
  /** The beginning of the external ids of the place. */
  prefix: string;
  tenant: string;
  agents: readonly string[];
  here: ReadonlyMap<string, readonly DocumentRecord[]>;
  /** Versions that were read although the content was the same. */
  versions: Map<string, string>;
  signal: AbortSignal;
}

/** Creates what keeps the documents of a plugin's source as they are outside. */
export function createDocumentSync(plugin: string, options: DocumentSyncOptions): SourceDocuments {
  const versions = new Map<string, string>();
  return {
    async sync(
      place,
      entries,
      { tenant = OPERATOR_TENANT, agents = [], signal }: SourceAudience & { signal: AbortSignal },
    ) {
      const prefix = `source:${plugin}:${sha256Hex(place).slice(0, 16)}:`;
      const here = await findDocuments(tenant, prefix, options.knowledge);
      const sync = new Sync({ ...options, plugin, prefix, tenant, agents, here, versions, signal });
      for await (const entry of entries) {
        signal.throwIfAborted();
        await sync.take(entry);
      }
      await sync.removeOthers();
      return sync.report;
    },
  };
}
