import { randomUUID } from "node:crypto";
import { sha256Hex } from "../core/secret.ts";
import { cutText } from "../core/text.ts";

/** The longest session key, in UTF-16 units. */
export const MAX_KEY = 200;

/** Keys of other origins, which a hook may not name: the main session, the API's and the channels'. */
const RESERVED = /^(?:main$|main:|api:|channel:)/i;
// oxlint-disable-next-line no-control-regex -- control characters are what is refused
const CONTROL = /[\u0000-\u001f\u007f]/;
/** The start of a key that Rouse makes. */
const OWN_START = "hook:";

/**
 * Checks a session key that a request, a mapping, a transform or the config gave.
 * @param prefixes `hooks.allowedSessionKeyPrefixes`
 * @returns what is wrong with it, or undefined.
 */
export function sessionKeyProblem(
  key: string,
  prefixes: readonly string[] | undefined,
): string | undefined {
  if (key.trim() === "") return "must not be blank";
  if (key.length > MAX_KEY) return `must have at most ${MAX_KEY} characters`;
  if (CONTROL.test(key)) return "must not hold control characters";
  if (RESERVED.test(key))
    return "names a session that hooks cannot reach; use a key of your own such as `hook:<something>`";
  if (prefixes && !prefixes.some((prefix) => key.startsWith(prefix))) {
    return "must start with one of hooks.allowedSessionKeyPrefixes";
  }
  return undefined;
}

/** Digits of the digest that takes the place of the end of a long key. */
const DIGITS = 16;

/** Fits a key that a template rendered: of one that is too long the beginning stays, with a digest of all of it. */
export function fitKey(key: string, most = MAX_KEY): string {
  if (key.length <= most) return key;
  return `${cutText(key, most - DIGITS - 1).text}~${sha256Hex(key).slice(0, DIGITS)}`;
}

/** True if sessions with this key are shared by all paths; `prefixes` is `hooks.sharedSessions`. */
export function isSharedKey(key: string, prefixes: readonly string[]): boolean {
  return prefixes.some((prefix) => key.startsWith(prefix));
}

/**
 * Makes a key that no other conversation has: `start` with a UUID if the prefixes allow it, else `hook:<uuid>`, else the
 * first allowed prefix with a UUID.
 */
export function newSessionKey(prefixes: readonly string[] | undefined, start = ""): string {
  const id = randomUUID();
  const keys = [start || OWN_START, OWN_START, ...(prefixes ?? [])].map((one) => one + id);
  return keys.find((key) => sessionKeyProblem(key, prefixes) === undefined) ?? OWN_START + id;
}
