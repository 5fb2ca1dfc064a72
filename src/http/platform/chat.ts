import type { Context } from "hono";
import { answerTurn } from "./answer.ts";
import { agentOf } from "./agents.ts";
import { chatCompletion, chunkMaker } from "./chat-answer.ts";
import { chatRequest, sessionFor } from "./chat-request.ts";
import { chatBody, type ChatBody } from "./chat-schema.ts";
import { begin } from "./begin.ts";
import type { Joins } from "./joins.ts";
import { readMessages } from "./messages.ts";
import { problemResponse } from "./problems.ts";
import { bodyProblem, readJson } from "./read.ts";
import { sessionNameOf } from "./session.ts";
import { dataLine, failureLine, type StreamFormat } from "./stream.ts";
import type { ChatTurn } from "../../actions/chat-types.ts";
import type { PlatformDeps, PlatformEnv } from "./types.ts";

function formatOf(turn: ChatTurn, model: string, body: ChatBody): StreamFormat {
  const make = chunkMaker({ turn, model }, body.stream_options?.include_usage ?? false);
  return {
    begin: () => dataLine(make.first()),
    text: (delta) => dataLine(make.text(delta)),
    end: (end) => `${make.last(end).map(dataLine).join("")}data: [DONE]\n\n`,
    failed: failureLine,
  };
}

/** `POST /v1/chat/completions` */
export async function chatCompletions(c: Context<PlatformEnv>, deps: PlatformDeps, joins: Joins): Promise<Response> {
  const { key, requestId } = c.get("caller");
  const snapshot = deps.snapshot();
  const { platform, hooks } = snapshot.config;
  const read = await readJson(c, { maxBytes: platform.maxBodyBytes, timeoutMs: hooks.bodyTimeoutSeconds * 1000 });
  if (!read.ok) return problemResponse(read.problem, requestId);
  const parsed = chatBody.safeParse(read.value.value);
  if (!parsed.success) return problemResponse(bodyProblem(parsed.error), requestId);
  const body = parsed.data;
  const agent = agentOf(body.model, key, snapshot);
  if (!agent.ok) return problemResponse(agent.problem, requestId);
  const session = sessionNameOf(c, body, key);
  if (!session.ok) return problemResponse(session.problem, requestId);
  const { signal } = c.req.raw;
  const images = { maxBytes: platform.maxImageBytes, hosts: platform.imageHosts, fetch: deps.fetch, signal };
  const conversation = await readMessages(body.messages, { images, field: "messages", continues: false });
  if (!conversation.ok) return problemResponse(conversation.problem, requestId);
  const caller = { id: key.id, tenant: key.tenant };
  const request = chatRequest(body, conversation.value, { agent: agent.value, caller, session: sessionFor(session.value) });
  const begun = begin(c, { request, bytes: read.value.bytes, session: session.value, route: "chat" }, deps, joins);
  if (!begun.ok) return problemResponse(begun.problem, requestId);
  const { turn, joined } = begun.value;
  const named = { turn, model: agent.value.id };
  return answerTurn({
    turn,
    requestId,
    signal,
    joined,
    body: (end) => chatCompletion(named, end),
    ...(body.stream ? { format: formatOf(turn, agent.value.id, body) } : {}),
  });
}
