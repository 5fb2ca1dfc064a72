/** Makes one model call: retries temporary errors, then asks the next model. */
import { backOff } from "../core/backoff.ts";
import type { Clock } from "../core/clock.ts";
import type { FailedAttempt, Ms } from "../store/types.ts";
import { classifyFailure, type ModelFailure } from "./failure.ts";
import type { ModelCandidate } from "./types.ts";

export interface CallOptions {
  signal: AbortSignal;
  clock: Pick<Clock, "now" | "sleep">;
  /** True once a reader has text of this call, or a tool was called: after that the call is not retried. */
  hasSpoken(): boolean;
  /** When the turn is over, and how long it was allowed to take. */
  deadline: Ms;
  timeoutMs: number;
  /** From 0 to 1, for the jitter. */
  random?(): number;
}

export type ModelCallResult<T> =
  | { ok: true; value: T; candidate: ModelCandidate; failed: FailedAttempt[] }
  | { ok: false; failure: ModelFailure; failed: FailedAttempt[] };

/** The most attempts with one model. */
const MAX_TRIES = 3;
const BACKOFF = { firstMs: 500, longestMs: 8_000 };
/** If a provider asks for a longer wait, the next model is asked, or the turn is retried later. */
const MAX_WAIT_MS = 20_000;

/** The time limits of the whole turn; those of a chunk or a step are named in the message. */
function isTurnTimeout(error: unknown): boolean {
  if (!(error instanceof Error) || /^(?:first chunk|chunk|step) timeout/i.test(error.message)) return false;
  return error.name === "TimeoutError" || (error.name === "AbortError" && /timeout/i.test(error.message));
}

function toFailure(error: unknown, { provider }: ModelCandidate, { signal, clock, deadline, timeoutMs }: CallOptions): ModelFailure {
  if (signal.aborted) return { ok: false, code: "cancelled", message: "the turn was cancelled", retryable: false };
  if (clock.now() >= deadline || isTurnTimeout(error))
    return { ok: false, code: "timeout", message: `the turn took longer than ${timeoutMs / 1000} seconds`, retryable: false };
  return classifyFailure(error, provider, clock.now());
}

/** Milliseconds until the same model is asked again; undefined if it is not asked again. */
function getWait({ code, retryable, retryAfterMs }: ModelFailure, tries: number, { clock, deadline, random = Math.random }: CallOptions) {
  if (!retryable || tries >= MAX_TRIES) return undefined;
  const wait = retryAfterMs ?? backOff(tries, BACKOFF) * (0.75 + random() / 2);
  const isTooLong = wait > MAX_WAIT_MS || clock.now() + wait >= deadline;
  return isTooLong || code === "timeout" ? undefined : Math.round(wait);
}

/** Returns the models that may still answer after a failure of `candidate`. */
function getRemaining({ code, vendor }: ModelFailure, candidate: ModelCandidate, rest: readonly ModelCandidate[]): ModelCandidate[] {
  if (code === "cancelled" || code === "timeout") return [];
  if (code === "context_too_long")
    return rest.filter((next) => !(next.isWindowKnown && candidate.isWindowKnown) || next.contextTokens > candidate.contextTokens);
  // Another model of the provider has the same key.
  const isKeyWrong = code === "provider_refused" && vendor?.status === 401;
  return rest.filter(({ provider }) => !isKeyWrong || provider.settings.name !== candidate.provider.settings.name);
}

/** The failure that is reported if no model answered: the first temporary one, else that of the first model. */
function chooseFailure(failures: readonly ModelFailure[]): ModelFailure {
  const last = failures.at(-1) as ModelFailure;
  if (last.code === "cancelled" || last.code === "timeout") return last;
  const [first = last] = failures;
  const chosen = failures.find(({ retryable }) => retryable) ?? first;
  const waits = failures.flatMap(({ retryable, retryAfterMs }) => (retryable && retryAfterMs !== undefined ? [retryAfterMs] : []));
  return chosen.retryable && waits.length > 0 ? { ...chosen, retryAfterMs: Math.min(...waits) } : chosen;
}

/**
 * Calls the first model, retries temporary errors after a growing wait with jitter or the provider's Retry-After, and then
 * calls the next model. `classifyFailure` classifies what `call` throws; an empty answer is a `NoAnswerError`.
 * Never throws. `failed` has each attempt without an answer, oldest first.
 */
export async function callWithFallbacks<T>(
  candidates: readonly ModelCandidate[],
  call: (candidate: ModelCandidate) => Promise<T>,
  options: CallOptions,
): Promise<ModelCallResult<T>> {
  const { signal, clock, hasSpoken } = options;
  const failed: FailedAttempt[] = [];
  const failures: ModelFailure[] = [];
  let [candidate, ...rest] = candidates;
  let tries = 0;
  while (candidate) {
    try {
      tries++;
      return { ok: true, value: await call(candidate), candidate, failed };
    } catch (error) {
      const failure = toFailure(error, candidate, options);
      const { code, message, vendor } = failure;
      const wait = hasSpoken() ? undefined : getWait(failure, tries, options);
      failed.push({
        at: clock.now(),
        model: candidate.model.ref,
        error: { code, message, ...(vendor && { vendor }) },
        ...(wait !== undefined && { waitedMs: wait }),
      });
      if (hasSpoken()) return { ok: false, failure, failed };
      if (wait === undefined) {
        failures.push(failure);
        [candidate, ...rest] = getRemaining(failure, candidate, rest);
        tries = 0;
        continue;
      }
      await clock.sleep(wait, signal);
      if (signal.aborted) failures.push(toFailure(error, candidate, options));
      if (signal.aborted) candidate = undefined;
    }
  }
  return { ok: false, failure: chooseFailure(failures), failed };
}

/** One sentence for the run's warnings if another model than the first has answered; undefined if none has. */
export function renderFallback(failed: readonly FailedAttempt[], { model }: ModelCandidate): string | undefined {
  const first = failed[0];
  if (!first || first.model === model.ref) return undefined;
  return `the model ${first.model} gave no answer (${first.error.code}); ${model.ref} answered`;
}
