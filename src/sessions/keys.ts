import { randomUUID } from "node:crypto";
import type { SessionRef } from "../store/types.ts";

/** The longest session key, in UTF-16 units. */
export const MAX_KEY = 200;

/** Keys of other origins, which a hook may not name: the main session, the API's and the channels'. */
const RESERVED = /^(?:main$|main:|api:|channel:)/i;
// oxlint-disable-next-line no-control-regex -- control characters are what is refused
const CONTROL = /[\u0000-\u001f\u007f]/;

/** The key of the one main session. */
export const MAIN_KEY = "main";

/** The main session of an agent. */
export function mainSession(agentId: string): SessionRef {
  return { agentId, origin: "main", key: MAIN_KEY };
}

/** Makes a key that no other conversation has: after `prefix` if `prefixes` allow it, else after one that they allow. */
export function freshSessionKey(prefix: string, prefixes: readonly string[] | undefined): string {
  const id = randomUUID();
  const keys = [prefix || "hook:", "hook:", ...(prefixes ?? [])].map((start) => start + id);
  return keys.find((key) => sessionKeyProblem(key, prefixes) === undefined) ?? `hook:${id}`;
}

/**
 * Checks a session key that a request, a mapping or a transform gave.
 * @returns what is wrong with it, or undefined.
 */
export function sessionKeyProblem(key: string, prefixes: readonly string[] | undefined): string | undefined {
  if (key.trim() === "") return "must not be blank";
  if (key.length > MAX_KEY) return `must have at most ${MAX_KEY} characters`;
  if (CONTROL.test(key)) return "must not hold control characters";
  if (RESERVED.test(key)) return "names a session that hooks cannot reach; use a key of your own such as `hook:<something>`";
  if (prefixes && !prefixes.some((prefix) => key.startsWith(prefix))) {
    return "must start with one of hooks.allowedSessionKeyPrefixes";
  }
  return undefined;
}
