import type { RunErrorCode } from "../core/errors.ts";
import type { PausedTurn, TurnResult } from "./types.ts";

export type TurnFailure = Exclude<Extract<TurnResult, { ok: false }>, PausedTurn>;

interface CallError {
  name?: unknown;
  statusCode?: unknown;
  responseHeaders?: unknown;
  cause?: unknown;
  code?: unknown;
  errors?: unknown;
  lastError?: unknown;
}

/** The errors inside an error, outermost first. */
function getCauseChain(error: unknown): CallError[] {
  const chain: CallError[] = [];
  let next: unknown = error;
  while (typeof next === "object" && next !== null && chain.length < 6) {
    const current = next as CallError;
    chain.push(current);
    next = current.lastError ?? current.cause;
  }
  return chain;
}

/** The wait that a 429 or 503 asks for, in milliseconds. */
function retryAfter(headers: unknown, now: number): number | undefined {
  if (typeof headers !== "object" || headers === null) return undefined;
  const values = headers as Record<string, unknown>;
  const ms = Number(values["retry-after-ms"]);
  if (values["retry-after-ms"] !== undefined && Number.isFinite(ms)) return Math.max(0, ms);
  const text = values["retry-after"];
  if (typeof text !== "string") return undefined;
  const seconds = Number(text);
  if (Number.isFinite(seconds)) return Math.max(0, seconds * 1000);
  const date = Date.parse(text);
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

const NETWORK = /^(?:E[A-Z]{3,}|UND_ERR_[A-Z_]+)$/;

/**
 * Sorts what a model call threw. The thrown errors carry the request's and the answer's bodies: only their status,
 * names and codes are looked at.
 */
export function classifyFailure(error: unknown, provider: string, now: number): Omit<TurnFailure, "warnings"> {
  const chain = getCauseChain(error);
  const status = chain.map((part) => part.statusCode).find((code) => typeof code === "number");
  const headers = chain.map((part) => part.responseHeaders).find((value) => value !== undefined);
  const fail = (code: RunErrorCode, message: string, retryable: boolean): Omit<TurnFailure, "warnings"> => ({
    ok: false,
    code,
    message,
    retryable,
  });
  if (status === 429) {
    const wait = retryAfter(headers, now);
    const limited = fail("rate_limited", `the provider "${provider}" answered 429: its rate limit is reached`, true);
    return wait === undefined ? limited : { ...limited, retryAfterMs: wait };
  }
  if (status === 401 || status === 403)
    return fail("provider_refused", `the provider "${provider}" answered ${status}: check models.providers.${provider}.apiKey`, false);
  if (status === 404)
    return fail(
      "provider_refused",
      `the provider "${provider}" answered 404: check the model's name and models.providers.${provider}.baseUrl`,
      false,
    );
  if (typeof status === "number" && status >= 400 && status < 500 && status !== 408 && status !== 409) {
    return fail("provider_refused", `the provider "${provider}" answered ${status} to this request`, false);
  }
  if (typeof status === "number" && (status >= 500 || status === 408 || status === 409)) {
    const wait = retryAfter(headers, now);
    const down = fail("provider_unavailable", `the provider "${provider}" answered ${status}`, true);
    return wait === undefined ? down : { ...down, retryAfterMs: wait };
  }
  if (chain.some((part) => typeof part.code === "string" && NETWORK.test(part.code))) {
    return fail(
      "provider_unavailable",
      `the provider "${provider}" could not be reached; check models.providers.${provider}.baseUrl`,
      true,
    );
  }
  return fail("provider_error", `the provider "${provider}" did not give a complete answer in its wire format`, true);
}
