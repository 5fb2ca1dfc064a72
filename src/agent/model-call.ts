/** Makes one model call: retries temporary errors, then asks the next model. */
import { backOff, WAITS, withJitter } from "../core/backoff.ts";
import { isRefusal, type CallOutcome, type Pass, type Refusal } from "../core/breaker.ts";
import { readMonotonic, type Clock } from "../core/clock.ts";
import type { FailedAttempt, Ms } from "../store/types.ts";
import { isProviderAway } from "../core/errors.ts";
import { plural } from "../core/text.ts";
import { classifyFailure, type ModelFailure } from "./failure.ts";
import type { CallGate, ModelCandidate } from "./types.ts";

export interface CallOptions {
  signal: AbortSignal;
  clock: Pick<Clock, "now" | "monotonic" | "sleep">;
  /** True once a reader has text of this call, or a tool was called: after that the call is not retried. */
  hasSpoken(): boolean;
  /** When the turn is over, in monotonic time, and how long it was allowed to take. */
  deadline: Ms;
  timeoutMs: number;
  /** Asked before each call; default: every call is made. */
  gate?: CallGate | undefined;
  /** From 0 to 1, for the jitter. */
  random?(): number;
}

export type ModelCallResult<T> =
  | { ok: true; value: T; candidate: ModelCandidate; failed: FailedAttempt[] }
  | { ok: false; failure: ModelFailure; failed: FailedAttempt[] };

/** The most attempts with one model. */
const MAX_TRIES = 3;
/** If a provider asks for a longer wait, the next model is asked, or the turn is retried later. */
const MAX_WAIT_MS = 20_000;
/** The shortest wait before models are asked again whose breakers are open. */
const MIN_WAIT_MS = 100;

/** The time limits of the whole turn; those of a chunk or a step are named in the message. */
function isTurnTimeout(error: unknown): boolean {
  if (!(error instanceof Error) || /^(?:first chunk|chunk|step) timeout/i.test(error.message))
    return false;
  return (
    error.name === "TimeoutError" || (error.name === "AbortError" && /timeout/i.test(error.message))
  );
}

const CANCELLED: ModelFailure = {
  ok: false,
  code: "cancelled",
  message: "the turn was cancelled",
  retryable: false,
};

function toFailure(
  error: unknown,
  { provider }: ModelCandidate,
  { signal, clock, deadline, timeoutMs }: CallOptions,
): ModelFailure {
  if (signal.aborted) return CANCELLED;
  if (readMonotonic(clock) >= deadline || isTurnTimeout(error))
    return {
      ok: false,
      code: "timeout",
      message: `the turn took longer than ${plural(timeoutMs / 1000, "second")}`,
      retryable: false,
    };
  return classifyFailure(error, provider, clock.now());
}

/** A model that never answered within this share of the turn's time counts as away. */
const AWAY_SHARE = 0.5;

/** Returns what a failure says about the provider, if anything. */
function toOutcome(
  { code, retryable, vendor }: ModelFailure,
  tookMs: Ms,
  { timeoutMs }: CallOptions,
): CallOutcome {
  if (code === "rate_limited") return "busy";
  if (code === "provider_unavailable") return vendor?.status === 409 ? "answered" : "away";
  // A model that was not asked has said nothing.
  if (code === "context_too_long" && vendor === undefined) return "none";
  if (code === "timeout") return tookMs >= timeoutMs * AWAY_SHARE ? "away" : "none";
  return code === "cancelled" || retryable ? "none" : "answered";
}

/** Milliseconds until the same model is asked again; undefined if it is not asked again. */
function getWait(
  { code, retryable, retryAfterMs }: ModelFailure,
  tries: number,
  ref: string,
  options: CallOptions,
): Ms | undefined {
  const { clock, deadline, gate, random } = options;
  if (!retryable || tries >= MAX_TRIES || gate?.isOpen(ref)) return undefined;
  const wait = retryAfterMs ?? withJitter(backOff(tries, WAITS.modelCall), random);
  const longest = Math.min(MAX_WAIT_MS, gate?.patience?.left() ?? MAX_WAIT_MS);
  const isTooLong = wait > longest || readMonotonic(clock) + wait >= deadline;
  return isTooLong || code === "timeout" ? undefined : Math.round(wait);
}

