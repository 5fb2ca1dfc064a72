import type { Context } from "hono";
import { answerTurn } from "./answer.ts";
import { findAgent } from "./agents.ts";
import { chatCompletion, chunkMaker } from "./chat-answer.ts";
import { chatRequest, sessionFor } from "./chat-request.ts";
import { chatBody, type ChatBody } from "./chat-schema.ts";
import { startTurn } from "./start-turn.ts";
import { imageLimits } from "./images.ts";
import { readMessages } from "./messages.ts";
import { unwrapResult } from "./problems.ts";
import { readCheckedBody } from "./read.ts";
import { getSessionName } from "./session.ts";
import { dataLine, failureLine, type StreamFormat } from "./stream.ts";
import type { ChatTurn } from "../../chat/types.ts";
import type { PlatformEnv, PlatformParts } from "./types.ts";

function createFormat(turn: ChatTurn, model: string, body: ChatBody): StreamFormat {
  const make = chunkMaker({ turn, model }, body.stream_options?.include_usage ?? false);
  return {
    begin: () => dataLine(make.first()),
    text: (delta) => dataLine(make.text(delta)),
    end: (end) => `${make.last(end).map(dataLine).join("")}data: [DONE]\n\n`,
    failed: failureLine,
  };
}

/** `POST /v1/chat/completions` */
export async function chatCompletions(c: Context<PlatformEnv>, deps: PlatformParts): Promise<Response> {
  const { key, requestId } = c.get("caller");
  const snapshot = deps.snapshot();
  const { bytes, body } = await readCheckedBody(c, snapshot, chatBody);
  const agent = unwrapResult(findAgent(body.model, key, snapshot));
  const session = unwrapResult(getSessionName(c, body, key));
  const { signal } = c.req.raw;
  const images = imageLimits(snapshot, deps.fetch, signal);
  const conversation = unwrapResult(await readMessages(body.messages, { images, field: "messages", continues: false }));
  const caller = { id: key.id, tenant: key.tenant };
  const request = chatRequest(body, conversation, { agent, caller, session: sessionFor(session) });
  const { turn, joined } = unwrapResult(startTurn(c, { request, bytes, session, route: "chat" }, deps));
  const named = { turn, model: agent.id };
  return answerTurn({
    turn,
    requestId,
    signal,
    joined,
    body: (end) => chatCompletion(named, end),
    ...(body.stream ? { format: createFormat(turn, agent.id, body) } : {}),
  });
}
