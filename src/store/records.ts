import type { QueryValues } from "../core/http/query.ts";
import type { Thinking, WakeMode } from "../config/schema/common.ts";
import type { EventDebug } from "../vocabulary/debug-notes.ts";
import type { WrittenDecision } from "../vocabulary/decision.ts";
import type { Failure, RunErrorCode } from "../core/errors.ts";
import type { TextPart } from "../core/text.ts";
import type { JoinedTraces, TraceContext } from "../core/http/trace-context.ts";
import type { ApiRunRecord, ApiRunSpec } from "./api-run.ts";
import type { Attachment, MessageSpan, UnreadContent } from "./attachments.ts";
import type { LimitReason, RunWaits } from "./hold.ts";
import type { LiveMessage, MessageOrigin, Route, RouteDecision } from "./routes.ts";

/** All times are milliseconds since the epoch. */
export type Ms = number;

/** The hook path and the configured credential (its name, never its value) that an event came in by. */
export interface Via {
  path: string;
  credential: string;
}

/**
 * Which conversations exist: a session is (agent, origin, key), for hooks also `via`, and an origin never reaches
 * another's sessions.
 */
export type SessionOrigin = "main" | "hook" | "api" | "channel" | "schedule";
export interface SessionRef {
  agentId: string;
  origin: SessionOrigin;
  key: string;
  /** Absent for other origins, and for keys of `hooks.sharedSessions`. */
  via?: Via;
}

/** What an agent run needs to know, checked and resolved when the event was accepted. */
export interface RunSpec extends ApiRunSpec {
  session: SessionRef;
  /** The hook's name in summaries: one line. Outside text. */
  name: string;
  /** The hook path or id that the boundary's trusted line names. */
  hook: string;
  input: TextPart[];
  /** The operator's words from the mapping, outside the boundary. */
  instructions?: string;
  wakeMode: WakeMode;
  deliver: boolean;
  channel: string;
  to?: string;
  model?: string;
  thinking?: Thinking;
  timeoutSeconds?: number;
  /** `allowUnsafeExternalContent` of the mapping. */
  unsafe: boolean;
  /** Set for a message of a channel. */
  incoming?: MessageOrigin;
  unread?: UnreadContent;
  /** The messages that the turn answers, if the input holds more than the one message of `incoming`. */
  parts?: readonly MessageSpan[];
  /** The files that came with a channel's message, so that the agent can send them on. */
  received?: readonly Attachment[];
  /** Set for a message that is a command: no model is asked. `argument`: the word behind `/agent` or `/link`. */
  command?:
    | "start"
    | "new"
    | "stop"
    | "decide"
    | "pair"
    | "status"
    | "help"
    | "agent"
    | "link"
    | "unlink";
  argument?: string;
  /** What the command `decide` decides about a tool call, or `pair` about a person, as it was written. */
  decision?: WrittenDecision;
  /** Added to the reply, so that an event that quotes it is known for an echo (`ignoreSelf.marker`). */
  marker?: string;
  /** What the mapping's code did with the collected events together, for the operator. It may quote them. */
  debug?: EventDebug;
  trace?: JoinedTraces;
  schedule?: { id: string; dueAt: Ms; manual?: true; asked?: AskedSchedule };
}

/** The conversation in which an agent was asked for a schedule, and where its answers went. */
export interface AskedSchedule {
  session: SessionRef;
  /** Absent if its answers went nowhere. */
  route?: Route;
}

/** An event that a run collects: what templates and transforms see of it. */
export interface Collected {
  at: Ms;
  /** As JSON, with its numbers as they were written. */
  payload: string;
  headers: Record<string, string>;
  query: QueryValues;
  path: string;
  credential?: string;
  trace?: TraceContext;
}

export interface RunAction {
  kind: "run";
  runId: string;
  mapping?: string;
  spec: RunSpec;
  warnings: string[];
  /** The limit that holds the run back. */
  parked?: LimitReason;
  /** Set if the run collects events: the window, when it closes if no further event arrives, and this event. */
  collect?: {
    key: string;
    closesAt: Ms;
    event: Collected;
    /** The window is one of all gateways: it is kept in the store, and has to be open still. */
    shared?: true;
  };
}

export interface WakeAction {
  kind: "wake";
  systemEventId: string;
  mapping?: string;
  hook: string;
  agentId: string;
  text: TextPart[];
  mode: WakeMode;
  unsafe: boolean;
  trace?: TraceContext;
}

export type StoredAction = RunAction | WakeAction;

/** What became of one action of an event: the work it is, or why there is none. */
export type StoredActionReceipt =
  | {
      ok: true;
      mapping?: string;
      runId?: string;
      sessionKey?: string;
      /** `queued`, `parked` or `collecting`. */
      status?: string;
      systemEventId?: string;
      mode?: WakeMode;
      warnings?: string[];
      /** The action was done before: this is its first receipt. */
      duplicate?: true;
    }
  | { ok: false; error: Failure };

