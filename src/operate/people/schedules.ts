import { getScheduleName, MAX_CAUGHT_UP } from "../../turns/schedules/plan.ts";
import type { KnownSchedule } from "../../turns/schedules/schedules.ts";
import type { Firing, SkippedTimes } from "../../turns/schedules/types.ts";
import type { Trigger } from "../../vocabulary/schedule-times.ts";
import { renderInterval } from "../../config/schema/common.ts";
import type { Ms } from "../../store/types.ts";
import { unknownId } from "../../vocabulary/unknown-id.ts";
import { found, refuse } from "../records/operation.ts";
import type { AdminDeps } from "../types.ts";
import { iso, isoOrNull } from "../records/views.ts";

export type ScheduleView = Awaited<ReturnType<typeof scheduleView>>;

/** Times that lists show of each schedule, and those that one schedule shows. */
const LISTED_TIMES = 1;
const SHOWN_TIMES = 5;

function triggerView(trigger: Trigger) {
  const none = { cron: null, everyMs: null, at: null, timezone: null };
  const view = { ...none, ...trigger };
  const { cron, everyMs, at } = view;
  return {
    ...view,
    /** The times at which it fires, without the zone: `30 8 * * *`, `every 30m`. */
    when: everyMs === null ? (cron ?? `at ${at}`) : `every ${renderInterval(everyMs)}`,
  };
}

/** The times at which a schedule fires next. */
function nextTimes({ schedule, state }: KnownSchedule, now: Ms, count: number): Ms[] {
  const times: Ms[] = [];
  const handledTo = state?.handledTo ?? now;
  let after = schedule.times.between(handledTo, now, 1).times.at(-1) ?? handledTo;
  while (times.length < count) {
    const due = schedule.times.next(after);
    if (due === undefined) break;
    times.push(due);
    after = due;
  }
  return times;
}

async function firingView(firing: Firing | undefined, { store }: AdminDeps) {
  if (!firing) return null;
  const run = firing.runId === undefined ? undefined : await store.runs.get(firing.runId);
  return {
    dueAt: iso(firing.dueAt),
    firedAt: iso(firing.at),
    /** True if a person has started it. */
    manual: firing.manual ?? false,
    runId: firing.runId ?? null,
    /** Of the run; null if the firing has none, or if the run is no longer kept. */
    status: run?.status ?? null,
    error: run?.error ? { code: run.error.code, message: run.error.message } : null,
  };
}

const skipView = ({ from, to, at, isMore, ...skip }: SkippedTimes) => ({
  ...skip,
  from: iso(from),
  to: iso(to),
  at: iso(at),
  /** True if there were more than `count`. */
  isMore: isMore ?? false,
});

async function scheduleView(known: KnownSchedule, deps: AdminDeps, count: number) {
  const { schedule, state, last, approved } = known;
  const { agentId, id, source, trigger, action, deliver, catchUp } = schedule;
  return {
    name: getScheduleName(schedule),
    agentId,
    id,
    source,
    ...triggerView(trigger),
    action: action.kind,
    text: action.kind === "heartbeat" ? null : action.text,
    /** True if the text counts as text from outside. */
    outside: action.kind !== "heartbeat" && action.outside,
    deliver:
      action.kind === "prompt" && deliver !== false
        ? { channel: deliver.channel, to: deliver.to ?? null }
        : null,
    catchUp,
    next: nextTimes(known, deps.clock.now(), count).map(iso),
    /** Due times up to this moment were fired or skipped; null if no gateway has looked at the schedule yet. */
    handledTo: isoOrNull(state?.handledTo),
    fired: state?.fired ?? 0,
    last: await firingView(last, deps),
    /** Due times that were not fired, and the newest spans of them. */
    skipped: state?.skipped ?? 0,
    skips: (state?.skips ?? []).map(skipView),
    /** Set if an agent has proposed the schedule. */
    approved: approved
      ? { by: approved.by, runId: approved.runId, at: isoOrNull(approved.createdAt) }
      : null,
  };
}

/** Lists the schedules of all agents, their heartbeats among them. */
export async function listSchedules(deps: AdminDeps) {
  const known = await deps.schedules.list();
  return {
    schedules: await Promise.all(known.map((one) => scheduleView(one, deps, LISTED_TIMES))),
    mostCaughtUp: MAX_CAUGHT_UP,
  };
}

/** @throws RouseError `not_found` */
async function findSchedule(
  { schedules }: AdminDeps,
  agentId: string,
  id: string,
): Promise<KnownSchedule> {
  const known = (await schedules.list()).find(
    ({ schedule }) => schedule.agentId === agentId && schedule.id === id,
  );
  return found(known, unknownId("schedule", `${agentId}/${id}`));
}

/** @throws RouseError `not_found` */
export async function showSchedule(deps: AdminDeps, agentId: string, id: string) {
  return { schedule: await scheduleView(await findSchedule(deps, agentId, id), deps, SHOWN_TIMES) };
}

/**
 * Fires a schedule immediately; its due times stay as they are.
 * @throws RouseError `not_found` or `store_unavailable`
 */
export async function runSchedule(deps: AdminDeps, agentId: string, id: string) {
  const { schedule } = await findSchedule(deps, agentId, id);
  return { fired: await firingView(await deps.schedules.run(schedule), deps) };
}

/**
 * Deletes a schedule that an agent has proposed.
 * @throws RouseError `not_found`, or `usage` for one of the config.
 */
export async function removeSchedule(deps: AdminDeps, agentId: string, id: string): Promise<void> {
  const { schedule } = await findSchedule(deps, agentId, id);
  if (schedule.source === "agent") return void (await deps.schedules.remove(schedule));
  refuse("the schedule is in the config: take it out there");
}
