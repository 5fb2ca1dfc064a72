// What the admin API answers about events. test/console/events.test.ts checks that the gateway's own types fit these.
import type { EventDebug } from "../../../../src/core/debug.ts";
import type { EventOutcome } from "../../../../src/core/outcomes.ts";
import type { TextPart } from "../../../../src/core/text.ts";
import type { MappingTrace } from "../../../../src/mapping/types.ts";

export interface EventAction {
  kind: "run" | "wake";
  id: string;
  mapping: string | null;
  /** Of a run: the name that its mapping gives it. */
  name: string | null;
  status?: string;
}

/** A row of the list of events. */
export interface EventRow {
  id: string;
  receivedAt: string;
  path: string;
  credential: string;
  address: string | null;
  outcome: EventOutcome;
  reason: string | null;
  answerStatus: number | null;
  mapping: string | null;
  nearest: { mapping: string; condition: string } | null;
  missing: string[];
  warnings: string[];
  duplicateOf: string | null;
  replayOf: string | null;
  edited: boolean;
  handled: { at: string; as: string } | null;
  traceId: string | null;
  actions: EventAction[];
  bodyBytes: number | null;
}

/** A page of the list. `searchedTo` is set if the search ended early. */
export interface EventsAnswer {
  events: EventRow[];
  next: string | null;
  searchedTo: string | null;
  /** With `search`: how many events were looked at. */
  looked?: number | null;
}

export interface EventRequest {
  method: string;
  contentType: string | null;
  headers: Record<string, string>;
  query: Record<string, string>;
  body: string | null;
  encoding: "utf8" | "base64";
}

export interface EventInFull extends EventRow {
  would: { kind: string; mapping: string | null; content: TextPart[]; fields: Record<string, string | boolean> }[];
  debug: EventDebug | null;
  request: EventRequest;
}

export type Trace = MappingTrace & { place: string };

export interface FailureView {
  code: string;
  message: string;
  issues?: { path: string; message: string }[];
}

export type ActionView =
  | {
      ok: true;
      mapping: string;
      action: "wake" | "agent";
      fields: Record<string, unknown>;
      content: TextPart[];
      dedupeKey: string | null;
      missing: string[];
      warnings: string[];
      unsafe: boolean;
      problem: FailureView | null;
    }
  | { ok: false; mapping: string; failure: FailureView };

export interface Evaluation {
  traces: Trace[];
  outcome: string;
  mapping: string | null;
  reason: string | null;
  failure: FailureView | null;
  nearest: { mapping: string; condition: string } | null;
  missing: string[];
  actions: ActionView[];
}

export interface EventBookmark {
  at: string;
  note: string | null;
}

export interface ExplanationView {
  event: EventInFull;
  evaluation: Evaluation | null;
  note: string | null;
  config: { number: number | null; isToday: boolean; today: number | null; note: string | null } | null;
  now: { evaluation: Evaluation | null; note: string | null } | null;
  drafts: Trace[];
  runs: { run: { id: string; status: string; name: string; reply: string | null }; delivery: { id: string; status: string } | null }[];
  bookmark: EventBookmark | null;
}

export interface ReplayView {
  eventId: string;
  newEventId?: string;
  outcome: string;
  reason?: string;
  mapping?: string;
  actions: { kind: string; id?: string; mapping?: string; summary: string }[];
}
