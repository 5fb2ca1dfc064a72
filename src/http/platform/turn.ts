import { RouseError } from "../../core/errors.ts";
import type { Context } from "hono";
import type { z } from "zod";
import { type EarlierRuns, type RunOwner, restoreServerSteps } from "../../chat/history.ts";
import type { ChatEnd, ChatRequest, ChatTurn } from "../../chat/types.ts";
import { sha256Hex } from "../../core/secret.ts";
import type { Snapshot } from "../../intake/types.ts";
import { createFileReader } from "./files.ts";
import { type ConversationField, type PlacedMessage, readMessages } from "./messages.ts";
import { badRequest, noSuchModel, problemResponse, turnProblem } from "./problems.ts";
import { readCheckedBody, withoutNullish } from "./read.ts";
import { streamTurn, type TurnRenderer } from "./stream.ts";
import type { Caller, PlatformEnv, PlatformParts } from "./types.ts";
import { findAgent, type ApiKey } from "../../chat/api-keys.ts";

/** The fields of a request that both forms of the API have. */
interface CommonBody {
  model: string;
  stream?: boolean | null | undefined;
  session_id?: string | number | null | undefined;
  conversation_id?: string | number | null | undefined;
  metadata?: Record<string, unknown> | null | undefined;
  user?: string | null | undefined;
}

const MAX_NAME = 200;
// oxlint-disable-next-line no-control-regex -- control characters are what is refused
const CONTROL = /[\u0000-\u001f\u007f]/;

const toName = (value: unknown): string | undefined =>
  (typeof value === "string" && value !== "") || typeof value === "number"
    ? String(value).toWellFormed()
    : undefined;

/**
 * Returns the session that a request names, by the first field that does. Headers that front ends add to all of their
 * requests name none: a request for a title would join the conversation.
 * @throws ProblemError if the name is too long, or has control characters.
 */
function getSessionName(c: Context, body: CommonBody, key: ApiKey): string | undefined {
  const { metadata } = body;
  const candidates: Record<string, unknown> = {
    "x-session-id": c.req.header("x-session-id"),
    session_id: body.session_id,
    conversation_id: body.conversation_id,
    "metadata.session_id": metadata?.["session_id"],
    "metadata.conversation_id": metadata?.["conversation_id"],
    // Some front ends put an account's id there: all of its conversations would be one.
    user: key.userAsSession ? body.user : undefined,
  };
  for (const [field, value] of Object.entries(candidates)) {
    const id = toName(value);
    if (id === undefined) continue;
    if (id.length <= MAX_NAME && !CONTROL.test(id)) return id;
    const message = `${field}: use at most ${MAX_NAME} characters, and no control characters`;
    throw badRequest(field, message);
  }
  return undefined;
}

/** A session's name as a header can carry it. */
function toHeaderText(name: string): string {
  return /^[\x21-\x7e]+$/.test(name) ? name : encodeURIComponent(name);
}

/** The facts about a request that a form of the API gets besides its body. */
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
  "session" | "sampling" | "tools" | "thinking" | "response" | "isAwaited" | "canAsk"
> {
  messages: readonly PlacedMessage[];
  /** Stands before the instructions among the messages. */
  instructions?: string | undefined;
  /** For the run's record. */
  warnings?: readonly string[];
}

/** A form in which the API asks for a turn, and gets it. */
export interface TurnForm<B extends CommonBody> {
  route: string;
  /** The field that has the conversation. */
  field: ConversationField;
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
  const agent = findAgent(body.model, key, snapshot.agents);
  if (!agent) throw noSuchModel();
  const session = getSessionName(c, body, key);
  const owner = { keyId: key.id, agentId: agent.id };
  const runs = parts.earlierRuns;
  const {
    messages: sent,
    instructions,
    warnings = [],
    ...asked
  } = await read(body, { caller, snapshot, session, runs, owner });
  const { kind } = asked.session;
  const { maxImageBytes: maxBytes, imageHosts: hosts } = snapshot.config.platform;
  let readFile: ReturnType<typeof createFileReader> | undefined;
  const conversation = await readMessages(sent, {
    images: { maxBytes, hosts, fetch: parts.options.fetch, signal: c.req.raw.signal },
    readFile: (file, at) => (readFile ??= createFileReader(c, parts))(file, at),
    field,
    // A caller that sends no answer of the model has no call either: its results are of calls in the session.
    continues:
      kind === "after" || (kind === "named" && sent.every((one) => one.role !== "assistant")),
  });
  const given = [instructions, conversation.instructions].filter(Boolean).join("\n\n");
  const request: ChatRequest = {
    ...asked,
    agent,
    caller: { id: key.id, tenant: key.tenant, ...withoutNullish({ clean: key.clean }) },
    // A caller that sends some of the history owns it, unless the request goes on with a turn that the server has.
    callerKeepsHistory: kind === "named" && conversation.hasHistory,
    messages: await restoreServerSteps(conversation.messages, runs, owner),
    stream: body.stream ?? false,
    warnings,
    ...(given !== "" && { instructions: given }),
  };
  // The session's name may stand in a header.
  const fingerprint = sha256Hex(`${route}\n${session ?? ""}\n${sha256Hex(bytes)}`);
  const startRenderer = (turn: ChatTurn): TurnRenderer => render(body, turn, agent.id);
  return { request, fingerprint, field, startRenderer };
}

const MAX_KEY = 255;

/** Starts a turn, or joins the one that the same request has started. */
function startTurn(
  c: Context<PlatformEnv>,
  request: ChatRequest,
  fingerprint: string,
  { chats, idempotentTurns: turns }: PlatformParts,
): { turn: ChatTurn; joined: boolean } {
  const idempotencyKey = c.req.header("idempotency-key");
  if (idempotencyKey !== undefined && idempotencyKey.length > MAX_KEY)
    throw badRequest("Idempotency-Key", `use at most ${MAX_KEY} characters`);
  const attempt = {
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
 * Milliseconds for which a stream waits for the first word before it begins all the same. The tries of a model and of its
 * fallback usually take less: a caller whose turn fails before it has said anything gets a status, and not a stream that
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
    const { request, fingerprint, field, startRenderer } = await readTurn(c, form, parts);
    const { turn, joined } = startTurn(c, request, fingerprint, parts);
    const { requestId } = c.get("caller");
    const { stream: isStreamed, isAwaited = true } = request;
    const headers: Record<string, string> = {
      "x-request-id": requestId,
      "cache-control": "no-store",
      ...(joined && { "idempotent-replayed": "true" }),
    };
    const maxWaitMs = parts.snapshot().config.platform.maxWaitSeconds * 1000;
    const waiting = waitForText(turn, c.req.raw.signal, isStreamed ? maxWaitMs : undefined);
    await (isAwaited ? waiting.settled : Promise.race([turn.stored, waiting.settled]));
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
    const isBegun = !end && !isAwaited;
    if (!end?.ok && !isBegun)
      return problemResponse({ ...turnProblem(end ?? CALLER_HUNG_UP, field), headers }, requestId);
    headers["content-type"] = "application/json";
    const renderer = startRenderer(turn);
    const answer = end?.ok ? renderer.whole(end) : renderer.begun?.();
    return new Response(JSON.stringify(answer), { headers });
  };
