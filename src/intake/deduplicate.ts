import type { Failure } from "../core/errors.ts";
import { sha256Hex } from "../core/secret.ts";
import { recordDuplicate, type RecordDeps } from "./record.ts";
import type { EventKey, ReceivedHook, StageResult } from "./types.ts";

const MAX_KEY = 256;

const KEY_LENGTH: Failure = {
  code: "invalid_body",
  message: `Idempotency-Key: use 1 to ${MAX_KEY} characters`,
  issues: [{ path: "idempotencyKey", message: `use 1 to ${MAX_KEY} characters` }],
};

/** Returns the duplicate key that a body names. A value of another type is ignored. */
function bodyKey(payload: unknown): string | undefined {
  if (typeof payload !== "object" || payload === null || !Object.hasOwn(payload, "idempotencyKey")) return undefined;
  const { idempotencyKey } = payload as { idempotencyKey?: unknown };
  return typeof idempotencyKey === "string" ? idempotencyKey : undefined;
}

/**
 * Returns the key that identifies a repeat before the hook is resolved: the sender's key if it is signed, else the caller's.
 * Null if the caller's key is empty or too long.
 */
function getEventKey({ path, credential, signedKey, input, payload, bytes }: ReceivedHook): EventKey | null | undefined {
  const scope = `${path}|${credential}`;
  if (signedKey) return { scope, ...signedKey };
  const key = input.headers["idempotency-key"] ?? bodyKey(payload);
  if (key === undefined) return undefined;
  if (key.length === 0 || key.length > MAX_KEY) return null;
  return { scope, key, bodyHash: sha256Hex(bytes) };
}

/** Answers a repeated hook with the answer of the first one. */
export function deduplicate(hook: ReceivedHook, deps: RecordDeps): StageResult | Promise<StageResult> {
  const key = getEventKey(hook);
  if (key === null) return { kind: "rejected", error: KEY_LENGTH };
  if (!key) return undefined;
  hook.eventKey = key;
  return deps.store.findDuplicates([key]).then(([known]) => known && recordDuplicate(deps, hook, key, known));
}
