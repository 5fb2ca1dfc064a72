import type { ChatEnd, ChatTurn } from "../../chat/types.ts";
import type { SuccessfulEnd } from "./chat-answer.ts";
import { problemResponse, turnProblem } from "./problems.ts";
import { headerText } from "./session.ts";
import { streamTurn, type StreamFormat } from "./stream.ts";

/**
 * How long a stream waits for the first word before it begins all the same: a provider that refuses does so quickly, and
 * then the caller gets a status, and not a stream that breaks off.
 */
const FIRST_WORD_MS = 250;

export interface AnswerOptions {
  turn: ChatTurn;
  requestId: string;
  /** Aborts when the caller hangs up. */
  signal: AbortSignal;
  /** Set where the request joined a turn that was there. */
  joined: boolean;
  /** Set for a streamed answer. */
  format?: StreamFormat;
  body(end: SuccessfulEnd): object;
}

/** Waits for the end of a turn, or for its first word where `ms` says for how long. The way out must be called. */
function waitForText(turn: ChatTurn, signal: AbortSignal, ms?: number): { settled: Promise<void>; leave(): void } {
  let leave = (): void => undefined;
  const settled = new Promise<void>((resolve) => {
    const timer = ms === undefined ? undefined : setTimeout(resolve, ms);
    const done = (): void => {
      clearTimeout(timer);
      resolve();
    };
    leave = turn.listen({ onText: ms === undefined ? () => undefined : done, onEnd: done });
    const gone = (): void => {
      leave();
      done();
    };
    if (signal.aborted) gone();
    else signal.addEventListener("abort", gone, { once: true });
  });
  return { settled, leave: () => leave() };
}

const CALLER_HUNG_UP: Extract<ChatEnd, { ok: false }> = { ok: false, code: "cancelled", message: "the caller hung up" };

/** Answers with a turn: whole, or as it comes. */
export async function answerTurn({ turn, requestId, signal, joined, format, body }: AnswerOptions): Promise<Response> {
  const headers: Record<string, string> = { "x-request-id": requestId, "cache-control": "no-store" };
  if (turn.sessionId !== undefined) headers["x-session-id"] = headerText(turn.sessionId);
  if (joined) headers["idempotent-replayed"] = "true";
  const { settled, leave } = waitForText(turn, signal, format ? FIRST_WORD_MS : undefined);
  await settled;
  const { end } = turn;
  if (format && (!end || end.ok)) {
    const stream = streamTurn(turn, format);
    leave();
    return new Response(stream, { headers: { ...headers, "content-type": "text/event-stream; charset=utf-8", "x-accel-buffering": "no" } });
  }
  leave();
  if (!end?.ok) {
    const problem = turnProblem(end ?? CALLER_HUNG_UP);
    return problemResponse({ ...problem, headers }, requestId);
  }
  return new Response(JSON.stringify(body(end)), { headers: { ...headers, "content-type": "application/json" } });
}
