import { collectBody, readMultipart, type BodyLimits, type BodyProblem } from "../core/body.ts";
import type { Failure } from "../core/errors.ts";
import type { BodyBudget } from "./body-budget.ts";
import { toDenied, type Denials } from "./callers.ts";
import type { BodySource, ReceivedHook, StageResult } from "./types.ts";

export type BodyResult = { ok: true; bytes: Buffer } | { ok: false; failure: Failure };

/** JSON nested deeper than this is refused: later steps walk it recursively. */
const MAX_DEPTH = 200;

/** The answer to a body that broke a limit. Its connection must be closed: the rest of the body is still on its way. */
export function bodyFailure(
  problem: BodyProblem,
  { maxBytes }: Pick<BodyLimits, "maxBytes">,
): Failure {
  switch (problem) {
    case "too_large":
      return {
        code: "body_too_large",
        message: `the body has more than ${maxBytes} bytes; send less, or raise maxBodyBytes`,
      };
    case "too_slow":
      return {
        code: "body_timeout",
        message: "the body did not arrive in time; see hooks.bodyTimeoutSeconds",
      };
    case "cut_off":
      return { code: "invalid_body", message: "the body was cut off before its end" };
    case "no_room":
      return {
        code: "overloaded",
        message: "too many bodies are on their way; try again in a moment",
        retryAfterSeconds: 5,
      };
  }
}

/** Reads a body within its limits. Rejects a declared length over the limit before it reads a byte. Never throws. */
export async function collectBytes(
  source: BodySource,
  declared: string | undefined,
  limits: BodyLimits,
): Promise<BodyResult> {
  const body = await collectBody(source, declared, limits);
  return body.ok ? body : { ok: false, failure: bodyFailure(body.problem, limits) };
}

const COMPRESSED: Failure = {
  code: "unsupported_media_type",
  message: "send the body without Content-Encoding",
};

/**
 * The gateway waits before it answers an unauthenticated body that is too large, or for which there is no room: this many
 * milliseconds for each such answer that waits, this one included. Nothing of the body is kept while it waits. One sender
 * hardly notices; many connections that send such bodies again and again slow themselves down.
 */
const HOLD_MS = 250;
const MAX_HOLD_MS = 5_000;
/** The most answers that wait at the same time. Further answers are sent immediately: then the number of connections is the load. */
const MAX_HELD = 2_000;

/** Creates the function that delays these answers. */
export function createHold(): () => Promise<void> {
  let held = 0;
  return async () => {
    if (held >= MAX_HELD) return;
    held++;
    const ms = Math.min(held * HOLD_MS, MAX_HOLD_MS);
    await new Promise((resolve) => setTimeout(resolve, ms).unref());
    held--;
  };
}

export interface ReadBodyDeps {
  /** The memory for bodies of callers that are not authenticated yet. */
  bodyBudget: BodyBudget;
  denials: Denials;
  /** Resolves once the answer to an unauthenticated body that broke a limit may go out. */
  hold(): Promise<void>;
}

/**
 * Reads the body within the path's limits, as it is; a GET has none. The body of a hook that has still to show its signature
 * is read within a budget that all such share. Nothing of it is kept if that fails.
 */
export function readHookBody(
  hook: ReceivedHook,
  { bodyBudget, denials, hold }: ReadBodyDeps,
): StageResult | Promise<StageResult> {
  const { input, origin, rules, snapshot, verifier } = hook;
  const encoding = input.headers["content-encoding"];
  const isPlain = encoding === undefined || encoding.toLowerCase() === "identity";
  if (isPlain && input.method === "GET") return undefined;
  if (verifier) hook.allowance = bodyBudget.open(origin.kind === "http" ? origin.share : undefined);
  const fail = (error: Failure): StageResult => {
    if (!verifier) return { kind: "rejected", error };
    hook.allowance?.release();
    denials.note(hook, error.code);
    return toDenied(error);
  };
  if (!isPlain) return fail(COMPRESSED);
  const { hooks } = snapshot.config;
  const limits = {
    maxBytes: rules?.maxBodyBytes ?? hooks.maxBodyBytes,
    timeoutMs: hooks.bodyTimeoutSeconds * 1000,
    ...(hook.allowance ? { allowance: hook.allowance } : {}),
  };
  return collectBytes(input.body, input.headers["content-length"], limits).then((body) => {
    if (body.ok) {
      hook.bytes = body.bytes;
      return undefined;
    }
    hook.hints = { ...hook.hints, bodyUnread: true };
    const denied = fail(body.failure);
    const { code } = body.failure;
    const isHeld = verifier && (code === "body_too_large" || code === "overloaded");
    return isHeld ? hold().then(() => denied) : denied;
  });
}

export type Payload = { ok: true; payload: unknown } | { ok: false; failure: Failure };

/** Returns whether a value is nested deeper than `left` levels. */
function isTooDeep(value: unknown, left: number): boolean {
  if (left === 0) return true;
  if (Array.isArray(value)) {
    for (const member of value)
      if (typeof member === "object" && member !== null && isTooDeep(member, left - 1)) return true;
    return false;
  }
  const object = value as Record<string, unknown>;
  for (const key in object) {
    const member = object[key];
    if (typeof member === "object" && member !== null && isTooDeep(member, left - 1)) return true;
  }
  return false;
}

