import type { RunErrorCode } from "../core/errors.ts";
import { isRecord } from "../core/json.ts";
import { getHeaderWait } from "../core/http/retry-after.ts";
import type { NamedProvider, PausedTurn, TurnResult } from "./types.ts";
import { cutText, oneLine } from "../core/text.ts";
import type { VendorError } from "../store/types.ts";

/** The parts of a provider's error that the operator and the caller may see. */

const MAX_MESSAGE = 500;
/** Longer messages are cut before they are searched for secrets and quotations. */
const MAX_READ = 2000;
/** The number of characters in common with the prompt that counts as a quotation. */
const QUOTED = 16;
const REDACTED = "[redacted]";

/** The fields that errors of the `ai` package have in common. All of them are data from outside. */
export interface CallError {
  statusCode?: unknown;
  responseHeaders?: unknown;
  responseBody?: unknown;
  requestBodyValues?: unknown;
  data?: unknown;
  cause?: unknown;
  code?: unknown;
  type?: unknown;
  message?: unknown;
  lastError?: unknown;
}

/** The contents of a provider's error as received: neither cut nor redacted. */
interface RawVendorError {
  status?: number;
  codes: string[];
  message: string;
  param?: string;
  details: readonly unknown[];
}

type Fields = Record<string, unknown>;

