import type { Thinking, WakeMode } from "../config/schema/common.ts";
import type { TextPart } from "../core/text.ts";

/** All times are milliseconds since the epoch. */
export type Ms = number;

export type EventOutcome = "accepted" | "skipped" | "unmatched" | "duplicate" | "rejected" | "failed";

/** Which conversations exist: a session is (agent, origin, key), and an origin never reaches another's sessions. */
export type SessionOrigin = "main" | "hook" | "api" | "channel";
export interface SessionRef {
  agentId: string;
  origin: SessionOrigin;
  key: string;
}

/** What an agent run needs to know, checked and resolved when the event was accepted. */
export interface RunSpec {
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
  /** Set where somebody wrote it on a channel: who, whether to the agent alone, and what the reply answers. */
  incoming?: { from: string; direct: boolean; replyTo: string; thread?: string };
  /** Added to the reply, so that an event that quotes it is known for an echo (`ignoreSelf.marker`). */
  marker?: string;
}

/** Why a run waits: the limit that has no room, whose it is (`hooks`, `mapping:<id>`, `preset:<name>`), and until when where that is known. */
export interface Parked {
  scope: string;
  limit: "runsPerHour" | "concurrent" | "tokensPerDay";
  until?: Ms;
}

/** An event that a run collects: what templates and transforms see of it. */
export interface Collected {
  at: Ms;
  payload: unknown;
  headers: Record<string, string>;
  query: Record<string, string>;
  path: string;
}

export interface RunAction {
  kind: "run";
  runId: string;
  mapping?: string;
  spec: RunSpec;
  warnings: string[];
  parked?: Parked;
  /** Set where the run collects events: which window, when it closes as of now, and this event. */
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
}

export type StoredAction = RunAction | WakeAction;

/** What is kept of the request itself, without anything that carried a credential. `body` goes after `hooks.retention`. */
export interface StoredRequest {
  method: string;
  contentType?: string;
  headers: Record<string, string>;
  query: Record<string, string>;
  body: Uint8Array | null;
}

/** One hook that came in and what became of it. */
export interface EventRecord {
  id: string;
  receivedAt: Ms;
  /** Path below the hooks' base, without slashes at its ends: `wake`, `agent`, `alerts`. */
  path: string;
  /** Which configured credential it came in by, never its value: `hooks.token`, `path:alerts`. */
  credential: string;
  /** The caller's address. */
  address?: string;
  outcome: EventOutcome;
  /** Why, in a sentence that quotes no body. */
  reason?: string;
  mapping?: string;
  /** Template fields that were missing. */
  missing?: string[];
  duplicateOf?: string;
  replayOf?: string;
  actions: StoredAction[];
  /** What mappings in shadow would have done. */
  would?: StoredAction[];
  request: StoredRequest;
}

/** What a caller got; kept beside a duplicate key so that a repeat is answered alike. */
export interface StoredAnswer {
  status: number;
  body: unknown;
}

export interface DedupeEntry {
  /** Path and credential, or path and mapping: the key means something only inside it. */
  scope: string;
  key: string;
  /** SHA-256 of the body where the caller chose the key; another body under it is a conflict. */
  bodyHash?: string;
  expiresAt: Ms;
  /** Set on the entry of an event key. */
  answer?: StoredAnswer;
  /** Set on the entry of an action key: the answer's item for that action. */
  item?: unknown;
}

export interface DedupeRecord extends DedupeEntry {
  eventId: string;
  restarts: number;
}

export type RunStatus = "parked" | "collecting" | "queued" | "running" | "succeeded" | "failed" | "timed_out" | "cancelled";
export const ENDED: readonly RunStatus[] = ["succeeded", "failed", "timed_out", "cancelled"];

export interface Usage {
  inputTokens?: number;
  outputTokens?: number;
  totalTokens?: number;
}

export interface RunError {
  code: string;
  message: string;
}

