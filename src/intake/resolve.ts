import type { CombinedAction } from "../turns/types.ts";
import {
  agentBody,
  checkDraft,
  checkAgent,
  checkWake,
  toIssues,
  unknownFields,
  wakeBody,
  withoutNulls,
  type ActionSource,
} from "../turns/validate.ts";
import type { EventDebug } from "../vocabulary/debug-notes.ts";
import { getStatus, type Failure } from "../core/errors.ts";
import type {
  DecidedOutcome,
  DraftResult,
  MappingInput,
  MappingOutcome,
  Nearest,
} from "../mapping/types.ts";
import type { Collected, EventOutcome, ShadowAction, StoredAction } from "../store/types.ts";
import type { z } from "zod";
import { isRecord, parseJson, writeJson } from "../core/json.ts";
import { nameContentType } from "../core/http/payload.ts";
import type { ParsedHook, Item, ReceivedHook, Resolution, Snapshot, ValidItem } from "./types.ts";
import { plural } from "../core/text.ts";

const refused = (failure: Failure): Resolution => ({
  kind: "refused",
  outcome: "rejected",
  failure,
});

function invalid(error: z.ZodError): Resolution {
  const issues = toIssues(error);
  const first = issues[0];
  return refused({
    code: "invalid_body",
    message: first ? `${first.path}: ${first.message}` : "the body is not as it should be",
    issues,
  });
}

function notAnObject({ payload, headers }: MappingInput): Resolution {
  const kind =
    typeof payload === "string" ? "text" : Array.isArray(payload) ? "a list" : "another value";
  const came = `${kind} came as ${nameContentType(headers["content-type"])}`;
  return refused({
    code: "invalid_body",
    message: `the body must be a JSON object, and ${came}: send a JSON object as application/json`,
  });
}

/** Adds the content type to a message if the body is text. That is the usual reason for missing fields. */
function withContentType(message: string, { payload, headers }: MappingInput): string {
  if (typeof payload !== "string") return message;
  return `${message}; the body came as ${nameContentType(headers["content-type"])} and is text, which has no fields: send a JSON object as application/json`;
}

/** Resolves a hook whose body names the work, by the schema of that body. */
function resolveByBody<S extends z.ZodObject>(
  input: ParsedHook,
  schema: S,
  check: (
    body: z.output<S>,
    source: ActionSource,
    warnings: string[],
  ) => ReturnType<typeof checkAgent | typeof checkWake>,
): Resolution {
  const { path: hook, payload, now, credential } = input;
  if (!isRecord(payload)) return notAnObject(input);
  const body = schema.safeParse(withoutNulls(payload));
  if (!body.success) return invalid(body.error);
  const warnings = unknownFields(payload, schema);
  const source = { hook, credential, unsafe: false, fromRequest: true, now };
  const checked = check(body.data, source, warnings);
  if (!checked.ok) return refused(checked.failure);
  const item: Item = { ok: true, action: checked.action, missing: [] };
  return { kind: "work", list: false, items: [item], warnings };
}

const noMapping: Failure = {
  code: "no_mapping",
  message:
    "no mapping or preset names this path: check the address, or add a mapping for it (`rouse hooks` shows all paths)",
};

function unmatchedReason(nearest: Nearest | undefined): string {
  const closest = nearest
    ? `; the closest is "${nearest.mapping}", whose ${nearest.condition} does not hold`
    : "";
  return `no mapping matched${closest}; \`rouse explain\` shows every condition`;
}

function resolveMapped(outcome: MappingOutcome, input: ParsedHook, snapshot: Snapshot): Resolution {
  switch (outcome.kind) {
    case "unmatched":
      if (!snapshot.mappings.owns(input))
        return { kind: "refused", outcome: "unmatched", failure: noMapping };
      return { ...outcome, reason: unmatchedReason(outcome.nearest) };
    case "skipped":
      return outcome;
    case "rejected":
    case "failed": {
      const { kind, ...details } = outcome;
      return { kind: "refused", outcome: kind, ...details };
    }
    case "actions":
      return resolveDrafts(outcome, input, snapshot);
  }
}

type Actions = Extract<MappingOutcome, { kind: "actions" }>;

function toItem(result: DraftResult, input: ParsedHook, snapshot: Snapshot): Item {
  if (!result.ok) return { ok: false, failure: result.failure, mapping: result.mapping };
  const { draft } = result;
  const { now, payload, headers, query, path, credential } = input;
  const fields = draft.fields as Record<string, unknown>;
  const checked = checkDraft({ ...draft, fields }, { hook: path, credential, now }, snapshot);
  if (!checked.ok) return { ok: false, failure: checked.failure, mapping: draft.mapping };
  const item: Item = { ok: true, action: checked.action, missing: draft.missing };
  if (draft.batch) {
    const event: Collected = { at: now, payload: writeJson(payload), headers, query, path };
    if (credential !== undefined) event.credential = credential;
    item.batch = { ...draft.batch, event };
  }
  if (draft.dedupeKey !== undefined)
    item.key = { scope: `${path}|${draft.mapping}`, key: draft.dedupeKey };
  return item;
}

