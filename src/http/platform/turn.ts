import { RouseError } from "../../core/errors.ts";
import type { Context } from "hono";
import type { z } from "zod";
import { type EarlierRuns, type RunOwner, restoreServerSteps } from "../../chat/history.ts";
import type { ChatEnd, ChatRequest, ChatTurn } from "../../chat/types.ts";
import { readMonotonic, type Stopwatch } from "../../core/clock.ts";
import { CONVERSATION_ID, deprecationHeaders } from "../../core/http/deprecation.ts";
import { sha256Hex } from "../../core/secret.ts";
import type { Snapshot } from "../../intake/types.ts";
import { createFileReader } from "./files.ts";
import { type ConversationField, type PlacedMessage, readMessages } from "./messages.ts";
import { badRequest, noSuchModel, ProblemError, problemResponse, turnProblem } from "./problems.ts";
import { readCheckedBody, withoutNullish } from "./read.ts";
import { streamTurn, type TurnRenderer } from "./stream.ts";
import type { Caller, IdempotentTurns, PlatformEnv, PlatformParts, TurnAttempt } from "./types.ts";
import { findAgent, type ApiKey } from "../../chat/api-keys.ts";

interface SessionFields {
  session_id?: string | number | null | undefined;
  conversation_id?: string | number | null | undefined;
  metadata?: Record<string, unknown> | null | undefined;
  user?: string | null | undefined;
}

/** The name of a session, as a request gave it. */
interface NamedSession {
  id: string;
  /** The field that it came in, if a newer one has taken its place. */
  deprecated?: string;
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
function getSessionName(c: Context, body: SessionFields, key: ApiKey): NamedSession | undefined {
  const { metadata } = body;
  const candidates: [field: string, value: unknown, isDeprecated?: true][] = [
    ["x-session-id", c.req.header("x-session-id")],
    ["session_id", body.session_id],
    ["conversation_id", body.conversation_id, true],
    ["metadata.session_id", metadata?.["session_id"]],
    ["metadata.conversation_id", metadata?.["conversation_id"], true],
    // Some front ends put an account's id there: all of its conversations would be one.
    ["user", key.userAsSession ? body.user : undefined],
  ];
  for (const [field, value, isDeprecated] of candidates) {
    const id = toName(value);
    if (id === undefined) continue;
    if (id.length > MAX_NAME || CONTROL.test(id))
      throw badRequest(
        field,
        `${field}: use at most ${MAX_NAME} characters, and no control characters`,
      );
    return isDeprecated ? { id, deprecated: field } : { id };
  }
  return undefined;
}

/** Returns the warning of a run whose session was named by a deprecated field. */
function toSessionWarnings(session: NamedSession | undefined): string[] {
  const { deprecated } = session ?? {};
  if (deprecated === undefined) return [];
  const named = deprecated.replace("conversation_id", "session_id");
  return [`the field ${deprecated} names the session and is deprecated: send ${named}`];
}

/** A session's name as a header can carry it. */
function toHeaderText(name: string): string {
  return /^[\x21-\x7e]+$/.test(name) ? name : encodeURIComponent(name);
}

/** Headers by which front ends name their chats and messages. */
const CORRELATION_HEADERS = ["x-openwebui-chat-id", "x-openwebui-message-id", "x-conversation-id"];

/** Returns the ids that a front end gave its chat and message, for the run's record and its trace. */
function getCorrelation(c: Context): Record<string, string> | undefined {
  const found = CORRELATION_HEADERS.flatMap((name) => {
    const value = c.req.header(name);
    return value === undefined || value === "" || value.length > MAX_NAME || CONTROL.test(value)
      ? []
      : [[name, value] as const];
  });
  return found.length === 0 ? undefined : Object.fromEntries(found);
}

/** Route, session (whose name may stand in a header) and body. */
function getFingerprint(route: string, session: string | undefined, bytes: Buffer): string {
  return sha256Hex(`${route}\n${session ?? ""}\n${sha256Hex(bytes)}`);
}

/** The fields of a request that both forms of the API have. */
type CommonBody = Parameters<typeof getSessionName>[1] & {
  model: string;
  stream?: boolean | null | undefined;
};

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
  } = await read(body, { caller, snapshot, session: session?.id, runs, owner });
  const { kind } = asked.session;
  const { maxImageBytes: maxBytes, imageHosts: hosts } = snapshot.config.platform;
  let readFile: ReturnType<typeof createFileReader> | undefined;
  const conversation = await readMessages(sent, {
    images: { maxBytes, hosts, fetch: parts.fetch, signal: c.req.raw.signal },
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
    correlation: getCorrelation(c),
    warnings: [...toSessionWarnings(session), ...warnings],
    ...(given !== "" && { instructions: given }),
  };
  const fingerprint = getFingerprint(route, session?.id, bytes);
  const startRenderer = (turn: ChatTurn): TurnRenderer => render(body, turn, agent.id);
  return { request, fingerprint, session, field, startRenderer };
}

