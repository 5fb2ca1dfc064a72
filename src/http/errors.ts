import type { Context } from "hono";
import { newId } from "../core/ids.ts";
import { getStatus, safeError, RouseError, type ErrorCode, type Failure } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { withReason } from "./rejections.ts";

/** The contract's codes name what the caller sees; two codes of ours are finer than that. */
function publicCode(code: ErrorCode): ErrorCode {
  return code === "too_many_actions" ? "body_too_large" : code;
}

export interface ErrorBody {
  ok: false;
  error: { code: ErrorCode; message: string; issues?: Failure["issues"] };
  requestId: string;
}

/** The answer's body for a failure, in the shape of every error of the hooks interface. */
export function errorBody(failure: Failure, requestId: string): ErrorBody {
  const error: ErrorBody["error"] = { code: publicCode(failure.code), message: failure.message };
  if (failure.issues && failure.issues.length > 0) error.issues = failure.issues;
  return { ok: false, error: Object.assign(error, failure.extra), requestId };
}

/** Answers with a failure: JSON, `x-request-id`, and `Retry-After` where the failure names a time. */
export function failureResponse(c: Context, failure: Failure, requestId: string, headers?: Record<string, string>): Response {
  const all: Record<string, string> = { "content-type": "application/json", "x-request-id": requestId, ...headers };
  if (failure.retryAfterSeconds !== undefined) all["retry-after"] = String(Math.max(1, Math.ceil(failure.retryAfterSeconds)));
  const body = JSON.stringify(errorBody(failure, requestId));
  return withReason(c.body(body, { status: getStatus(failure.code) as 400, headers: all }), publicCode(failure.code));
}

/** Hono's error handler: what nobody expected becomes `internal`, with a log line that quotes nothing. */
export function createErrorHandler(log: Logger) {
  return (error: unknown, c: Context): Response => {
    const requestId = newId("req");
    if (error instanceof RouseError) return failureResponse(c, error, requestId);
    log.error({ err: safeError(error), requestId }, "a request failed unexpectedly");
    return failureResponse(c, { code: "internal", message: "something failed inside the gateway; its log has the request id" }, requestId);
  };
}
