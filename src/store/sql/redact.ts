/** Takes from records what retention does not keep. */
import { FORGOTTEN, redactOutside } from "../../core/text.ts";
import type { EventHead } from "./rows.ts";
import type {
  ApprovalRecord,
  Ms,
  Retention,
  RunAction,
  RunSpec,
  ShadowAction,
  StepRecord,
  StoredAction,
  SystemEvent,
  ToolCallRecord,
  ToolResultRecord,
} from "../types.ts";

/** An event's actions without what came from outside. */
const redactActions = (actions: string | null): string | null =>
  actions === null ? null : JSON.stringify(forgetActions(JSON.parse(actions) as StoredAction[]));

function withoutCollected(action: RunAction): RunAction {
  if (!action.collect) return action;
  const { key, closesAt, event } = action.collect;
  return { ...action, collect: { key, closesAt, event: { ...event, payload: "null", query: {} } } };
}

/** A run's spec without what it was given from outside. */
function withoutOutside<S extends RunSpec>(spec: S): S {
  const kept = { ...spec, input: redactOutside(spec.input) };
  if ("debug" in kept) delete kept.debug;
  if ("incoming" in kept) {
    delete kept.unread;
    if (kept.parts) kept.parts = kept.parts.map(({ unread: _of, ...part }) => part);
  }
  return kept;
}

function forgetActions<T extends ShadowAction>(actions: readonly T[]): (T | StoredAction)[] {
  return actions.map((action) => {
    switch (action.kind) {
      case "run":
        return { ...withoutCollected(action), spec: withoutOutside(action.spec) };
      case "wake":
        return { ...action, text: redactOutside(action.text) };
      case "none":
        return action;
    }
  });
}

/** Stands in the head of an event that has notes for debugging; no text in a head can hold it. */
const DEBUG_MARK = '"debug":{';

/** An event's head without the notes for debugging, which may quote the body. */
function redactDebug(text: string): string {
  const { debug: _debug, ...head } = JSON.parse(text) as EventHead;
  return JSON.stringify(head);
}

/** An event's head without what came from outside: the query of a GET is its payload. */
function redactHead(text: string): string {
  const { debug: _debug, ...head } = JSON.parse(text) as EventHead;
  const kept: EventHead = { ...head, request: { ...head.request, query: {} } };
  if (head.would) kept.would = forgetActions(head.would);
  return JSON.stringify(kept);
}

/** A run's spec without the content from outside, or undefined if there is no such content. */
function redactSpec(text: string): string | undefined {
  const spec = JSON.parse(text) as RunSpec;
  if (
    !["debug", "unread"].some((key) => key in spec) &&
    !spec.input.some((part) => part.outside && part.text !== FORGOTTEN)
  )
    return undefined;
  return JSON.stringify(withoutOutside(spec));
}

/** A system event's record without what came from outside. */
function redactSystemEvent(text: string): string {
  const record = JSON.parse(text) as Pick<SystemEvent, "text">;
  return JSON.stringify({ ...record, text: redactOutside(record.text) });
}

/** A step's record without what the model said and what the provider answered: names, times and counts stay. */
function redactStep(text: string): string {
  const { failedAttempts, ...step } = JSON.parse(text) as Omit<StepRecord, "calls">;
  const kept: Omit<StepRecord, "calls"> = { ...step, messages: [] };
  if (failedAttempts)
    kept.failedAttempts = failedAttempts.map((one) => ({
      ...one,
      error: { code: one.error.code, message: FORGOTTEN },
    }));
  return JSON.stringify(kept);
}

/** A tool call's record without its input and its output. */
function redactToolCall(text: string): string {
  const { output, inputText: _, ...call } = JSON.parse(text) as ToolCallRecord;
  const kept: ToolCallRecord = { ...call, input: FORGOTTEN };
  if (output) kept.output = { ...output, parts: [{ type: "text", text: FORGOTTEN }] };
  return JSON.stringify(kept);
}

/** A stored result's record without its text. */
function redactToolResult(text: string): string {
  return JSON.stringify({ ...(JSON.parse(text) as ToolResultRecord), text: FORGOTTEN });
}

/** An approval's record without the input that it asks about. */
function redactApproval(text: string): string {
  return JSON.stringify({ ...(JSON.parse(text) as ApprovalRecord), input: FORGOTTEN });
}