/** Validates the actions of mappings. */
function resolveDrafts(
  { mapping, list, results }: Actions,
  input: ParsedHook,
  snapshot: Snapshot,
): Resolution {
  const items = results.map((result) => toItem(result, input, snapshot));
  const [first] = items;
  // Items are independent. The event is rejected, with the first item's failure, only if all items failed.
  if (first && !first.ok && items.every((item) => !item.ok)) {
    const outcome = getStatus(first.failure.code) >= 500 ? "failed" : "rejected";
    return { kind: "refused", outcome, failure: first.failure, mapping: first.mapping ?? mapping };
  }
  return { kind: "work", list, items, mapping };
}

/** Renders what a mapping in shadow would have done with an event. */
function toShadowActions(
  outcome: DecidedOutcome,
  input: ParsedHook,
  snapshot: Snapshot,
): ShadowAction[] {
  const none = (reason: string): ShadowAction => ({
    kind: "none",
    mapping: outcome.mapping,
    reason,
  });
  switch (outcome.kind) {
    case "skipped":
      return [none(outcome.reason)];
    case "rejected":
    case "failed":
      return [none(outcome.failure.message)];
    case "actions":
      return outcome.results.map((result) => {
        const item = toItem(result, input, snapshot);
        return item.ok ? item.action : none(item.failure.message);
      });
  }
}

/** Says what mappings in shadow would have done: how many actions, and why there would not be others. */
export function renderShadow(actions: number, refusals: readonly string[]): string {
  const done = `shadow: ${plural(actions, "action")} would have been done`;
  return refusals.length === 0 ? done : `${done}; not done: ${refusals.join("; ")}`;
}

/** Adds what mappings in shadow would have done. If no other mapping matched, the event is skipped for them. */
function withShadow(
  resolution: Resolution,
  shadow: readonly DecidedOutcome[],
  input: ParsedHook,
  snapshot: Snapshot,
): Resolution {
  const [first] = shadow;
  if (!first) return resolution;
  const would = shadow.flatMap((outcome) => toShadowActions(outcome, input, snapshot));
  if (resolution.kind !== "unmatched") return { ...resolution, would };
  const refusals = would.flatMap((one) => (one.kind === "none" ? one.reason : []));
  const reason = renderShadow(would.length - refusals.length, refusals);
  return { kind: "skipped", mapping: first.mapping, reason, would, shadow: true };
}

/** Resolves the events of a batch together. Never throws. */
export async function combineEvents(
  mapping: string,
  events: readonly Collected[],
  snapshot: Snapshot,
): Promise<CombinedAction> {
  const inputs = events.map(({ at, credential, payload, ...event }): ParsedHook => ({
    ...event,
    payload: parseJson(payload),
    credential,
    method: "POST",
    byHookToken: true,
    now: at,
  }));
  const last = inputs.at(-1);
  const combined = last && (await snapshot.mappings.combine(mapping, inputs));
  if (!last || !combined)
    return {
      ok: false,
      failure: {
        code: "mapping_failed",
        message: "the mapping that collected the events is no longer there",
      },
    };
  const { debug, ...outcome } = combined;
  const config = snapshot.decidingConfig?.id;
  const resolved = resolveCombined(resolveMapped(outcome, last, snapshot));
  return { ...resolved, ...(debug && { debug }), ...(config !== undefined && { config }) };
}

/** The result of a batch: one run, or the reason for none. */
function resolveCombined(resolution: Resolution): CombinedAction {
  if (resolution.kind === "refused") return { ok: false, failure: resolution.failure };
  if (resolution.kind === "unmatched") return { ok: true, skipped: resolution.reason };
  const item = resolution.kind === "work" ? resolution.items[0] : undefined;
  if (resolution.kind === "skipped" || !item)
    return {
      ok: true,
      skipped: resolution.kind === "skipped" ? resolution.reason : "nothing to do",
    };
  if (!item.ok) return { ok: false, failure: item.failure };
  if (item.action.kind === "run" && resolution.kind === "work" && resolution.items.length === 1)
    return { ok: true, action: item.action };
  return {
    ok: false,
    failure: {
      code: "mapping_failed",
      message: "the transform gave something else than one agent action for the events together",
    },
  };
}

