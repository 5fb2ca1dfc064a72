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
  toPassage,
  type DocumentRow,
  type PassageRow,
} from "./rows.ts";

/** Documents of a list, if the query sets no limit. */
const DEFAULT_LIST = 50;
const MAX_LIST = 500;

export type SearchScope = Pick<SearchQuery, "tenant" | "agentIds">;

/** The condition of a scope on documents: their tenant is `$1`, and the marks of agents begin with the value number `first`. */
const inScope = (agentIds: readonly string[] | undefined, first: number): string => {
  const any = (agentIds ?? []).map(
    (_, at) => ` OR replace(d.agents, $${first + at}, '') <> d.agents`,
  );
  return `d.tenant = $1${agentIds === undefined ? "" : ` AND (d.agents = ''${any.join("")})`}`;
};

/** Counts the passages of a document that have a vector of the model `$2`; 0 if that is null. */
const EMBEDDED = `CASE WHEN CAST($2 AS text) IS NULL THEN 0 ELSE (
  SELECT count(*) FROM knowledge_passages p JOIN knowledge_vectors v ON v.seq = p.seq
    WHERE p.doc = d.seq AND p.generation = d.generation AND v.model = $2) END AS embedded`;

type Embedded = DocumentRow & { embedded: number };

/** Passages that can be found, with their documents. */
export const FOUND =
  "knowledge_passages p JOIN knowledge_documents d ON d.seq = p.doc AND d.generation = p.generation";

/** Values that are null are no condition. */
const LISTED = `(CAST($3 AS text) IS NULL OR d.status = $3) AND (CAST($4 AS text) IS NULL OR d.external_id = $4)
  AND (CAST($5 AS text) IS NULL OR substr(d.external_id, 1, length(CAST($5 AS text))) = $5)
  -- A document may be removed while its list is read: then its id, which has the time, says where it was.
  AND (CAST($6 AS text) IS NULL OR d.seq < COALESCE(
    (SELECT seq FROM knowledge_documents WHERE id = $6 AND tenant = $1),
    (SELECT max(seq) + 1 FROM knowledge_documents WHERE id < $6 AND tenant = $1)))`;

async function listDocuments(
  catalog: DocumentCatalog,
  tenant: string,
  query: DocumentQuery,
  model: string | undefined,
): Promise<DocumentPage> {
  const { limit = DEFAULT_LIST, after, status, agentIds, externalId, externalIdPrefix } = query;
  const most = Math.max(1, Math.min(MAX_LIST, limit));
  const asked = [tenant, model, status, externalId, externalIdPrefix, after];
  const rows = await catalog.query<Embedded>(
    `SELECT ${DOCUMENT_COLUMNS}, ${EMBEDDED} FROM knowledge_documents d
      WHERE ${inScope(agentIds, asked.length + 1)} AND ${LISTED} ORDER BY seq DESC LIMIT ${most + 1}`,
    [...asked.map((value) => value ?? null), ...(agentIds ?? []).map(agentMark)],
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
        `SELECT ${DOCUMENT_COLUMNS}, ${EMBEDDED} FROM knowledge_documents d WHERE id = $1`,
        [id, model ?? null],
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
      const rows = await catalog.query<PassageRow>(
        `SELECT ${PASSAGE_COLUMNS} FROM ${FOUND} WHERE d.id = $1 AND p.n >= $2 ORDER BY p.n LIMIT ${most + 1}`,
        [id, from],
      );
      return { passages: rows.slice(0, most).map(toPassage), hasMore: rows.length > most };
    },
    /** Returns whether the scope has a document that can be found. */
    async has({ tenant, agentIds }: SearchScope): Promise<boolean> {
      const text = `SELECT 1 AS found FROM knowledge_documents d WHERE ${inScope(agentIds, 2)} AND d.generation > 0 LIMIT 1`;
      return (await catalog.query(text, [tenant, ...(agentIds ?? []).map(agentMark)])).length > 0;
    },
  };
}
