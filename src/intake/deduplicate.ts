import type { Failure } from "../core/errors.ts";
import { sha256Hex } from "../core/secret.ts";
import type { Duplicate } from "../signatures/types.ts";
import type { Arrival, EventKey } from "./record.ts";

const MAX_KEY = 256;

export const keyTooLong: Failure = {
  code: "invalid_body",
  message: `Idempotency-Key: use 1 to ${MAX_KEY} characters`,
  issues: [{ path: "idempotencyKey", message: `use 1 to ${MAX_KEY} characters` }],
};

/** The key that a body names; of another type it is none. */
function bodyKey(payload: unknown): string | undefined {
  if (typeof payload !== "object" || payload === null || !Object.hasOwn(payload, "idempotencyKey")) return undefined;
  const { idempotencyKey } = payload as { idempotencyKey?: unknown };
  return typeof idempotencyKey === "string" ? idempotencyKey : undefined;
}

/** The event's key that the caller chose, or null where it is empty or too long. */
function eventKey(arrival: Arrival, key: string): EventKey | null {
  if (key.length === 0 || key.length > MAX_KEY) return null;
  return { scope: `${arrival.request.path}|${arrival.credential}`, key, bodyHash: sha256Hex(arrival.bytes) };
}

/**
 * The key by which a repeat is known before anything is resolved: the sender's where it is signed, else the caller's.
 * Null where the caller's is no key.
 */
export function keyOf(arrival: Arrival, signedKey: Duplicate | undefined, payload: unknown): EventKey | null | undefined {
  const scope = `${arrival.request.path}|${arrival.credential}`;
  if (signedKey) return { scope, ...signedKey };
  const chosen = arrival.request.headers["idempotency-key"] ?? bodyKey(payload);
  return chosen === undefined ? undefined : eventKey(arrival, chosen);
}
