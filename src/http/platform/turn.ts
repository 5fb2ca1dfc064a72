import { RouseError } from "../../core/errors.ts";
import type { Context } from "hono";
import type { z } from "zod";
import type { EarlierRuns, RunOwner } from "../../chat/history.ts";
import { restoreServerSteps } from "../../chat/history.ts";
import type { ChatEnd, ChatRequest, ChatTurn } from "../../chat/types.ts";
import { CONVERSATION_ID, deprecationHeaders } from "../../core/deprecation.ts";
import type { Snapshot } from "../../intake/types.ts";
import type { ChatMessage } from "./chat-schema.ts";
import { createFileReader } from "./files.ts";
import { getFingerprint, type TurnAttempt } from "./idempotent-turns.ts";
import { readMessages } from "./messages.ts";
import { findAgent } from "./models.ts";
import { badRequest, problemResponse, turnProblem } from "./problems.ts";
import { readCheckedBody, withoutNullish } from "./read.ts";
import { getCorrelation, getSessionName, toHeaderText, toSessionWarnings } from "./session-name.ts";
import { streamTurn, type TurnRenderer } from "./stream.ts";
import type { Caller, PlatformEnv, PlatformParts } from "./types.ts";

/** What both forms of the API have in a request. */
type CommonBody = Parameters<typeof getSessionName>[1] & {
  model: string;
  stream?: boolean | null | undefined;
};

/** What a form of the API knows of a request besides its body. */
export interface FormContext {
  caller: Caller;
  snapshot: Snapshot;
  /** The session that the request names. */
  session: string | undefined;
  runs: EarlierRuns;
  owner: RunOwner;
}

/** The turn that a request asks for, in the words of its form. */
export interface AskedTurn extends Pick<
  ChatRequest,
  "session" | "sampling" | "tools" | "thinking" | "response" | "canAsk"
> {
  messages: readonly ChatMessage[];
  /** Stands before the instructions among the messages. */
  instructions?: string | undefined;
  /** For the run's record. */
  warnings?: readonly string[];
}

/** A form in which the API asks for a turn, and gets it. */
export interface TurnForm<B extends CommonBody> {
  route: string;
  /** The field that has the conversation. */
  field: string;
  schema: z.ZodType<B>;
  /** @throws ProblemError */
  read(body: B, context: FormContext): AskedTurn | Promise<AskedTurn>;
  render(body: B, turn: ChatTurn, model: string): TurnRenderer;
}

/** Reads a request in one of the forms. */
async function readTurn<B extends CommonBody>(
  c: Context<PlatformEnv>,
  { route, field, schema, read, render }: TurnForm<B>,
  parts: PlatformParts,
) {
  const caller = c.get("caller");
  const { key } = caller;
  const snapshot = parts.snapshot();
  const { bytes, body } = await readCheckedBody(c, snapshot, schema);
  const agent = findAgent(body.model, key, snapshot);
  const session = getSessionName(c, body, key);
  const owner = { keyId: key.id, agentId: agent.id };
  const runs = parts.earlierRuns;
  const {
    messages: sent,
    instructions,
    warnings = [],
    ...asked
  } = await read(body, { caller, snapshot, session: session?.id, runs, owner });
  const { maxImageBytes: maxBytes, imageHosts: hosts } = snapshot.config.platform;
  const conversation = await readMessages(sent, {
    images: { maxBytes, hosts, fetch: parts.fetch, signal: c.req.raw.signal },
    readFile: createFileReader(c, parts),
    field,
    continues: asked.session.kind === "after",
  });
  const given = [instructions, conversation.instructions].filter(Boolean).join("\n\n");
  const request: ChatRequest = {
    ...asked,
    agent,
    caller: { id: key.id, tenant: key.tenant, ...withoutNullish({ clean: key.clean }) },
    // Who sends some of the history owns it, unless the request goes on with a turn that the server has.
    callerKeepsHistory: asked.session.kind === "named" && conversation.hasHistory,
    messages: await restoreServerSteps(conversation.messages, runs, owner),
    stream: body.stream ?? false,
    correlation: getCorrelation(c),
    warnings: [...toSessionWarnings(session), ...warnings],
    ...(given !== "" && { instructions: given }),
  };
  const fingerprint = getFingerprint(route, session?.id, bytes);
  const startRenderer = (turn: ChatTurn): TurnRenderer => render(body, turn, agent.id);
  return { request, fingerprint, session, field, startRenderer };
}

const MAX_KEY = 255;