/** What an answer says of an event; kept beside a duplicate key so that a repeat is answered alike. */
export interface StoredReceipt {
  outcome: "accepted" | "duplicate" | "skipped";
  actions: readonly StoredActionReceipt[];
  /** The form of several actions, also if there is only one. */
  list?: boolean;
  warnings?: readonly string[];
  reason?: string;
  /** Skipped, and the answer to the sender has no reason: there was nothing to do. */
  quiet?: boolean;
}

export interface DedupeEntry {
  /** Path and credential, or path and mapping: the key means something only inside it. */
  scope: string;
  key: string;
  /** SHA-256 of the body where the caller chose the key; another body under it is a conflict. */
  bodyHash?: string;
  expiresAt: Ms;
  /** Set on the entry of an event key. */
  receipt?: StoredReceipt;
  /** Set on the entry of an action key: its `StoredActionReceipt`. */
  item?: unknown;
}

export interface DedupeRecord extends DedupeEntry {
  eventId: string;
}

/** `waiting`: a person has to decide about a tool call, and no worker is held meanwhile. */
export const RUN_STATUSES = [
  "parked",
  "collecting",
  "queued",
  "running",
  "waiting",
  "succeeded",
  "failed",
  "timed_out",
  "cancelled",
] as const;
export type RunStatus = (typeof RUN_STATUSES)[number];
export const ENDED: readonly RunStatus[] = ["succeeded", "failed", "timed_out", "cancelled"];

export interface Usage {
  inputTokens?: number;
  outputTokens?: number;
  totalTokens?: number;
  /** Of the input tokens, those that the provider had cached; of the output tokens, those of thinking. */
  cachedInputTokens?: number;
  /** Of the input tokens, those that the provider wrote to its cache. */
  cacheWriteTokens?: number;
  reasoningTokens?: number;
  /** In US dollars; absent if the price of a model that was used is unknown. */
  costUsd?: number;
}

/** What a model provider said with its error: without credentials and without quotations of the prompt. */
export interface VendorError {
  /** Of the HTTP answer; absent for an error within a stream. */
  status?: number;
  code?: string;
  /** At most 500 characters. */
  message?: string;
  /** The parameter of the request that is wrong. */
  param?: string;
}

export interface RunError {
  code: RunErrorCode;
  message: string;
  /** The name of the provider, if it is one of its models that gave no answer. */
  provider?: string;
  /** For the operator and for callers of `/v1`. Receipts for senders leave it out. */
  vendor?: VendorError;
}

/** A try at a model call that gave no answer. */
export interface FailedAttempt {
  at: Ms;
  model: string;
  error: RunError;
  /** Milliseconds until the next try; absent if there was none. */
  waitedMs?: number;
}

export interface RunRecord extends ApiRunRecord, RunWaits {
  id: string;
  eventId: string | null;
  kind: "hook" | "heartbeat" | "schedule" | "channel" | "api";
  mapping?: string;
  status: RunStatus;
  spec: RunSpec;
  warnings: string[];
  model?: string;
  reply?: string;
  error?: RunError;
  /** Set where the run collects events, or did. */
  collect?: { key: string; count: number; firstAt: Ms; closesAt: Ms };
  /** The number of the config that made one run of the events of its batch. */
  combinedBy?: number;
  usage?: Usage;
  /** Starts that were committed; `crashCount` of them, since the run was put back in order last, ended with their process. */
  attempts: number;
  crashCount?: number;
  /** Starts again after a final failure, by a repeated event or an operator. */
  restarts: number;
  route?: RouteDecision;
  deliveryId?: string;
  /** The message that shows the text of its turn, as long as it is there. */
  live?: LiveMessage | null;
  /** When the sender of a message got the notice that its model is away. */
  awayNoticeAt?: Ms;
  /** The delivery that posts the receipt, where the mapping has a callback. */
  callbackId?: string;
  /** The boundary of all its attempts. */
  boundaryId?: string;
  /** How far it had come when the last attempt began, so that a start that cut off an attempt which got further is no crash loop. */
  progress?: number;
  /** Attempts since its last progress that ended with an error that may pass. */
  failures?: number;
  /** Model calls without an answer at which tries of the run ended, oldest first; those before an answer are in its step. */
  failedAttempts?: FailedAttempt[];
  /** How often the text of its messages was replaced by edits. */
  edits?: number;
  /** The system events of a heartbeat that has tool calls: the same in all its attempts. */
  systemEventIds?: string[];
  /** The gateway of the last start; of a turn of the API from the beginning, since that one ends with its process. */
  gateway?: string;
  createdAt: Ms;
  startedAt?: Ms;
  endedAt?: Ms;
}

/** What may change in a run; null takes a field away. */
export type RunChange = Partial<
  Omit<
    RunRecord,
    "id" | "eventId" | "kind" | "createdAt" | "error" | "hold" | "queuedAt" | "endedAt"
  >
> & {
  error?: RunError | null;
  hold?: RunRecord["hold"] | null;
  queuedAt?: Ms | null;
  endedAt?: Ms | null;
};

/** The id of the job that a run is executed for: a decision wakes it. */
export const getJobId = ({ id, kind, spec }: Pick<RunRecord, "id" | "kind" | "spec">): string =>
  kind === "heartbeat" ? `heartbeat:${spec.session.agentId}` : id;
