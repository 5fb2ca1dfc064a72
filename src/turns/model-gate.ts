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
  type StepRecord,
  type Store,
} from "../store/types.ts";
import type { RunKind } from "./try.ts";
import type { ExecutorDeps } from "./context.ts";
import type { ActionContext } from "./types.ts";

/** How long a run that waits behind another run waits at least before it looks again. */
const SOON_MS = 1_000;

/** The model of a run and its fallbacks, in the order in which they are asked. */
export const toCandidates = ({ ref, fallbacks = [] }: ResolvedModel): string[] =>
  [...new Set([ref, ...fallbacks.map((one) => one.ref)])].filter((one) => one !== ECHO.ref);

/** How long a turn waits for models that give no answer, because somebody waits for the turn. */
class TurnPatience implements Patience {
  readonly #clock: Pick<Clock, "now" | "monotonic">;
  readonly #totalMs: Ms;
  readonly #onChange: ((isRetrying: boolean) => void) | undefined;
  /** Since when no model has answered, in monotonic time. */
  #since: Ms | undefined;
  #waitedMs = 0;

  /** `onChange` is called when the first model fails, and when one answers again. */
  constructor(
    totalMs: Ms,
    clock: Pick<Clock, "now" | "monotonic">,
    onChange?: (isRetrying: boolean) => void,
  ) {
    this.#totalMs = totalMs;
    this.#clock = clock;
    this.#onChange = onChange;
  }

  /** Returns the milliseconds that are left. They begin with the first failure. */
  left(): Ms {
    const now = readMonotonic(this.#clock);
    if (this.#since === undefined) this.#onChange?.(true);
    this.#since ??= now;
    return this.#totalMs - Math.max(now - this.#since, this.#waitedMs);
  }

  /** Counts a wait. */
  waited(ms: Ms): void {
    this.#waitedMs += ms;
  }

  /** A model has answered. */
  restore(): void {
    if (this.#since !== undefined) this.#onChange?.(false);
    this.#since = undefined;
    this.#waitedMs = 0;
  }
}

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

/** `at`: when the run looks again, whatever the breakers say. */
export type RunRefusal = Refusal & { at?: Ms };

interface StartingRun {
  kind: RunKind;
  run: RunRecord;
  deps: ExecutorDeps;
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
    patience:
      kind.patienceMs === undefined
        ? undefined
        : new TurnPatience(kind.patienceMs, deps.clock, kind.onRetrying),
    staysUnderWay: job === undefined,
  };
  if (!job || first === undefined) return new AttemptGate(parking.breaker, options);
  // A run with steps goes on with its turn.
  const keys = [job.key, ...candidates.map((of) => toParkedKey(of, job.key))];
  const earlier = steps.length > 0 ? undefined : await queue.findEarlier(job, keys);
  if (earlier) return waitBehind(earlier, first, kind, deps);
  const wasParked = run.hold?.reason === "away";
  const pass = parking.enter(job, candidates, { hasWaited: isLimited(run), wasParked });
  return isRefusal(pass) ? pass : new AttemptGate(parking.breaker, { ...options, pass });
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
  const agent = context.agents.get(spec.session.agentId);
  const own = getOwnModel(run);
  const resolved = context.models.resolve(
    own ?? agent?.model ?? hold.of,
    own === undefined ? agent?.fallbacks : [],
  );
  parking.park(
    { id: getJobId(run), kind: "turn", key: sessionId(spec.session) },
    resolved.ok ? toCandidates(resolved.model) : [hold.of],
  );
}
