import type { SendResult } from "../contract/channel.ts";
import { getHeaderWait } from "../core/http/retry-after.ts";
import { neverConnected, parseObject } from "./kit.ts";

/** An API that takes and gives JSON. */
export interface Rest extends ErrorRules {
  fetch: typeof fetch;
  /** The beginning of every address. */
  base: string;
  headers?: Readonly<Record<string, string>>;
  /** Behind every path, as a secret in the query. */
  query?: string;
  /** Reads the body of an error: the vendor's code, a wait if `Retry-After` names none, whether it may pass. */
  read?(body: unknown, response: Response): Omit<ErrorResponse, "status">;
}

/**
 * Calls an API: a GET, or with a body a POST of it as JSON, or as a form if it is one, or another method; a DELETE has no body. Returns the body of a 2xx, or undefined if it is not a
 * JSON object. Throws a `ChannelError` for any other status and the platform's error if the connection ended; neither quotes
 * an address or a body. Redirects are not followed: they would take the credential and the text along.
 */
export function createRest(
  rest: Rest,
): <T>(
  path: string,
  signal: AbortSignal,
  body?: object,
  headers?: Record<string, string>,
  method?: string,
) => Promise<T | undefined> {
  const { fetch, base, query = "", read } = rest;
  return async <T>(
    path: string,
    signal: AbortSignal,
    body?: object,
    headers: Record<string, string> = {},
    method = "POST",
  ) => {
    const isForm = body instanceof FormData;
    const content = body
      ? { method, body: isForm ? body : JSON.stringify(body) }
      : method === "DELETE" && { method };
    const response = await fetch(`${base.replace(/\/+$/, "")}/${path}${query}`, {
      ...content,
      headers: {
        ...(body && !isForm && { "content-type": "application/json" }),
        ...rest.headers,
        ...headers,
      },
      redirect: "manual",
      signal,
    });
    const answer = parseObject(await response.text());
    if (response.ok) return answer as T | undefined;
    const said = read?.(answer ?? {}, response);
    const failed = {
      ...said,
      afterMs: retryAfter(response.headers) ?? said?.afterMs,
      status: response.status,
    };
    throw new ChannelError(classifyResponse(rest, failed), failed);
  };
}

/** The result of a failed send. */
export type FailedSend = Exclude<SendResult, { status: "sent" }>;

/**
 * The meaning of an error of the vendor. A text alone means that it is final, and is advice on what to do. `reason`
 * replaces the whole message.
 */
export type ErrorRule = string | { status: FailedSend["status"]; advice?: string; reason?: string };

/** The same rule for several codes or statuses, for `errors`. */
export function sameRule(
  codes: readonly (string | number)[],
  rule: ErrorRule,
): Record<string, ErrorRule> {
  return Object.fromEntries(codes.map((code) => [code, rule]));
}

/** The classification and wording of a vendor's errors. */
export interface ErrorRules {
  /** The name of the vendor in reasons. */
  name: string;
  /** By the vendor's own code, or else by the status. Others: 408, 429 and from 500 on may pass, the rest is final. */
  errors?: Readonly<Record<string, ErrorRule>>;
  /** Renders the code if only it and the status are reported. Default: ` (code)`. */
  shown?(code: string): string;
  /** The wait where a 429 names none, in milliseconds. */
  defaultWaitMs?: number;
  /** Reads an error of the vendor's SDK, or returns the result of the send; undefined for any other error. */
  sort?(error: object): ErrorResponse | FailedSend | undefined;
}

/** An answer that is an error, as far as sorting needs it. */
export interface ErrorResponse {
  /** Of HTTP; none where the vendor tells errors in another way. */
  status?: number | undefined;
  /** The vendor's own code, if it has one as text; reported only if it looks like a code. */
  code?: unknown;
  /** The wait that the vendor asks for, in milliseconds. 0: none. */
  afterMs?: number | undefined;
  /** Overrules the tables. */
  passing?: boolean | undefined;
}

/** An error that says how the send that it ends is answered. Its message may be shown: no body, no credential. */
export class ChannelError extends Error {
  readonly failure: FailedSend;
  /** The vendor's answer, if there was one. */
  readonly response: ErrorResponse | undefined;

  constructor(failure: FailedSend | string, response?: ErrorResponse, options?: ErrorOptions) {
    const given: FailedSend =
      typeof failure === "string" ? { status: "retry", reason: failure } : failure;
    super(given.reason, options);
    this.failure = given;
    this.response = response;
  }
}

/** Longer waits are none, such as a time in seconds since 1970. */
const MAX_WAIT_MS = 1e9;

/** `Retry-After` in milliseconds, where it names a wait. A date counts from that of the response. */
export function retryAfter(headers: Headers): number | undefined {
  const sentAt = Date.parse(headers.get("date") ?? "");
  const ms = getHeaderWait(Object.fromEntries(headers), sentAt) ?? 0;
  return ms > 0 && ms < MAX_WAIT_MS ? ms : undefined;
}

type Rule = Exclude<ErrorRule, string>;

