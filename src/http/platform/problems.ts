import type { ChatEnd } from "../../chat/types.ts";
import { getStatus, renderChallenge, type ErrorCode, type Failure } from "../../core/errors.ts";
import { getPhrases } from "../../core/phrases.ts";
import { withReason } from "../errors.ts";

/** A failure as this interface tells it: all four members of its error object, and a status. */
export interface ApiProblem {
  status: number;
  type: string;
  code: string;
  param: string | null;
  message: string;
  retryAfterSeconds?: number;
  /** False if the official client must not send the request again by itself. */
  shouldRetry?: false;
  /** Further headers, such as `allow`. */
  headers?: Record<string, string>;
}

/** Ends a request with a problem: the app answers it. */
export class ProblemError extends Error {
  readonly problem: ApiProblem;

  constructor(problem: ApiProblem) {
    super(problem.message);
    this.name = "ProblemError";
    this.problem = problem;
  }
}

/** The error object of every answer that is not 2xx, and of a stream that breaks off. */
export function errorObject({ message, type, param, code }: ApiProblem): {
  error: { message: string; type: string; param: string | null; code: string };
} {
  return { error: { message, type, param, code } };
}

/** Something in the request that its sender has to change. */
export function badRequest(
  param: string | null,
  message: string,
  code = "invalid_value",
): ApiProblem {
  return { status: 400, type: "invalid_request_error", code, param, message };
}

const TYPES: Record<number, string> = {
  401: "authentication_error",
  403: "permission_error",
  429: "rate_limit_error",
  500: "server_error",
  503: "server_error",
};

const CODES: Partial<Record<ErrorCode, string>> = {
  unauthorized: "invalid_api_key",
  rate_limited: "rate_limit_exceeded",
};

/** A failure of the rest of the program in this interface's words. */
export function toProblem(failure: Failure): ApiProblem {
  const status = getStatus(failure.code);
  const problem: ApiProblem = {
    status,
    type: TYPES[status] ?? "invalid_request_error",
    code: CODES[failure.code] ?? failure.code,
    param: failure.issues?.[0]?.path ?? null,
    message: failure.message,
  };
  if (failure.retryAfterSeconds !== undefined)
    problem.retryAfterSeconds = failure.retryAfterSeconds;
  const challenge = renderChallenge(failure);
  if (challenge !== undefined) problem.headers = { "www-authenticate": challenge };
  return problem;
}

/** Fields of a request that reach the model as the caller sent them. */
const PASSED_ON =
  /^(?:temperature|top_p|max_tokens|max_completion_tokens|max_output_tokens|presence_penalty|frequency_penalty|stop|seed|tool_choice|response_format)\b/;

type FailedEnd = Extract<ChatEnd, { ok: false }>;

const UPSTREAM = { status: 502, type: "upstream_error", code: "upstream_error" };

type KnownProblem = Partial<ApiProblem> & Pick<ApiProblem, "status" | "type" | "code">;

/** The provider's rejection of a value that the caller sent; undefined if the caller cannot change what was wrong. */
function getWrongField({ code, vendor }: FailedEnd): KnownProblem | undefined {
  if (code !== "provider_refused" || vendor?.param === undefined || !PASSED_ON.test(vendor.param))
    return undefined;
  return {
    status: 400,
    type: "invalid_request_error",
    code: vendor.code ?? "invalid_value",
    param: vendor.param,
    message: `the model does not take this value of ${vendor.param}`,
  };
}

/** What went wrong, by the code of the failed turn. */
function getKnown(end: FailedEnd, field: string): KnownProblem | undefined {
  switch (end.code) {
    case "context_too_long":
      return {
        status: 400,
        type: "invalid_request_error",
        code: "context_length_exceeded",
        param: field,
        message:
          "the conversation is longer than the model can read: send fewer or shorter messages",
      };
    case "timeout":
      return { status: 504, type: "timeout", code: "timeout", message: end.message };
    case "cancelled":
      return { status: 503, type: "server_error", code: "cancelled", message: end.message };
    case "rate_limited":
      return {
        status: 429,
        type: "rate_limit_error",
        code: "rate_limit_exceeded",
        message: "I am asked too often right now. Please try again later.",
      };
    case "provider_unavailable":
      return { status: 503, type: "server_error", code: "provider_unavailable" };
    case "store_unavailable":
      return { status: 503, type: "server_error", code: "store_unavailable" };
    case "internal":
      return { status: 500, type: "server_error", code: "internal" };
    default:
      return undefined;
  }
}

/**
 * Builds the error of a turn that failed. The turn has begun: the agent's tools may have changed something, and an
 * automatic repeat by the client would change it again. People read its message in their front ends: what a provider has
 * said, and what the operator has to change, is in the run, the log and `rouse doctor`.
 * @param field the field of the request that has the conversation
 */
export function turnProblem(end: FailedEnd, field: string): ApiProblem {
  const problem: ApiProblem = {
    param: null,
    message: getPhrases().apology,
    ...(getKnown(end, field) ?? getWrongField(end) ?? UPSTREAM),
    shouldRetry: false,
  };
  if (end.retryAfterMs !== undefined) problem.retryAfterSeconds = end.retryAfterMs / 1000;
  else if (problem.status === 503 || problem.status === 429) problem.retryAfterSeconds = 5;
  return problem;
}

/** The error of a turn whose stream has begun: a wait does not help, since what was said is not said again. */
export function streamProblem(end: FailedEnd, field: string): ApiProblem {
  const problem = turnProblem(end, field);
  return problem.code === "provider_unavailable" ? { ...problem, ...UPSTREAM } : problem;
}

/** An answer with an error object. */
export function problemResponse(problem: ApiProblem, requestId: string): Response {
  const headers: Record<string, string> = {
    "content-type": "application/json",
    "x-request-id": requestId,
    ...problem.headers,
  };
  if (problem.retryAfterSeconds !== undefined)
    headers["retry-after"] = String(Math.max(1, Math.ceil(problem.retryAfterSeconds)));
  if (problem.shouldRetry === false) headers["x-should-retry"] = "false";
  return withReason(
    new Response(JSON.stringify(errorObject(problem)), { status: problem.status, headers }),
    problem.code,
  );
}
