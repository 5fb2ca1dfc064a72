import type { WakeMode } from "../config/schema/common.ts";
import type { TraceContext } from "../core/http/trace-context.ts";
import { sha256Hex } from "../core/secret.ts";
import { cutText, FORGOTTEN, redactOutside, type TextPart } from "../core/text.ts";
import { MAX_KEY } from "../vocabulary/session-key.ts";
import type { Ms, SessionRef, Usage } from "./records.ts";
import type { Route } from "./deliveries.ts";

/** Text that was put before the input of a turn: passages, and what plugins added. */
export interface ContextPart {
  text: string;
  from: "operator" | "outside";
  /** Its name in the boundary, if it is from outside. */
  label?: string;
}

/** One turn of a session's history, as it is kept: outside text stays marked, tool results stay raw. */
export interface TurnRecord {
  seq: number;
  runId: string;
  at: Ms;
  hook: string;
  input: TextPart[];
  unsafe: boolean;
  /** The model's answer, as the `ai` package's response messages (plain JSON). */
  messages: unknown[];
  /** The text before the input, kept so that later turns of the session begin with the same text. Absent if there was none. */
  context?: readonly ContextPart[];
  /** The id of the boundary that the turn was rendered with, so that it stays the same; absent if it had none. */
  boundaryId?: string;
  /** The origin that the trusted line before the input names. Absent if there was no such line. */
  trustedHook?: string;
  /** Set if the record is a checkpoint: its input replaces earlier turns. */
  checkpoint?: Checkpoint;
}
export type NewTurn = Omit<TurnRecord, "seq">;

/** The turns that a checkpoint of a session replaces. Its record is a turn without an answer; the input of one that has no summary is empty. */
export interface Checkpoint {
  /** Models do not see turns up to this `seq`. */
  upTo: number;
  /** Retention may delete turns up to this `seq`: they are in the summary, or no summary will be made. */
  covered: number;
  /** The number of turns of the session that it replaces. */
  turns: number;
  /** The number of these turns that are in no summary. */
  left: number;
  /** True if the replaced turns had text from outside. */
  outside: boolean;
  /** Set if that text was nothing but what people have written in the conversation itself. */
  onlyPeople?: boolean;
  /** `<provider>/<model>` that wrote the summary, and what that has used; absent if the summary is of an earlier checkpoint, or there is none. */
  model?: string;
  usage?: Usage;
}

export interface SessionRecord {
  ref: SessionRef;
  turns: number;
  createdAt: Ms;
  lastUsedAt: Ms;
}

export type SystemEventState = "queued" | "done" | "parked";

/** One entry of the main session's queue. */
export interface SystemEvent {
  seq: number;
  id: string;
  agentId: string;
  at: Ms;
  text: TextPart[];
  /** The hook path or id it came from. */
  source: string;
  mode: WakeMode;
  unsafe: boolean;
  state: SystemEventState;
  /** Heartbeats that saw it and failed. */
  failures: number;
  trace?: TraceContext;
}
export type NewSystemEvent = Omit<SystemEvent, "seq" | "state" | "failures">;

/** A last route of the main session. */
export interface LastRoute extends Route {
  agentId: string;
  at: Ms;
}

/** The queue key of a session, also its name in lists: `<agent>/<origin>/<key>`, or `<agent>/hook@<path>|<credential>/<key>`. */
export function sessionId({ agentId, origin, key, via }: SessionRef): string {
  const place = via
    ? `${origin}@${`${via.path}|${via.credential}`.replaceAll("/", "%2F")}`
    : origin;
  return `${agentId}/${place}/${key}`;
}

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
