import { createReplyCleaner, KEPT_TEXT } from "../agent/reply/disarm.ts";
import { safeError, type Failure } from "../core/errors.ts";
import { renderSilence } from "../vocabulary/phrases.ts";
import { toRunError, cleanAnswer } from "../turns/end-run.ts";
import { execute } from "../turns/execute.ts";
import type { AnsweredTurn, FailedTurn, ModelTurn, RunKind } from "../turns/try.ts";
import type { ExecutorDeps } from "../turns/context.ts";
import type { ActionContext } from "../turns/types.ts";
import {
  newRun,
  sessionId,
  turnToKeep,
  STORE_UNAVAILABLE,
  type RunAnswer,
  type RunError,
  type ApiRun,
  type ApiSpec,
  type ApprovalRecord,
  type SessionRef,
} from "../store/types.ts";
import {
  buildInput,
  historyFor,
  turnToAppend,
  withToolNames,
  type ChatHistory,
} from "./history.ts";
import type { ChatEnd, ChatListener, ChatRequest, Chats, ChatTurn } from "./types.ts";
import { newId } from "../core/ids.ts";

/** The inside of a turn: what its callers hear, and how it is stopped. */
interface LiveTurn extends ChatTurn {
  readonly abort: AbortController;
  /** Called by the executor once it is known which session the turn is in. */
  enter(session: SessionRef): void;
  setStored(): void;
  /** Called by the executor. */
  say(delta: string): void;
  think(delta: string): void;
  ask(approval: ApprovalRecord): void;
  /** Called when its models begin to fail, and when one answers again. */
  setRetrying(isRetrying: boolean): void;
  finish(end: ChatEnd): void;
  /** Resolves once all is written that the turn ends with. */
  done: Promise<void>;
}

/** The name of a session of the API in its key. */
const getName = ({ key }: SessionRef): string => key.split(":").slice(3).join(":");

/** The session that a turn is in, or would be in: its key has the caller's id, so that no caller reaches another's. */
function getChatSession({ agent, caller, session }: ChatRequest, runId: string): SessionRef {
  if (session.kind === "after") return session.run.spec.session;
  const id = session.kind === "named" ? session.id : runId;
  return { agentId: agent.id, origin: "api", key: `api:${caller.id}:${agent.id}:${id}` };
}

/** A turn that has not begun yet. One shot is stopped when its last caller has gone; a session's turn goes on. */
function createLiveTurn(request: ChatRequest, now: number): LiveTurn {
  const runId = newId("run", now);
  // The request itself is not held on to: it may have images, and a turn is remembered for its repeats.
  const { session } = request;
  const isOneShot = session.kind === "none";
  const abort = new AbortController();
  const listeners = new Set<ChatListener>();
  const watching: (() => void)[] = [];
  /** The text and the reasoning so far, in pieces: a listener that comes late gets them as well. */
  const pieces: ((listener: ChatListener) => void)[] = [];
  const passOn = (delta: string, piece: (listener: ChatListener) => void): void => {
    if (delta === "") return;
    pieces.push(piece);
    for (const listener of listeners) piece(listener);
  };
  const asked: ApprovalRecord[] = [];
  const { promise: stored, resolve: setStored } = Promise.withResolvers<void>();
  const turn: LiveTurn & {
    end: ChatEnd | undefined;
    sessionId: string | undefined;
    isRetrying: boolean;
  } = {
    runId,
    createdAt: now,
    isOneShot,
    sessionId: session.kind === "named" ? session.id : session.kind === "new" ? runId : undefined,
    abort,
    stored,
    setStored,
    enter(entered) {
      if (!isOneShot) turn.sessionId = getName(entered);
    },
    isRetrying: false,
    setRetrying: (isRetrying) => void (turn.isRetrying = isRetrying),
    end: undefined,
    done: Promise.resolve(),
    listen(listener) {
      for (const piece of pieces) piece(listener);
      for (const approval of asked) listener.onApproval?.(approval);
      if (turn.end) {
        listener.onEnd(turn.end);
        return () => undefined;
      }
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
        if (listeners.size === 0 && !turn.end && isOneShot) abort.abort("hangup");
      };
    },
    say: (delta) => passOn(delta, (listener) => listener.onText(delta)),
    think: (delta) => passOn(delta, (listener) => listener.onReasoning?.(delta)),
    ask(approval) {
      asked.push(approval);
      for (const listener of listeners) listener.onApproval?.(approval);
    },
    finish(end) {
      if (turn.end) return;
      // Whoever joined a turn that does not stream hears its text all the same.
      if (end.ok && pieces.length === 0) {
        turn.think(end.reasoning);
        turn.say(end.text);
      }
      turn.end = end;
      for (const listener of listeners) listener.onEnd(end);
      listeners.clear();
      for (const call of watching.splice(0)) call();
    },
    whenOver(call) {
      if (turn.end) call();
      else watching.push(call);
    },
  };
  return turn;
}

