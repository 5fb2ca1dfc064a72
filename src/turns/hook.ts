import { cutText } from "../core/text.ts";
import { readAttached } from "../delivery/plan.ts";
import { buildHeartbeatEvent } from "../queue/heartbeat.ts";
import {
  type HookRun,
  type Job,
  type NewSystemEvent,
  type Reads,
  type RouteDecision,
  type ScheduleRun,
  sessionId,
} from "../store/types.ts";
import type { RunKind } from "./try.ts";
import { appendTurn, decideRoute, planAnswer } from "./end-run.ts";
import { stripAck } from "./heartbeat.ts";
import { NO_HISTORY } from "./session-history.ts";
import type { TurnDeps } from "./context.ts";
import type { ActionContext } from "./types.ts";

const MAX_SUMMARY = 2000;

/** The system event that a run leaves in the main session when it has ended. All of it is outside text. */
export function summaryEvent(
  { kind, spec }: HookRun | ScheduleRun,
  agentId: string,
  now: number,
  end: { reply: string } | { reason: string },
): NewSystemEvent {
  const { name, hook } = spec;
  const what = kind === "schedule" ? "Schedule" : "Hook";
  const mode = kind === "hook" ? spec.wakeMode : "next-heartbeat";
  const { text, cut } = cutText(
    "reply" in end ? end.reply || "(no reply)" : end.reason,
    MAX_SUMMARY,
  );
  const head = "reply" in end ? `${what} ${name}: ` : `${what} ${name} failed: `;
  const tail = cut > 0 ? `[cut: ${cut} characters]` : "";
  return { ...buildHeartbeatEvent(agentId, now, hook, head + text + tail, true), mode };
}

/** The common part of the runs of hooks and schedules: the answer, and the summary for the main session of the agent `summaryFor`. */
function createReportedRun<R extends HookRun | ScheduleRun>(
  job: Job,
  run: R,
  context: ActionContext,
  summaryFor: string | undefined,
  { store, admission, heartbeat }: TurnDeps,
): Pick<RunKind<R>, "context" | "job" | "load" | "finish"> {
  const { agentId } = run.spec.session;
  const budgets = run.kind === "hook" ? { admission } : {};
  return {
    context,
    job,
    load: () =>
      Promise.resolve({ run, agent: context.agents.get(agentId), isStored: true, ...budgets }),
    async finish(ended: HookRun | ScheduleRun, result, now, steps) {
      const answer = result.ok && {
        ...result,
        text: stripAck(result.text),
        route: ended.route as RouteDecision,
        target: ended.spec.target,
        files: await readAttached(ended, steps, store),
      };
      const end = answer ? planAnswer(ended, answer, context, now) : undefined;
      return {
        ...end,
        write(tx) {
          if (result.ok) appendTurn(tx, ended, result, context, now);
          tx.jobs.settle(job);
          if (summaryFor === undefined) return;
          const ending = result.ok
            ? { reply: end?.change.reply ?? "" }
            : { reason: result.message };
          tx.systemEvents.add(summaryEvent(ended, summaryFor, now, ending));
        },
        after(done) {
          const isWanted = ended.kind === "hook" && ended.spec.wakeMode === "now";
          if (done && isWanted && summaryFor !== undefined) heartbeat.request(summaryFor);
        },
      };
    },
  };
}

/** The session of a run, as its turn finds it. */
interface OpenedSession {
  /** True if the session has no turn yet. */
  isNew: boolean;
  warning?: string;
}

/**
 * Looks at a hook run's session before its turn.
 * @returns with a warning if the session is new and another path or credential has one with the same key.
 */
async function openSession(run: HookRun, store: Reads): Promise<OpenedSession> {
  const { session } = run.spec;
  const sameKey = await store.sessions.listOfHooks({ agentId: session.agentId, key: session.key });
  const id = sessionId(session);
  if (sameKey.some(({ ref }) => sessionId(ref) === id)) return { isNew: false };
  const others = sameKey.filter(({ turns }) => turns > 0);
  if (others.length === 0) return { isNew: true };
  return {
    isNew: true,
    warning:
      "sessionKey: another path or credential has a session with this key; this one is new and empty (hooks.sharedSessions names keys that paths share)",
  };
}

/** The run of an agent action: its answer goes where the action says, its summary to the main session. */
export function createHookRun(job: Job, run: HookRun, deps: TurnDeps): RunKind<HookRun> {
  const context = deps.snapshot();
  const { id: mainId } = context.agents.default;
  return {
    ...createReportedRun(job, run, context, mainId, deps),
    async prepare(loaded) {
      const { mapping, spec, warnings } = loaded;
      const { hook, instructions, thinking, timeoutSeconds, unsafe, deliver, target } = spec;
      const { isNew, warning } = await openSession(loaded, deps.store);
      const added = warning === undefined ? [] : [warning];
      const wanted = { target: deliver ? target : undefined, agentId: mainId };
      const route = await decideRoute(loaded, wanted, context, deps);
      return {
        input: {
          // The trusted line names the mapping: its id is the operator's word. The path may be the sender's, if the mapping takes any.
          hook: mapping ?? hook,
          unsafe,
          ...(instructions !== undefined && { instructions }),
          ...(thinking !== undefined && { thinking }),
          ...(timeoutSeconds !== undefined && { timeoutMs: timeoutSeconds * 1000 }),
        },
        ...(isNew && { history: NO_HISTORY }),
        change: { warnings: [...new Set([...warnings, ...added])], route },
      };
    },
  };
}

/** The run of a schedule: its answer goes where the schedule says, or back to the conversation in which it was asked for. */
export function createScheduleRun(
  job: Job,
  run: ScheduleRun,
  deps: TurnDeps,
): RunKind<ScheduleRun> {
  const context = deps.snapshot();
  const { hook, instructions, schedule, session, target } = run.spec;
  const { asked } = schedule;
  const { agentId } = session;
  // A schedule that others asked for in their own conversation is no business of the owner's.
  const summaryFor = asked?.session.origin === "channel" ? undefined : agentId;
  return {
    ...createReportedRun(job, run, context, summaryFor, deps),
    async prepare(loaded) {
      // The conversation in which a person asked for the schedule, whatever the owner does since; a channel that is gone has no route.
      const { route: asking } = asked ?? {};
      const back = target && asking && context.channels.get(asking.channel) ? asking : undefined;
      const route = await decideRoute(loaded, { back, target, agentId }, context, deps);
      return { input: { source: hook, instructions }, change: { route } };
    },
  };
}
