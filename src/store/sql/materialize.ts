import {
  newRun,
  PARKED_UNTIL,
  sessionId,
  type Ms,
  type NewJob,
  type NewSystemEvent,
  type HookRun,
  type LimitReason,
  type MessageRun,
  type RunAction,
  type RunRecord,
  type WakeAction,
} from "../types.ts";

/** The run that an accepted action asks for. */
export function buildRun(
  { runId: id, spec, warnings, mapping, parked, collect }: RunAction,
  eventId: string,
  at: number,
): HookRun | MessageRun {
  const made = { id, eventId, warnings, createdAt: at };
  if ("incoming" in spec) return newRun<MessageRun>({ ...made, kind: "channel", spec });
  const run = newRun<HookRun>({ ...made, kind: "hook", spec });
  if (mapping !== undefined) run.mapping = mapping;
  if (parked)
    Object.assign(run, { status: "parked", hold: { reason: "limit", ...parked, since: at } });
  if (collect) {
    const { key, closesAt } = collect;
    Object.assign(run, { status: "collecting", collect: { key, closesAt, count: 1, firstAt: at } });
  }
  return run;
}

/** The job that executes a run; a limit holds it back until it is released. */
export const buildRunJob = (
  { id, spec }: Pick<RunRecord, "id" | "spec">,
  enqueuedAt: Ms,
  parked?: LimitReason,
): NewJob => ({
  id,
  kind: "turn",
  key: sessionId(spec.session),
  data: { type: "run", runId: id },
  enqueuedAt,
  ...(parked && { runAt: PARKED_UNTIL }),
});

/** The jobs of an accepted run: its turn, or for a command the job that no turn holds back. */
export function buildRunJobs(run: RunRecord, parked: LimitReason | undefined): NewJob[] {
  const turn = buildRunJob(run, run.createdAt, parked);
  const command = run.kind === "channel" ? run.spec.command?.name : undefined;
  if (command === undefined) return [turn];
  // `/new` also waits its turn, to delete the history between the turns before it and those after it.
  return command === "new" ? [turn, { ...turn, kind: "command" }] : [{ ...turn, kind: "command" }];
}

/** The job that closes a window of collected events. */
export function collectJob(runId: string, at: Ms, closesAt: Ms): NewJob {
  return {
    id: runId,
    kind: "turn",
    key: `collect/${runId}`,
    data: { type: "collect", runId },
    enqueuedAt: at,
    runAt: closesAt,
  };
}

/** The system event that an accepted wake asks for. */
export function buildSystemEvent(
  { systemEventId, agentId, text, hook, mode, unsafe, trace }: WakeAction,
  at: Ms,
): NewSystemEvent {
  return {
    id: systemEventId,
    agentId,
    at,
    text,
    source: hook,
    mode,
    unsafe,
    ...(trace && { trace }),
  };
}
