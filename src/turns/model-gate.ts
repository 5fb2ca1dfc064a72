/** Asks the breakers whether the models of a run take calls, and lets runs wait for them. */
import { ECHO } from "../agent/models.ts";
import type { CallGate, Patience, ResolvedModel } from "../agent/types.ts";
import { readMonotonic, type Clock } from "../core/clock.ts";
import { isRefusal, type Breaker, type Pass, type Refusal } from "../core/breaker.ts";
import { listAllRuns } from "../queue/batches.ts";
import { fromParkedKey, toParkedKey, type ParkingLot } from "../queue/parking-lot.ts";
import {
  getJobId,
  getOwnModel,
  isLimited,
  sessionId,
  type EarlierJob,
  type Ms,
  type RunRecord,
  type Store,
} from "../store/types.ts";
import type { CheckedTry, RunKind } from "./try.ts";
import type { ExecutorDeps } from "./context.ts";
import type { ActionContext } from "./types.ts";

/** The least milliseconds after which a run that waits behind another run looks again. */
const SOON_MS = 1_000;

/** The model of a run and its fallbacks, in the order in which they are asked. */
export const toCandidates = ({ ref, fallbacks = [] }: ResolvedModel): string[] =>
  [...new Set([ref, ...fallbacks.map((one) => one.ref)])].filter((one) => one !== ECHO.ref);

/**
 * Bounds the time that a turn spends on models that give no answer, since a person waits for the turn. `onChange` is called when
 * the first model fails, and when one answers again.
 */
function createPatience(
  totalMs: Ms,
  clock: Pick<Clock, "now" | "monotonic">,
  onChange?: (isRetrying: boolean) => void,
): Patience {
  /** Since when no model has answered, in monotonic time. */
  let since: Ms | undefined;
  let waitedMs = 0;
  return {
    left() {
      const now = readMonotonic(clock);
      if (since === undefined) onChange?.(true);
      since ??= now;
      return totalMs - Math.max(now - since, waitedMs);
    },
    waited: (ms) => void (waitedMs += ms),
    restore() {
      if (since !== undefined) onChange?.(false);
      since = undefined;
      waitedMs = 0;
    },
  };
}

/** Asks the breakers before each model call of one attempt of a run. */
export interface AttemptGate extends CallGate {
  /** Gives back a permission that no call has used. */
  close(): void;
}

/** `pass`: the permission that the run was started with, for its first call. Without it, only breakers that are open refuse first calls. */
function createGate(
  breaker: Breaker,
  { pass, ...options }: Pick<CallGate, "ready" | "patience" | "staysUnderWay"> & { pass?: Pass },
): AttemptGate {
  let unused = pass;
  /** A run with answers goes on, however many others run: it is retried calls and first ones that wait for room. */
  let isUnderWay = pass === undefined;
  return {
    ...options,
    enter(ref, isRetry) {
      const reserved = unused?.of === ref ? unused : undefined;
      if (reserved) unused = undefined;
      const entered = reserved ?? breaker.enter(ref, isRetry || !isUnderWay, options.staysUnderWay);
      if (isRefusal(entered)) return entered;
      return {
        ...entered,
        leave: (outcome, retryAfterMs) => {
          if (outcome === "ok") isUnderWay = true;
          entered.leave(outcome, retryAfterMs);
        },
      };
    },
    isOpen: (ref) => breaker.isOpen(ref),
    close() {
      unused?.leave("none");
      unused = undefined;
    },
  };
}

/** `at`: when the run looks again, whatever the breakers say. */
export type RunRefusal = Refusal & { at?: Ms };

/**
 * Asks whether one of a run's models takes calls, and whether no earlier run of its session waits for one of them. That is
 * read from the queue: the process that let the earlier run wait may have ended, or may be another gateway. A run without a job has a caller,
 * and waits while it is under way.
 */
export async function openGate(current: CheckedTry): Promise<AttemptGate | RunRefusal> {
  const { model, kind, run, deps, steps } = current;
  const { parking, queue } = deps;
  const { job } = kind;
  const candidates = toCandidates(model);
  const [first] = candidates;
  const ready = job && queue.confirm?.bind(queue, job);
  const { patienceMs, onRetrying } = kind;
  const options = {
    ...(ready && { ready }),
    patience:
      patienceMs === undefined ? undefined : createPatience(patienceMs, deps.clock, onRetrying),
    // A run without a job has a caller, who waits for the answer: it cannot be tried again later.
    staysUnderWay: job === undefined,
  };
  if (!job || first === undefined) return createGate(parking.breaker, options);
  // A run with steps goes on with its turn.
  const keys = [job.key, ...candidates.map((of) => toParkedKey(of, job.key))];
  const earlier = steps.length > 0 ? undefined : await queue.findEarlier(job, keys);
  if (earlier) return waitBehind(earlier, first, kind, deps);
  const wasParked = run.hold?.reason === "away";
  const pass = parking.enter(job, candidates, { hasWaited: isLimited(run), wasParked });
  return isRefusal(pass) ? pass : createGate(parking.breaker, { ...options, pass });
}

/** Lets a run wait behind an earlier one of its session, until that is woken. */
async function waitBehind(
  { id, key, runAt }: EarlierJob,
  model: string,
  { context }: RunKind,
  { store, parking, clock }: ExecutorDeps,
): Promise<RunRefusal> {
  const now = clock.now();
  const waits = fromParkedKey(key);
  const of = waits?.of ?? model;
  const run = waits && (await store.runs.get(id));
  // It is back in its session, and goes first there.
  if (!waits) return { of, until: now + SOON_MS };
  if (run?.hold?.reason !== "away") {
    const at = Math.max(runAt, now + SOON_MS);
    return { of, until: at, at };
  }
  // Another gateway let it wait, or this one before it was started again.
  if (!parking.has(id)) parkRun(run, parking, context);
  // The two are put back together. Put back alone, this one would find the other, wait, and be put back, in a loop.
  return { of, until: now + SOON_MS };
}

/** Lets the runs that waited for providers when the process ended wait for them again: their breakers are open until a call succeeds. */
export async function restoreWaitingRuns(
  parking: ParkingLot,
  { store, clock, context }: { store: Store; clock: { now(): Ms }; context: ActionContext },
): Promise<void> {
  const { "runs.parked": count = 0 } = await store.counts();
  const parked = count > 0 ? await listAllRuns("parked", store) : [];
  for (const run of parked.toReversed()) {
    if (run.hold?.reason !== "away") continue;
    parking.breaker.open(run.hold.of, clock.now());
    parkRun(run, parking, context);
  }
}

/** Lets this gateway wake a run that waits for a provider. */
function parkRun(run: RunRecord, parking: ParkingLot, context: ActionContext): void {
  const { spec, hold } = run;
  if (hold?.reason !== "away") return;
  const own = getOwnModel(run);
  const agent = own === undefined ? context.agents.get(spec.session.agentId) : undefined;
  const resolved = agent?.resolved ?? context.models.resolve(own ?? hold.of);
  parking.park(
    { id: getJobId(run), kind: "turn", key: sessionId(spec.session) },
    resolved.ok ? toCandidates(resolved.model) : [hold.of],
  );
}
