import { createHmac } from "node:crypto";
import type { HandshakeConfig } from "../../config/schema/signature.ts";
import { sameSecret } from "../../core/secret.ts";
import type { SignedRequest, Verifier } from "./types.ts";
import { createBody, getValue, type Body } from "./values.ts";

/** The maximum length of a value that an unsigned handshake echoes. */
const MAX_ECHO = 512;
/** The values that are echoed to unauthenticated callers: no character that a browser could read as markup or as a header's end. */
const SAFE = /^[\w .~:/+=@$!*,;|-]{1,512}$/;
/** The values that are signed for unauthenticated callers: nothing that could be the signed text of a request. */
const SIGNABLE = /^[\w-]{1,512}$/;

export interface HandshakeAnswer {
  status: number;
  headers: Record<string, string>;
  body: string | null;
  /** A value for the operator. It is kept for the operator and never logged. */
  note?: string;
  /** The address to fetch before the answer is given. */
  confirm?: string;
}

type Request = Omit<SignedRequest, "url">;
type HandshakeVerifier = Pick<Verifier, "handshakes" | "secrets" | "verifyToken">;

function applies(
  { when }: HandshakeConfig,
  request: Request,
  { secrets, verifyToken }: HandshakeVerifier,
): boolean {
  if (request.method !== when.method) return false;
  if (when.pendingSecret && !secrets.every((secret) => secret === "pending")) return false;
  const fits = (value: string | undefined, wanted: unknown): boolean =>
    value !== undefined && (wanted === "*" || value === String(wanted));
  for (const [name, wanted] of Object.entries(when.query ?? {}))
    if (!fits(request.query[name], wanted)) return false;
  for (const [name, wanted] of Object.entries(when.headers ?? {}))
    if (!fits(request.headers[name.toLowerCase()], wanted)) return false;
  if (when.verifyToken !== undefined) {
    if (
      verifyToken === undefined ||
      !sameSecret(request.query[when.verifyToken] ?? "", verifyToken)
    )
      return false;
  }
  if (!when.body) return true;
  // Nearly every body is no handshake, and need not be read as one: the field's name does not stand in it.
  const names = Object.keys(when.body).map((path) => path.slice(path.lastIndexOf(".") + 1));
  // (Without its first quote, since a search begins at the first character and quotes are everywhere.)
  if (!names.every((name) => request.raw.includes(`${name}"`))) return false;
  const body = createBody(request);
  const own = Object.keys(body() ?? {});
  if (when.bodyOnly && own.length > new Set(Object.keys(when.body).map(firstSegment)).size)
    return false;
  return Object.entries(when.body).every(([path, wanted]) =>
    fits(getValue({ body: path }, request, body), wanted),
  );
}

const firstSegment = (path: string): string => path.split(/[.[]/, 1)[0] ?? "";

const PLACEHOLDER = /\{\{(\w+)\}\}/g;

/** Replaces the placeholders in each member. A text with a placeholder that has no value is null. */
function fill(value: unknown, values: Readonly<Record<string, string | undefined>>): unknown {
  if (typeof value === "string") {
    const names = Array.from(value.matchAll(PLACEHOLDER), ([, name = ""]) => name);
    return names.every((name) => values[name] !== undefined)
      ? value.replace(PLACEHOLDER, (_, name: string) => values[name] ?? "")
      : null;
  }
  if (Array.isArray(value)) return value.map((entry) => fill(entry, values));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, entry]) => [key, fill(entry, values)]),
  );
}

type Filled = Record<"echo" | "hmac", string | undefined>;

/** The values for the placeholders of an answer; undefined if the request lacks one or its echo is not safe. */
function getValues(
  { respond, signed }: HandshakeConfig,
  request: Request,
  body: Body,
  secrets: readonly string[],
): Filled | undefined {
  const echo = respond.echo ? getValue(respond.echo, request, body) : undefined;
  if (
    respond.echo &&
    (echo === undefined || echo.length > MAX_ECHO || (!signed && !SAFE.test(echo)))
  )
    return undefined;
  if (!respond.hmac) return { echo, hmac: undefined };
  const text = getValue(respond.hmac.of, request, body);
  const secret = secrets.find((one) => one !== "pending");
  if (text === undefined || secret === undefined || (!signed && !SIGNABLE.test(text)))
    return undefined;
  return {
    echo,
    hmac: createHmac(respond.hmac.algorithm, secret).update(text).digest(respond.hmac.encoding),
  };
}

/** The headers of an answer; undefined if one is not a line of plain characters. */
function buildHeaders(
  { headers: templates = {}, type }: HandshakeConfig["respond"],
  values: Filled,
): Record<string, string> | undefined {
  const headers: Record<string, string> = { "x-content-type-options": "nosniff" };
  for (const [name, text] of Object.entries(templates)) {
    const value = fill(text, values);
    if (typeof value !== "string" || !/^[\x20-\x7e]*$/.test(value)) return undefined;
    headers[name.toLowerCase()] = value;
  }
  if (type === "text") headers["content-type"] = "text/plain; charset=utf-8";
  if (type === "json") headers["content-type"] = "application/json";
  return headers;
}

function answerOne(
  handshake: HandshakeConfig,
  request: Request,
  secrets: readonly string[],
): HandshakeAnswer | undefined {
  const { respond, note, confirm } = handshake;
  const body = createBody(request);
  const values = getValues(handshake, request, body, secrets);
  const headers = values && buildHeaders(respond, values);
  if (!headers) return undefined;
  const made: HandshakeAnswer = { status: respond.status, headers, body: null };
  if (respond.type === "text") made.body = values.echo ?? "";
  if (respond.type === "json") made.body = JSON.stringify(fill(respond.json ?? {}, values));
  const shown = note ? getValue(note, request, body) : undefined;
  if (shown !== undefined) made.note = shown;
  if (!confirm) return made;
  const address = getValue(confirm, request, body);
  return address === undefined ? undefined : { ...made, confirm: address };
}

/**
 * Answers a sender's handshake, which verifies the address of the hook. `signed` selects the handshakes before or after the
 * signature is verified. Undefined if the request is no handshake.
 */
export function answerHandshake(
  asked: HandshakeVerifier,
  request: Request,
  signed: boolean,
): HandshakeAnswer | undefined {
  for (const handshake of asked.handshakes) {
    if (handshake.signed !== signed || !applies(handshake, request, asked)) continue;
    const made = answerOne(handshake, request, asked.secrets);
    if (made) return made;
  }
  return undefined;
}

/** Returns whether an unsigned handshake needs the body to be read. */
export function readsBody({ when, respond, note }: HandshakeConfig): boolean {
  return (
    when.body !== undefined ||
    respond.echo?.body !== undefined ||
    respond.hmac?.of.body !== undefined ||
    note?.body !== undefined
  );
}
