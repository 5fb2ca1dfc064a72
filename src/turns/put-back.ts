/** Puts runs back whose try is over and that have not ended: they wait, or are tried again. */
import { backOff, WAITS, withJitter } from "../core/backoff.ts";
import { MAX_RETRY_AFTER_MS, type Refusal } from "../core/breaker.ts";
import { isProviderAway } from "../core/errors.ts";
import { LOOK_MS, toParkedKey } from "../queue/parking-lot.ts";
import {
  PARKED_UNTIL,
  type HoldReason,
  type Job,
  type LimitReason,
  type Ms,
  type RunChange,
  type RunRecord,
} from "../store/types.ts";
import { endRun, getUsedSoFar, toRunError, keepFailedAttempts } from "./end-run.ts";
import type { CheckedTry, FailedTurn, RunKind, Try } from "./try.ts";
import { toCandidates, type RunRefusal } from "./model-gate.ts";
import { addRunUsage, beginHold, commitFor, getWaitedMs, persist } from "./journal.ts";

/** Tries of a turn whose model answers, but with nothing that can be used. */
const MAX_TRIES = 6;

/** When a run is too old to be tried again. */
const getDeadline = (run: RunRecord, { context, maxAge }: RunKind, now: Ms): Ms =>
  run.createdAt + getWaitedMs(run, now) + context.config.runs[maxAge ?? "maxAge"];

const HOUR_MS = 3_600_000;
const renderAge = (ms: Ms): string =>
  ms >= HOUR_MS ? `${Math.round(ms / HOUR_MS)} h` : `${Math.round(ms / 60_000)} min`;

/** The failure of a run that is too old to be tried again: what its provider said last, and why nothing follows. */
function toExpired(
  failure: Pick<FailedTurn, "code" | "message" | "provider" | "vendor" | "warnings">,
  { context, maxAge }: RunKind,
): FailedTurn {
  const name = maxAge ?? "maxAge";
  const message = `${failure.message}; given up after ${renderAge(context.config.runs[name])} (runs.${name})`;
  return { ...failure, ok: false, message, retryable: false };
}

/** The decision after a failed try. `at`: when the run is tried again at the earliest. */
type AfterFailure =
  | { do: "end"; failure: FailedTurn }
  | { do: "retry"; at: Ms; failures: number }
  | { do: "wait"; blocked: Refusal };

/** Decides what follows a failed try of a run with a job. `hasProgress`: the try has added to the steps. */
export function planAfterFailure(
  result: FailedTurn,
  { kind, run, isStored, steps, deps }: Try,
  hasProgress: boolean,
): AfterFailure {
  const now = deps.clock.now();
  if (!result.retryable) return { do: "end", failure: result };
  const isLate = (at: Ms): boolean => isStored && at >= getDeadline(run, kind, now);
  if (result.blocked)
    return isLate(now)
      ? { do: "end", failure: toExpired(result, kind) }
      : { do: "wait", blocked: result.blocked };
  if (steps.length === 0 && kind.isRetried === false) return { do: "end", failure: result };
  const failures = (hasProgress ? 0 : (run.failures ?? 0)) + 1;
  if (!isProviderAway(result.code) && failures >= MAX_TRIES) return { do: "end", failure: result };
  const asked =
    result.retryAfterMs === undefined
      ? undefined
      : Math.min(result.retryAfterMs, MAX_RETRY_AFTER_MS) * (1 + Math.random() / 10);
  const at = Math.round(now + (asked ?? withJitter(backOff(failures, WAITS.run))));
  return isLate(at)
    ? { do: "end", failure: toExpired(result, kind) }
    : { do: "retry", at, failures };
}

/** Puts a run back that a limit holds: it is released when there is room. */
export async function holdForLimit(limit: LimitReason, current: Try): Promise<void> {
  const { kind, deps, run, crashes: crashCount } = current;
  current.end = { status: "parked" };
  await commitFor(current, (tx) => {
    const hold = beginHold(run, { reason: "limit", ...limit }, deps.clock.now());
    tx.runs.update(run.id, { status: "parked", crashCount, ...hold });
    tx.jobs.settle(kind.job as Job, PARKED_UNTIL, { resetAttempts: true });
  });
}

