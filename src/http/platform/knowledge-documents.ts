import { listAllowedAgents } from "../../chat/api-keys.ts";
import { toSeconds } from "../../core/clock.ts";
import {
  type ApiKeys,
  type ApiKey,
  listShownAgents,
  getAccess,
  marksFor,
} from "../../chat/api-keys.ts";
import type { DocumentRecord, Passage } from "../../knowledge/types.ts";
import { answers, sends } from "../openapi/operation.ts";
import type { HttpContext } from "../context.ts";
import {
  deletedAnswer,
  documentAnswer,
  documentsAnswer,
  type DocumentView,
  listQuery,
  passagesAnswer,
  searchBody,
  uploadBody,
  uploadedAnswer,
  uploadForm,
  waitMs,
  waitQuery,
} from "./knowledge-schema.ts";
import { badRequest, notThere } from "./problems.ts";
import { withoutNullish } from "./read.ts";
import { defineRoute, toList, type ApiRoutes } from "./types.ts";

/** A document as the platform API shows it. */
export async function documentView(
  document: DocumentRecord,
  keys: Pick<ApiKeys, "list">,
): Promise<DocumentView> {
  return {
    id: document.id,
    object: "knowledge.document",
    filename: document.filename,
    title: document.title,
    bytes: document.bytes,
    sha256: document.sha256,
    mime_type: document.mimeType,
    status: document.status,
    progress: document.progress,
    error: document.error,
    agent_ids: await listShownAgents(document.agentIds, keys),
    metadata: document.metadata,
    external_id: document.externalId,
    chunk_count: document.chunkCount,
    page_count: document.pageCount,
    version: document.version,
    created_at: toSeconds(document.createdAt),
    indexed_at: document.indexedAt === null ? null : toSeconds(document.indexedAt),
  };
}

const passageView = (passage: Passage) => ({
  object: "knowledge.passage" as const,
  chunk_id: passage.chunkId,
  document_id: passage.documentId,
  filename: passage.filename,
  title: passage.title,
  text: passage.text,
  headings: passage.headings,
  page: passage.page,
  start: passage.start,
  end: passage.end,
  version: passage.version,
  external_id: passage.externalId,
  metadata: passage.metadata,
  score: passage.score,
});

/**
 * Checks the agents that a request names, and returns them.
 * @throws ProblemError if one is none that the key may use.
 */
export function checkAgents(
  names: readonly string[],
  key: ApiKey,
  { snapshot }: HttpContext,
): readonly string[] {
  const allowed = listAllowedAgents(key, snapshot().agents).map(({ id }) => id);
  if (!names.every((name) => allowed.includes(name)))
    throw badRequest(
      "agent_id",
      "agent_id: there is no such agent for this key; `GET /v1/agents` lists them",
      "unknown_agent",
    );
  return names;
}

/** The names in a field that may hold one or several. */
export const toNames = (...values: (string | readonly string[] | null | undefined)[]): string[] =>
  values.flatMap((value) => value ?? []);

/** Returns what there is. Throws a ProblemError if there is no such document, or the key may not know of it. */
function found<T>(value: T | undefined): T {
  if (value === undefined)
    throw notThere("document_not_found", "id", "there is no such document for this key");
  return value;
}

/** The document of an address, if the key may know of it. */
const findDocument = async (id: string, key: ApiKey, { knowledge, keys }: HttpContext) =>
  found(await knowledge.get(key.tenant, id, await getAccess(key, keys)));

/** The routes of documents. */
export const KNOWLEDGE_ROUTES: ApiRoutes = {
  "/knowledge/upload": {
    POST: defineRoute({
      scope: "knowledge:write",
      operationId: "uploadDocuments",
      summary: "Upload documents: a form with files, or one document in JSON",
      answer: uploadedAnswer,
      ok: "With `wait`: the work is over. Or: the bytes were there already.",
      details: {
        requestBody: {
          required: true,
          content: { "multipart/form-data": { schema: uploadForm }, ...sends(uploadBody).content },
        },
        responses: {
          "202": answers("On disk, and queued. Several files make a list.", uploadedAnswer),
        },
      },
      handle: ({ c }, parts) => parts.upload(c),
    }),
  },
  "/knowledge/documents": {
    GET: defineRoute({
      scope: "knowledge:read",
      operationId: "listDocuments",
      summary: "Documents, newest first",
      answer: documentsAnswer,
      query: listQuery,
      async handle({ key, query }, deps) {
        const { knowledge, keys } = deps;
        const { limit, after, status, agent_id: agentId, external_id: externalId } = query;
        checkAgents(toNames(agentId), key, deps);
        const agentIds =
          agentId === undefined
            ? (await getAccess(key, keys))?.sees
            : await marksFor([agentId], key.tenant, keys);
        const wanted = withoutNullish({ after, status, agentIds, externalId });
        const page = await knowledge.list(key.tenant, { limit, ...wanted });
        const data = await Promise.all(page.documents.map((one) => documentView(one, keys)));
        return toList(data, page.hasMore);
      },
    }),
  },
  "/knowledge/documents/:id": {
    GET: defineRoute({
      scope: "knowledge:read",
      operationId: "showDocument",
      summary: "A document and how far its indexing is",
      answer: documentAnswer,
      query: waitQuery,
      async handle({ key, id, query }, deps) {
        const ms = waitMs(query.wait);
        const now = await findDocument(id, key, deps);
        const document = ms > 0 ? found(await deps.knowledge.wait(now.id, ms)) : now;
        return documentView(document, deps.keys);
      },
    }),
    DELETE: defineRoute({
      scope: "knowledge:write",
      operationId: "deleteDocument",
      summary: "Delete a document with all that was indexed of it",
      answer: deletedAnswer,
      async handle({ key, id }, { knowledge, keys }) {
        found((await knowledge.remove(key.tenant, id, await getAccess(key, keys))) || undefined);
        return { id, object: "knowledge.document.deleted", deleted: true };
      },
    }),
  },
  "/knowledge/search": {
    POST: defineRoute({
      scope: "knowledge:read",
      operationId: "searchDocuments",
      summary: "The passages that fit a question best",
      answer: passagesAnswer,
      ok: "Best first.",
      body: searchBody,
      async handle({ key, body }, deps) {
        const { query: text, agent_id: agentId, agent_ids: agentIdList, limit } = body;
        const { tenant } = key;
        const agents = checkAgents(toNames(agentId, agentIdList), key, deps);
        const agentIds =
          agents.length > 0
            ? await marksFor(agents, tenant, deps.keys)
            : (await getAccess(key, deps.keys))?.sees;
        const wanted = { tenant, text, ...withoutNullish({ agentIds, limit }) };
        const passages = await deps.knowledge.search(wanted);
        return toList(passages.map(passageView));
      },
    }),
  },
};
