import { createHmac, hash, timingSafeEqual } from "node:crypto";
import type { Handshake } from "../config/schema/signature.ts";
import type { SignedRequest, Verifier } from "./types.ts";
import { bodyOf, valueOf } from "./values.ts";

/** Most of what an unsigned handshake gives back. */
const MAX_ECHO = 512;
/** What is echoed before anybody was believed: no character that a browser could take for markup or a header's end. */
const SAFE = /^[\w.~:/+=@$!*,;|-]{1,512}$/;

export interface HandshakeAnswer {
  status: number;
  headers: Record<string, string>;
  body: string | null;
  /** A value that the operator has to be shown: kept for the operator, never logged. */
  note?: string;
  /** The address to fetch before the answer is given. */
  confirm?: string;
}

type Request = Omit<SignedRequest, "url">;
type Asked = Pick<Verifier, "handshakes" | "secrets" | "verifyToken">;

function same(left: string, right: string): boolean {
  return timingSafeEqual(Buffer.from(hash("sha256", left, "hex")), Buffer.from(hash("sha256", right, "hex")));
}

function applies({ when }: Handshake, request: Request, { secrets, verifyToken }: Asked): boolean {
  if (request.method !== when.method) return false;
  if (when.pendingSecret && !secrets.every((secret) => secret === "pending")) return false;
  for (const [name, wanted] of Object.entries(when.query ?? {})) {
    const value = request.query[name];
    if (value === undefined || (wanted !== "*" && value !== wanted)) return false;
  }
  if (when.verifyToken !== undefined) {
    if (verifyToken === undefined || !same(request.query[when.verifyToken] ?? "", verifyToken)) return false;
  }
  if (!when.body) return true;
  // Nearly every body is no handshake, and need not be read as one: the field's name does not stand in it.
  const names = Object.keys(when.body).map((path) => path.slice(path.lastIndexOf(".") + 1));
  // (Without its first quote, since a search begins at the first character and quotes are everywhere.)
  if (!names.every((name) => request.raw.includes(`${name}"`))) return false;
  const body = bodyOf(request.raw);
  return Object.entries(when.body).every(([path, wanted]) => {
    const value = valueOf({ body: path }, request, body);
    return value !== undefined && (wanted === "*" || value === String(wanted));
  });
}

/** Puts the values in where the whole text of a member is a placeholder. */
function fill(value: unknown, values: Record<string, string | undefined>): unknown {
  if (typeof value === "string") return /^\{\{(\w+)\}\}$/.test(value) ? (values[value.slice(2, -2)] ?? null) : value;
  if (Array.isArray(value)) return value.map((entry) => fill(entry, values));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, fill(entry, values)]));
}

function answer(handshake: Handshake, request: Request, secrets: readonly string[]): HandshakeAnswer | undefined {
  const { respond, signed, note, confirm } = handshake;
  const body = bodyOf(request.raw);
  const echo = respond.echo ? valueOf(respond.echo, request, body) : undefined;
  if (respond.echo && (echo === undefined || echo.length > MAX_ECHO || (!signed && !SAFE.test(echo)))) return undefined;
  const of = respond.hmac ? valueOf(respond.hmac.of, request, body) : undefined;
  const secret = secrets.find((one) => one !== "pending");
  if (respond.hmac && (of === undefined || secret === undefined)) return undefined;
  const hmac =
    respond.hmac && of !== undefined
      ? createHmac(respond.hmac.algorithm, secret as string)
          .update(of)
          .digest(respond.hmac.encoding)
      : undefined;
  const values = { echo, hmac };
  const headers: Record<string, string> = { "x-content-type-options": "nosniff" };
  for (const [name, text] of Object.entries(respond.headers ?? {})) {
    const value = fill(text, values);
    // A header's value is one line of plain characters.
    if (typeof value !== "string" || !/^[\x20-\x7e]*$/.test(value)) return undefined;
    headers[name.toLowerCase()] = value;
  }
  const made: HandshakeAnswer = { status: respond.status, headers, body: null };
  if (respond.type === "text") Object.assign(headers, { "content-type": "text/plain; charset=utf-8" });
  if (respond.type === "text") made.body = echo ?? "";
  if (respond.type === "json") Object.assign(headers, { "content-type": "application/json" });
  if (respond.type === "json") made.body = JSON.stringify(fill(respond.json ?? {}, values));
  const shown = note ? valueOf(note, request, body) : undefined;
  if (shown !== undefined) made.note = shown;
  const address = confirm ? valueOf(confirm, request, body) : undefined;
  if (confirm && address === undefined) return undefined;
  if (address !== undefined) made.confirm = address;
  return made;
}

/**
 * Answers a sender's question whether this address is its own. `signed` says which handshakes are asked for: those
 * before, or those after the signature was checked. Undefined: the request is no handshake.
 */
export function answerHandshake(asked: Asked, request: Request, signed: boolean): HandshakeAnswer | undefined {
  for (const handshake of asked.handshakes) {
    if (handshake.signed !== signed || !applies(handshake, request, asked)) continue;
    const made = answer(handshake, request, asked.secrets);
    if (made) return made;
  }
  return undefined;
}

/** Whether an unsigned handshake needs the body to be read. */
export function readsBody({ when, respond, note }: Handshake): boolean {
  return when.body !== undefined || respond.echo?.body !== undefined || respond.hmac?.of.body !== undefined || note?.body !== undefined;
}
