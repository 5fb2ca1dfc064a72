/** The parts of a provider's error that the operator and the caller may see. */
import { cutText, oneLine } from "../core/text.ts";
import type { VendorError } from "../store/types.ts";

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
export interface RawVendorError {
  status?: number;
  codes: string[];
  message: string;
  param?: string;
  details: readonly unknown[];
}

type Fields = Record<string, unknown>;
const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

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
  if (!isFields(first)) return undefined;
  if (isFields(first["error"])) return first["error"];
  if (typeof first["error"] === "string") return { ...first, message: first["error"] };
  return isFields(first["response"]) ? findErrorObject(first["response"]) : first;
}

/** Whether a status says that the request was carried out: then it says nothing of the error. */
export const isSuccess = (status: unknown): boolean =>
  typeof status === "number" && status >= 200 && status < 300;

const toText = (value: unknown): string => (typeof value === "string" ? value : "");
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
    message: toText(message) || toText(detail),
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
  if (isFields(request))
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
export function toVendorError(
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
