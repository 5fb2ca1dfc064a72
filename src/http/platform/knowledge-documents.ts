import type { Context } from "hono";
import { listAllowedAgents } from "./agents.ts";
import { jsonResponse } from "./json.ts";
import type { ApiKey } from "../../chat/api-keys.ts";
import { listQuery, searchBody, waitMs, waitQuery } from "./knowledge-schema.ts";
import { getAccess, marksFor } from "../../chat/document-access.ts";
import { documentView, formatView, passageView } from "./knowledge-view.ts";
import { badRequest, ProblemError, unwrapResult, type ApiProblem, type Result } from "./problems.ts";
import { readCheckedBody, readQuery } from "./read.ts";
import type { PlatformDeps, PlatformEnv } from "./types.ts";

type Platform = Context<PlatformEnv>;

const DOCUMENT_NOT_FOUND: ApiProblem = {
  status: 404,
  type: "invalid_request_error",
  code: "document_not_found",
  param: "id",
  message: "there is no such document for this key",
};
const UNKNOWN_AGENT: ApiProblem = badRequest(
  "agent_id",
  "agent_id: there is no such agent for this key; `GET /v1/agents` lists them",
  "unknown_agent",
);

/** Checks the agents that a request names: each must be one that the key may use. */
export function checkAgents(
  names: readonly string[],
  key: ApiKey,
  { snapshot }: Pick<PlatformDeps, "snapshot">,
): Result<readonly string[]> {
  const allowed = listAllowedAgents(key, snapshot()).map(({ id }) => id);
  return names.every((name) => allowed.includes(name)) ? { ok: true, value: names } : { ok: false, problem: UNKNOWN_AGENT };
}

/** The names in a field that may hold one or several. */
export const toNames = (...values: (string | readonly string[] | null | undefined)[]): string[] => values.flatMap((value) => value ?? []);

/** Returns what there is. Throws a ProblemError if there is no such document, or the key may not know of it. */
function found<T>(value: T | undefined): T {
  if (value === undefined) throw new ProblemError(DOCUMENT_NOT_FOUND);
  return value;
}

/** `GET /v1/knowledge/documents` */
export async function listDocuments(c: Platform, deps: PlatformDeps): Promise<Response> {
  const { key } = c.get("caller");
  const { knowledge, keys } = deps;
  const { limit, after, status, agent_id: agentId, external_id: externalId } = readQuery(c, listQuery);
  unwrapResult(checkAgents(toNames(agentId), key, deps));
  const access = await getAccess(key, keys);
  if (after !== undefined && !(await knowledge.get(key.tenant, after, access)))
    throw new ProblemError(badRequest("after", "after: there is no document with this id"));
  const agentIds = agentId === undefined ? access?.sees : await marksFor([agentId], key.tenant, keys);
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
  const document = found(await knowledge.get(key.tenant, c.req.param("id") ?? "", await getAccess(key, keys)));
  return jsonResponse(c, await documentView(ms > 0 ? found(await knowledge.wait(document.id, ms)) : document, keys));
}

/** `DELETE /v1/knowledge/documents/{id}` */
export async function deleteDocument(c: Platform, deps: PlatformDeps): Promise<Response> {
  const { key } = c.get("caller");
  const id = c.req.param("id") ?? "";
  found((await deps.knowledge.remove(key.tenant, id, await getAccess(key, deps.keys))) || undefined);
  return jsonResponse(c, { id, object: "knowledge.document.deleted", deleted: true });
}

/** `POST /v1/knowledge/documents/{id}/reindex` */
export async function reindexDocument(c: Platform, deps: PlatformDeps): Promise<Response> {
  const { key } = c.get("caller");
  const ms = waitMs(readQuery(c, waitQuery).wait);
  const queued = found(await deps.knowledge.reindex(key.tenant, c.req.param("id") ?? "", await getAccess(key, deps.keys)));
  const document = ms > 0 ? found(await deps.knowledge.wait(queued.id, ms)) : queued;
  const isOver = document.status === "ready" || document.status === "failed";
  return jsonResponse(c, await documentView(document, deps.keys), isOver ? 200 : 202);
}

/** `POST /v1/knowledge/search` */
export async function searchDocuments(c: Platform, deps: PlatformDeps): Promise<Response> {
  const { key } = c.get("caller");
  const { query: text, agent_id: agentId, limit } = (await readCheckedBody(c, deps.snapshot(), searchBody)).body;
  const agents = unwrapResult(checkAgents(toNames(agentId), key, deps));
  const agentIds = agents.length > 0 ? await marksFor(agents, key.tenant, deps.keys) : (await getAccess(key, deps.keys))?.sees;
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
  return jsonResponse(c, { object: "list", data: deps.knowledge.formats().map(formatView), has_more: false });
}
