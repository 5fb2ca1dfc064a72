import { ECHO } from "../../agent/models.ts";
import { disarm } from "../../agent/reply/disarm.ts";
import { planDelivery, readAttached, type Planned } from "../../delivery/plan.ts";
import { renderPhrase, renderSilence } from "../../vocabulary/phrases.ts";
import type { Job, MessageRun, MessageSpec, Ms, RouteDecision, Writes } from "../../store/types.ts";
import type { AnsweredTurn, FailedTurn, RunKind } from "../try.ts";
import { appendTurn, decideRoute, planAnswer } from "../end-run.ts";
import { stripAck } from "../heartbeat.ts";
import type { TurnDeps } from "../context.ts";
import type { ActionContext } from "../types.ts";
import { AWAY_NOTICE_MS, planAwayNotice } from "./away-notice.ts";
import { replyRoute, toQuestion } from "./channel-input.ts";
import { collectMessages, readUnread } from "./collect-messages.ts";
import { resetHistory } from "./commands.ts";
import { createLiveText, withdrawLive } from "./live-text.ts";

/** True if only the owner reads the answer to a message, and so may know what is the operator's. */
const isToOwner = ({ incoming }: MessageSpec): boolean =>
  incoming.direct && incoming.owner === true;

/** A person who writes on a channel waits for an answer: a turn that failed says so there, and why if the person is the owner, alone. */
function planApology(
  { id, spec, route }: MessageRun,
  { code, message }: FailedTurn,
  context: ActionContext,
  now: Ms,
): Planned | undefined {
  if (code === "cancelled") return undefined;
  const back = route?.status === "route" ? route.route : replyRoute(spec);
  const { language } = spec.incoming;
  // An error's message may quote the provider.
  const text = isToOwner(spec)
    ? disarm(renderPhrase(language, "apologyToOwner", { reason: message, runId: id }))
    : renderPhrase(language, "apology");
  return planDelivery({ runId: id, route: back, text, channels: context.channels, now });
}

/** The text of an answer. A person who writes on a channel hears if there is none; HEARTBEAT_OK alone asks for silence. */
function toReply(
  spec: MessageSpec,
  { text, finish, model }: AnsweredTurn,
  hasFiles: boolean,
): string {
  const { language } = spec.incoming;
  // The echo's words about the config are for the operator.
  if (model === ECHO.ref && !isToOwner(spec)) return renderPhrase(language, "apology");
  return text.trim() === "" && !hasFiles ? renderSilence(finish, language) : stripAck(text);
}

/** The run of a channel's message: the sender waits for the answer, which goes back to the conversation. */
export function createMessageRun(
  job: Job,
  stored: MessageRun,
  deps: TurnDeps,
  signal: AbortSignal,
): RunKind<MessageRun> {
  const { store } = deps;
  const context = deps.snapshot();
  return {
    context,
    job,
    maxAge: "messageMaxAge",
    patienceMs: AWAY_NOTICE_MS,
    getReplyRoute: ({ spec }) => replyRoute(spec),
    live: { begin: createLiveText, withdraw: withdrawLive },
    awayNotice: {
      afterMs: AWAY_NOTICE_MS,
      plan: (run, now) => planAwayNotice(run, { store, context, now }),
    },
    async load() {
      if (stored.spec.command) return resetHistory(job, stored, deps);
      const run = await collectMessages(job, stored, context, deps);
      const { agentId } = stored.spec.session;
      return run && { run, agent: context.agents.get(agentId), isStored: true };
    },
    async prepare(run, agent, mayWait) {
      const { spec } = run;
      const whole = await readUnread(run, context, { ...deps.attachments, store, mayWait }, signal);
      const warnings = [...new Set([...run.warnings, ...(whole?.warnings ?? [])])];
      const wanted = { back: replyRoute(spec), agentId: agent.id };
      const route = await decideRoute(run, wanted, context, deps);
      // Only the owner's direct messages to the main session set the last route: replies to `last` must reach no other person.
      const movesLastRoute = spec.session.origin === "main" && isToOwner(spec);
      return {
        input: {
          source: spec.hook,
          ...(whole && whole.images.length > 0 && { images: whole.images }),
        },
        question: whole?.question ?? toQuestion(spec.input),
        change: {
          warnings,
          route,
          ...(whole && !signal.aborted && { spec: whole.spec }),
        },
        write(tx) {
          if (movesLastRoute && route.status === "route")
            tx.sessions.setLastRoute({ agentId: agent.id, at: run.createdAt, ...route.route });
        },
      };
    },
    async finish(run, result, now, steps) {
      const write = (tx: Writes): void => tx.jobs.settle(job);
      if (!result.ok) return { planned: planApology(run, result, context, now), write };
      const files = await readAttached(run, steps, store);
      const answer = {
        ...result,
        text: toReply(run.spec, result, files.length > 0),
        route: run.route as RouteDecision,
        files,
      };
      return {
        ...planAnswer(run, answer, context, now),
        write(tx) {
          appendTurn(tx, run, result, context, now);
          write(tx);
        },
      };
    },
  };
}