const INTERNAL: RunError = {
  code: "internal",
  message: "something failed inside the gateway; its log has the run's id",
};

/** The message of a turn that was stopped, by the reason of its signal. */
const STOPPED: Record<string, string> = {
  hangup: "the caller hung up",
  cancel: "cancelled by the operator",
  drain: "the gateway is stopping; try again",
};

/** Returns what documents are searched for: the last thing the user said. */
function getQuestion({ messages }: ChatRequest): string {
  const texts = messages.map((message) =>
    message.role === "user"
      ? message.parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n")
      : "",
  );
  // A message may be images alone.
  return texts.findLast((text) => text !== "") ?? "";
}

function buildRun(request: ChatRequest, { runId, createdAt }: LiveTurn, gateway: string): ApiRun {
  const { caller, instructions, thinking, response } = request;
  const spec: ApiSpec = {
    session: getChatSession(request, runId),
    name: `API ${caller.id}`,
    hook: `api:${caller.id}`,
    input: buildInput(request.messages),
    ...(instructions !== undefined && { instructions }),
    ...(thinking !== undefined && { thinking }),
    ...(response && { response }),
  };
  const warnings = [...(request.warnings ?? [])];
  return newRun<ApiRun>({ id: runId, kind: "api", spec, warnings, createdAt, gateway });
}

type AnsweredEnd = Extract<ChatEnd, { ok: true }>;

/** The text and the reasoning of a turn, as they may leave the gateway. */
interface CleanWords {
  text: string;
  reasoning: string;
}

const NO_WORDS: CleanWords = { text: "", reasoning: "" };

function toChatEnd(result: AnsweredTurn | FailedTurn, words: CleanWords, reason: unknown): ChatEnd {
  if (result.ok) {
    const { calls, finish, usage, citations } = result;
    return { ok: true, ...words, calls, finish, usage, citations };
  }
  const { code, retryAfterMs, vendor } = result;
  const message =
    code === "cancelled" ? (STOPPED[String(reason)] ?? result.message) : result.message;
  return {
    ok: false,
    code,
    message,
    ...(retryAfterMs !== undefined && { retryAfterMs }),
    ...(vendor && { vendor }),
  };
}

/**
 * True if a program reads the answer, and must get it as the model wrote it: the caller asked for JSON, brought tools, or has
 * a key that says so.
 */
const isKept = ({ caller, sampling, tools = [] }: ChatRequest): boolean =>
  caller.clean === "none" || sampling?.json !== undefined || tools.length > 0;

/** Passes on what the model says and thinks, as it may leave. */
function createWords({ say, think }: LiveTurn, createCleaner: typeof createReplyCleaner) {
  const text = createCleaner();
  let reasoning = createCleaner();
  /** Reasoning that is held back goes before the text that follows. */
  const endReasoning = (): void => {
    think(reasoning.end());
    reasoning = createCleaner();
  };
  return {
    onText(delta: string): void {
      endReasoning();
      say(text.push(delta));
    },
    onReasoning: (delta: string): void => think(reasoning.push(delta)),
    end(): void {
      endReasoning();
      say(text.end());
    },
  };
}

/** Says in words that there is no answer. A program that asked for JSON gets what the model wrote, and nothing else. */
function withWords(result: ModelTurn, { sampling }: ChatRequest): ModelTurn {
  if (!result.ok || result.spoken.trim() !== "" || result.calls.length > 0 || sampling?.json)
    return result;
  return { ...result, spoken: renderSilence(result.finish) };
}

const toRunAnswer = ({ finish, reasoning, calls, citations }: AnsweredEnd): RunAnswer => ({
  finish,
  reasoning,
  calls,
  citations,
});

