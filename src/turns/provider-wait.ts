/** What becomes of a run whose models give no answer: it waits for them, is tried again, or ends. */
import type { CallGate, ResolvedModel } from "../agent/types.ts";
import { Patience } from "../agent/patience.ts";
import { ECHO } from "../agent/models.ts";
import { backOff, WAITS, withJitter } from "../core/backoff.ts";
import {
  isRefusal,
  MAX_RETRY_AFTER_MS,
  type Breaker,
  type Pass,
  type Refusal,
} from "../core/breaker.ts";
import { fromParkedKey, LOOK_MS, toParkedKey, type ParkingLot } from "../queue/parking-lot.ts";
import {
  isLimited,
  type EarlierJob,
  type HoldReason,
  type Job,
  type Ms,
  type RunChange,
  type RunRecord,
  type StepRecord,
  type Store,
} from "../store/types.ts";
import { listAllRuns } from "../queue/batches.ts";
import { AWAY_NOTICE_MS, planAwayNotice } from "./channel/away-notice.ts";
import { beginHold, getWaitedMs } from "./hold.ts";
import { isProviderAway } from "../core/errors.ts";
import { buildRunJob } from "./run-result.ts";
import type { FailedTurn, RunKind } from "./run-kind.ts";
import type { ActionContext, ExecutorDeps } from "./types.ts";

/** Tries of a turn whose model answers, but with nothing that can be used. */
const MAX_TRIES = 6;
/** A run that is tried again is put back by its gateway; should that be gone, the queue does it so much later. */
const LATE_MS = 5_000;
/** How long a run that waits behind another run waits at least before it looks again. */
const SOON_MS = 1_000;

/** The model of a run and its fallbacks, in the order in which they are asked. */
export const toCandidates = ({ ref, fallbacks = [] }: ResolvedModel): string[] =>
  [...new Set([ref, ...fallbacks.map((one) => one.ref)])].filter((one) => one !== ECHO.ref);

interface GateOptions extends Pick<CallGate, "patience" | "staysUnderWay"> {
  ready?: CallGate["ready"] | undefined;
  pass?: Pass;
}

/** Asks the breakers before each model call of one attempt of a run. */
export class AttemptGate implements CallGate {
  readonly #breaker: Breaker;
  /** The permission that the run was started with: for its first call. */
  #pass: Pass | undefined;
  /** A run with answers goes on, however many others run: it is retried calls and first ones that wait for room. */
  #isUnderWay: boolean;
  readonly ready?: NonNullable<CallGate["ready"]>;
  readonly patience: Patience | undefined;
  /** A run without a job has a caller, who waits for the answer: it cannot be tried again later. */
  readonly staysUnderWay: boolean;

  /** Without `pass`, only breakers that are open refuse first calls. */
  constructor(
    breaker: Breaker,
    { pass, ready, patience, staysUnderWay = false }: GateOptions = {},
  ) {
    this.#breaker = breaker;
    if (ready) this.ready = ready;
    this.#pass = pass;
    this.#isUnderWay = pass === undefined;
    this.patience = patience;
    this.staysUnderWay = staysUnderWay;
  }

  enter(ref: string, isRetry: boolean): Pass | Refusal {
    const reserved = this.#pass?.of === ref ? this.#pass : undefined;
    if (reserved) this.#pass = undefined;
    const isLimited = isRetry || !this.#isUnderWay;
    const entered = reserved ?? this.#breaker.enter(ref, isLimited, this.staysUnderWay);
    if (isRefusal(entered)) return entered;
    return {
      ...entered,
      leave: (outcome, retryAfterMs) => {
        if (outcome === "ok") this.#isUnderWay = true;
        entered.leave(outcome, retryAfterMs);
      },
    };
  }

  isOpen(ref: string): boolean {
    return this.#breaker.isOpen(ref);
  }

  /** Gives back a permission that no call has used. */
  close(): void {
    this.#pass?.leave("none");
    this.#pass = undefined;
  }
}

/** `from`: the run looks again no earlier, whatever the breaker says. */
export type RunRefusal = Refusal & { from?: Ms };

interface StartingRun {
  kind: RunKind;
  run: RunRecord;
  deps: Pick<ExecutorDeps, "store" | "queue" | "clock" | "parking">;
  steps: readonly StepRecord[];
}

/**
 * Asks whether one of a run's models takes calls, and whether no earlier run of its session waits for one of them. That is
 * read from the queue: the process that let the earlier run wait may have ended, or may be another gateway. A run without a job has a caller,
 * and waits while it is under way.
 */
