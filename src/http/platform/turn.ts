import type { Context } from "hono";
import { badRequest, ProblemError, toProblem, problemResponse, turnProblem } from "./problems.ts";
import type { ChatRequest, ChatTurn, ChatEnd } from "../../chat/types.ts";
import { CONVERSATION_ID, deprecationHeaders } from "../../core/deprecation.ts";
import { getFingerprint, type TurnAttempt } from "./idempotent-turns.ts";
import type { PlatformEnv, PlatformParts } from "./types.ts";
import { toHeaderText, type NamedSession } from "./session-name.ts";
import { streamTurn, type StreamFormat, type SuccessfulEnd } from "./stream.ts";

/** What a request wants, and how it is answered. */
interface Wanted {
  request: ChatRequest;
  bytes: Buffer;
  session: NamedSession | undefined;
  route: string;
  /** The field that has the conversation. */
  field: string;
  /** The whole answer. */
  body(turn: ChatTurn, end: SuccessfulEnd): object;
  /** The form of the answer as it comes in, if `request` asks for a stream. */
  format(turn: ChatTurn): StreamFormat;
}

const MAX_KEY = 255;

/** Starts a turn, or joins the one that the same request has started. */
function startTurn(
  c: Context<PlatformEnv>,
  { request, bytes, session, route }: Wanted,
  { chats, turns }: PlatformParts,
): { turn: ChatTurn; joined: boolean } {
  const idempotencyKey = c.req.header("idempotency-key");
  if (idempotencyKey !== undefined && idempotencyKey.length > MAX_KEY)
    throw new ProblemError(badRequest("Idempotency-Key", `use at most ${MAX_KEY} characters`));
  const retryCount = Number(c.req.header("x-stainless-retry-count") ?? 0);
  const attempt: TurnAttempt = {
    keyId: c.get("caller").key.id,
    fingerprint: getFingerprint(route, session?.id, bytes),
    idempotencyKey,
    retryCount,
  };
  const found = turns.find(attempt);
  if (found.kind === "conflict") throw new ProblemError(found.problem);
  const started =
    found.kind === "joined" ? { ok: true as const, turn: found.turn } : chats.startTurn(request);
  if (!started.ok) throw new ProblemError(toProblem(started.failure));
  const { turn } = started;
  if (found.kind === "new") turns.add(attempt, turn);
  c.req.raw.signal.addEventListener(
    "abort",
    () => {
      if (!turn.end) turns.abandoned(turn);
    },
    { once: true },
  );
  return { turn, joined: found.kind === "joined" };
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
  let leave = (): void => undefined;
  const settled = new Promise<void>((resolve) => {
    let timer: NodeJS.Timeout | undefined;
    const begin = (): void => {
      if (turn.isRetrying && maxWaitMs !== undefined) timer = setTimeout(resolve, maxWaitMs);
      else resolve();
    };
    if (maxWaitMs !== undefined) timer = setTimeout(begin, FIRST_WORD_MS);
    const done = (): void => {
      clearTimeout(timer);
      resolve();
    };
    const onEvent = maxWaitMs === undefined ? () => undefined : done;
    leave = turn.listen({
      onText: onEvent,
      onReasoning: onEvent,
      onApproval: onEvent,
      onEnd: done,
    });
    const gone = (): void => {
      leave();
      done();
    };
    if (signal.aborted) gone();
    else signal.addEventListener("abort", gone, { once: true });
  });
  return { settled, leave: () => leave() };
}

const CALLER_HUNG_UP: Extract<ChatEnd, { ok: false }> = {
  ok: false,
  code: "cancelled",
  message: "the caller hung up",
};

/**
 * Answers with a turn: whole, or as it comes.
 * @throws ProblemError if the turn cannot be started.
 */
export async function answerTurn(
  c: Context<PlatformEnv>,
  wanted: Wanted,
  parts: PlatformParts,
): Promise<Response> {
  const { turn, joined } = startTurn(c, wanted, parts);
  const { requestId } = c.get("caller");
  const { stream: isStreamed } = wanted.request;
  const headers: Record<string, string> = {
    "x-request-id": requestId,
    "cache-control": "no-store",
  };
  if (wanted.session?.deprecated !== undefined)
    Object.assign(headers, deprecationHeaders(CONVERSATION_ID));
  if (joined) headers["idempotent-replayed"] = "true";
  const maxWaitMs = parts.snapshot().config.platform.maxWaitSeconds * 1000;
  const { settled, leave } = waitForText(
    turn,
    c.req.raw.signal,
    isStreamed ? maxWaitMs : undefined,
  );
  await settled;
  // Not before: whether a turn after a response is a branch is known once its history is read.
  if (turn.sessionId !== undefined) headers["x-session-id"] = toHeaderText(turn.sessionId);
  const { end } = turn;
  if (isStreamed && (!end || end.ok)) {
    const stream = streamTurn(turn, wanted.format(turn));
    leave();
    return new Response(stream, {
      headers: {
        ...headers,
        "content-type": "text/event-stream; charset=utf-8",
        "x-accel-buffering": "no",
      },
    });
  }
  leave();
  if (!end?.ok) {
    const problem = turnProblem(end ?? CALLER_HUNG_UP, wanted.field);
    return problemResponse({ ...problem, headers }, requestId);
  }
  return new Response(JSON.stringify(wanted.body(turn, end)), {
    headers: { ...headers, "content-type": "application/json" },
  });
}