/** The media type of a content type, in lower case and without parameters; empty if there is none. */
function mediaType(contentType: string | undefined): string {
  return contentType === undefined ? "" : (contentType.split(";", 1)[0] ?? "").trim().toLowerCase();
}

/** The content types that messages name. Messages never quote another content type: it is the caller's own text. */
const NAMED = new Set([
  "application/json",
  "application/octet-stream",
  "application/pdf",
  "application/x-ndjson",
  "application/x-protobuf",
  "application/x-www-form-urlencoded",
  "application/xml",
  "image/jpeg",
  "image/png",
  "multipart/form-data",
  "text/csv",
  "text/html",
  "text/plain",
  "text/xml",
]);

/** Names a content type for a message. */
export function nameContentType(contentType: string | undefined): string {
  const type = mediaType(contentType);
  if (type === "") return "no content type";
  return NAMED.has(type) ? type : "an unknown content type";
}

function parseJson(text: string, contentType?: string): Payload {
  if (text.trim() === "") return { ok: true, payload: {} };
  try {
    const payload: unknown = JSON.parse(text);
    if (typeof payload === "object" && payload !== null && isTooDeep(payload, MAX_DEPTH)) {
      return {
        ok: false,
        failure: {
          code: "invalid_json",
          message: `the JSON is nested deeper than ${MAX_DEPTH} levels`,
        },
      };
    }
    return { ok: true, payload };
  } catch (error) {
    // The parser's own message quotes the body; only the position is passed on.
    const position =
      error instanceof SyntaxError ? /position (\d+)/.exec(error.message)?.[1] : undefined;
    const where =
      position === undefined ? "at its end or in its middle" : `at character ${position}`;
    return {
      ok: false,
      failure: {
        code: "invalid_json",
        message: `the body came as ${nameContentType(contentType)} and is not valid JSON (${where}): send JSON, or name another content type`,
      },
    };
  }
}

function fromEntries(entries: Iterable<[string, string]>): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  for (const [name, value] of entries) {
    if (name === "__proto__") continue;
    const before = Object.hasOwn(fields, name) ? fields[name] : undefined;
    fields[name] =
      before === undefined ? value : Array.isArray(before) ? [...before, value] : [before, value];
  }
  return fields;
}

/** Parses the JSON in a form whose only field is `payload`. Several senders post such forms. */
function formPayload(fields: Record<string, unknown>): Payload {
  const only = fields["payload"];
  if (Object.keys(fields).length === 1 && typeof only === "string" && /^\s*[[{]/.test(only))
    return parseJson(only);
  return { ok: true, payload: fields };
}

async function parseMultipart(bytes: Buffer, contentType: string): Promise<Payload> {
  const entries = await readMultipart(bytes, contentType);
  if (entries) return formPayload(fromEntries(entries));
  return {
    ok: false,
    failure: { code: "invalid_body", message: "the multipart body is malformed" },
  };
}

/** Parses plain text that is a JSON object or list. HTTP clients call JSON plain text if the program names no content type. */
function textPayload(text: string, type: string): unknown {
  if (type !== "text/plain" || !/^\s*[[{]/.test(text)) return text;
  const json = parseJson(text);
  return json.ok ? json.payload : text;
}

/** Parses a body by its content type. The default is JSON. An empty body is `{}` for every content type. */
export function parsePayload(
  bytes: Buffer,
  contentType: string | undefined,
): Payload | Promise<Payload> {
  if (bytes.length === 0) return { ok: true, payload: {} };
  const type = mediaType(contentType);
  if (type === "application/json" || type === "" || type.endsWith("+json") || type === "text/json")
    return parseJson(bytes.toString("utf8"), contentType);
  // curl's -d names the content type of forms even for JSON, so a body that begins like JSON is parsed as JSON first.
  if (type === "application/x-www-form-urlencoded" && bytes[0] === 0x7b) {
    const json = parseJson(bytes.toString("utf8"));
    if (json.ok) return json;
  }
  if (type === "application/x-www-form-urlencoded")
    return formPayload(fromEntries(new URLSearchParams(bytes.toString("utf8"))));
  if (type === "multipart/form-data") return parseMultipart(bytes, contentType ?? "");
  if (type.startsWith("text/"))
    return { ok: true, payload: textPayload(bytes.toString("utf8"), type) };
  const name = nameContentType(contentType);
  return {
    ok: false,
    failure: {
      code: "unsupported_media_type",
      message: `a body of ${name.includes("/") ? `the content type ${name}` : name} is not read: send JSON as application/json, a form, multipart fields or text`,
    },
  };
}

/** Parses the payload of a hook. The payload of a GET request is its query. */
export function parseBody(hook: ReceivedHook): StageResult | Promise<StageResult> {
  const { input, kept } = hook;
  const keep = (payload: Payload): StageResult => {
    if (!payload.ok) return { kind: "rejected", error: payload.failure };
    hook.payload = payload.payload;
    return undefined;
  };
  if (input.method === "GET") return keep({ ok: true, payload: kept.query });
  const parsed = parsePayload(hook.bytes, input.headers["content-type"]);
  return parsed instanceof Promise ? parsed.then(keep) : keep(parsed);
}