export async function openGate(
  model: ResolvedModel,
  { kind, run, deps, steps }: StartingRun,
): Promise<AttemptGate | RunRefusal> {
  const { parking, queue } = deps;
  const { job } = kind;
  const candidates = toCandidates(model);
  const [first] = candidates;
  const ready = job && queue.confirm?.bind(queue, job);
  const options = {
    ready,
    patience: createPatience(kind, run, deps.clock),
    staysUnderWay: job === undefined,
  };
  if (!job || first === undefined) return new AttemptGate(parking.breaker, options);
  // A run with steps goes on with its turn.
  const keys = [job.key, ...candidates.map((of) => toParkedKey(of, job.key))];
  const earlier = steps.length > 0 ? undefined : await queue.findEarlier(job, keys);
  if (earlier) return waitBehind(earlier, first, kind, deps);
  const wasParked = run.hold?.reason === "away" || (run.failures ?? 0) > 0;
  const pass = parking.enter(job, candidates, { hasWaited: isLimited(run), wasParked });
  return isRefusal(pass) ? pass : new AttemptGate(parking.breaker, { ...options, pass });
}

/** How long an attempt may wait between its calls: as long as its caller does, or until a person on a channel gets the notice. */
function createPatience(
  { context, job, onRetrying }: RunKind,
  { kind }: RunRecord,
  clock: ExecutorDeps["clock"],
): Patience | undefined {
  if (!job) return new Patience(context.config.platform.maxWaitSeconds * 1000, clock, onRetrying);
  return kind === "channel" ? new Patience(AWAY_NOTICE_MS, clock) : undefined;
}

/** Lets a run wait behind an earlier one of its session, until that is woken. */
async function waitBehind(
  { id, key, runAt }: EarlierJob,
  model: string,
  { context }: RunKind,
  { store, parking, clock }: StartingRun["deps"],
): Promise<RunRefusal> {
  const now = clock.now();
  const waits = fromParkedKey(key);
  const of = waits?.of ?? model;
  const run = waits && (await store.runs.get(id));
  // It is back in its session, and goes first there.
  if (!waits) return { of, until: now + SOON_MS };
  // Another gateway let it wait, or this one before it was started again.
  if (run?.hold?.reason === "away" && !parking.find(id)) parkRun(run, parking, context);
  const known = run?.hold?.reason === "away" ? parking.find(id) : { from: runAt };
  // The two are put back together. Put back alone, this one would find the other, wait, and be put back, in a loop.
  if (known && known.from === undefined) return { of, until: now + SOON_MS };
  const from = Math.max(known?.from ?? 0, now + SOON_MS);
  return { of, until: from, from };
}

/** When a run is too old to be tried again. */
const getDeadline = (run: RunRecord, { context }: RunKind, now: Ms): Ms =>
  run.createdAt + getWaitedMs(run, now) + context.config.runs[toMaxAge(run)];

/** The setting that says how old a run may be that is tried again: a person waits for the answer to a message. */
const toMaxAge = ({ kind }: RunRecord): "maxAge" | "messageMaxAge" =>
  kind === "channel" ? "messageMaxAge" : "maxAge";

const HOUR_MS = 3_600_000;
const renderAge = (ms: Ms): string =>
  ms >= HOUR_MS ? `${Math.round(ms / HOUR_MS)} h` : `${Math.round(ms / 60_000)} min`;

/** The failure of a run that is too old to be tried again: what its provider said last, and why nothing follows. */
function toExpired(
  failure: Pick<FailedTurn, "code" | "message" | "provider" | "vendor" | "warnings">,
  run: RunRecord,
  { context }: RunKind,
): FailedTurn {
  const name = toMaxAge(run);
  const message = `${failure.message}; given up after ${renderAge(context.config.runs[name])} (runs.${name})`;
  return { ...failure, ok: false, message, retryable: false };
}

/** What follows a failed attempt. `at`: when the run is tried again at the earliest. */
export type AfterFailure =
  | { do: "end"; failure: FailedTurn }
  | { do: "retry"; at: Ms; failures: number; isAway: boolean }
  | { do: "wait"; blocked: Refusal };

interface FailedAttempt {
  kind: RunKind;
  run: RunRecord;
  isStored: boolean;
  /** Whether the run has steps, and whether this attempt has added one. */
  hasSteps: boolean;
  hasProgress: boolean;
  now: Ms;
}