/** Milliseconds until all models are asked again; undefined if the turn ends. */
function getRoundWait(
  failure: ModelFailure,
  round: number,
  { clock, deadline, gate, random }: CallOptions,
): Ms | undefined {
  const { blocked, retryAfterMs } = failure;
  if (!gate?.staysUnderWay || !gate.patience || !isProviderAway(failure.code)) return undefined;
  const wait = blocked
    ? Math.max(MIN_WAIT_MS, blocked.until - clock.now())
    : Math.max(
        retryAfterMs ?? 0,
        withJitter(backOff(MAX_TRIES - 1 + round, WAITS.modelCall), random),
      );
  const isTooLong = wait > gate.patience.left() || readMonotonic(clock) + wait >= deadline;
  return isTooLong ? undefined : Math.round(wait);
}

/** Returns the models that may still answer after a failure of `candidate`. */
function getRemaining(
  { code, vendor }: ModelFailure,
  candidate: ModelCandidate,
  rest: readonly ModelCandidate[],
): ModelCandidate[] {
  if (code === "cancelled" || code === "timeout") return [];
  if (code === "context_too_long")
    return rest.filter(
      (next) =>
        !(next.isWindowKnown && candidate.isWindowKnown) ||
        next.contextTokens > candidate.contextTokens,
    );
  // Another model of the provider has the same key.
  const isKeyWrong = code === "provider_refused" && vendor?.status === 401;
  return rest.filter(
    ({ provider }) => !isKeyWrong || provider.settings.name !== candidate.provider.settings.name,
  );
}

/** The failure that is reported if no model answered: the first temporary one, else that of the first model. */
function chooseFailure(failures: readonly ModelFailure[]): ModelFailure {
  const last = failures.at(-1) as ModelFailure;
  if (last.code === "cancelled" || last.code === "timeout") return last;
  const [first = last] = failures;
  const chosen = failures.find(({ retryable }) => retryable) ?? first;
  const waits = failures.flatMap(({ retryable, retryAfterMs }) =>
    retryable && retryAfterMs !== undefined ? [retryAfterMs] : [],
  );
  return chosen.retryable && waits.length > 0
    ? { ...chosen, retryAfterMs: Math.min(...waits) }
    : chosen;
}

/** A model that is not called: its provider is away, or limits how many calls it takes. */
function toRefusedFailure(
  { of, until }: Refusal,
  { provider }: ModelCandidate,
  now: Ms,
): ModelFailure {
  const message = `the provider "${provider.settings.name}" is not asked for ${of} now: its last calls failed, or it takes no more of them`;
  return {
    ok: false,
    code: "provider_unavailable",
    message,
    provider: provider.settings.name,
    retryable: true,
    retryAfterMs: Math.max(0, until - now),
    isRefused: true,
  };
}

/** Returns the reason that no model may be called; undefined if one of them may be. */
function findBlock(
  candidates: readonly ModelCandidate[],
  refused: ReadonlyMap<string, Refusal>,
  { clock, gate }: CallOptions,
) {
  const blocks = candidates.map(
    ({ model: { ref } }) =>
      refused.get(ref) ?? (gate?.isOpen(ref) ? { of: ref, until: clock.now() } : undefined),
  );
  const found = blocks.filter((block) => block !== undefined);
  return found.length === candidates.length
    ? found.toSorted((a, b) => a.until - b.until)[0]
    : undefined;
}

class ModelCalls<T> {
  readonly failed: FailedAttempt[] = [];
  #failures: ModelFailure[] = [];
  #refused = new Map<string, Refusal>();
  /** The last failure of the models that were asked. */
  #lastAsked: ModelFailure | undefined;
  #round = 1;
  readonly #candidates: readonly ModelCandidate[];
  readonly #call: (candidate: ModelCandidate) => Promise<T>;
  readonly #options: CallOptions;

  constructor(
    candidates: readonly ModelCandidate[],
    call: (candidate: ModelCandidate) => Promise<T>,
    options: CallOptions,
  ) {
    this.#candidates = candidates;
    this.#call = call;
    this.#options = options;
  }

