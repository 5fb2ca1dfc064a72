import { sha256Hex } from "../core/secret.ts";
import { cutText } from "../core/text.ts";
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

/** The sender and the conversation of a channel's message. */
export interface MessagePlace {
  from: string;
  to: string;
  direct: boolean;
  thread?: string | undefined;
}

/** Hex digits of the digest that replaces the end of a key that would be too long. */
const DIGEST = 32;

/** A part of a key, without the character that separates parts. */
const encodePart = (part: string): string => part.replace(/[%:]/g, encodeURIComponent);

/**
 * The session of a channel's message: the person's for a direct message, in whatever thread, else the room's or the
 * thread's own. `channel` is the channel's id, which includes the account (`<plugin>:<account>`).
 */
export function channelSession(agentId: string, channel: string, { from, to, direct, thread }: MessagePlace): SessionRef {
  const room = thread === undefined ? [to] : [to, "thread", thread];
  const parts = direct ? ["direct", from] : ["room", ...room];
  const key = ["channel", ...channel.split(":"), ...parts].map(encodePart).join(":");
  const short = key.length <= MAX_KEY ? key : `${cutText(key, MAX_KEY - DIGEST - 1).text}:${sha256Hex(key).slice(0, DIGEST)}`;
  return { agentId, origin: "channel", key: short };
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