/** Looks a vendor's rule up: by the vendor's own code, or else by the status. */
function findRule(
  errors: Readonly<Record<string, ErrorRule>>,
  code: string | undefined,
  status: number | undefined,
): Rule | undefined {
  const known = [code ?? "", String(status)].find((key) => Object.hasOwn(errors, key));
  const found = known === undefined ? undefined : errors[known];
  return typeof found === "string" ? { status: "failed", advice: found } : found;
}

/** Returns how a send ended by the status alone. Without a status and a readable code the response is not the vendor's. */
function classifyStatus(status: number | undefined, hasCode: boolean): FailedSend["status"] {
  if (status === undefined) return hasCode ? "failed" : "unknown";
  return status === 408 || status === 429 || status >= 500 ? "retry" : "failed";
}

/** Words an error response for a reason. */
function renderReason(
  { name, shown = (code) => ` (${code})` }: ErrorRules,
  status: number | undefined,
  code: string | undefined,
): string {
  if (status === undefined) return `${name} answered ${code ?? "what is not its format"}`;
  return `${name} answered ${status}${code === undefined ? "" : shown(code)}`;
}

/** Classifies an error response. One without a status and a readable code is not the vendor's: the result is `unknown`. */
export function classifyResponse(
  vendor: ErrorRules,
  { status, code: given, afterMs, passing }: ErrorResponse,
): FailedSend {
  const { errors = {}, defaultWaitMs } = vendor;
  const code = typeof given === "string" ? given : undefined;
  const readable = code !== undefined && /^[\w.' -]{1,100}$/.test(code) ? code : undefined;
  const rule = findRule(errors, code, status);
  const byRule = rule?.status ?? classifyStatus(status, readable !== undefined);
  const result = passing === undefined ? byRule : passing ? "retry" : "failed";
  const advice = rule?.advice === undefined ? "" : `: ${rule.advice}`;
  const reason = rule?.reason ?? `${renderReason(vendor, status, readable)}${advice}`;
  const wait = afterMs || (status === 429 ? defaultWaitMs : undefined);
  return result === "retry" && wait !== undefined
    ? { status: result, reason, afterMs: wait }
    : { status: result, reason };
}

/** The code of an error of the network, however deep an SDK has wrapped it; nothing else of it, since messages quote addresses. */
export function networkCode(error: unknown): string | undefined {
  const {
    code,
    cause,
    original,
    error: inner,
  } = (typeof error === "object" && error !== null ? error : {}) as Record<string, unknown>;
  if (typeof code === "string" && /^[A-Z_0-9]{1,60}$/.test(code)) return code;
  const below = cause ?? original ?? inner;
  return below === undefined || below === error ? undefined : networkCode(below);
}

/** Classifies what a send threw: a `ChannelError`, an error of the vendor's SDK, or a network error by whether the message may have arrived. */
export function classifyError(vendor: ErrorRules, error: unknown): FailedSend {
  if (error instanceof ChannelError) return error.failure;
  const sorted = typeof error === "object" && error !== null ? vendor.sort?.(error) : undefined;
  if (sorted) return "reason" in sorted ? sorted : classifyResponse(vendor, sorted);
  const code = networkCode(error) ?? (error instanceof DOMException ? error.name : undefined);
  if (neverConnected(code ?? ""))
    return { status: "retry", reason: `${vendor.name} cannot be reached (${code})` };
  return {
    status: "unknown",
    reason: `the connection ended before ${vendor.name} answered${code === undefined ? "" : ` (${code})`}`,
  };
}

/**
 * Sends in two steps. What `prepare` does sends nothing, as finding out where a message goes: where it fails it may be
 * done again. Throws nothing.
 */
export async function sendAfter<T, R = SendResult>(
  vendor: ErrorRules,
  prepare: () => Promise<T> | T,
  send: (prepared: T) => Promise<R>,
): Promise<R | SendResult> {
  let prepared: T;
  try {
    prepared = await prepare();
  } catch (error) {
    const failure = classifyError(vendor, error);
    return failure.status === "unknown" ? { ...failure, status: "retry" } : failure;
  }
  return send(prepared).catch((error: unknown) => classifyError(vendor, error));
}

/** Ends a deletion well if the API says that what is to be deleted is not there. */
export function ignoreGone(error: unknown): undefined {
  if (!(error instanceof ChannelError) || error.response?.status !== 404) throw error;
}

const MISSING = new Set(["ERR_MODULE_NOT_FOUND", "MODULE_NOT_FOUND"]);

/** Loads a package that may not be there, as those of `optionalDependencies`. Throws a `ChannelError` that says what to install. */
export async function loadPackage<T>(
  name: string,
  load: () => Promise<T>,
  advice = `install ${name} (npm install ${name})`,
): Promise<T> {
  return load().catch((cause: unknown) => {
    const missing = MISSING.has((cause as { code?: string }).code ?? "");
    throw new ChannelError(
      {
        status: "failed",
        reason: missing
          ? advice
          : `${name} could not be loaded: install it again (npm install ${name})`,
      },
      undefined,
      { cause },
    );
  });
}
