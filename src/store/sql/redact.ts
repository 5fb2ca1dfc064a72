import { FORGOTTEN, redactOutside } from "../../core/text.ts";
import type { EventHead } from "./rows.ts";
import type {
  ApprovalRecord,
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
export const redactActions = (actions: string | null): string | null =>
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
export const DEBUG_MARK = '"debug":{';

/** An event's head without the notes for debugging, which may quote the body. */
export function redactDebug(text: string): string {
  const { debug: _debug, ...head } = JSON.parse(text) as EventHead;
  return JSON.stringify(head);
}

/** An event's head without what came from outside: the query of a GET is its payload. */
export function redactHead(text: string): string {
  const { debug: _debug, ...head } = JSON.parse(text) as EventHead;
  const kept: EventHead = { ...head, request: { ...head.request, query: {} } };
  if (head.would) kept.would = forgetActions(head.would);
  return JSON.stringify(kept);
}

/** A run's spec without the content from outside, or undefined if there is no such content. */
export function redactSpec(text: string): string | undefined {
  const spec = JSON.parse(text) as RunSpec;
  if (
    !["debug", "unread"].some((key) => key in spec) &&
    !spec.input.some((part) => part.outside && part.text !== FORGOTTEN)
  )
    return undefined;
  return JSON.stringify(withoutOutside(spec));
}

/** A system event's record without what came from outside. */
export function redactSystemEvent(text: string): string {
  const record = JSON.parse(text) as Pick<SystemEvent, "text">;
  return JSON.stringify({ ...record, text: redactOutside(record.text) });
}

/** A step's record without what the model said and what the provider answered: names, times and counts stay. */
export function redactStep(text: string): string {
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
export function redactToolCall(text: string): string {
  const { output, inputText: _, ...call } = JSON.parse(text) as ToolCallRecord;
  const kept: ToolCallRecord = { ...call, input: FORGOTTEN };
  if (output) kept.output = { ...output, parts: [{ type: "text", text: FORGOTTEN }] };
  return JSON.stringify(kept);
}

/** A stored result's record without its text. */
export function redactToolResult(text: string): string {
  return JSON.stringify({ ...(JSON.parse(text) as ToolResultRecord), text: FORGOTTEN });
}

/** An approval's record without the input that it asks about. */
export function redactApproval(text: string): string {
  return JSON.stringify({ ...(JSON.parse(text) as ApprovalRecord), input: FORGOTTEN });
}
