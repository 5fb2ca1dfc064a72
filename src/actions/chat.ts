import { cleanReply, createReplyCleaner } from "../agent/links.ts";
import { allowedTools } from "../agent/tools.ts";
import type { ResolvedModel, TurnInput, TurnResult } from "../agent/types.ts";
import { safeError } from "../core/errors.ts";
import { turnToKeep } from "../sessions/forget.ts";
import {
  sessionId,
  STORE_UNAVAILABLE,
  type NewTurn,
  type RunRecord,
  type RunSpec,
  type SessionRef,
  type TurnRecord,
} from "../store/types.ts";
import { gatherKnowledge, type TurnKnowledge } from "./chat-knowledge.ts";
import { historyFor, inputOf, turnToAppend, withToolNames, type ChatHistory } from "./chat-history.ts";
import { createLiveTurn, type LiveTurn } from "./chat-turn.ts";
import type { ChatDeps, ChatEnd, ChatRequest, Chats } from "./chat-types.ts";
import type { ActionContext } from "./types.ts";

const CRASHED = { code: "crashed", message: "the gateway ended while the turn was under way" };
const MAX_RECOVERED = 1000;

const STOPPED: Record<string, string> = {
  hangup: "the caller hung up",
  cancel: "cancelled by the operator",
  drain: "the gateway is stopping; try again",
};

/** The session that a turn is in, or would be in: its key has the caller's id, so that no caller reaches another's. */
function sessionOf({ agent, caller, session }: ChatRequest, runId: string): SessionRef {
  if (session.kind === "after") return session.run.spec.session;
  const id = session.kind === "named" ? session.id : runId;
  return { agentId: agent.id, origin: "api", key: `api:${caller.id}:${agent.id}:${id}` };
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

/** Carries out the turns of the API's users: at once, one after the other within a session. */
export function createChats(deps: ChatDeps): Chats {
  const { store, clock, log } = deps;
  const live = new Map<string, LiveTurn>();
  /** The last turn of each session that has one. */
  const tails = new Map<string, Promise<void>>();
  let draining = false;

  /** Writes the end of a run and what its session keeps of it. */
  const writeEnd = async (
    run: RunRecord,
    result: TurnResult,
    reason: unknown,
    history: ChatHistory,
    context: ActionContext,
  ): Promise<void> => {
    const now = clock.now();
    if (!result.ok) {
      const status = result.code === "timeout" ? "timed_out" : result.code === "cancelled" ? "cancelled" : "failed";
      const { code, message } = endOf(result, [], reason) as Extract<ChatEnd, { ok: false }>;
      await store.commit((tx) => tx.updateRun(run.id, { status, error: { code, message }, warnings: result.warnings, endedAt: now }));
      return ended(run, status, now);
    }
    const { usage, warnings, spoken } = result;
    const kept = turnToAppend(run, history, result.messages, now);
    await store.commit((tx) => {
      tx.updateRun(run.id, { status: "succeeded", reply: spoken, usage, warnings, endedAt: now });
      const append = (turn: NewTurn): void => tx.appendTurn(run.spec.session, turnToKeep(turn, context.config.hooks.retention));
      for (const turn of history.copied) append(turn);
      if (kept) append(kept);
    });
    ended(run, "succeeded", now);
  };

  const ended = (run: RunRecord, status: string, now: number): void => {
    deps.metrics?.runEnded({ status, seconds: (now - (run.startedAt ?? now)) / 1000 });
    log.info({ runId: run.id, status }, "a run ended");
  };

  /** The turn itself, once it is this one's time in its session. */
  const carryOut = async (request: ChatRequest, turn: LiveTurn, queued: RunRecord, context: ActionContext): Promise<void> => {
    const startedAt = clock.now();
    const history = await historyFor(request, queued.spec.session, turn.runId, store);
    const model = context.models.resolve(request.agent.model);
    const spec = history.session === queued.spec.session ? queued.spec : { ...queued.spec, session: history.session };
    const run: RunRecord = { ...queued, spec, status: "running", startedAt, attempts: 1, ...(model.ok ? { model: model.model.ref } : {}) };
    // The model is asked first: the disk works while it thinks.
    const hosts = context.config.hooks.allowedLinkHosts;
    const cleaner = createReplyCleaner(hosts);
    const known = await gatherKnowledge(request, deps.knowledge);
    const running = model.ok
      ? context.runtime.runTurn(turnInput(request, turn, cleaner, model.model, history.turns, known, context))
      : Promise.resolve({ ok: false as const, code: model.code, message: model.message, retryable: false, warnings: [] });
    await store.commit((tx) => {
      if (queued.status === "queued") tx.updateRun(run.id, { ...run, spec });
      else tx.insertRun(run);
    });
    deps.metrics?.runStarted({ waitSeconds: (startedAt - turn.createdAt) / 1000 });
    const result = cleaned(await running, hosts);
    if (request.stream) turn.say(cleaner.end());
    await writeEnd(run, result, turn.abort.signal.reason, history, context);
    turn.finish(endOf(result, known.citations, turn.abort.signal.reason));
  };

  const run = async (request: ChatRequest, turn: LiveTurn, before: Promise<void> | undefined, context: ActionContext): Promise<void> => {
    const session = sessionOf(request, turn.runId);
    const record: RunRecord = {
      id: turn.runId,
      eventId: null,
      kind: "api",
      status: before ? "queued" : "running",
      spec: specOf(request, session),
      warnings: [],
      attempts: 0,
      restarts: 0,
      createdAt: turn.createdAt,
    };
    try {
      if (before) {
        await store.commit((tx) => tx.insertRun(record));
        await before;
      }
      await carryOut(request, turn, record, context);
    } catch (error) {
      log.error({ err: safeError(error), runId: turn.runId }, "a turn of the API could not be carried out");
      turn.abort.abort("failed");
      const { code, message } = safeError(error).code === STORE_UNAVAILABLE.code ? STORE_UNAVAILABLE : INTERNAL;
      turn.finish({ ok: false, code, message });
    }
  };

  return {
    begin(request) {
      const context = deps.context();
      if (draining)
        return { ok: false, failure: { code: "draining", message: "the gateway is stopping; try again", retryAfterSeconds: 5 } };
      if (live.size >= context.config.platform.maxConcurrent)
        return { ok: false, failure: { code: "overloaded", message: "too many turns at the same time; try again", retryAfterSeconds: 2 } };
      const turn = createLiveTurn(request, clock.now());
      const queue = sessionId(sessionOf(request, turn.runId));
      const done = run(request, turn, tails.get(queue), context).finally(() => {
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
      return store.getRun(runId);
    },
    async recover() {
      const now = clock.now();
      const counts = await store.counts();
      for (const status of ["running", "queued"] as const) {
        // Runs are not listed by their state: looking for none would look at all.
        if ((counts[`runs.${status}`] ?? 0) === 0) continue;
        const cut = (await store.listRuns({ status, limit: MAX_RECOVERED })).filter((found) => found.kind === "api");
        if (cut.length > 0)
          await store.commit((tx) => cut.forEach(({ id }) => tx.updateRun(id, { status: "failed", error: CRASHED, endedAt: now })));
      }
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

const INTERNAL = { code: "internal", message: "something failed inside the gateway; its log has the run's id" };