/** Adds the content type of a text body. Acknowledges a failed event if its sender disables hooks after errors. */
function finish(resolution: Resolution, input: ParsedHook, { verifiers }: Snapshot): Resolution {
  if (resolution.kind === "unmatched")
    return { ...resolution, reason: withContentType(resolution.reason, input) };
  if (resolution.kind !== "refused") return resolution;
  const failure = {
    ...resolution.failure,
    message: withContentType(resolution.failure.message, input),
  };
  if (failure.code === "too_many_actions" || !verifiers.get(input.path)?.sender?.disablesAfter)
    return { ...resolution, failure };
  return { ...resolution, failure, outcome: "failed", acknowledged: true };
}

/** Resolves a parsed hook with a snapshot: `wake` and `agent` by their own bodies, all else by the mappings. Never throws. */
export function resolveParsed(
  input: ParsedHook,
  snapshot: Snapshot,
  onDebug?: (debug: EventDebug) => void,
): Resolution | Promise<Resolution> {
  if (input.path === "wake")
    return resolveByBody(input, wakeBody, (body, source) =>
      checkWake([{ text: body.text, outside: true }], body, source, snapshot),
    );
  if (input.path === "agent")
    return resolveByBody(input, agentBody, (body, source, warnings) =>
      checkAgent([{ text: body.message, outside: true }], body, source, snapshot, warnings),
    );
  return snapshot.mappings.run(input).then(({ debug, shadow = [], ...outcome }) => {
    if (debug) onDebug?.(debug);
    const resolution = resolveMapped(outcome, input, snapshot);
    return finish(withShadow(resolution, shadow, input, snapshot), input, snapshot);
  });
}

/** The effect of a snapshot's mappings on an event. */
export interface Effect {
  outcome: EventOutcome;
  mapping: string | null;
  reason: string | null;
  actions: ValidItem[];
  /** The actions that mappings in shadow would have made of an event that no other mapping took. */
  shadow: StoredAction[];
  /** Template expressions that found nothing, of a hook that is rejected for that. */
  missing: readonly string[];
}

/** Failed actions that a reason names at most. */
const MAX_NAMED = 3;

/** Names the actions that failed beside others that are done; undefined if none did. */
export function renderFailedItems(items: readonly Item[]): string | undefined {
  const failed = items.flatMap((item, index) =>
    item.ok ? [] : [`action ${index + 1}: ${item.failure.message}`],
  );
  if (failed.length === 0) return undefined;
  return `${failed.length} of ${items.length} actions failed: ${failed.slice(0, MAX_NAMED).join("; ")}`;
}

/** Says what a resolution makes of an event. */
export function toEffect(resolution: Resolution): Effect {
  const mapping = resolution.kind === "unmatched" ? null : (resolution.mapping ?? null);
  const none = { mapping, actions: [], shadow: [], missing: [] };
  switch (resolution.kind) {
    case "unmatched":
      return { ...none, outcome: "unmatched", reason: resolution.reason };
    case "skipped": {
      const { reason, would = [] } = resolution;
      const shadow = would.filter((one) => one.kind !== "none");
      return { ...none, outcome: "skipped", reason, shadow };
    }
    case "refused":
      return {
        ...none,
        outcome: resolution.outcome,
        reason: resolution.failure.message,
        missing: resolution.missing ?? [],
      };
    case "work":
      return {
        ...none,
        outcome: "accepted",
        reason: renderFailedItems(resolution.items) ?? null,
        actions: resolution.items.filter((item) => item.ok),
      };
  }
}

/** Decides about a hook by the mappings of a snapshot. Starts nothing and stores nothing; never throws. */
export async function getEffect(input: ParsedHook, snapshot: Snapshot): Promise<Effect> {
  return toEffect(await resolveParsed(input, snapshot));
}

/** Removes duplicate keys and batches: a replay is intended, so earlier work must not block it and it must not wait for more events. */
function withoutKeys(resolution: Resolution): Resolution {
  if (resolution.kind !== "work") return resolution;
  const items = resolution.items.map((item): Item =>
    item.ok ? { ok: true, action: item.action, missing: item.missing } : item,
  );
  return { ...resolution, items };
}

/** Resolves a hook by its path: `wake` and `agent` by their own bodies, all else by the mappings. Never throws. */
export function resolve(hook: ReceivedHook): undefined | Promise<undefined> {
  const { path, credential, byHookToken, payload, kept, now, origin } = hook;
  const input = {
    path,
    method: hook.input.method,
    credential,
    byHookToken,
    payload,
    headers: kept.headers,
    query: kept.query,
    now,
  };
  const keep = (resolution: Resolution): undefined => {
    hook.resolution = origin.kind === "replay" ? withoutKeys(resolution) : resolution;
  };
  const resolution = resolveParsed(input, hook.snapshot, (debug) => (hook.debug = debug));
  return resolution instanceof Promise ? resolution.then(keep) : keep(resolution);
}
