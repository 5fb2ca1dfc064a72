import type { QueryValues } from "../core/http/payload.ts";
import type { EventDebug } from "../vocabulary/debug-notes.ts";
import type { EventOutcome } from "../vocabulary/outcomes.ts";
import type { TraceContext } from "../core/http/trace-context.ts";
import type { WakeMode } from "../config/schema/common.ts";
import type { TextPart } from "../core/text.ts";
import type { LimitReason } from "./hold.ts";
import type { Collected, Ms } from "./records.ts";
import type { HookSpec, MessageSpec, RunSpec } from "./runs.ts";

export type { EventOutcome };

/** How the reason of an event begins that was accepted and whose work could not be queued. */
export const BROKEN = "broken:";

/** What was done about an event that failed: it was replayed as another event, or an operator has discarded it. */
export type EventHandled = { at: Ms } & (
  | { as: "replayed"; eventId: string }
  | { as: "discarded"; reason: string }
);

/** What may change of an event. */
export interface EventChange {
  handled: EventHandled;
}

/** What is kept of the request itself, without anything that carried a credential. `body` goes after `hooks.retention`. */
export interface StoredRequest {
  method: string;
  contentType?: string;
  headers: Record<string, string>;
  query: QueryValues;
  body: Uint8Array | null;
}

/** A run that an event asks for. */
export interface RunAction<S extends RunSpec = HookSpec | MessageSpec> {
  kind: "run";
  runId: string;
  mapping?: string;
  spec: S;
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

/** What a hook asks for. */
export type HookAction = RunAction<HookSpec> | WakeAction;
export type StoredAction = RunAction | WakeAction;

/** What a mapping in shadow would have done: an action, or why none. */
export type ShadowAction = StoredAction | { kind: "none"; mapping: string; reason: string };

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
  /** The id of the config that decided it; absent if no mapping decides. */
  config?: string;
  /** The HTTP status of the answer, if it was an error. */
  status?: number;
  /** Where no mapping matched, or one that skipped it: the closest other one, and the name of its condition that failed. */
  nearest?: { mapping: string; condition: string };
  /** Template fields that were missing. */
  missing?: string[];
  /** What of the body the mappings did not see. They quote nothing of it. */
  warnings?: readonly string[];
  duplicateOf?: string;
  replayOf?: string;
  /** An operator has changed the body before the replay. */
  edited?: true;
  handled?: EventHandled;
  actions: StoredAction[];
  /** What mappings in shadow would have done. */
  would?: ShadowAction[];
  /** What the mappings' code threw and printed. It may quote the body, and goes with it. */
  debug?: EventDebug;
  /** The span that took it in. */
  trace?: TraceContext;
  request: StoredRequest;
}
