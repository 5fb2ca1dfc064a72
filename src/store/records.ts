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

/** The receipt of one action of an event: the work that it is, or the reason that there is none. */
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

/** The part of an answer about an event that is kept beside a duplicate key, so that a repeat is answered alike. */
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

/** `command`: a person's command to the gateway, which no turn may hold back. */
export type JobKind = "turn" | "delivery" | "command";

/** The place of a job in the queue. */
export interface JobPosition {
  /** The id of the job of its key that goes first: its own, if nothing is before it. */
  head: string;
  /** When it may start at the earliest, once it is the first of its key. */
  runAt: Ms;
  /** True while a worker executes it. */
  held: boolean;
}

/** A job that was added before another one. */
export interface EarlierJob {
  id: string;
  key: string;
  /** When it may start at the earliest; 0 without a delay. */
  runAt: Ms;
}

export type NewJob = Omit<Job, "attempts" | "lease"> & { runAt?: Ms };

/** One start of a job: `lease` distinguishes it from the other starts. */
export type HeldJob = Pick<Job, "kind" | "id" | "lease">;
