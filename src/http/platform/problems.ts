import type { ChatEnd } from "../../chat/types.ts";
import { getStatus, RouseError, type ErrorCode, type Failure } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import { renderPhrase } from "../../vocabulary/phrases.ts";
import { errorHeaders, logUnexpected } from "../errors.ts";
import { withReason } from "../transport.ts";

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
export const errorObject = ({ message, type, param, code }: ApiProblem) => ({
  error: { message, type, param, code },
});

/** Something in the request that its sender has to change. */
export const badRequest = (
  param: string | null,
  message: string,
  code = "invalid_value",
): ProblemError =>
  new ProblemError({ status: 400, type: "invalid_request_error", code, param, message });

/** Something that the key or the page of a request may not do. */
export const forbidden = (code: string, message: string): ProblemError =>
  new ProblemError({ status: 403, type: "permission_error", code, param: null, message });

/** A thing that a request names and that its key does not have. */
export const notThere = (code: string, param: string, message: string): ProblemError =>
  new ProblemError({ status: 404, type: "invalid_request_error", code, param, message });

/** A model that a key cannot use, or that does not exist. */
export const noSuchModel = (): ProblemError =>
  notThere(
    "model_not_found",
    "model",
    "there is no such model for this key; `GET /v1/models` lists those there are",
  );

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
  const { retryAfterSeconds } = failure;
  return {
    status,
    type: TYPES[status] ?? "invalid_request_error",
    code: CODES[failure.code] ?? failure.code,
    param: failure.issues?.[0]?.path ?? null,
    message: failure.message,
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
  };
}

/** The problem that an error ends a request with. An unexpected one is logged. */
export function findProblem(
  error: unknown,
  log: Logger,
  details: { requestId: string; path: string },
): ApiProblem {
  if (error instanceof ProblemError) return error.problem;
  return toProblem(error instanceof RouseError ? error : logUnexpected(error, log, details));
}

/** Fields of a request that reach the model as the caller sent them. */
const PASSED_ON =
  /^(?:temperature|top_p|max_tokens|max_completion_tokens|max_output_tokens|presence_penalty|frequency_penalty|stop|seed|tool_choice|response_format)\b/;

type FailedEnd = Extract<ChatEnd, { ok: false }>;

const UPSTREAM = { status: 502, type: "upstream_error", code: "upstream_error" };

/** The parts of a problem that follow from the code of a failed turn. Without a message it is the agent's apology. */
const KNOWN: Partial<Record<FailedEnd["code"], Partial<ApiProblem>>> = {
  context_too_long: {
    status: 400,
    code: "context_length_exceeded",
    // Clients that shorten a conversation by themselves look for these words.
    message: "this model's maximum context length is exceeded: send fewer or shorter messages",
  },
  timeout: { status: 504, type: "timeout" },
  cancelled: { status: 503 },
  rate_limited: {
    status: 429,
    code: "rate_limit_exceeded",
    message: "I am asked too often right now. Please try again later.",
  },
  provider_unavailable: { status: 503 },
  store_unavailable: { status: 503 },
  internal: { status: 500 },
};
/** The failures whose own words are for the caller. */
const TOLD: ReadonlySet<string> = new Set(["timeout", "cancelled"]);

/** Describes the failure of a turn in this interface's words. */
function getKnown({ code, message, vendor }: FailedEnd, field: string): Partial<ApiProblem> {
  const known = KNOWN[code];
  if (known)
    return {
      type: TYPES[known.status ?? 500] ?? "invalid_request_error",
      code,
      ...(TOLD.has(code) && { message }),
      ...(code === "context_too_long" && { param: field }),
      ...known,
    };
  // The provider's rejection of a value that the caller sent, and can change.
  if (code === "provider_refused" && vendor?.param !== undefined && PASSED_ON.test(vendor.param))
    return {
      status: 400,
      type: "invalid_request_error",
      code: vendor.code ?? "invalid_value",
      param: vendor.param,
      message: `the model does not take this value of ${vendor.param}`,
    };
  return UPSTREAM;
}

/**
 * Builds the error of a turn that failed. The turn has begun: the agent's tools may have changed something, and an
 * automatic repeat by the client would change it again. People read its message in their front ends: what a provider has
 * said, and what the operator has to change, is in the run, the log and `rouse doctor`.
 * @param field the field of the request that has the conversation
 */
export function turnProblem(end: FailedEnd, field: string): ApiProblem {
  const problem: ApiProblem = {
    ...UPSTREAM,
    param: null,
    message: renderPhrase(undefined, "apology"),
    ...getKnown(end, field),
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
  const { status, code } = problem;
  const headers: Record<string, string> = {
    ...errorHeaders(requestId, status, problem),
    ...problem.headers,
    ...(problem.shouldRetry === false && { "x-should-retry": "false" }),
  };
  return withReason(new Response(JSON.stringify(errorObject(problem)), { status, headers }), code);
}
