import type { Context } from "hono";
import { answerTurn } from "./answer.ts";
import { findAgent } from "./agents.ts";
import { startTurn } from "./start-turn.ts";
import { imageLimits } from "./images.ts";
import { readMessages } from "./messages.ts";
import { unwrapResult } from "./problems.ts";
import { readCheckedBody } from "./read.ts";
import { responseEvents, responseObject } from "./responses-answer.ts";
import { responseRequest, responseSession, toMessages, withReferences } from "./responses-request.ts";
import { responsesBody } from "./responses-schema.ts";
import { getSessionName } from "./session.ts";
import type { PlatformEnv, PlatformParts } from "./types.ts";

/** `POST /v1/responses`: another form of the same turn. */
export async function createResponse(c: Context<PlatformEnv>, deps: PlatformParts): Promise<Response> {
  const { key, requestId } = c.get("caller");
  const snapshot = deps.snapshot();
  const { bytes, body } = await readCheckedBody(c, snapshot, responsesBody);
  const agent = unwrapResult(findAgent(body.model, key, snapshot));
  const name = unwrapResult(getSessionName(c, body, key));
  const earlier = { runs: deps.earlierRuns, owner: { keyId: key.id, agentId: agent.id } };
  const session = unwrapResult(await responseSession(body, name, earlier));
  const input = unwrapResult(await withReferences(body.input, earlier));
  const { signal } = c.req.raw;
  const images = imageLimits(snapshot, deps.fetch, signal);
  const continues = session.kind === "after";
  const conversation = unwrapResult(await readMessages(toMessages(input), { images, field: "input", continues }));
  const caller = { id: key.id, tenant: key.tenant };
  const canAsk = body.stream === true && snapshot.approvers.includes(`api:${key.id}`);
  const request = { ...responseRequest(body, conversation, { agent, caller, session }), canAsk };
  const { turn, joined } = unwrapResult(startTurn(c, { request, bytes, session: name, route: "responses" }, deps));
  const named = { turn, model: agent.id, body };
  return answerTurn({
    turn,
    requestId,
    signal,
    joined,
    body: (end) => responseObject(named, end),
    ...(body.stream ? { format: responseEvents(named) } : {}),
  });
}