function parseJson(text: unknown): unknown {
  if (typeof text !== "string") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Finds the error object of a body: vendors nest it in `error`, put it into a list, or send it without nesting. */
function findErrorObject(body: unknown): Fields | undefined {
  const first: unknown = Array.isArray(body) ? body[0] : body;
  if (!isRecord(first)) return undefined;
  if (isRecord(first["error"])) return first["error"];
  if (typeof first["error"] === "string") return { ...first, message: first["error"] };
  const listed: unknown = [first["errors"]].flat()[0];
  if (isRecord(listed) && first["message"] === undefined) return listed;
  return isRecord(first["response"]) ? findErrorObject(first["response"]) : first;
}

/** Returns whether a status says that the request was carried out: then it says nothing of the error. */
const isSuccess = (status: unknown): boolean =>
  typeof status === "number" && status >= 200 && status < 300;

const toText = (value: unknown): string => (typeof value === "string" ? value : "");

/** Returns the words of an error. FastAPI lists what is wrong with each field, in `detail`; some put that into `message`. */
function getWords(value: unknown): string {
  const told = isRecord(value) ? value["detail"] : value;
  if (typeof told === "string") return told;
  return (Array.isArray(told) ? told.filter(isRecord) : [])
    .map(({ loc, msg }) =>
      [[loc ?? []].flat().map(String).join("."), toText(msg)].filter(Boolean).join(": "),
    )
    .join("; ");
}

const toStatus = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isInteger(value) && value >= 400 && value < 600
    ? value
    : undefined;

/** Reads the errors of a call, outermost first. */
export function readVendorError(chain: readonly CallError[]): RawVendorError {
  const bodies = chain.flatMap(({ data, responseBody }) => [data, parseJson(responseBody)]);
  // An error within a stream is passed on as received, without an error class.
  const plain = chain.filter((part) => !(part instanceof Error));
  const found =
    [...bodies, ...plain].map(findErrorObject).find((fields) => fields !== undefined) ?? {};
  const { code, type, status, param, message, detail, details } = found;
  // Some vendors name the parameter at the beginning of the message.
  const named =
    type === "invalid_request_error" ? /^([a-z_]{3,40}): /.exec(toText(message))?.[1] : undefined;
  const told =
    chain
      .map(({ statusCode }) => statusCode)
      .find((value) => typeof value === "number" && !isSuccess(value)) ?? toStatus(code);
  return {
    ...(typeof told === "number" && { status: told }),
    codes: [code, status, type].filter(
      (value): value is string => typeof value === "string" && value !== "",
    ),
    message: getWords(message) || getWords(detail),
    ...(typeof param === "string" && param !== ""
      ? { param }
      : named !== undefined && { param: named }),
    details: Array.isArray(details) ? details : [],
  };
}

/** The texts that a request carried to the model. */
function getPromptText(request: unknown): string {
  const texts: string[] = [];
  const collect = (value: unknown): void => {
    if (typeof value === "string") texts.push(oneLine(value));
    else if (typeof value === "object" && value !== null) Object.values(value).forEach(collect);
  };
  if (isRecord(request))
    for (const name of [
      "messages",
      "input",
      "contents",
      "system",
      "systemInstruction",
      "instructions",
      "prompt",
    ])
      collect(request[name]);
  return texts.join("\n");
}

/** Removes the parts of the message that quote the prompt. */
function withoutQuotes(message: string, prompt: string): string {
  let kept = "";
  let at = 0;
  while (at < message.length) {
    let end = at + QUOTED;
    if (end > message.length || !prompt.includes(message.slice(at, end))) {
      kept += message[at++];
      continue;
    }
    while (end < message.length && prompt.includes(message.slice(at, end + 1))) end++;
    kept += "[…]";
    at = end;
  }
  return kept;
}

/** Matches keys by their usual prefixes, keys that the vendor has masked, and long runs of letters and digits. */
const CREDENTIAL =
  /\b(?:sk|pk|rk|gsk|xai|key|api|AIza|ya29|eyJ|Bearer|Basic)[-_. ]?[\w*.-]{12,}|[\w-]*\*{3,}[\w*-]*|\b(?=[\w+=-]*\d)(?=[\w+=-]*[A-Za-z])[\w+=-]{32,}/g;
const CODE = /^[\w.-]{1,64}$/;
const PARAM = /^[\w.[\]-]{1,100}$/;

/**
 * Returns the parts of a provider's error that may be kept: status, code, parameter and message, never a credential, a
 * configured secret or a quotation of the prompt. The message is left out if the request that it may quote is unknown.
 */
function toVendorError(
  raw: RawVendorError,
  chain: readonly CallError[],
  secrets: readonly string[],
): VendorError | undefined {
  const { status, codes, param } = raw;
  const code = codes.find((text) => CODE.test(text));
  const request = chain
    .map(({ requestBodyValues }) => requestBodyValues)
    .find((value) => value !== undefined);
  let message = request === undefined ? "" : oneLine(cutText(raw.message, MAX_READ).text);
  for (const secret of secrets)
    if (secret.length >= 4) message = message.replaceAll(secret, REDACTED);
  message = cutText(
    withoutQuotes(message.replace(CREDENTIAL, REDACTED), getPromptText(request)),
    MAX_MESSAGE,
  ).text;
  const vendor: VendorError = {
    ...(status !== undefined && { status }),
    ...(code !== undefined && { code }),
    ...(message !== "" && { message }),
    ...(param !== undefined && PARAM.test(param) && { param }),
  };
  return Object.keys(vendor).length > 0 ? vendor : undefined;
}

export type TurnFailure = Exclude<Extract<TurnResult, { ok: false }>, PausedTurn>;

/** The reason that a model gave no answer. */
export type ModelFailure = Omit<TurnFailure, "warnings">;

/** Thrown within a model call that ends without an error and without an answer: withheld by a content filter, empty, cut off, or not asked for. */
export class NoAnswerError extends Error {
  readonly reason: "withheld" | "empty" | "cut" | "too_long";

  constructor(reason: "withheld" | "empty" | "cut" | "too_long") {
    super(`no answer: ${reason}`);
    this.name = "NoAnswerError";
    this.reason = reason;
  }
}

/** The errors inside an error, outermost first. */
function getCauseChain(error: unknown): CallError[] {
  const chain: CallError[] = [];
  let next: unknown = typeof error === "string" ? { message: error } : error;
  while (typeof next === "object" && next !== null && chain.length < 6) {
    const current = next as CallError;
    chain.push(current);
    next = current.lastError ?? current.cause;
  }
  return chain;
}

/** The wait that the body of an answer asks for (`retryDelay` of its details), in milliseconds. */
function getBodyWait({ details }: RawVendorError): number | undefined {
  const delays = details.map((detail) => (detail as { retryDelay?: unknown } | null)?.retryDelay);
  const found = delays
    .flatMap((delay) => /^(\d+(?:\.\d+)?)s$/.exec(typeof delay === "string" ? delay : "") ?? [])
    .at(1);
  return found === undefined ? undefined : Number(found) * 1000;
}

const NETWORK = /^(?:E[A-Z]{3,}|UND_ERR_[A-Z_]+)$/;
/** Codes by which vendors name the kind of an error whatever the status: errors within a stream have none. */
const TOO_LONG_CODES =
  /^(?:context_length_exceeded|context_window_exceeded|exceed_context_size_error|model_max_prompt_tokens_exceeded)$/;
const TOO_LONG =
  /maximum (?:context|prompt|model|allowed input) length|context (?:length|window|size|limit)|prompt (?:is too long|exceeds|token count)|input token count|too many (?:input )?tokens|model token limit|range of input length|`inputs` (?:tokens|must have)|input (?:is|text is) too long/i;
/** A request with more tokens than the account may use in a minute never succeeds, whatever its status says. */
const OVER_LIMIT = /request too large for/i;
const NO_KEY_CODES = /^(?:invalid_api_key|authentication_error|API_KEY_INVALID|UNAUTHENTICATED)$/;
const NO_CREDIT_CODES =
  /^(?:insufficient_quota|exceeded_current_quota_error|billing_error|billing_hard_limit_reached)$/;
const LIMIT_CODES = /^(?:rate_limit_exceeded|rate_limit_error|RESOURCE_EXHAUSTED)$/;
const DOWN_CODES =
  /^(?:overloaded_error|api_error|server_error|internal_server_error|service_unavailable|UNAVAILABLE|INTERNAL)$/;
/** A model's call or answer that its provider could not read: the next one may be another. */
const UNREAD_CODES = /^(?:tool_use_failed|output_parse_failed|json_validate_failed)$/;

/** Returns whether a text is the beginning of a JSON object or array whose end is missing. */
function isUnfinishedJson(text: string): boolean {
  if (!/^\s*[[{]/.test(text)) return false;
  let depth = 0;
  let isString = false;
  for (let at = 0; at < text.length; at++) {
    const char = text[at] as string;
    if (isString && char === "\\") at++;
    else if (char === '"') isString = !isString;
    else if (!isString && "[{".includes(char)) depth++;
    else if (!isString && "]}".includes(char)) depth--;
  }
  return depth > 0;
}

/** `fetch` throws this if the connection ends while a body is read. */
const isTerminated = (part: CallError): boolean =>
  part instanceof TypeError && part.message === "terminated";

/** The client of chat completions reports this for a stream that ends without a finish reason. */
const NO_FINISH = /ended without a finish reason/;
const isWithoutEnd = ({ message }: CallError): boolean =>
  typeof message === "string" && NO_FINISH.test(message);

/** Returns whether the provider began an answer whose end did not arrive. */
function isCut(chain: readonly CallError[]): boolean {
  if (chain.some((part) => isTerminated(part) || isWithoutEnd(part))) return true;
  // An answer whose body is absent could not be read to its end.
  return chain.some(
    ({ statusCode, responseBody }) =>
      isSuccess(statusCode) &&
      (responseBody === undefined ||
        (typeof responseBody === "string" && isUnfinishedJson(responseBody))),
  );
}

const isDown = (status: number): boolean => status >= 500 || status === 408 || status === 409;

const hasCode = ({ codes }: RawVendorError, pattern: RegExp): boolean =>
  codes.some((code) => pattern.test(code));
const isKeyProblem = ({ details }: RawVendorError): boolean =>
  details.some((detail) => (detail as { reason?: unknown } | null)?.reason === "API_KEY_INVALID");

function isTooLong(raw: RawVendorError): boolean {
  if (hasCode(raw, TOO_LONG_CODES) || raw.status === 413) return true;
  return raw.status !== 429 && TOO_LONG.test(raw.message);
}

/** The kind of a failure, what the operator can do about it, and whether the same request may succeed later. */
interface Kind {
  code: RunErrorCode;
  why: string;
  retryable: boolean;
}

/** Sorts an error by the vendor's codes, then by its status. Undefined if it has neither. */
function sortVendorError(raw: RawVendorError, name: string): Kind | undefined {
  const { status } = raw;
  const answered = status === undefined ? "reported an error" : `answered ${status}`;
  const refused = (why: string): Kind => ({
    code: "provider_refused",
    why: `${answered}: ${why}`,
    retryable: false,
  });
  if (OVER_LIMIT.test(raw.message)) return refused("this request alone is over its rate limit");
  if (isTooLong(raw))
    return {
      code: "context_too_long",
      why: `${answered}: the input is longer than the model's window`,
      retryable: false,
    };
  if (status === 401 || status === 403 || hasCode(raw, NO_KEY_CODES) || isKeyProblem(raw))
    return refused(`check models.providers.${name}.apiKey`);
  if (status === 402 || hasCode(raw, NO_CREDIT_CODES))
    return refused("the account has no credit or quota left");
  if (status === 404) return refused(`check the model's name and models.providers.${name}.baseUrl`);
  if (status === undefined ? hasCode(raw, LIMIT_CODES) : status === 429)
    return { code: "rate_limited", why: `${answered}: its rate limit is reached`, retryable: true };
  if (status === undefined ? hasCode(raw, DOWN_CODES) : isDown(status))
    return { code: "provider_unavailable", why: answered, retryable: true };
  if (hasCode(raw, UNREAD_CODES))
    return {
      code: "provider_error",
      why: `${answered}: it could not read what its model wrote`,
      retryable: true,
    };
  return (status ?? 0) < 400
    ? undefined
    : { code: "provider_refused", why: `${answered} to this request`, retryable: false };
}

const NO_ANSWER: Record<NoAnswerError["reason"], Kind> = {
  withheld: {
    code: "provider_refused",
    why: "withheld its answer (content filter)",
    retryable: false,
  },
  empty: { code: "provider_error", why: "gave no answer", retryable: true },
  too_long: {
    code: "context_too_long",
    why: "was not asked: the input is longer than the model's window",
    retryable: false,
  },
  cut: {
    code: "provider_unavailable",
    why: "ended the connection before its answer was complete",
    retryable: true,
  },
};

function sortFailure(
  error: unknown,
  chain: readonly CallError[],
  raw: RawVendorError,
  name: string,
): Kind {
  if (error instanceof NoAnswerError) return NO_ANSWER[error.reason];
  const found = sortVendorError(raw, name);
  if (found) return found;
  if (isCut(chain)) return NO_ANSWER.cut;
  if (chain.some(({ code }) => typeof code === "string" && NETWORK.test(code)))
    return {
      code: "provider_unavailable",
      why: `could not be reached; check models.providers.${name}.baseUrl`,
      retryable: true,
    };
  return {
    code: "provider_error",
    why:
      raw.message !== "" || raw.codes.length > 0
        ? "reported an error"
        : "did not give a complete answer in its wire format",
    retryable: true,
  };
}

/**
 * Sorts what a model call threw. `message` is Rouse's own sentence; `vendor` has the provider's code and message, without
 * credentials, the provider's configured secrets and quotations of the prompt.
 */
export function classifyFailure(
  error: unknown,
  provider: Pick<NamedProvider, "settings">,
  now: number,
): ModelFailure {
  const { name, apiKey, headers } = provider.settings;
  const chain = getCauseChain(error);
  const raw = readVendorError(chain);
  const { code, why, retryable } = sortFailure(error, chain, raw, name);
  const answer = chain.find((part) => part.responseHeaders !== undefined);
  const wait = retryable
    ? (getHeaderWait(answer?.responseHeaders, now) ?? getBodyWait(raw))
    : undefined;
  const vendor = toVendorError(raw, chain, [
    ...(apiKey === undefined ? [] : [apiKey]),
    ...Object.values(headers),
  ]);
  return {
    ok: false,
    code,
    message: `the provider "${name}" ${why}`,
    provider: name,
    retryable,
    ...(wait === undefined ? {} : { retryAfterMs: wait }),
    ...(vendor === undefined ? {} : { vendor }),
  };
}