/** Where a reply goes: fixed before the model runs. */
export interface Route {
  channel: string;
  to: string;
  thread?: string;
  /** The message that it answers, by the channel's id. */
  replyTo?: string;
}

export type RouteDecision =
  | { status: "route"; route: Route }
  | { status: "skipped"; reason: string }
  | { status: "no_route"; reason: string };

export interface RunRecord {
  id: string;
  eventId: string | null;
  kind: "hook" | "heartbeat" | "channel" | "api";
  mapping?: string;
  status: RunStatus;
  spec: RunSpec;
  warnings: string[];
  model?: string;
  reply?: string;
  error?: RunError;
  parked?: Parked;
  /** Set where the run collects events, or did. */
  collect?: { key: string; count: number; firstAt: Ms; closesAt: Ms };
  usage?: Usage;
  /** Starts that were committed; `cutOff` of them, since the run was put back in order last, ended by a crash. */
  attempts: number;
  cutOff?: number;
  /** Starts again after a final failure, by a repeated event or an operator. */
  restarts: number;
  route?: RouteDecision;
  deliveryId?: string;
  /** The delivery that posts the receipt, where the mapping has a callback. */
  callbackId?: string;
  /** The gateway that carries it out, where only that one can: a turn of the API ends with its process. */
  gateway?: string;
  createdAt: Ms;
  startedAt?: Ms;
  endedAt?: Ms;
}

/** What may change in a run; null takes a field away. */
export type RunChange = Partial<Omit<RunRecord, "id" | "eventId" | "kind" | "createdAt" | "error" | "parked" | "endedAt">> & {
  error?: RunError | null;
  parked?: Parked | null;
  endedAt?: Ms | null;
};

/** One turn of a session's history, as it is kept: outside text stays marked, tool results stay raw. */
export interface TurnRecord {
  seq: number;
  runId: string;
  at: Ms;
  hook: string;
  input: TextPart[];
  unsafe: boolean;
  /** What the model answered, as the `ai` package's response messages (plain JSON). */
  messages: unknown[];
}
export type NewTurn = Omit<TurnRecord, "seq">;

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
}
export type NewSystemEvent = Omit<SystemEvent, "seq" | "state" | "failures">;

export type DeliveryStatus = "pending" | "delivered" | "failed" | "unknown";
export interface DeliveryRecord {
  id: string;
  runId: string;
  route: Route;
  /** The text in pieces that fit the channel, in order. */
  chunks: string[];
  /** The first chunk that was not sent. */
  nextChunk: number;
  status: DeliveryStatus;
  attempts: number;
  messageIds: string[];
  error?: RunError;
  createdAt: Ms;
  nextAt: Ms;
  endedAt?: Ms;
}
/** What may change in a delivery; null takes a field away. */
export type DeliveryChange = Partial<Pick<DeliveryRecord, "nextChunk" | "status" | "attempts" | "messageIds" | "nextAt">> & {
  error?: RunError | null;
  endedAt?: Ms | null;
};
export type NewDelivery = Pick<DeliveryRecord, "id" | "runId" | "route" | "chunks" | "createdAt">;

/** A last route of the main session. */
export interface LastRoute extends Route {
  agentId: string;
  at: Ms;
}

/** A job of the queue. Jobs of one `kind` with the same key run one at a time, first in first out. */
export interface Job {
  id: string;
  kind: JobKind;
  key: string;
  /** Plain JSON. */
  data: unknown;
  /** Starts so far, this one included, once fetched. */
  attempts: number;
  enqueuedAt: Ms;
  /** The driver's mark of this start, never the same twice; handed back untouched it proves that the job is still held. */
  lease?: number;
}
export type JobKind = "turn" | "delivery";
export type NewJob = Omit<Job, "attempts" | "lease"> & { runAt?: Ms };

/** The queue key of a session, also its name in lists: `<agent>/<origin>/<key>`. */
export function sessionId(ref: SessionRef): string {
  return `${ref.agentId}/${ref.origin}/${ref.key}`;
}
