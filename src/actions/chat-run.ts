import { cleanReply, createReplyCleaner } from "../agent/links.ts";
import { allowedTools } from "../agent/tools.ts";
import type { ResolvedModel, TurnInput, TurnResult } from "../agent/types.ts";
import { safeError } from "../core/errors.ts";
import { turnToKeep } from "../sessions/forget.ts";
import {
  STORE_UNAVAILABLE,
  type NewTurn,
  type RunError,
  type RunRecord,
  type RunSpec,
  type SessionRef,
  type TurnRecord,
} from "../store/types.ts";
import { historyFor, inputOf, turnToAppend, withToolNames, type ChatHistory } from "./chat-history.ts";
import { sessionOf, type LiveTurn } from "./chat-turn.ts";
import type { ChatDeps, ChatEnd, ChatRequest } from "./chat-types.ts";
import { gatherKnowledge, type TurnKnowledge } from "./knowledge.ts";
import type { ActionContext } from "./types.ts";

const INTERNAL: RunError = { code: "internal", message: "something failed inside the gateway; its log has the run's id" };

const STOPPED: Record<string, string> = {
  hangup: "the caller hung up",
  cancel: "cancelled by the operator",
  drain: "the gateway is stopping; try again",
};

/** Returns what documents are searched for: the last thing the user said. */
function getQuestion({ said }: ChatRequest): string {
  const last = said.findLast((message) => message.role === "user");
  return last?.role === "user" ? last.parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n") : "";
}

function specOf(request: ChatRequest, session: SessionRef): RunSpec {
  const spec: RunSpec = {
    session,
    name: `API ${request.caller.id}`,
    hook: `api:${request.caller.id}`,
    input: inputOf(request.said),
    wakeMode: "next-heartbeat",
    deliver: false,
    channel: "last",
    unsafe: false,
  };
  if (request.instructions !== undefined) spec.instructions = request.instructions;
  if (request.thinking !== undefined) spec.thinking = request.thinking;
  return spec;
}

function turnInput(
  request: ChatRequest,
  { abort, say }: LiveTurn,
  cleaner: ReturnType<typeof createReplyCleaner>,
  model: ResolvedModel,
  history: readonly TurnRecord[],
  known: TurnKnowledge,
  context: ActionContext,
): TurnInput {
  const { agent } = request;
  const thinking = request.thinking ?? agent.thinking;
  return {
    agent,
    history,
    input: inputOf(request.said),
    said: withToolNames(request.said, history),
    unsafe: false,
    tools: allowedTools(agent, [], false),
    model,
    timeoutMs: context.config.agents.defaults.timeoutSeconds * 1000,
    signal: abort.signal,
    passages: known.passages,
    ownTools: known.tools,
    callerTools: request.tools ?? [],
    ...(request.instructions === undefined ? {} : { callerInstructions: request.instructions }),
    ...(request.sampling === undefined ? {} : { sampling: request.sampling }),
    ...(thinking === undefined ? {} : { thinking }),
    ...(request.stream ? { onText: (delta: string) => say(cleaner.push(delta)) } : {}),
  };
}

function endOf(result: TurnResult, citations: TurnKnowledge["citations"], reason: unknown): ChatEnd {
  if (result.ok) return { ok: true, text: result.spoken, calls: result.calls, finish: result.finish, usage: result.usage, citations };
  const message = result.code === "cancelled" ? (STOPPED[String(reason)] ?? result.message) : result.message;
  return { ok: false, code: result.code, message, ...(result.retryAfterMs === undefined ? {} : { retryAfterMs: result.retryAfterMs }) };
}

/** A result as it may leave: images as their addresses, no links to hosts that are not allowed. The history has it as it was. */
function cleaned(result: TurnResult, hosts: readonly string[] | undefined): TurnResult {
  if (!result.ok) return result;
  const { text: spoken, removedLinks } = cleanReply(result.spoken, hosts);
  if (removedLinks === 0) return { ...result, spoken };
  const warning = `${removedLinks} links to hosts outside hooks.allowedLinkHosts were removed`;
  return { ...result, spoken, warnings: [...result.warnings, warning] };
}

/** A turn on its way, with what it was begun with. */
interface Passage {
  request: ChatRequest;
  turn: LiveTurn;
  /** What a turn begins with, it ends with. */
  context: ActionContext;
  deps: ChatDeps;
  record: RunRecord;
  /** Whether the record is in the store. */
  isStored: boolean;
}

