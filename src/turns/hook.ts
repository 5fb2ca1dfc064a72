import { cutText } from "../core/text.ts";
import { readAttached } from "../delivery/plan.ts";
import { buildHeartbeatEvent } from "../queue/heartbeat.ts";
import {
  type HookRun,
  type Job,
  type Ms,
  type NewSystemEvent,
  type Reads,
  type ReplyTarget,
  type RouteDecision,
  type ScheduleRun,
  type StepRecord,
  sessionId,
} from "../store/types.ts";
import type { ModelTurn, RunEnd, RunKind } from "./try.ts";
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

/** Plans the end of a run of a hook or a schedule: its answer, and the summary for the main session of the agent `summaryFor`. */
async function planReportedEnd(
  run: HookRun | ScheduleRun,
  result: ModelTurn,
  options: {
    steps: readonly StepRecord[];
    target: ReplyTarget | undefined;
    summaryFor: string | undefined;
    context: ActionContext;
    store: Reads;
    job: Job;
    now: Ms;
  },
): Promise<RunEnd> {
  const { steps, target, summaryFor, context, store, job, now } = options;
  const answer = result.ok && {
    ...result,
    text: stripAck(result.text),
    route: run.route as RouteDecision,
    target,
    files: await readAttached(run, steps, store),
  };
  const end = answer ? planAnswer(run, answer, context, now) : undefined;
  return {
    ...end,
    write(tx) {
      if (result.ok) appendTurn(tx, run, result, context, now);
      tx.jobs.settle(job);
      if (summaryFor === undefined) return;
      const ending = result.ok ? { reply: end?.change.reply ?? "" } : { reason: result.message };
      tx.systemEvents.add(summaryEvent(run, summaryFor, now, ending));
    },
  };
}

/** What a run finds of its session. */
interface OpenedSession {
  /** Whether the session has no turn yet. */
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
  const { store, admission } = deps;
  const context = deps.snapshot();
  const { id: mainId } = context.agents.default;
  return {
    context,
    job,
    load() {
      const agent = context.agents.get(run.spec.session.agentId);
      return Promise.resolve({ run, agent, isStored: true, admission });
    },
    async prepare(loaded) {
      const { mapping, spec, warnings } = loaded;
      const { hook, instructions, thinking, timeoutSeconds, unsafe, deliver, target } = spec;
      const { isNew, warning } = await openSession(loaded, store);
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
    async finish(ended, result, now, steps) {
      const { target, wakeMode } = ended.spec;
      const options = { steps, target, summaryFor: mainId, context, store, job, now };
      return {
        ...(await planReportedEnd(ended, result, options)),
        after(done) {
          if (done && wakeMode === "now") deps.heartbeat.request(mainId);
        },
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
  const { store } = deps;
  const context = deps.snapshot();
  const { hook, instructions, schedule, session, target } = run.spec;
  const { asked } = schedule;
  const { agentId } = session;
  return {
    context,
    job,
    load: () => Promise.resolve({ run, agent: context.agents.get(agentId), isStored: true }),
    async prepare(loaded) {
      // The conversation in which a person asked for the schedule, whatever the owner does since; a channel that is gone has no route.
      const { route: asking } = asked ?? {};
      const back = target && asking && context.channels.get(asking.channel) ? asking : undefined;
      const route = await decideRoute(loaded, { back, target, agentId }, context, deps);
      return { input: { source: hook, instructions }, change: { route } };
    },
    finish(ended, result, now, steps) {
      // What others asked the agent for in their own conversation is no business of the owner's.
      const summaryFor = asked?.session.origin === "channel" ? undefined : agentId;
      const options = { steps, target, summaryFor, context, store, job, now };
      return planReportedEnd(ended, result, options);
    },
  };
}
