import type { IncomingMessage } from "node:http";
import type { Readable } from "node:stream";
import type { Context } from "hono";
import { collectBody, type BodyLimits, type BodyProblem } from "../core/body.ts";
import type { Failure } from "../core/errors.ts";

export type BodyResult = { ok: true; bytes: Buffer } | { ok: false; failure: Failure };

/** Milliseconds for a whole upload: the longest that any body may take, unless `hooks.bodyTimeoutSeconds` is longer. */
export const UPLOAD_MS = 30 * 60_000;

/** JSON nested deeper than this is refused: later steps walk it recursively. */
const MAX_DEPTH = 200;

/** The answer to a body that broke a limit. Its connection must be closed: the rest of the body is still on its way. */
export function bodyFailure(problem: BodyProblem, { maxBytes }: Pick<BodyLimits, "maxBytes">): Failure {
  switch (problem) {
    case "too_large":
      return { code: "body_too_large", message: `the body has more than ${maxBytes} bytes; send less, or raise maxBodyBytes` };
    case "too_slow":
      return { code: "body_timeout", message: "the body did not arrive in time; see hooks.bodyTimeoutSeconds" };
    case "cut_off":
      return { code: "invalid_body", message: "the body was cut off before its end" };
    case "no_room":
      return { code: "overloaded", message: "too many bodies are on their way; try again in a moment", retryAfterSeconds: 5 };
  }
}

/** Where a request's body comes from: the socket, or the request itself if it was made in this process. */
export function bodySource(c: Context): IncomingMessage | ReadableStream<Uint8Array> | null {
  return (c.env as { incoming?: IncomingMessage } | undefined)?.incoming ?? c.req.raw.body;
}

/** Reads a body within its limits. A declared length over the limit is refused before a byte is read. Never throws. */
export async function readBody(
  source: Readable | ReadableStream<Uint8Array> | null,
  declared: string | undefined,
  limits: BodyLimits,
): Promise<BodyResult> {
  const body = await collectBody(source, declared, limits);
  return body.ok ? body : { ok: false, failure: bodyFailure(body.problem, limits) };
}

export type Payload = { ok: true; payload: unknown } | { ok: false; failure: Failure };

/** True where a value is nested deeper than `left` levels. */
function isTooDeep(value: unknown, left: number): boolean {
  if (left === 0) return true;
  if (Array.isArray(value)) {
    for (const member of value) if (typeof member === "object" && member !== null && isTooDeep(member, left - 1)) return true;
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

/** The content types that messages name. Any other is the caller's own text, which no message quotes. */
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
      return { ok: false, failure: { code: "invalid_json", message: `the JSON is nested deeper than ${MAX_DEPTH} levels` } };
    }
    return { ok: true, payload };
  } catch (error) {
    // The parser's own message quotes the body; only the position is passed on.
    const position = error instanceof SyntaxError ? /position (\d+)/.exec(error.message)?.[1] : undefined;
    const where = position === undefined ? "at its end or in its middle" : `at character ${position}`;
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
    fields[name] = before === undefined ? value : Array.isArray(before) ? [...before, value] : [before, value];
  }
  return fields;
}

/** A form with the one field `payload` that holds JSON is that JSON, as several senders do it. */
function formPayload(fields: Record<string, unknown>): Payload {
  const only = fields["payload"];
  if (Object.keys(fields).length === 1 && typeof only === "string" && /^\s*[[{]/.test(only)) return parseJson(only);
  return { ok: true, payload: fields };
}

async function parseMultipart(bytes: Buffer, contentType: string): Promise<Payload> {
  try {
    const form = await new Response(new Uint8Array(bytes), { headers: { "content-type": contentType } }).formData();
    const entries: [string, string][] = [];
    for (const [name, value] of form) if (typeof value === "string") entries.push([name, value]);
    return formPayload(fromEntries(entries));
  } catch {
    return { ok: false, failure: { code: "invalid_body", message: "the multipart body is malformed" } };
  }
}

/** Plain text that is a JSON object or list is that value: it is what programs send that name no content type for a string. */
function textPayload(text: string, type: string): unknown {
  if (type !== "text/plain" || !/^\s*[[{]/.test(text)) return text;
  const json = parseJson(text);
  return json.ok ? json.payload : text;
}

/** Makes the payload of a body by its content type. JSON is the default; nothing at all is `{}`, whatever it is called. */
export function parsePayload(bytes: Buffer, contentType: string | undefined): Payload | Promise<Payload> {
  if (bytes.length === 0) return { ok: true, payload: {} };
  const type = mediaType(contentType);
  if (type === "application/json" || type === "" || type.endsWith("+json") || type === "text/json")
    return parseJson(bytes.toString("utf8"), contentType);
  // curl's -d says "form" whatever it sends: what begins like JSON is tried as that first.
  if (type === "application/x-www-form-urlencoded" && bytes[0] === 0x7b) {
    const json = parseJson(bytes.toString("utf8"));
    if (json.ok) return json;
  }
  if (type === "application/x-www-form-urlencoded") return formPayload(fromEntries(new URLSearchParams(bytes.toString("utf8"))));
  if (type === "multipart/form-data") return parseMultipart(bytes, contentType ?? "");
  if (type.startsWith("text/")) return { ok: true, payload: textPayload(bytes.toString("utf8"), type) };
  const name = nameContentType(contentType);
  return {
    ok: false,
    failure: {
      code: "unsupported_media_type",
      message: `a body of ${name.includes("/") ? `the content type ${name}` : name} is not read: send JSON as application/json, a form, multipart fields or text`,
    },
  };
}
