import { createHmac } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import { collectBody } from "../core/http/body.ts";

/** Longer than the gateway lets a body of a plugin's request take: the gateway's clock decides. */
const BODY_MS = 60_000;

/** Reads the body of a request; undefined if it has more than `most` bytes or did not arrive whole. */
export async function readBody(request: Request, most: number): Promise<Buffer | undefined> {
  const body = await collectBody(request.body, request.headers.get("content-length"), {
    maxBytes: most,
    timeoutMs: BODY_MS,
  });
  return body.ok ? body.bytes : undefined;
}

export { backOff } from "../core/backoff.ts";
export { lazy as once } from "../core/lazy.ts";
export { replaceFile } from "../core/replace-file.ts";
export { sameSecret } from "../core/secret.ts";
export { cutText, plural } from "../core/text.ts";
export { parseDecision, renderVerdict } from "../vocabulary/decision.ts";

/** The HMAC-SHA-256 of these parts, one behind the other, in hex: how vendors sign what they post. */
export function hmacSha256(secret: string, ...parts: readonly (string | Uint8Array)[]): string {
  return parts
    .reduce((hmac, part) => hmac.update(part), createHmac("sha256", secret))
    .digest("hex");
}

const NEVER_CONNECTED =
  /^(?:ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT|CERT_\w+|ERR_TLS_\w+|DEPTH_ZERO_\w+|SELF_SIGNED_\w+|UNABLE_TO_\w+)$/;

/**
 * Returns whether an error's code (`ECONNREFUSED`) says that the connection was never established: nothing was written
 * then, and a message may be sent again. After any other error the vendor may or may not have the message.
 */
export function neverConnected(code: string): boolean {
  return NEVER_CONNECTED.test(code);
}

/** Waits so many milliseconds, or until `signal` aborts. Throws nothing. */
export async function sleep(ms: number, signal: AbortSignal): Promise<void> {
  await wait(ms, undefined, { signal }).catch(() => undefined);
}

/** A JSON object or list; undefined if the text is neither. */
export function parseObject(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

/** A text from outside; undefined if the value is none. */
export const parseText = (value: unknown): string | undefined =>
  typeof value === "string" ? value : undefined;

/** Returns the objects in a list of an answer or a notification; an empty list if there is no list. */
export function objectsIn<T extends object>(value: readonly T[] | undefined): readonly T[] {
  return Array.isArray(value)
    ? value.filter((entry) => typeof entry === "object" && entry !== null)
    : [];
}