/** Decides what follows a failed attempt of a run with a job. */
export function planAfterFailure(
  result: FailedTurn,
  { kind, run, isStored, hasSteps, hasProgress, now }: FailedAttempt,
): AfterFailure {
  if (!result.retryable) return { do: "end", failure: result };
  const isLate = (at: Ms): boolean => isStored && at >= getDeadline(run, kind, now);
  if (result.blocked)
    return isLate(now)
      ? { do: "end", failure: toExpired(result, run, kind) }
      : { do: "wait", blocked: result.blocked };
  if (!hasSteps && !kind.isRetried) return { do: "end", failure: result };
  const failures = (hasProgress ? 0 : (run.failures ?? 0)) + 1;
  const isAway = isProviderAway(result.code);
  if (!isAway && failures >= MAX_TRIES) return { do: "end", failure: result };
  const asked =
    result.retryAfterMs === undefined
      ? undefined
      : Math.min(result.retryAfterMs, MAX_RETRY_AFTER_MS) * (1 + Math.random() / 10);
  const at = Math.round(now + (asked ?? withJitter(backOff(failures, WAITS.run))));
  return isLate(at)
    ? { do: "end", failure: toExpired(result, run, kind) }
    : { do: "retry", at, failures, isAway };
}

/** The failure of a run that waits for a provider, if it is too old to wait on. */
export function findExpired(
  run: RunRecord,
  { of }: Refusal,
  kind: RunKind,
  now: Ms,
): FailedTurn | undefined {
  if (now < getDeadline(run, kind, now)) return undefined;
  const last = run.error ?? {
    code: "provider_unavailable" as const,
    message: `calls of ${of} fail`,
    provider: of.split("/", 1)[0] as string,
  };
  return toExpired({ ...last, warnings: [] }, run, kind);
}

interface WaitingRun {
  kind: RunKind;
  deps: Pick<ExecutorDeps, "store" | "queue" | "parking">;
  run: RunRecord;
  isStored: boolean;
}

/**
 * Puts a run back until its provider may answer: the key of its session is free meanwhile for runs that use another model.
 * `from`: it is put back no earlier, whatever the breaker says.
 */
export async function writeProviderWait(
  { kind, deps, run, isStored }: WaitingRun,
  change: RunChange,
  {
    hold,
    of,
    candidates,
    now,
    from,
    failedAt,
  }: {
    hold: Extract<HoldReason, { reason: "away" | "delay" }>;
    of: string;
    candidates: readonly string[];
    now: Ms;
    from?: Ms | undefined;
    /** When a model failed first in the try that is over; absent if none was asked, or if none is away. */
    failedAt?: Ms | undefined;
  },
): Promise<void> {
  const job = kind.job as Job;
  // A run that is not stored is made again when it is taken.
  const deadline = isStored ? getDeadline(run, kind, now) : Infinity;
  const lookAt = from === undefined ? now + LOOK_MS * (0.9 + Math.random() / 5) : from + LATE_MS;
  const held = await deps.store.commit((tx) => {
    if (isStored)
      tx.runs.update(run.id, {
        ...change,
        ...beginHold(run, hold, now),
        status: hold.reason === "away" ? "parked" : "queued",
      });
    if (hold.reason === "away" || failedAt !== undefined) planAwayNotice(tx, run, now, failedAt);
    tx.jobs.settle(job, Math.round(Math.min(lookAt, deadline)), { key: toParkedKey(of, job.key) });
  }, job);
  // A commit whose answer was lost is repeated, when the job is not held any more.
  const isParked = held || (await deps.queue.find(job.kind, job.id))?.held === false;
  if (isParked) deps.parking.park(job, candidates, from);
}

/** Lets the runs that waited for providers when the process ended wait for them again: their breakers are open until a call succeeds. */
export async function restoreWaitingRuns(
  parking: ParkingLot,
  {
    store,
    clock,
    context,
  }: { store: Pick<Store, "list" | "counts">; clock: { now(): Ms }; context: ActionContext },
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
function parkRun(
  { id, spec, createdAt, hold }: RunRecord,
  parking: ParkingLot,
  context: ActionContext,
): void {
  if (hold?.reason !== "away") return;
  const agent = context.agents.get(spec.session.agentId);
  const resolved = context.models.resolve(
    spec.model ?? agent?.model ?? hold.of,
    spec.model === undefined ? agent?.fallbacks : [],
  );
  parking.park(
    buildRunJob(id, spec, createdAt),
    resolved.ok ? toCandidates(resolved.model) : [hold.of],
  );
}
