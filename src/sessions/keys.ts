import { sha256Hex } from "../core/secret.ts";
import { MAX_KEY } from "../vocabulary/session-key.ts";
import { cutText, FORGOTTEN, redactOutside } from "../core/text.ts";
import type { SessionRef, NewTurn } from "../store/types.ts";

interface ToolMessage {
  role?: unknown;
  content?: unknown;
}

/** Tool results are outside text. */
function forgetResults(message: unknown): unknown {
  const { role, content } = message as ToolMessage;
  if (role !== "tool" || !Array.isArray(content)) return message;
  const kept = content.map((part: unknown) =>
    (part as { type?: unknown }).type === "tool-result"
      ? { ...(part as object), output: { type: "text", value: FORGOTTEN } }
      : part,
  );
  return { ...(message as object), content: kept };
}

/**
 * Returns a turn as it is stored in the history. With `hooks.retention` 0 it contains no outside text;
 * the model's text stays.
 */
export function turnToKeep(turn: NewTurn, retentionMs: number): NewTurn {
  if (retentionMs > 0) return turn;
  const { context: _context, ...kept } = turn;
  return { ...kept, input: redactOutside(turn.input), messages: turn.messages.map(forgetResults) };
}

/** The key of the one main session. */
const MAIN_KEY = "main";

/** The main session of an agent. */
export function mainSession(agentId: string): SessionRef {
  return { agentId, origin: "main", key: MAIN_KEY };
}

/** The sender and the conversation of a channel's message. */
interface MessagePlace {
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
export function channelSession(
  agentId: string,
  channel: string,
  { from, to, direct, thread }: MessagePlace,
): SessionRef {
  const room = thread === undefined ? [to] : [to, "thread", thread];
  const parts = direct ? ["direct", from] : ["room", ...room];
  const key = ["channel", ...channel.split(":"), ...parts].map(encodePart).join(":");
  const short =
    key.length <= MAX_KEY
      ? key
      : `${cutText(key, MAX_KEY - DIGEST - 1).text}:${sha256Hex(key).slice(0, DIGEST)}`;
  return { agentId, origin: "channel", key: short };
}

/**
 * The session of the direct messages of a person who has linked several channels. The key has three parts, and a session of a
 * channel at least four, so that no channel's id makes the same key.
 */
export function personSession(agentId: string, personId: string): SessionRef {
  return { agentId, origin: "channel", key: `channel:person:${encodePart(personId)}` };
}