  async run(): Promise<ModelCallResult<T>> {
    for (; ; this.#round++) {
      const result = await this.#askAll();
      if (result.ok || this.#options.hasSpoken()) return result;
      const wait = getRoundWait(result.failure, this.#round, this.#options);
      if (wait === undefined) return { ...result, failure: this.#toLast(result.failure) };
      if (!(await this.#sleep(wait))) return { ...result, failure: CANCELLED };
    }
  }

  /** Asks the models in turn. */
  async #askAll(): Promise<ModelCallResult<T>> {
    const { failed } = this;
    this.#failures = [];
    this.#refused = new Map();
    let [candidate, ...rest] = this.#candidates;
    while (candidate) {
      const last = await this.#callOne(candidate);
      if (last.ok) return { ok: true, value: last.value, candidate, failed };
      if (this.#options.hasSpoken()) return { ok: false, failure: last.failure, failed };
      this.#failures.push(last.failure);
      [candidate, ...rest] = getRemaining(last.failure, candidate, rest);
    }
    const failure = chooseFailure(this.#failures);
    if (!failure.isRefused) this.#lastAsked = failure;
    const blocked = failure.retryable
      ? findBlock(this.#candidates, this.#refused, this.#options)
      : undefined;
    return { ok: false, failure: blocked ? { ...failure, blocked } : failure, failed };
  }

  /** If models were asked before their breakers opened, what they said is the better reason. */
  #toLast(failure: ModelFailure): ModelFailure {
    const { blocked, retryAfterMs } = failure;
    const now = this.#options.clock.now();
    const waitMs =
      retryAfterMs ?? (blocked && blocked.until > now ? blocked.until - now : undefined);
    return {
      ...((failure.isRefused && this.#lastAsked) || failure),
      ...(blocked && { blocked }),
      ...(waitMs !== undefined && { retryAfterMs: waitMs }),
    };
  }

  /** Waits before another try. False if the turn was cancelled meanwhile. */
  async #sleep(ms: Ms): Promise<boolean> {
    const { signal, clock, gate } = this.#options;
    gate?.patience?.waited(ms);
    await clock.sleep(ms, signal);
    return !signal.aborted;
  }

  /** Calls one model until it answers, or is not asked again. */
  async #callOne(
    candidate: ModelCandidate,
  ): Promise<{ ok: true; value: T } | { ok: false; failure: ModelFailure }> {
    const { signal, clock, gate, hasSpoken } = this.#options;
    const { ref } = candidate.model;
    let before: ModelFailure | undefined;
    // In later rounds each model has one try.
    for (let tries = this.#round === 1 ? 1 : MAX_TRIES; ; tries++) {
      // After the waits of earlier tries another gateway may have the run.
      if (gate?.ready && !(await gate.ready(signal))) return { ok: false, failure: CANCELLED };
      const beganAt = readMonotonic(clock);
      const pass = gate?.enter(ref, tries > 1);
      if (pass && isRefusal(pass)) {
        this.#refused.set(ref, pass);
        const failure = toRefusedFailure(pass, candidate, clock.now());
        this.#note(candidate, failure);
        // If it was asked, what it said is the better reason.
        return { ok: false, failure: before ?? failure };
      }
      try {
        const value = await this.#call(candidate);
        pass?.leave("ok");
        gate?.patience?.restore();
        return { ok: true, value };
      } catch (error) {
        before = toFailure(error, candidate, this.#options);
      }
      if (pass) this.#leave(pass, before, readMonotonic(clock) - beganAt);
      const waitMs = hasSpoken() ? undefined : getWait(before, tries, ref, this.#options);
      this.#note(candidate, before, waitMs);
      if (waitMs === undefined) return { ok: false, failure: before };
      if (!(await this.#sleep(waitMs)))
        return { ok: false, failure: toFailure(undefined, candidate, this.#options) };
    }
  }

  #leave(pass: Pass, failure: ModelFailure, tookMs: Ms): void {
    // One turn that asks again and again is not to open the breaker for all others.
    const isCounted = this.#round === 1 || pass.isProbe;
    pass.leave(
      isCounted ? toOutcome(failure, tookMs, this.#options) : "none",
      failure.retryAfterMs,
    );
  }

  #note({ model }: ModelCandidate, failure: ModelFailure, waitMs?: Ms): void {
    const { code, message, vendor } = failure;
    // A turn that waits for a test is refused again and again.
    if (failure.isRefused && this.failed.at(-1)?.error.message === message) return;
    this.failed.push({
      at: this.#options.clock.now(),
      model: model.ref,
      error: { code, message, ...(vendor && { vendor }) },
      ...(waitMs !== undefined && { waitedMs: waitMs }),
    });
  }
}

/**
 * Calls the first model, retries temporary errors after a growing wait with jitter or the provider's Retry-After, and then
 * calls the next model. `classifyFailure` classifies what `call` throws; an empty answer is a `NoAnswerError`.
 * Never throws. `failed` has each attempt without an answer, oldest first.
 */
export function callWithFallbacks<T>(
  candidates: readonly ModelCandidate[],
  call: (candidate: ModelCandidate) => Promise<T>,
  options: CallOptions,
): Promise<ModelCallResult<T>> {
  return new ModelCalls(candidates, call, options).run();
}

/** One sentence for the run's warnings if another model than the first has answered; undefined if none has. */
export function renderFallback(
  failed: readonly FailedAttempt[],
  { model }: ModelCandidate,
): string | undefined {
  const first = failed[0];
  if (!first || first.model === model.ref) return undefined;
  return `the model ${first.model} gave no answer (${first.error.code}); ${model.ref} answered`;
}
