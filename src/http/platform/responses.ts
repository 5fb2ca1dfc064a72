import type { Context } from "hono";
import { answerTurn } from "./answer.ts";
import { agentOf } from "./agents.ts";
import { begin } from "./begin.ts";
import type { Joins } from "./joins.ts";
import { readMessages } from "./messages.ts";
import { problemResponse } from "./problems.ts";
import { bodyProblem, readJson } from "./read.ts";
import { responseEvents, responseObject } from "./responses-answer.ts";
import { messagesOf, responseRequest, responseSession, withReferences } from "./responses-request.ts";
import { responsesBody } from "./responses-schema.ts";
import { sessionNameOf } from "./session.ts";
import type { PlatformDeps, PlatformEnv } from "./types.ts";

/** `POST /v1/responses`: another form of the same turn. */
export async function createResponse(c: Context<PlatformEnv>, deps: PlatformDeps, joins: Joins): Promise<Response> {
  const { key, requestId } = c.get("caller");
  const snapshot = deps.snapshot();
  const { platform, hooks } = snapshot.config;
  const read = await readJson(c, { maxBytes: platform.maxBodyBytes, timeoutMs: hooks.bodyTimeoutSeconds * 1000 });
  if (!read.ok) return problemResponse(read.problem, requestId);
  const parsed = responsesBody.safeParse(read.value.value);
  if (!parsed.success) return problemResponse(bodyProblem(parsed.error), requestId);
  const body = parsed.data;
  const agent = agentOf(body.model, key, snapshot);
  if (!agent.ok) return problemResponse(agent.problem, requestId);
  const name = sessionNameOf(c, body, key);
  if (!name.ok) return problemResponse(name.problem, requestId);
  const owner = { key, agentId: agent.value.id, store: deps.store };
  const session = await responseSession(body, name.value, owner);
  if (!session.ok) return problemResponse(session.problem, requestId);
  const input = await withReferences(body.input, owner);
  if (!input.ok) return problemResponse(input.problem, requestId);
  const { signal } = c.req.raw;
  const images = { maxBytes: platform.maxImageBytes, hosts: platform.imageHosts, fetch: deps.fetch, signal };
  const continues = session.value.kind === "after";
  const conversation = await readMessages(messagesOf(input.value), { images, field: "input", continues });
  if (!conversation.ok) return problemResponse(conversation.problem, requestId);
  const caller = { id: key.id, tenant: key.tenant };
  const request = responseRequest(body, conversation.value, { agent: agent.value, caller, session: session.value });
  const begun = begin(c, { request, bytes: read.value.bytes, session: name.value, route: "responses" }, deps, joins);
  if (!begun.ok) return problemResponse(begun.problem, requestId);
  const { turn, joined } = begun.value;
  const named = { turn, model: agent.value.id, body };
  return answerTurn({
    turn,
    requestId,
    signal,
    joined,
    body: (end) => responseObject(named, end),
    ...(body.stream ? { format: responseEvents(named) } : {}),
  });
}
