import type { Failure } from "../core/errors.ts";
import { plainText } from "../core/text.ts";
import type { Store, StoredAction } from "../store/types.ts";
import type { Origin, RawInput, ReceivedHook, ReplayResult, Resolution, StageResult } from "./types.ts";

type Replayed = { ok: true; input: RawInput; origin: Extract<Origin, { kind: "replay" }> } | { ok: false; failure: Failure };

/** Reads a recorded event as the input of a new one. Fails with `not_found` if the event or its body is no longer there. */
export async function findReplayed(eventId: string, store: Pick<Store, "get">): Promise<Replayed> {
  const event = await store.get("event", eventId);
  if (!event) return { ok: false, failure: { code: "not_found", message: "there is no event with this id" } };
  const { body, contentType, method, query, headers } = event.request;
  if (body === null)
    return { ok: false, failure: { code: "not_found", message: "the body of this event is no longer kept (hooks.retention)" } };
  const { path, credential, address } = event;
  const typed = contentType === undefined ? headers : { ...headers, "content-type": contentType };
  return {
    ok: true,
    input: { method, path, query, headers: typed, body },
    origin: { kind: "replay", of: eventId, credential, address },
  };
}

type ReplayedAction = ReplayResult["actions"][number];

function summarize(action: StoredAction): ReplayedAction {
  const text = plainText(action.kind === "run" ? action.spec.input : action.text);
  return { kind: action.kind, summary: text.slice(0, 200), ...(action.mapping === undefined ? {} : { mapping: action.mapping }) };
}

function describe(resolution: Resolution): Omit<ReplayResult, "eventId"> {
  switch (resolution.kind) {
    case "refused": {
      const { outcome, failure, mapping } = resolution;
      return { outcome, reason: failure.message, actions: [], ...(mapping ? { mapping } : {}) };
    }
    case "unmatched":
      return { outcome: "unmatched", reason: resolution.reason, actions: [] };
    case "skipped": {
      const { reason, mapping, would = [] } = resolution;
      return { outcome: "skipped", reason, mapping, actions: would.map(summarize) };
    }
    case "work": {
      const actions = resolution.items.flatMap((item) => (item.ok ? [summarize(item.action)] : []));
      return { outcome: "accepted", actions, ...(resolution.mapping === undefined ? {} : { mapping: resolution.mapping }) };
    }
  }
}

/** Builds the result of a replay. `end` is the result of the stages: undefined for a dry run without a failure. */
export function toReplayResult(eventId: string, { resolution }: ReceivedHook, end: StageResult): ReplayResult {
  const described: Omit<ReplayResult, "eventId"> = resolution ? describe(resolution) : { outcome: "rejected", actions: [] };
  if (end?.kind === "rejected") return { eventId, ...described, reason: end.error.message };
  if (end?.kind !== "receipt") return { eventId, ...described };
  const ids = end.actions.flatMap((action) => (action.ok ? [action.runId ?? action.systemEventId] : []));
  const actions = described.actions.map((action, index) => ({ ...action, ...(ids[index] === undefined ? {} : { id: ids[index] }) }));
  const reason = end.reason ?? described.reason;
  return {
    eventId,
    newEventId: end.eventId,
    ...described,
    outcome: end.outcome,
    ...(reason === undefined ? {} : { reason }),
    actions,
  };
}
