import type { z } from "zod";
import type { DocumentRecord, Format, Passage } from "../../knowledge/types.ts";
import {
  type ApiKeys,
  type ApiKey,
  listShownAgents,
  getAccess,
  marksFor,
} from "../../chat/api-keys.ts";
import {
  type DocumentView,
  type formatsAnswer,
  type passagesAnswer,
  listQuery,
  searchBody,
  waitMs,
  waitQuery,
} from "./knowledge-schema.ts";
import type { Context } from "hono";
import { listAllowedAgents } from "./models.ts";
import { badRequest, ProblemError, type ApiProblem } from "./problems.ts";
import { readCheckedBody, readQuery } from "./read.ts";
import { jsonResponse, type PlatformDeps, type PlatformEnv } from "./types.ts";

const seconds = (ms: number): number => Math.floor(ms / 1000);

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
    created_at: seconds(document.createdAt),
    indexed_at: document.indexedAt === null ? null : seconds(document.indexedAt),
  };
}

function passageFields(passage: Omit<Passage, "score">) {
  const {
    chunkId,
    documentId,
    externalId,
    filename,
    title,
    text,
    headings,
    page,
    start,
    end,
    version,
    metadata,
  } = passage;
  const names = {
    object: "knowledge.passage" as const,
    chunk_id: chunkId,
    document_id: documentId,
    filename,
    title,
  };
  return { ...names, text, headings, page, start, end, version, external_id: externalId, metadata };
}

export const passageView = (passage: Passage): z.input<typeof passagesAnswer>["data"][number] => ({
  ...passageFields(passage),
  score: passage.score,
});

export function formatView({
  id,
  mimeType,
  extensions,
  missing,
}: Format): z.input<typeof formatsAnswer>["data"][number] {
  const available = missing.length === 0;
  return {
    id,
    object: "knowledge.format",
    mime_type: mimeType,
    extensions: [...extensions],
    available,
    missing: [...missing],
  };
}

type Platform = Context<PlatformEnv>;

const DOCUMENT_NOT_FOUND: ApiProblem = {
  status: 404,
  type: "invalid_request_error",
  code: "document_not_found",
  param: "id",
  message: "there is no such document for this key",
};
const PASSAGE_NOT_FOUND: ApiProblem = {
  ...DOCUMENT_NOT_FOUND,
  code: "passage_not_found",
  param: "n",
  message:
    "the document has no such passage: its passages are numbered from 0, below its `chunk_count`",
};
const UNKNOWN_AGENT: ApiProblem = badRequest(
  "agent_id",
  "agent_id: there is no such agent for this key; `GET /v1/agents` lists them",
  "unknown_agent",
);

/**
 * Checks the agents that a request names, and returns them.
 * @throws ProblemError if one is none that the key may use.
 */
export function checkAgents(
  names: readonly string[],
  key: ApiKey,
  { snapshot }: Pick<PlatformDeps, "snapshot">,
): readonly string[] {
  const allowed = listAllowedAgents(key, snapshot()).map(({ id }) => id);
  if (!names.every((name) => allowed.includes(name))) throw new ProblemError(UNKNOWN_AGENT);
  return names;
}

/** The names in a field that may hold one or several. */
export const toNames = (...values: (string | readonly string[] | null | undefined)[]): string[] =>
  values.flatMap((value) => value ?? []);

/** Returns what there is. Throws a ProblemError if there is no such document, or the key may not know of it. */
function found<T>(value: T | undefined): T {
  if (value === undefined) throw new ProblemError(DOCUMENT_NOT_FOUND);
  return value;
}

/** `GET /v1/knowledge/documents` */
export async function listDocuments(c: Platform, deps: PlatformDeps): Promise<Response> {
  const { key } = c.get("caller");
  const { knowledge, keys } = deps;
  const {
    limit,
    after,
    status,
    agent_id: agentId,
    external_id: externalId,
  } = readQuery(c, listQuery);
  checkAgents(toNames(agentId), key, deps);
  const access = await getAccess(key, keys);
  if (after !== undefined && !(await knowledge.get(key.tenant, after, access)))
    throw new ProblemError(badRequest("after", "after: there is no document with this id"));
  const agentIds =
    agentId === undefined ? access?.sees : await marksFor([agentId], key.tenant, keys);
  const page = await knowledge.list(key.tenant, {
    limit,
    ...(after === undefined ? {} : { after }),
    ...(status === undefined ? {} : { status }),
    ...(agentIds === undefined ? {} : { agentIds }),
    ...(externalId === undefined ? {} : { externalId }),
  });
  const data = await Promise.all(page.documents.map((document) => documentView(document, keys)));
  return jsonResponse(c, { object: "list", data, has_more: page.hasMore });
}

