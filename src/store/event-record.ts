import type { QueryValues } from "../core/http/payload.ts";
import type { EventDebug } from "../vocabulary/debug-notes.ts";
import type { EventOutcome } from "../vocabulary/outcomes.ts";
import type { TraceContext } from "../core/http/trace-context.ts";
import type { WakeMode } from "../config/schema/common.ts";
import type { TextPart } from "../core/text.ts";
import type { Collected, Ms } from "./records.ts";
import type { HookSpec, LimitReason, MessageSpec, RunSpec } from "./runs.ts";

export type { EventOutcome };

/** The beginning of the reason of an event that was accepted and whose work could not be queued. */
export const BROKEN = "broken:";

/** The end of an event that failed: it was replayed as another event, or an operator has discarded it. */
export type EventHandled = { at: Ms } & (
  | { as: "replayed"; eventId: string }
  | { as: "discarded"; reason: string }
);

/** The fields of an event that may change. */
export interface EventChange {
  handled: EventHandled;
}

/** The request itself, without anything that carried a credential. `body` goes after `hooks.retention`. */
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

/** The actions that a hook asks for. */
export type HookAction = RunAction<HookSpec> | WakeAction;
export type StoredAction = RunAction | WakeAction;

/** The action that a mapping in shadow would have made, or the reason that there is none. */
export type ShadowAction = StoredAction | { kind: "none"; mapping: string; reason: string };

/** One hook that came in and what became of it. */
export interface EventRecord {
  id: string;
  receivedAt: Ms;
  /** Path below the hooks' base, without slashes at its ends: `wake`, `agent`, `alerts`. */
  path: string;
  /** The configured credential that it came in by, never its value: `hooks.token`, `path:alerts`. */
  credential: string;
  /** The caller's address. */
  address?: string;
  outcome: EventOutcome;
  /** The reason, in a sentence that quotes no body. */
  reason?: string;
  mapping?: string;
  /** The id of the config that decided it; absent if no mapping decides. */
  config?: string;
  /** The HTTP status of the answer, if it was an error. */
  status?: number;
  /** If no mapping matched, or one skipped it: the closest other one, and the name of its condition that failed. */
  nearest?: { mapping: string; condition: string };
  /** Template fields that were missing. */
  missing?: string[];
  /** The parts of the body that the mappings did not see, without quotations. */
  warnings?: readonly string[];
  duplicateOf?: string;
  replayOf?: string;
  /** An operator has changed the body before the replay. */
  edited?: true;
  handled?: EventHandled;
  actions: StoredAction[];
  /** The number of actions that failed beside others that were done, or done before: `reason` names them. Absent if none did. */
  failedActions?: number;
  /** The actions that mappings in shadow would have made. */
  would?: ShadowAction[];
  /** The errors and the output of the mappings' code. It may quote the body, and goes with it. */
  debug?: EventDebug;
  /** The span that took it in. */
  trace?: TraceContext;
  request: StoredRequest;
}

/** Returns whether an event has failed, or some of its actions. */
export const hasFailed = ({
  outcome,
  failedActions,
}: Pick<EventRecord, "outcome" | "failedActions">): boolean =>
  outcome === "failed" || failedActions !== undefined;

/** The config by which a gateway decides events. */
export interface DecidingConfig {
  /** A hash of it; events carry it. */
  id: string;
  /** The texts of the mappings, as JSON. They hold no secret. */
  content: string;
}

/** A config with the time at which a gateway was using it. */
export interface UsedConfig extends DecidingConfig {
  usedAt: Ms;
}

/** A config that events of the store were decided by. Gateways with the same config share one record. */
export interface ConfigRecord extends DecidingConfig {
  /** Counts the configs of the store. */
  number: number;
  firstUsedAt: Ms;
  /** Behind the last use by up to ten minutes. */
  lastUsedAt: Ms;
}