/** Puts a run back that has not started, since no model of it takes calls; one that is too old ends. */
export async function holdForModel(
  { at, ...refusal }: RunRefusal,
  current: CheckedTry,
): Promise<void> {
  const { kind, deps, run, isStored, crashes: crashCount } = current;
  const now = deps.clock.now();
  if (isStored && now >= getDeadline(run, kind, now)) {
    const { of } = refusal;
    const last = run.error ?? {
      code: "provider_unavailable" as const,
      message: `calls of ${of} fail`,
      provider: of.split("/", 1)[0] as string,
    };
    return endRun(toExpired({ ...last, warnings: [] }, kind), current);
  }
  const hold = { reason: "away" as const, ...refusal };
  return putBack(current, { hold, change: { crashCount }, at });
}

/** Puts a run back whose try is over, to be tried again or to wait for its provider; or ends it. */
export async function putBackOrEnd(
  result: FailedTurn,
  hasProgress: boolean,
  current: CheckedTry,
): Promise<void> {
  const { kind, run, signal } = current;
  if (result.code === "cancelled" && signal.reason === "drain") return putBackDrained(current);
  const plan = planAfterFailure(result, current, hasProgress);
  if (plan.do === "end") return endRun(plan.failure, current);
  const isWait = plan.do === "wait";
  return putBack(current, {
    hold: isWait ? { reason: "away", ...plan.blocked } : { reason: "delay", until: plan.at },
    change: {
      ...(plan.do === "retry" && { failures: plan.failures }),
      crashCount: 0,
      error: toRunError(result),
      ...keepFailedAttempts(run, result, kind.context),
    },
    at: isWait ? undefined : plan.at,
  });
}

interface ModelWait {
  hold: Extract<HoldReason, { reason: "away" | "delay" }>;
  change: RunChange;
  /** When the run is tried again; absent if a breaker decides that. */
  at: Ms | undefined;
}

/** Returns when a person gets the notice that the models of a run are away: `Infinity` if they are not, or if no person waits. */
function getNoticeAt(
  { kind, run }: CheckedTry,
  hold: ModelWait["hold"],
  { error, failedAttempts = run.failedAttempts }: RunChange,
  now: Ms,
): Ms {
  const isOutage = hold.reason === "away" || (error && isProviderAway(error.code));
  if (!kind.awayNotice || !isOutage) return Infinity;
  const awaySince = run.hold?.reason === "away" ? run.hold.since : now;
  return (failedAttempts?.[0]?.at ?? awaySince) + kind.awayNotice.afterMs;
}

/** Puts a run back until its provider may answer: the key of its session is free meanwhile for runs that use another model. */
async function putBack(current: CheckedTry, { hold, change, at }: ModelWait): Promise<void> {
  const { kind, deps, run, isStored, model } = current;
  const now = deps.clock.now();
  const job = kind.job as Job;
  const isAway = hold.reason === "away";
  const status = isAway ? "parked" : "queued";
  current.end = {
    status,
    usage: addRunUsage(current),
    ...(change.error && { error: change.error.code }),
  };
  const key = toParkedKey(isAway ? hold.of : model.ref, job.key);
  // A run that is not stored is made again when it is taken.
  const deadline = isStored ? getDeadline(run, kind, now) : Infinity;
  const noticeAt = getNoticeAt(current, hold, change, now);
  const isNoticeDue = (at ?? now) >= noticeAt;
  const lookMs = LOOK_MS * (0.9 + Math.random() / 5);
  const lookAt = at ?? Math.min(now + lookMs, isNoticeDue ? Infinity : noticeAt);
  await persist(current, async () => {
    const write = isNoticeDue ? await kind.awayNotice?.plan(run, now) : undefined;
    const held = await deps.store.commit((tx) => {
      if (isStored)
        tx.runs.update(run.id, {
          ...change,
          ...getUsedSoFar(current),
          ...beginHold(run, hold, now),
          status,
        });
      write?.(tx);
      tx.jobs.settle(job, Math.round(Math.min(lookAt, deadline)), { key });
    }, job);
    if (at !== undefined) return;
    // A commit whose answer was lost is repeated, when the job is not held any more.
    const isParked = held || (await deps.queue.find(job.kind, job.id))?.held === false;
    if (isParked) deps.parking.park(job, toCandidates(model));
  });
}

/** Puts a run back as if it had not begun, since the gateway stops. */
async function putBackDrained(current: Try): Promise<void> {
  const { kind, deps, run, isStored } = current;
  current.end = { status: "queued", error: "cancelled", usage: addRunUsage(current) };
  const now = deps.clock.now();
  await commitFor(current, (tx) => {
    if (isStored)
      tx.runs.update(run.id, {
        status: "queued",
        crashCount: 0,
        attempts: run.attempts - 1,
        queuedAt: now,
        ...getUsedSoFar(current),
      });
    tx.jobs.settle(kind.job as Job, now, { resetAttempts: true });
  });
}