/** SQL: whether a run of an event has not ended. */
export const UNFINISHED =
  "EXISTS (SELECT 1 FROM runs WHERE runs.event_id = events.id AND runs.ended IS NULL)";

/** A row whose texts may have to go, with its time. */
interface RedactedRow {
  seq: number;
  at: Ms;
}

/** New values by column. */
type Changes = Record<string, string | null>;

/** A table whose rows lose their texts. */
export interface Redaction {
  /** The row of `marks` that holds the last row with nothing left to do, so that a sweep does not begin at the oldest row. */
  mark: string;
  table: string;
  /** SQL: the columns that `redact` reads, with the row's time as `at`. */
  columns: string;
  /** The newest time that is old enough; all rows are if there is none. */
  upTo?: Ms;
  /** Returns what changes in a row, or `done` if nothing does; `wait` returns to the row in the next sweep. */
  redact(row: RedactedRow): Changes | "done" | "wait";
}

interface BodyRow extends RedactedRow {
  has: number | boolean;
  unfinished: number | boolean;
  head: string | null;
  actions: string | null;
}

/** Removes raw bodies and the notes that may quote them. If no bodies are kept, also the hook's content from the actions. */
function redactBodies(now: Ms, kept: Ms, hasBody: string): Redaction {
  const texts =
    kept === 0
      ? "head, actions"
      : `CASE WHEN head LIKE '%${DEBUG_MARK}%' THEN head END AS head, NULL AS actions`;
  return {
    mark: "bodies",
    table: "events",
    columns: `at, ${hasBody} AS has, ${UNFINISHED} AS unfinished, ${texts}`,
    upTo: now - kept,
    redact({ has, unfinished, head, actions }: BodyRow) {
      if (!has) return "done";
      if (unfinished) return "wait";
      if (head === null) return { body: null };
      return kept === 0
        ? { body: null, head: redactHead(head), actions: redactActions(actions) }
        : { body: null, head: redactDebug(head) };
    },
  };
}

/** SQL: whether what a run was given is used up. A hook's run that failed keeps it, since it may be retried. */
const USED_UP = "ended IS NOT NULL AND (status IN ('succeeded', 'cancelled') OR event_id IS NULL)";

/** Removes the input of runs. */
const INPUTS: Redaction = {
  mark: "inputs",
  table: "runs",
  columns: `created AS at, ${USED_UP} AS done, spec`,
  redact({ done, spec }: RedactedRow & { done: number | boolean; spec: string }) {
    if (!done) return "wait";
    const redacted = redactSpec(spec);
    return redacted === undefined ? "done" : { spec: redacted };
  },
};

/** Removes the text of system events that a heartbeat has read. */
const SYSTEM_EVENTS: Redaction = {
  mark: "system-events",
  table: "system_events",
  columns: "at, state, record",
  redact: ({ state, record }: RedactedRow & { state: string; record: string }) =>
    state === "done" ? { record: redactSystemEvent(record) } : "wait",
};

/** Removes the texts of what happened in runs, and leaves names and times. */
const STEPS = (
  [
    ["steps", redactStep],
    ["tool_calls", redactToolCall],
    ["tool_results", redactToolResult],
    ["approvals", redactApproval],
  ] as const
).map(([table, redactRecord]): Redaction => ({
  mark: table,
  table,
  columns: `at, (SELECT ${USED_UP} FROM runs WHERE runs.id = ${table}.run_id) AS done, record`,
  redact: ({ done, record }: RedactedRow & { done: number | boolean | null; record: string }) => {
    // Files of deliveries stay as long as the deliveries' texts.
    if (table === "tool_results" && record.startsWith('{"id":"dlv_')) return "done";
    if (!done) return "wait";
    const redacted = redactRecord(record);
    return redacted === record ? "done" : { record: redacted };
  },
}));

/** Returns what retention redacts. If no bodies are kept, runs and system events lose the hooks' texts too. */
export const getRedactions = (now: Ms, keep: Retention, hasBody: string): Redaction[] => [
  redactBodies(now, keep.bodies, hasBody),
  ...(keep.bodies === 0 ? [INPUTS, SYSTEM_EVENTS, ...STEPS] : []),
];
