import type { Context } from "hono";
import type { z } from "zod";
import type { DocumentRecord } from "../../knowledge/types.ts";
import { agentsOf } from "./agents.ts";
import { json } from "./json.ts";
import type { ApiKey } from "./keys.ts";
import { listQuery, searchBody, waitMs, waitQuery } from "./knowledge-schema.ts";
import { accessOf, marksOf } from "./knowledge-scope.ts";
import { documentView, formatView, passageView } from "./knowledge-view.ts";
import { badRequest, problemResponse, type Problem, type Result } from "./problems.ts";
import { bodyProblem, readJson } from "./read.ts";
import type { PlatformDeps, PlatformEnv } from "./types.ts";

type Platform = Context<PlatformEnv>;

const GONE: Problem = {
  status: 404,
  type: "invalid_request_error",
  code: "document_not_found",
  param: "id",
  message: "there is no such document for this key",
};
const UNKNOWN_AGENT: Problem = badRequest(
  "agent_id",
  "agent_id: there is no such agent for this key; `GET /v1/agents` lists them",
  "unknown_agent",
);

/** The agents that a request names; each must be one that the key may use. */
export function namedAgents(
  names: readonly string[],
  key: ApiKey,
  { snapshot }: Pick<PlatformDeps, "snapshot">,
): Result<readonly string[]> {
  const allowed = agentsOf(key, snapshot()).map(({ id }) => id);
  return names.every((name) => allowed.includes(name)) ? { ok: true, value: names } : { ok: false, problem: UNKNOWN_AGENT };
}

/** The names in a field that may hold one or several. */
export const namesIn = (...values: (string | readonly string[] | null | undefined)[]): string[] => values.flatMap((value) => value ?? []);

function queryOf<S extends z.ZodType>(c: Platform, schema: S): Result<z.output<S>> {
  const query = schema.safeParse(c.req.query());
  return query.success ? { ok: true, value: query.data } : { ok: false, problem: bodyProblem(query.error) };
}

/** The document that the address names, where the key may know of it. */
async function documentOf(c: Platform, { knowledge, keys }: PlatformDeps): Promise<Result<DocumentRecord>> {
  const { key } = c.get("caller");
  const document = await knowledge.get(key.tenant, c.req.param("id") ?? "", await accessOf(key, keys));
  return document ? { ok: true, value: document } : { ok: false, problem: GONE };
}

/** `GET /v1/knowledge/documents` */
export async function listDocuments(c: Platform, deps: PlatformDeps): Promise<Response> {
  const { key, requestId } = c.get("caller");
  const { knowledge, keys } = deps;
  const query = queryOf(c, listQuery);
  if (!query.ok) return problemResponse(query.problem, requestId);
  const { limit, after, status, agent_id: agentId, external_id: externalId } = query.value;
  const agents = namedAgents(namesIn(agentId), key, deps);
  if (!agents.ok) return problemResponse(agents.problem, requestId);
  const access = await accessOf(key, keys);
  if (after !== undefined && !(await knowledge.get(key.tenant, after, access)))
    return problemResponse(badRequest("after", "after: there is no document with this id"), requestId);
  const agentIds = agentId === undefined ? access?.sees : await marksOf([agentId], key.tenant, keys);
  const page = await knowledge.list(key.tenant, {
    limit,
    ...(after === undefined ? {} : { after }),
    ...(status === undefined ? {} : { status }),
    ...(agentIds === undefined ? {} : { agentIds }),
    ...(externalId === undefined ? {} : { externalId }),
  });
  const data = await Promise.all(page.documents.map((document) => documentView(document, keys)));
  return json(c, { object: "list", data, has_more: page.hasMore });
}

/** `GET /v1/knowledge/documents/{id}` */
export async function showDocument(c: Platform, deps: PlatformDeps): Promise<Response> {
  const { requestId } = c.get("caller");
  const query = queryOf(c, waitQuery);
  if (!query.ok) return problemResponse(query.problem, requestId);
  const found = await documentOf(c, deps);
  if (!found.ok) return problemResponse(found.problem, requestId);
  const ms = waitMs(query.value.wait);
  const document = ms > 0 ? await deps.knowledge.wait(found.value.id, ms) : found.value;
  return document ? json(c, await documentView(document, deps.keys)) : problemResponse(GONE, requestId);
}

/** `DELETE /v1/knowledge/documents/{id}` */
export async function deleteDocument(c: Platform, deps: PlatformDeps): Promise<Response> {
  const { key, requestId } = c.get("caller");
  const id = c.req.param("id") ?? "";
  if (!(await deps.knowledge.remove(key.tenant, id, await accessOf(key, deps.keys)))) return problemResponse(GONE, requestId);
  return json(c, { id, object: "knowledge.document.deleted", deleted: true });
}

/** `POST /v1/knowledge/documents/{id}/reindex` */
export async function reindexDocument(c: Platform, deps: PlatformDeps): Promise<Response> {
  const { key, requestId } = c.get("caller");
  const query = queryOf(c, waitQuery);
  if (!query.ok) return problemResponse(query.problem, requestId);
  const queued = await deps.knowledge.reindex(key.tenant, c.req.param("id") ?? "", await accessOf(key, deps.keys));
  const ms = waitMs(query.value.wait);
  const document = queued && ms > 0 ? await deps.knowledge.wait(queued.id, ms) : queued;
  if (!document) return problemResponse(GONE, requestId);
  const isOver = document.status === "ready" || document.status === "failed";
  return json(c, await documentView(document, deps.keys), isOver ? 200 : 202);
}

/** `POST /v1/knowledge/search` */
export async function searchDocuments(c: Platform, deps: PlatformDeps): Promise<Response> {
  const { key, requestId } = c.get("caller");
  const { platform, hooks } = deps.snapshot().config;
  const read = await readJson(c, { maxBytes: platform.maxBodyBytes, timeoutMs: hooks.bodyTimeoutSeconds * 1000 });
  if (!read.ok) return problemResponse(read.problem, requestId);
  const parsed = searchBody.safeParse(read.value.value);
  if (!parsed.success) return problemResponse(bodyProblem(parsed.error), requestId);
  const { query: text, agent_id: agentId, limit } = parsed.data;
  const agents = namedAgents(namesIn(agentId), key, deps);
  if (!agents.ok) return problemResponse(agents.problem, requestId);
  const agentIds = agents.value.length > 0 ? await marksOf(agents.value, key.tenant, deps.keys) : (await accessOf(key, deps.keys))?.sees;
  const found = await deps.knowledge.search({
    tenant: key.tenant,
    text,
    ...(agentIds === undefined ? {} : { agentIds }),
    ...(typeof limit === "number" ? { limit } : {}),
  });
  return json(c, { object: "list", data: found.map(passageView), has_more: false });
}

/** `GET /v1/knowledge/formats` */
export function listFormats(c: Platform, deps: PlatformDeps): Response {
  return json(c, { object: "list", data: deps.knowledge.formats().map(formatView), has_more: false });
}
