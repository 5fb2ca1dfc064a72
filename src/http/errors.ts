import type { IncomingMessage } from "node:http";
import { clientAddress, createAddressList } from "../core/address.ts";
import type { Logger } from "../core/log.ts";
import type { Context } from "hono";
import { newId } from "../core/ids.ts";
import { getStatus, safeError, RouseError, type ErrorCode, type Failure } from "../core/errors.ts";

/** Answers that turn a request away. A 409 or a 5xx other than 503 says something of the work, not of the request. */
const REJECTED = new Set([400, 401, 403, 404, 405, 408, 413, 415, 429, 503]);
/** Lines a second for each reason. */
const MAX_LINES = 10;
const SECOND_MS = 1000;
const MAX_PATH = 200;

const reasons = new WeakMap<Response, string>();

/** Keeps an answer's error code for the log. Returns the answer. */
export function withReason(response: Response, reason: string): Response {
  reasons.set(response, reason);
  return response;
}

/** The lines of one reason in the second that runs. */
interface Window {
  lines: number;
  more: number;
  timer: NodeJS.Timeout;
}

export interface Rejections {
  /** Looks at an answer on its way out, and logs it if it rejects the request. */
  see(request: Request, env: object | undefined, response: Response): Response;
  /** Logs what was counted and ends. */
  close(): void;
}

/** What follows the id of a plugin's address may be a secret of the sender. */
function shownPath(url: string): string {
  const { pathname } = new URL(url);
  return pathname.replace(/^(\/channels\/[^/]+\/).+$/, "$1…").slice(0, MAX_PATH);
}

/**
 * Logs each rejected request in one line: path, status, reason and address; never a body, a header or the query. Of each
 * reason at most 10 lines a second, then a line that says how many more there were.
 * @param trustedProxies `gateway.trustedProxies` of the current snapshot.
 */
export function createRejections({ log, trustedProxies }: { log: Logger; trustedProxies(): readonly string[] }): Rejections {
  const windows = new Map<string, Window>();

  const end = (reason: string): void => {
    const window = windows.get(reason);
    windows.delete(reason);
    clearTimeout(window?.timer);
    if (window && window.more > 0) log.info({ reason, count: window.more }, `… and ${window.more} more like it`);
  };

  /** True if there is room for a line in this second. */
  const takeLine = (reason: string): boolean => {
    let window = windows.get(reason);
    if (!window) {
      window = { lines: 0, more: 0, timer: setTimeout(() => end(reason), SECOND_MS).unref() };
      windows.set(reason, window);
    }
    if (window.lines === MAX_LINES) window.more++;
    else window.lines++;
    return window.more === 0;
  };

  return {
    see(request, env, response) {
      if (response.status < 400 || !REJECTED.has(response.status)) return response;
      const path = shownPath(request.url);
      // A probe's 503 is news about the gateway.
      if (path === "/readyz") return response;
      const reason = reasons.get(response) ?? `status_${response.status}`;
      if (!takeLine(reason)) return response;
      const { incoming } = (env ?? {}) as { incoming?: IncomingMessage };
      const peer = incoming?.socket.remoteAddress ?? "127.0.0.1";
      const address = clientAddress(peer, request.headers.get("x-forwarded-for") ?? undefined, createAddressList(trustedProxies()).list);
      log.info({ method: request.method, path, status: response.status, reason, address }, "a request was rejected");
      return response;
    },
    close() {
      for (const reason of windows.keys()) end(reason);
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

/** Answers with a failure: JSON, `x-request-id`, and `Retry-After` where the failure names a time. */
export function failureResponse(c: Context, failure: Failure, requestId: string, headers?: Record<string, string>): Response {
  const all: Record<string, string> = { "content-type": "application/json", "x-request-id": requestId, ...headers };
  if (failure.retryAfterSeconds !== undefined) all["retry-after"] = String(Math.max(1, Math.ceil(failure.retryAfterSeconds)));
  const body = JSON.stringify(errorBody(failure, requestId));
  return withReason(c.body(body, { status: getStatus(failure.code) as 400, headers: all }), publicCode(failure.code));
}

/** Hono's error handler: an unexpected error becomes `internal`, with a log line that quotes no data. */
export function createErrorHandler(log: Logger) {
  return (error: unknown, c: Context): Response => {
    const requestId = newId("req");
    if (error instanceof RouseError) return failureResponse(c, error, requestId);
    log.error({ err: safeError(error), requestId }, "a request failed unexpectedly");
    return failureResponse(c, { code: "internal", message: "something failed inside the gateway; its log has the request id" }, requestId);
  };
}