/** The run of an API user's turn: it streams, it is tried once, and it ends with its process. `before` is the session's turn before it. */
function createApiRun(
  request: ChatRequest,
  turn: LiveTurn,
  before: Promise<void> | undefined,
  deps: ExecutorDeps,
  context: ActionContext,
) {
  const { store, log } = deps;
  const { abort, runId } = turn;
  const { allowedLinkHosts } = context.config.hooks;
  const createCleaner = () => (isKept(request) ? KEPT_TEXT : createReplyCleaner(allowedLinkHosts));
  const words = request.stream ? createWords(turn, createCleaner) : undefined;
  const clean = (text: string) =>
    isKept(request) ? { reply: text, warnings: [] } : cleanAnswer(text, context);
  let history: ChatHistory;
  return {
    context,
    canAsk: request.canAsk ?? false,
    patienceMs: context.config.platform.maxWaitSeconds * 1000,
    isOneShot: turn.isOneShot,
    onApproval: turn.ask,
    onRetrying: turn.setRetrying,
    start: "meanwhile",
    async load() {
      const run = buildRun(request, turn, deps.cluster.id);
      const isStored = before !== undefined || request.isAwaited === false;
      if (isStored) await store.commit((tx) => tx.runs.add(run));
      turn.setStored();
      await before;
      return { run, agent: request.agent, isStored };
    },
    async prepare(run) {
      history = await historyFor(request, run, context, store);
      turn.enter(history.session);
      return {
        input: {
          messages: withToolNames(request.messages, history.history.turns),
          callerTools: request.tools ?? [],
          ...(request.instructions !== undefined && {
            callerInstructions: request.instructions,
          }),
          ...(request.thinking !== undefined && { thinking: request.thinking }),
          ...(request.sampling && { sampling: request.sampling }),
          ...(words && { onText: words.onText, onReasoning: words.onReasoning }),
        },
        tenant: request.caller.tenant,
        question: getQuestion(request),
        history: history.history,
        isFitted: !history.isWhole,
        change: { spec: { ...run.spec, session: history.session } },
      };
    },
    finish(run, turnResult, now) {
      const result = withWords(turnResult, request);
      if (result.ok && result !== turnResult) words?.onText(result.spoken);
      words?.end();
      // The caller gets cleaned text; the history keeps it as it was.
      const { reply, warnings } = clean(result.ok ? result.spoken : "");
      const reasoning = clean(result.ok ? result.reasoning : "").reply;
      const end = toChatEnd(result, { text: reply, reasoning }, abort.signal.reason);
      const after = (): void => turn.finish(end);
      if (!result.ok || !end.ok)
        return {
          change:
            result.ok || end.ok ? {} : { error: toRunError({ ...result, message: end.message }) },
          write: () => undefined,
          after,
        };
      return {
        change: { reply, ...(request.response && { answer: toRunAnswer(end) }) },
        warnings,
        write(tx) {
          for (const kept of [...history.copied, turnToAppend(run, history, result, now)])
            if (kept)
              tx.sessions.addTurn(
                run.spec.session,
                turnToKeep(kept, context.config.hooks.retention),
              );
        },
        after,
      };
    },
    recover(error) {
      log.error({ err: safeError(error), runId }, "a turn of the API could not be executed");
      abort.abort("failed");
      const { code, message }: RunError =
        safeError(error).code === STORE_UNAVAILABLE.code ? STORE_UNAVAILABLE : INTERNAL;
      const failure: FailedTurn = { ok: false, code, message, retryable: false, warnings: [] };
      // The caller does not wait until the failure is written.
      turn.finish(toChatEnd(failure, NO_WORDS, "failed"));
      return failure;
    },
  } satisfies RunKind<ApiRun>;
}

/** Executes a turn, after the one before it in its session. Never throws: what went wrong is the turn's end. */
async function executeTurn(
  request: ChatRequest,
  turn: LiveTurn,
  before: Promise<void> | undefined,
  deps: ExecutorDeps,
  context: ActionContext,
): Promise<void> {
  const kind = createApiRun(request, turn, before, deps, context);
  // A failure that cannot be written either: the caller hears of it all the same.
  await execute(kind, deps, turn.abort.signal).catch((error: unknown) =>
    turn.finish(toChatEnd(kind.recover(error), NO_WORDS, "failed")),
  );
}

const STOPPING: Failure = {
  code: "draining",
  message: "the gateway is stopping; try again",
  retryAfterSeconds: 5,
};
const TOO_MANY: Failure = {
  code: "overloaded",
  message: "too many turns at the same time; try again",
  retryAfterSeconds: 2,
};

/** Executes the turns of API users: immediately, and one after the other within a session. */
export function createChats(deps: ExecutorDeps): Omit<Chats, "recover"> {
  const { store, clock } = deps;
  const live = new Map<string, LiveTurn>();
  /** The last turn of each session that has one. */
  const tails = new Map<string, Promise<void>>();
  let draining = false;

  return {
    startTurn(request) {
      const context = deps.snapshot();
      if (draining) return { ok: false, failure: STOPPING };
      if (live.size >= context.config.platform.maxConcurrent)
        return { ok: false, failure: TOO_MANY };
      const turn = createLiveTurn(request, clock.now());
      const queue = sessionId(getChatSession(request, turn.runId));
      const before = tails.get(queue);
      const done = executeTurn(request, turn, before, deps, context).finally(() => {
        live.delete(turn.runId);
        if (tails.get(queue) === done) tails.delete(queue);
      });
      turn.done = done;
      tails.set(queue, done);
      live.set(turn.runId, turn);
      return { ok: true, turn };
    },
    async cancel(runId) {
      const turn = live.get(runId);
      if (!turn) return undefined;
      turn.abort.abort("cancel");
      await turn.done;
      return store.runs.get(runId);
    },
    async stop(drainMs) {
      draining = true;
      const all = Promise.all([...live.values()].map((turn) => turn.done));
      await Promise.race([all, clock.sleep(live.size === 0 ? 0 : drainMs)]);
      for (const turn of live.values()) turn.abort.abort("drain");
      await Promise.all([...live.values()].map((turn) => turn.done));
    },
  };
}
