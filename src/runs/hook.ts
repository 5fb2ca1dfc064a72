import { stripAck } from "../agent/ack.ts";
import { disarm } from "../agent/disarm.ts";
import { ECHO } from "../agent/no-model.ts";
import type { TurnInput } from "../agent/types.ts";
import { planDelivery, type Planned } from "../delivery/plan.ts";
import { getPhrases, renderSilence } from "../core/phrases.ts";
import type { Job, Ms, RouteDecision, RunRecord } from "../store/types.ts";
import { toQuestion } from "./channel-input.ts";
import { collectMessages } from "./collect-messages.ts";
import { resetHistory } from "./commands.ts";
import type { AnsweredTurn, FailedTurn, LoadedRun, RunEnd, RunKind } from "./run-kind.ts";
import { openSession } from "./hook-session.ts";
import { NO_HISTORY } from "./session-history.ts";
import { appendTurn, decideRoute, planAnswer, replyRoute, summaryEvent } from "./run-result.ts";
import { readAttached } from "./send-file.ts";
import { readUnread } from "./unread.ts";
import type { ActionContext, RunJob, TurnDeps } from "./types.ts";

const isHook = ({ kind }: RunRecord): boolean => kind === "hook";
const isMessage = ({ kind }: RunRecord): boolean => kind === "channel";

/** Only the owner's direct messages to the main session set the last route: replies to `last` must reach no other person. */
function movesLastRoute({ spec: { session, incoming } }: RunRecord): boolean {
  return session.origin === "main" && incoming?.direct === true && incoming.owner === true;
}

/**
 * Whether the owner's main session hears how a run ended. What others asked the agent for in their own conversation is no
 * business of the owner's.
 */
const isSummarised = ({ kind, spec }: RunRecord): boolean =>
  kind !== "channel" && spec.schedule?.asked?.session.origin !== "channel";

/** What the run of a hook, a schedule or a channel's message adds to the model's input. */
function buildInput({ kind, mapping, spec }: RunRecord): Partial<TurnInput> {
  return {
    // The trusted line names the mapping: its id is the operator's word. The path may be the sender's, if the mapping takes any.
    ...(kind === "hook" ? { hook: mapping ?? spec.hook } : { source: spec.hook }),
    ...(spec.instructions === undefined ? {} : { instructions: spec.instructions }),
  };
}

/** Whether only the owner reads the answer to a message, who may know what is the operator's. */
const isToOwner = ({ incoming }: RunRecord["spec"]): boolean =>
  incoming?.direct === true && incoming.owner === true;

/** A person who writes on a channel waits for an answer: a turn that failed says so there, and why if the person is the owner, alone. */
function planApology(
  { id, spec, route }: RunRecord,
  { code, message }: FailedTurn,
  context: ActionContext,
  now: Ms,
): Planned | undefined {
  const back = route?.status === "route" ? route.route : replyRoute(spec);
  if (code === "cancelled" || !back) return undefined;
  const phrases = getPhrases(spec.incoming?.language);
  // An error's message may quote the provider.
  const text = isToOwner(spec) ? disarm(phrases.apologyToOwner(message, id)) : phrases.apology;
  return planDelivery({ runId: id, route: back, text, channels: context.channels, now });
}

/** The text of an answer. A person who writes on a channel hears if there is none; HEARTBEAT_OK alone asks for silence. */
function toReply(run: RunRecord, { text, finish, model }: AnsweredTurn, hasFiles: boolean): string {
  const { spec } = run;
  const language = spec.incoming?.language;
  if (!isMessage(run)) return stripAck(text);
  // What the echo says about the config is the operator's.
  if (model === ECHO.ref && !isToOwner(spec)) return getPhrases(language).apology;
  return text.trim() === "" && !hasFiles ? renderSilence(finish, language) : stripAck(text);
}

async function loadRun(
  job: Job,
  runId: string,
  context: ActionContext,
  deps: TurnDeps,
): Promise<LoadedRun | undefined> {
  const { store } = deps;
  const run = await store.get("run", runId);
  if (!run || run.status === "cancelled" || run.endedAt !== undefined) {
    await store.commit((tx) => tx.settle(job), job);
    return undefined;
  }
  if (run.spec.command !== undefined) {
    await resetHistory(job, run, deps);
    return undefined;
  }
  // What people say on channels, and what the operator has planned, is not counted against the hooks.
  if (run.kind === "channel") {
    const collected = await collectMessages(job, run, context, deps);
    return (
      collected && {
        run: collected,
        agent: context.agents.get(run.spec.session.agentId),
        isStored: true,
      }
    );
  }
  const admission = isHook(run) ? deps.admission : undefined;
  return { run, agent: context.agents.get(run.spec.session.agentId), isStored: true, admission };
}

/** The run of a hook, of a schedule or of a channel's message: turn, summary and delivery. */
export function createHookRun(
  job: Job,
  { runId }: RunJob,
  deps: TurnDeps,
  signal: AbortSignal,
): RunKind {
  const { store } = deps;
  const context = deps.context();
  const mainAgentId = context.agents.default.id;
  return {
    context,
    job,
    canAsk: true,
    isRetried: true,
    start: "before",
    load: () => loadRun(job, runId, context, deps),
    async prepare(run, agent, mayWait) {
      const { isNew, warning } = await openSession(run, store);
      const whole = await readUnread(run, context, { ...deps.attachments, store, mayWait }, signal);
      const added = [...(warning === undefined ? [] : [warning]), ...(whole?.warnings ?? [])];
      const warnings = [...new Set([...run.warnings, ...added])];
      const route = await decideRoute(run, context, deps);
      return {
        input: {
          ...buildInput(run),
          ...(whole && whole.images.length > 0 && { images: whole.images }),
        },
        ...(whole && { question: toQuestion(whole.text) }),
        ...(isNew && { history: NO_HISTORY }),
        change: {
          warnings,
          route,
          ...(whole && !signal.aborted && { spec: whole.spec, edits: whole.edits }),
        },
        write(tx) {
          if (movesLastRoute(run) && route.status === "route")
            tx.set("lastRoute", { agentId: agent.id, at: run.createdAt, ...route.route });
        },
      };
    },
    async finish(run, result, now, steps) {
      const files = result.ok ? await readAttached(run, steps, store) : [];
      const end: Omit<RunEnd, "write"> = result.ok
        ? planAnswer(
            run,
            {
              ...result,
              text: toReply(run, result, files.length > 0),
              route: run.route as RouteDecision,
              files,
            },
            context,
            now,
          )
        : { planned: isMessage(run) ? planApology(run, result, context, now) : undefined };
      const ending = result.ok ? { reply: end.change?.reply ?? "" } : { reason: result.message };
      return {
        ...end,
        write(tx) {
          if (result.ok) appendTurn(tx, run, result, context, now);
          if (isSummarised(run))
            tx.add(
              "systemEvent",
              summaryEvent(run, isHook(run) ? mainAgentId : run.spec.session.agentId, now, ending),
            );
          tx.settle(job);
        },
        after(done) {
          if (done && isHook(run) && run.spec.wakeMode === "now")
            deps.heartbeat.request(mainAgentId);
        },
      };
    },
  };
}