function ended({ record, deps }: Passage, status: string, now: number): void {
  deps.metrics?.runEnded({ status, seconds: (now - (record.startedAt ?? now)) / 1000 });
  deps.log.info({ runId: record.id, status }, "a run ended");
  deps.onRunEnd?.(record.id);
}

/** Writes what has changed in a run; it may be the first that is written of it. */
async function write(passage: Passage, change: Partial<RunRecord>): Promise<void> {
  const { deps, isStored } = passage;
  passage.record = { ...passage.record, ...change };
  const { record } = passage;
  await deps.store.commit((tx) => (isStored ? tx.updateRun(record.id, record) : tx.insertRun(record)));
  passage.isStored = true;
}

async function writeFailure(passage: Passage, end: Extract<ChatEnd, { ok: false }>, warnings: string[] = []): Promise<void> {
  const now = passage.deps.clock.now();
  const status = end.code === "timeout" ? "timed_out" : end.code === "cancelled" ? "cancelled" : "failed";
  await write(passage, { status, error: { code: end.code, message: end.message }, warnings, endedAt: now });
  ended(passage, status, now);
}

/** Writes the end of a run and what its session keeps of it, in one commit. */
async function writeReply(passage: Passage, result: Extract<TurnResult, { ok: true }>, history: ChatHistory): Promise<void> {
  const { record, deps, context } = passage;
  const now = deps.clock.now();
  const { usage, warnings, spoken } = result;
  const kept = turnToAppend(record, history, result.messages, now);
  await deps.store.commit((tx) => {
    tx.updateRun(record.id, { status: "succeeded", reply: spoken, usage, warnings, endedAt: now });
    const append = (turn: NewTurn): void => tx.appendTurn(record.spec.session, turnToKeep(turn, context.config.hooks.retention));
    for (const turn of history.copied) append(turn);
    if (kept) append(kept);
  });
  ended(passage, "succeeded", now);
}

/** The turn itself, once it is this one's time in its session. */
async function takeTurn(passage: Passage): Promise<void> {
  const { request, turn, context, deps, record } = passage;
  const startedAt = deps.clock.now();
  const history = await historyFor(request, record.spec.session, turn.runId, deps.store);
  const model = context.models.resolve(request.agent.model);
  const { agent, caller } = request;
  const known = await gatherKnowledge({ agent, tenant: caller.tenant, question: getQuestion(request) }, deps.knowledge);
  const hosts = context.config.hooks.allowedLinkHosts;
  const cleaner = createReplyCleaner(hosts);
  // The model is asked first: the disk works while it thinks.
  const running = model.ok
    ? context.runtime.runTurn(turnInput(request, turn, cleaner, model.model, history.turns, known, context))
    : Promise.resolve({ ok: false as const, code: model.code, message: model.message, retryable: false, warnings: [] });
  const spec = { ...record.spec, session: history.session };
  await write(passage, { spec, status: "running", startedAt, attempts: 1, ...(model.ok ? { model: model.model.ref } : {}) });
  deps.metrics?.runStarted({ waitSeconds: (startedAt - turn.createdAt) / 1000 });
  const result = cleaned(await running, hosts);
  result.warnings.unshift(...known.warnings);
  if (request.stream) turn.say(cleaner.end());
  const end = endOf(result, known.citations, turn.abort.signal.reason);
  if (result.ok) await writeReply(passage, result, history);
  else if (!end.ok) await writeFailure(passage, end, result.warnings);
  turn.finish(end);
}

/** Carries out a turn, after the one before it in its session. Never throws: what went wrong is the turn's end. */
export async function carryOut(
  request: ChatRequest,
  turn: LiveTurn,
  before: Promise<void> | undefined,
  deps: ChatDeps,
  context: ActionContext,
): Promise<void> {
  const record: RunRecord = {
    id: turn.runId,
    eventId: null,
    kind: "api",
    status: "queued",
    spec: specOf(request, sessionOf(request, turn.runId)),
    warnings: [],
    attempts: 0,
    restarts: 0,
    createdAt: turn.createdAt,
    gateway: deps.gateway,
  };
  const passage: Passage = { request, turn, context, deps, record, isStored: false };
  try {
    if (before) {
      await write(passage, {});
      await before;
    }
    await takeTurn(passage);
  } catch (error) {
    deps.log.error({ err: safeError(error), runId: turn.runId }, "a turn of the API could not be carried out");
    turn.abort.abort("failed");
    const { code, message }: RunError = safeError(error).code === STORE_UNAVAILABLE.code ? STORE_UNAVAILABLE : INTERNAL;
    const end = { ok: false as const, code, message };
    await writeFailure(passage, end).catch(() => undefined);
    turn.finish(end);
  }
}