/** `GET /v1/knowledge/documents/{id}` */
export async function showDocument(c: Platform, deps: PlatformDeps): Promise<Response> {
  const { key } = c.get("caller");
  const ms = waitMs(readQuery(c, waitQuery).wait);
  const { knowledge, keys } = deps;
  const document = found(
    await knowledge.get(key.tenant, c.req.param("id") ?? "", await getAccess(key, keys)),
  );
  return jsonResponse(
    c,
    await documentView(ms > 0 ? found(await knowledge.wait(document.id, ms)) : document, keys),
  );
}

/** `GET /v1/knowledge/documents/{id}/passages/{n}` */
export async function showPassage(
  c: Platform,
  { knowledge, keys }: PlatformDeps,
): Promise<Response> {
  const { key } = c.get("caller");
  const n = c.req.param("n") ?? "";
  if (!/^\d{1,9}$/.test(n))
    throw new ProblemError(badRequest("n", "n: write the number of a passage, from 0"));
  const { id } = found(
    await knowledge.get(key.tenant, c.req.param("id") ?? "", await getAccess(key, keys)),
  );
  const page = found(await knowledge.passages(key.tenant, id, { from: Number(n), limit: 1 }));
  const passage = page.passages.find(({ number }) => number === Number(n));
  if (!passage) throw new ProblemError(PASSAGE_NOT_FOUND);
  return jsonResponse(c, { ...passageFields(passage), number: passage.number });
}

/** `DELETE /v1/knowledge/documents/{id}` */
export async function deleteDocument(c: Platform, deps: PlatformDeps): Promise<Response> {
  const { key } = c.get("caller");
  const id = c.req.param("id") ?? "";
  found(
    (await deps.knowledge.remove(key.tenant, id, await getAccess(key, deps.keys))) || undefined,
  );
  return jsonResponse(c, { id, object: "knowledge.document.deleted", deleted: true });
}

/** `POST /v1/knowledge/documents/{id}/reindex` */
export async function reindexDocument(c: Platform, deps: PlatformDeps): Promise<Response> {
  const { key } = c.get("caller");
  const ms = waitMs(readQuery(c, waitQuery).wait);
  const queued = found(
    await deps.knowledge.reindex(
      key.tenant,
      c.req.param("id") ?? "",
      await getAccess(key, deps.keys),
    ),
  );
  const document = ms > 0 ? found(await deps.knowledge.wait(queued.id, ms)) : queued;
  const isOver = document.status === "ready" || document.status === "failed";
  return jsonResponse(c, await documentView(document, deps.keys), isOver ? 200 : 202);
}

/** `POST /v1/knowledge/search` */
export async function searchDocuments(c: Platform, deps: PlatformDeps): Promise<Response> {
  const { key } = c.get("caller");
  const {
    query: text,
    agent_id: agentId,
    limit,
  } = (await readCheckedBody(c, deps.snapshot(), searchBody)).body;
  const agents = checkAgents(toNames(agentId), key, deps);
  const agentIds =
    agents.length > 0
      ? await marksFor(agents, key.tenant, deps.keys)
      : (await getAccess(key, deps.keys))?.sees;
  const found = await deps.knowledge.search({
    tenant: key.tenant,
    text,
    ...(agentIds === undefined ? {} : { agentIds }),
    ...(typeof limit === "number" ? { limit } : {}),
  });
  return jsonResponse(c, { object: "list", data: found.map(passageView), has_more: false });
}

/** `GET /v1/knowledge/formats` */
export function listFormats(c: Platform, deps: PlatformDeps): Response {
  return jsonResponse(c, {
    object: "list",
    data: deps.knowledge.formats().map(formatView),
    has_more: false,
  });
}
