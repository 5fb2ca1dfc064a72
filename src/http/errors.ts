import type { Context } from "hono";
import { newId } from "../core/ids.ts";
import { safeError, RouseError, type ErrorCode, type Failure } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { withReason } from "./rejections.ts";

/** The status of every code: the only place that decides it. */
export const STATUS: Record<ErrorCode, number> = {
  unauthorized: 401,
  address_not_allowed: 403,
  rate_limited: 429,
  not_found: 404,
  no_mapping: 404,
  method_not_allowed: 405,
  body_timeout: 408,
  body_too_large: 413,
  too_many_actions: 413,
  unsupported_media_type: 415,
  invalid_json: 400,
  invalid_body: 400,
  validation_failed: 400,
  unknown_agent: 400,
  agent_not_allowed: 400,
  unknown_channel: 400,
  invalid_recipient: 400,
  unknown_model: 400,
  model_not_allowed: 400,
  session_key_not_allowed: 400,
  mapping_incomplete: 400,
  idempotency_conflict: 409,
  duplicate_document: 409,
  no_route: 409,
  document_shared: 403,
  external_id_taken: 409,
  transform_failed: 500,
  mapping_failed: 500,
  internal: 500,
  overloaded: 503,
  draining: 503,
  store_unavailable: 503,
  config_invalid: 400,
  store_locked: 503,
  usage: 400,
};

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
  return withReason(c.body(body, { status: STATUS[failure.code] as 400, headers: all }), publicCode(failure.code));
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
