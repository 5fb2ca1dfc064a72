import type {
  DocumentPage,
  DocumentQuery,
  DocumentRecord,
  PassagePage,
  PassageQuery,
  SearchQuery,
} from "../types.ts";
import type { DocumentCatalog } from "./catalog.ts";
import {
  agentMark,
  DOCUMENT_COLUMNS,
  PASSAGE_COLUMNS,
  toDocumentRecord,
  toPassagePage,
  type DocumentRow,
  type PassageRow,
} from "./rows.ts";

/** Documents of a list, if the query sets no limit. */
const DEFAULT_LIST = 50;
const MAX_LIST = 500;

export type SearchScope = Pick<SearchQuery, "tenant" | "agentIds">;

/** Collects the conditions of a statement, with the values of their `?`. */
class Conditions {
  readonly values: unknown[];
  readonly #all: string[] = [];

  constructor(values: unknown[]) {
    this.values = values;
  }

  add(condition: string, ...values: unknown[]): this {
    this.#all.push(condition.replaceAll("?", () => `$${this.values.push(values.shift())}`));
    return this;
  }

  /** Documents of the tenant, for any of the agents. */
  addScope({ tenant, agentIds }: SearchScope): this {
    this.add("d.tenant = ?", tenant);
    if (agentIds === undefined) return this;
    const marks = agentIds.map(agentMark);
    const any = marks.map(() => " OR replace(d.agents, ?, '') <> d.agents").join("");
    return this.add(`(d.agents = ''${any})`, ...marks);
  }

  get text(): string {
    return this.#all.join(" AND ");
  }
}

/** Counts the passages of a document that have a vector of the model `$1`; 0 if that is null. */
const EMBEDDED = `CASE WHEN CAST($1 AS text) IS NULL THEN 0 ELSE (
  SELECT count(*) FROM knowledge_passages p JOIN knowledge_vectors v ON v.seq = p.seq
    WHERE p.doc = d.seq AND p.generation = d.generation AND v.model = $1) END AS embedded`;

type Embedded = DocumentRow & { embedded: number };

/** Passages that can be found, with their documents. */
export const FOUND =
  "knowledge_passages p JOIN knowledge_documents d ON d.seq = p.doc AND d.generation = p.generation";

async function listDocuments(
  catalog: DocumentCatalog,
  tenant: string,
  query: DocumentQuery,
  model: string | undefined,
): Promise<DocumentPage> {
  const { limit = DEFAULT_LIST, after, status, agentIds, externalId, externalIdPrefix } = query;
  const most = Math.max(1, Math.min(MAX_LIST, limit));
  const where = new Conditions([model ?? null]).addScope({
    tenant,
    ...(agentIds ? { agentIds } : {}),
  });
  if (after !== undefined)
    // A document may be removed while its list is read: then its id, which has the time, says where it was.
    where.add(
      `d.seq < COALESCE(
        (SELECT seq FROM knowledge_documents WHERE id = ? AND tenant = ?),
        (SELECT max(seq) + 1 FROM knowledge_documents WHERE id < ? AND tenant = ?))`,
      after,
      tenant,
      after,
      tenant,
    );
  if (status !== undefined) where.add("d.status = ?", status);
  if (externalId !== undefined) where.add("d.external_id = ?", externalId);
  if (externalIdPrefix !== undefined)
    where.add(
      "substr(d.external_id, 1, length(CAST(? AS text))) = ?",
      externalIdPrefix,
      externalIdPrefix,
    );
  const rows = await catalog.query<Embedded>(
    `SELECT ${DOCUMENT_COLUMNS}, ${EMBEDDED} FROM knowledge_documents d WHERE ${where.text} ORDER BY seq DESC LIMIT ${most + 1}`,
    where.values,
  );
  return {
    documents: rows.slice(0, most).map(({ embedded, ...row }) => toDocumentRecord(row, embedded)),
    hasMore: rows.length > most,
  };
}

/** Creates the reads of documents that do not need their index. */
export function createCatalogReader(catalog: DocumentCatalog) {
  return {
    async get(id: string, model: string | undefined): Promise<DocumentRecord | undefined> {
      const [row] = await catalog.query<Embedded>(
        `SELECT ${DOCUMENT_COLUMNS}, ${EMBEDDED} FROM knowledge_documents d WHERE id = $2`,
        [model ?? null, id],
      );
      if (!row) return undefined;
      const { embedded, ...document } = row;
      return toDocumentRecord(document, embedded);
    },
    list: (tenant: string, query: DocumentQuery, model: string | undefined) =>
      listDocuments(catalog, tenant, query, model),
    /** The passages of the version that search finds. */
    async passages(
      id: string,
      { from = 0, limit = DEFAULT_LIST }: PassageQuery,
    ): Promise<PassagePage> {
      const most = Math.max(1, Math.min(MAX_LIST, limit));
      return toPassagePage(
        await catalog.query<PassageRow>(
          `SELECT ${PASSAGE_COLUMNS} FROM ${FOUND} WHERE d.id = $1 AND p.n >= $2 ORDER BY p.n LIMIT ${most + 1}`,
          [id, from],
        ),
        most,
      );
    },
    /** Returns whether the scope has a document that can be found. */
    async has(scope: SearchScope): Promise<boolean> {
      const where = new Conditions([]).addScope(scope).add("d.generation > 0");
      const text = `SELECT 1 AS found FROM knowledge_documents d WHERE ${where.text} LIMIT 1`;
      return (await catalog.query(text, where.values)).length > 0;
    },
  };
}
