import { stripAck } from "../agent/ack.ts";
import { disarm } from "../agent/disarm.ts";
import type { TurnInput } from "../agent/types.ts";
import { planDelivery, type Planned } from "../delivery/plan.ts";
import type { Job, Ms, RouteDecision, RunRecord } from "../store/types.ts";
import { resetHistory } from "./commands.ts";
import type { FailedTurn, LoadedRun, RunEnd, RunKind } from "./run-kind.ts";
import { assignSession, openSession } from "./hook-session.ts";
import { NO_HISTORY } from "./session-history.ts";
import { appendTurn, decideRoute, planAnswer, replyRoute, summaryEvent } from "./run-result.ts";
import type { ActionContext, RunJob, TurnDeps } from "./types.ts";

const isHook = ({ kind }: RunRecord): boolean => kind === "hook";

/** Only the owner's direct messages to the main session set the last route: replies to `last` must reach no other person. */
function movesLastRoute({ spec: { session, incoming } }: RunRecord): boolean {
  return session.origin === "main" && incoming?.direct === true && incoming.owner === true;
}

/** What a hook's run or a channel's message adds to the model's input. */
function buildInput({ kind, mapping, spec }: RunRecord): Partial<TurnInput> {
  return {
    // The trusted line names the mapping: its id is the operator's word. The path may be the sender's, if the mapping takes any.
    ...(kind === "hook" ? { hook: mapping ?? spec.hook } : { source: spec.hook }),
    ...(spec.instructions === undefined ? {} : { instructions: spec.instructions }),
  };
}

/** A person who writes on a channel waits for an answer: a turn that failed says so there. */
function planApology({ id, spec, route }: RunRecord, { code, message }: FailedTurn, context: ActionContext, now: Ms): Planned | undefined {
  const back = route?.status === "route" ? route.route : replyRoute(spec);
  if (code === "cancelled" || !back) return undefined;
  // An error's message may quote the provider.
  const text = disarm(`I could not answer that: ${message} (${id})`);
  return planDelivery({ runId: id, route: back, text, channels: context.channels, now });
}

async function loadRun(job: Job, runId: string, context: ActionContext, deps: TurnDeps): Promise<LoadedRun | undefined> {
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
  if (await assignSession(job, run, context, store)) return undefined;
  // What people say on channels is not counted against the hooks.
  const admission = isHook(run) ? deps.admission : undefined;
  return { run, agent: context.agents.get(run.spec.session.agentId), isStored: true, admission };
}

/** The run of a hook or of a channel's message: turn, summary and delivery. */
export function createHookRun(job: Job, { runId }: RunJob, deps: TurnDeps): RunKind {
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
    async prepare(run, agent) {
      const { isNew, warning } = await openSession(job, run, store);
      const warnings = warning === undefined ? run.warnings : [...new Set([...run.warnings, warning])];
      const route = await decideRoute(run, context, deps);
      return {
        input: buildInput(run),
        ...(isNew && { history: NO_HISTORY }),
        change: { warnings, route },
        write(tx) {
          if (movesLastRoute(run) && route.status === "route")
            tx.set("lastRoute", { agentId: agent.id, at: run.createdAt, ...route.route });
        },
      };
    },
    finish(run, result, now) {
      const end: Omit<RunEnd, "write"> = result.ok
        ? planAnswer(run, { ...result, text: stripAck(result.text), route: run.route as RouteDecision }, context, now)
        : { planned: isHook(run) ? undefined : planApology(run, result, context, now) };
      const ending = result.ok ? { reply: end.change?.reply ?? "" } : { reason: result.message };
      return {
        ...end,
        write(tx) {
          if (result.ok) appendTurn(tx, run, result, context, now);
          if (isHook(run)) tx.add("systemEvent", summaryEvent(run, mainAgentId, now, ending));
          tx.settle(job);
        },
        after(done) {
          if (done && isHook(run) && run.spec.wakeMode === "now") deps.heartbeat.request();
        },
      };
    },
  };
}
