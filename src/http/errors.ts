import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Stopwatch } from "../core/clock.ts";
import type { Logger } from "../core/log.ts";
import { newId } from "../core/ids.ts";
import { getStatus, safeError, RouseError, type ErrorCode, type Failure } from "../core/errors.ts";
import { createRateLimiter } from "../intake/callers.ts";
import type { Snapshot } from "../intake/types.ts";
import { getReason, resolveCaller, toResponse, type HttpAnswer } from "./transport.ts";

/** Answers that turn a request away. A 409 or a 5xx other than 503 says something of the work, not of the request. */
const REJECTED = new Set([400, 401, 403, 404, 405, 408, 413, 415, 429, 503]);
/** Lines of each reason in the log. */
const MAX_LINES = { requests: 10, per: 1000 };
const MAX_PATH = 200;

/**
 * The path without the part behind the id of a plugin, which may be a secret of the sender. No URL parser reads it: that
 * refuses hosts that clients name, such as `rouse.1`.
 */
function shownPath(url: string): string {
  const [, path = "/"] = /^[^/]*\/\/[^/]*([^?#]*)/.exec(url) ?? [];
  return path.replace(/^(\/+channels\/+[^/]+\/).+$/, "$1…").slice(0, MAX_PATH);
}

/**
 * Logs each rejected request in one line: path, status, reason and address; never a body, a header or the query. Of each
 * reason at most 10 lines a second.
 * @param snapshot whose `gateway.trustedProxies` says which addresses are those of proxies
 */
export function createRejections({
  clock,
  log,
  snapshot,
}: {
  clock: Stopwatch;
  log: Logger;
  snapshot(): Snapshot;
}) {
  const lines = createRateLimiter(clock);
  return {
    /** Logs an answer if its status rejects the request. */
    see(request: Request, env: object | undefined, response: Response): void {
      const { status } = response;
      if (!REJECTED.has(status)) return;
      const { incoming } = (env ?? {}) as { incoming?: IncomingMessage };
      // Reading the headers of a `Request` builds it, which fails for a host that no URL has.
      const { method = "", url = "" } = incoming ?? request;
      const path = shownPath(url.startsWith("/") ? `//${url}` : url);
      // A probe's 503 is news about the gateway.
      if (path === "/readyz") return;
      const reason = getReason(response) ?? `status_${status}`;
      if (lines.take(reason, MAX_LINES)) return;
      const forwarded = incoming
        ? incoming.headers["x-forwarded-for"]
        : request.headers.get("x-forwarded-for");
      // A request that was destroyed has no socket any more.
      const peer = (incoming?.socket as Socket | null | undefined)?.remoteAddress;
      const { address } = resolveCaller(peer, forwarded?.toString(), snapshot());
      log.info({ method, path, status, reason, address }, "a request was rejected");
    },
  };
}

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

/** The headers of every answer with an error, whatever the form of its body. */
export function errorHeaders(
  requestId: string,
  status: number,
  { challenge = "Bearer", retryAfterSeconds }: Pick<Failure, "challenge" | "retryAfterSeconds">,
): Record<string, string> {
  const charset = challenge === "Basic" ? ', charset="UTF-8"' : "";
  return {
    "content-type": "application/json",
    "x-request-id": requestId,
    // Each answer 401 must have it.
    ...(status === 401 && { "www-authenticate": `${challenge} realm="rouse"${charset}` }),
    ...(retryAfterSeconds !== undefined && {
      "retry-after": String(Math.max(1, Math.ceil(retryAfterSeconds))),
    }),
  };
}

/** The answer to a failure, with the body of every error of the hooks interface. */
export function renderFailureAnswer(
  failure: Failure,
  requestId: string,
  headers?: Record<string, string>,
): HttpAnswer {
  const status = getStatus(failure.code);
  return {
    status,
    headers: { ...errorHeaders(requestId, status, failure), ...headers },
    body: errorBody(failure, requestId),
    reason: publicCode(failure.code),
  };
}

/** Answers with a failure. */
export function failureResponse(failure: Failure, headers?: Record<string, string>): Response {
  return toResponse(renderFailureAnswer(failure, newId("req"), headers));
}

/** The answer of an address that there is not. */
export const notFound = (): Response =>
  failureResponse({ code: "not_found", message: "there is nothing at this address" });

/** The failure that an unexpected error is to its caller. The log has a line that quotes no data. */
export function logUnexpected(
  error: unknown,
  log: Logger,
  details: { requestId: string },
): Failure {
  log.error({ err: safeError(error), ...details }, "a request failed unexpectedly");
  return {
    code: "internal",
    message: "something failed inside the gateway; its log has the request id",
  };
}

/** The answer to an error that was thrown. */
export function renderThrown(error: unknown, log: Logger): HttpAnswer {
  const requestId = newId("req");
  const failure = error instanceof RouseError ? error : logUnexpected(error, log, { requestId });
  return renderFailureAnswer(failure, requestId);
}

/** Creates Hono's error handler. */
export const createErrorHandler =
  (log: Logger) =>
  (error: unknown): Response =>
    toResponse(renderThrown(error, log));
