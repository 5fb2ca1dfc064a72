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
import { imageLimits, readMessages } from "./messages.ts";
import { findAgent } from "./models.ts";
import { badRequest, ProblemError, problemResponse, turnProblem } from "./problems.ts";
import { readCheckedBody, withoutNullish } from "./read.ts";
import {
  getCorrelation,
  getSessionName,
  toHeaderText,
  toSessionWarnings,
  type NamedSession,
} from "./session-name.ts";
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

/** A request that was read, and how it is answered. */
interface Wanted {
  request: ChatRequest;
  bytes: Buffer;
  session: NamedSession | undefined;
  route: string;
  field: string;
  render(turn: ChatTurn): TurnRenderer;
}

/** Reads a request in one of the forms. */
async function readTurn<B extends CommonBody>(
  c: Context<PlatformEnv>,
  { route, field, schema, read, render }: TurnForm<B>,
  parts: PlatformParts,
): Promise<Wanted> {
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
  const conversation = await readMessages(sent, {
    images: imageLimits(snapshot, parts.fetch, c.req.raw.signal),
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
    ...(given === "" ? {} : { instructions: given }),
  };
  return { request, bytes, session, route, field, render: (turn) => render(body, turn, agent.id) };
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
    throw badRequest("Idempotency-Key", `use at most ${MAX_KEY} characters`);
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
  if (!started.ok) throw new RouseError(started.failure);
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

/** Creates the handler of a form of the API: it reads the request, and answers with its turn, whole or as it comes. */
export const serveTurn =
  <B extends CommonBody>(form: TurnForm<B>) =>
  async (c: Context<PlatformEnv>, parts: PlatformParts): Promise<Response> =>
    answerTurn(c, await readTurn(c, form, parts), parts);

async function answerTurn(
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
    const stream = streamTurn(turn, wanted.render(turn));
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
  return new Response(JSON.stringify(wanted.render(turn).whole(end)), {
    headers: { ...headers, "content-type": "application/json" },
  });
}