interface Entry {
  turn: ChatTurn;
  fingerprint: string;
  /** When its turn ended, in monotonic time. */
  endedAt: number | undefined;
}

/** So long a turn that has ended is found by its idempotency key. */
const KEPT_MS = 600_000;
/** So long a session's turn is found by its body, where its caller had gone before it ended and then comes back. */
const ABANDONED_MS = 120_000;
const MAX_ENTRIES = 1000;

const conflict = new ProblemError({
  status: 409,
  type: "invalid_request_error",
  code: "idempotency_conflict",
  param: null,
  message: "this Idempotency-Key came with another body before; use a new one",
  shouldRetry: false,
});

/** Creates what finds the turns of requests that are repeated. */
export function createIdempotentTurns(clock: Stopwatch): IdempotentTurns {
  const byKey = new Map<string, Entry>();
  const byBody = new Map<string, Entry>();
  const gone = new WeakSet<ChatTurn>();

  const lookUp = (entries: Map<string, Entry>, name: string, keptMs: number): Entry | undefined => {
    const entry = entries.get(name);
    if (!entry) return undefined;
    const over = entry.endedAt !== undefined && readMonotonic(clock) - entry.endedAt > keptMs;
    // A turn that was stopped because its caller disconnected is tried again; a turn that failed is not kept.
    if (!over && (!entry.turn.isOneShot || !gone.has(entry.turn))) return entry;
    entries.delete(name);
    return undefined;
  };
  const keep = (
    entries: Map<string, Entry>,
    name: string,
    entry: Entry,
    isKept: () => boolean,
  ): void => {
    entries.delete(name);
    entries.set(name, entry);
    if (entries.size > MAX_ENTRIES) entries.delete(entries.keys().next().value as string);
    entry.turn.whenOver(() => {
      entry.endedAt = readMonotonic(clock);
      if (!isKept() && entries.get(name) === entry) entries.delete(name);
    });
  };

  const toEntryName = (keyId: string, text: string): string => `${keyId}\n${text}`;

  return {
    find({ keyId, fingerprint, idempotencyKey, retryCount }) {
      if (idempotencyKey !== undefined) {
        const entry = lookUp(byKey, toEntryName(keyId, idempotencyKey), KEPT_MS);
        if (entry && entry.fingerprint !== fingerprint) throw conflict;
        if (entry) return entry.turn;
      }
      if (retryCount < 1) return undefined;
      return lookUp(byBody, toEntryName(keyId, fingerprint), ABANDONED_MS)?.turn;
    },
    add({ keyId, fingerprint, idempotencyKey }, turn) {
      const isGood = (): boolean => turn.end?.ok === true;
      const entry = { turn, fingerprint, endedAt: undefined };
      if (idempotencyKey !== undefined)
        keep(byKey, toEntryName(keyId, idempotencyKey), { ...entry }, isGood);
      keep(byBody, toEntryName(keyId, fingerprint), entry, () => isGood() && gone.has(turn));
    },
    abandoned: (turn) => void gone.add(turn),
  };
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
    const { request, fingerprint, session, field, startRenderer } = await readTurn(c, form, parts);
    const { turn, joined } = startTurn(c, request, fingerprint, parts);
    const { requestId } = c.get("caller");
    const { stream: isStreamed, isAwaited = true } = request;
    const headers: Record<string, string> = {
      "x-request-id": requestId,
      "cache-control": "no-store",
      ...(session?.deprecated !== undefined && deprecationHeaders(CONVERSATION_ID)),
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