/** Starts a turn, or joins the one that the same request has started. */
function startTurn(
  c: Context<PlatformEnv>,
  request: ChatRequest,
  fingerprint: string,
  { chats, turns }: PlatformParts,
): { turn: ChatTurn; joined: boolean } {
  const idempotencyKey = c.req.header("idempotency-key");
  if (idempotencyKey !== undefined && idempotencyKey.length > MAX_KEY)
    throw badRequest("Idempotency-Key", `use at most ${MAX_KEY} characters`);
  const attempt: TurnAttempt = {
    keyId: c.get("caller").key.id,
    fingerprint,
    idempotencyKey,
    retryCount: Number(c.req.header("x-stainless-retry-count") ?? 0),
  };
  const joined = turns.find(attempt);
  const started = joined ? { ok: true as const, turn: joined } : chats.startTurn(request);
  if (!started.ok) throw new RouseError(started.failure);
  const { turn } = started;
  if (!joined) turns.add(attempt, turn);
  const { signal } = c.req.raw;
  signal.addEventListener("abort", () => turn.end ?? turns.abandoned(turn), { once: true });
  return { turn, joined: joined !== undefined };
}

/**
 * How long a stream waits for the first word before it begins all the same. It is longer than the tries of a model and of
 * its fallback usually are: a caller whose turn fails before it has said anything gets a status, and not a stream that
 * breaks off.
 */
const FIRST_WORD_MS = 5_000;

/**
 * Waits for the end of a turn, or for its first event where `maxWaitMs` is given: at most `FIRST_WORD_MS`, and so much longer
 * while its models fail and are asked again. The way out must be called.
 */
function waitForText(
  turn: ChatTurn,
  signal: AbortSignal,
  maxWaitMs?: number,
): { settled: Promise<void>; leave(): void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  let timer: NodeJS.Timeout | undefined;
  const begin = (): void => {
    if (turn.isRetrying) timer = setTimeout(resolve, maxWaitMs);
    else resolve();
  };
  if (maxWaitMs !== undefined) timer = setTimeout(begin, FIRST_WORD_MS);
  const onEvent = maxWaitMs === undefined ? () => undefined : () => resolve();
  const leave = turn.listen({
    onText: onEvent,
    onReasoning: onEvent,
    onApproval: onEvent,
    onEnd: () => resolve(),
  });
  const gone = (): void => {
    leave();
    resolve();
  };
  if (signal.aborted) gone();
  else signal.addEventListener("abort", gone, { once: true });
  return { settled: promise.finally(() => clearTimeout(timer)), leave };
}

const CALLER_HUNG_UP: Extract<ChatEnd, { ok: false }> = {
  ok: false,
  code: "cancelled",
  message: "the caller hung up",
};

/** Creates the handler of a form of the API: it reads the request, and answers with its turn, whole or as it comes. */
export const serveTurn =
  <B extends CommonBody>(form: TurnForm<B>) =>
  async (c: Context<PlatformEnv>, parts: PlatformParts): Promise<Response> => {
    const { request, fingerprint, session, field, startRenderer } = await readTurn(c, form, parts);
    const { turn, joined } = startTurn(c, request, fingerprint, parts);
    const { requestId } = c.get("caller");
    const { stream: isStreamed } = request;
    const headers: Record<string, string> = {
      "x-request-id": requestId,
      "cache-control": "no-store",
      ...(session?.deprecated !== undefined && deprecationHeaders(CONVERSATION_ID)),
      ...(joined && { "idempotent-replayed": "true" }),
    };
    const maxWaitMs = parts.snapshot().config.platform.maxWaitSeconds * 1000;
    const waiting = waitForText(turn, c.req.raw.signal, isStreamed ? maxWaitMs : undefined);
    await waiting.settled;
    // Not before: whether a turn after a response is a branch is known once its history is read.
    if (turn.sessionId !== undefined) headers["x-session-id"] = toHeaderText(turn.sessionId);
    const { end } = turn;
    if (isStreamed && (!end || end.ok)) {
      const stream = streamTurn(turn, startRenderer(turn));
      waiting.leave();
      headers["content-type"] = "text/event-stream; charset=utf-8";
      headers["x-accel-buffering"] = "no";
      return new Response(stream, { headers });
    }
    waiting.leave();
    if (!end?.ok)
      return problemResponse({ ...turnProblem(end ?? CALLER_HUNG_UP, field), headers }, requestId);
    headers["content-type"] = "application/json";
    return new Response(JSON.stringify(startRenderer(turn).whole(end)), { headers });
  };
