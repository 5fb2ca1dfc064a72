import type { QueryValues } from "../core/http/payload.ts";
import type { WakeMode } from "../config/schema/common.ts";
import type { Failure } from "../core/errors.ts";
import type { TraceContext } from "../core/http/trace-context.ts";

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
