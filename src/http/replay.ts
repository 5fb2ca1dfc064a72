import type { Clock } from "../core/clock.ts";
import type { Failure } from "../core/errors.ts";
import { newId } from "../core/ids.ts";
import { plainText } from "../core/text.ts";
import type { Debugged } from "../mapping/types.ts";
import type { EventRecord, Store, StoredAction } from "../store/types.ts";
import { parsePayload } from "./body.ts";
import { recordResolution, type Arrival, type RecordDeps } from "./record.ts";
import type { HookRequest } from "./request.ts";
import { resolveHook, type Resolution } from "./resolve.ts";
import type { ReplayResult, Snapshot } from "./types.ts";

export interface ReplayDeps {
  store: Store;
  clock: Clock;
  snapshot(): Snapshot;
  record(snapshot: Snapshot): RecordDeps;
}

function told(action: StoredAction): ReplayResult["actions"][number] {
  const text = plainText(action.kind === "run" ? action.spec.input : action.text);
  return { kind: action.kind, summary: text.slice(0, 200), ...(action.mapping === undefined ? {} : { mapping: action.mapping }) };
}

function describe(resolution: Resolution): Omit<ReplayResult, "eventId"> {
  if (resolution.kind === "refused")
    return {
      outcome: resolution.outcome,
      reason: resolution.failure.message,
      actions: [],
      ...(resolution.mapping ? { mapping: resolution.mapping } : {}),
    };
  if (resolution.kind === "unmatched") return { outcome: "unmatched", reason: resolution.reason, actions: [] };
  if (resolution.kind === "skipped")
    return { outcome: "skipped", reason: resolution.reason, mapping: resolution.mapping, actions: (resolution.would ?? []).map(told) };
  const actions = resolution.items.flatMap((item) => (item.ok ? [told(item.action)] : []));
  return { outcome: "accepted", actions, ...(resolution.mapping === undefined ? {} : { mapping: resolution.mapping }) };
}

/**
 * Runs a recorded event through the mappings of today, as a new event; with `dryRun` nothing is kept or started.
 * Fails with `not_found` where the event or its body is no longer there.
 */
export async function replayEvent(
  eventId: string,
  { dryRun }: { dryRun: boolean },
  deps: ReplayDeps,
): Promise<{ ok: true; result: ReplayResult } | { ok: false; failure: Failure }> {
  const event = await deps.store.getEvent(eventId);
  if (!event) return { ok: false, failure: { code: "not_found", message: "there is no event with this id" } };
  const { body } = event.request;
  if (body === null)
    return { ok: false, failure: { code: "not_found", message: "the body of this event is no longer kept (hooks.retention)" } };
  const now = deps.clock.now();
  const snapshot = deps.snapshot();
  const arrival = arrivalOf(event, Buffer.from(body), now);
  const { credential } = event;
  const payload =
    event.request.method === "GET"
      ? { ok: true as const, payload: event.request.query }
      : await parsePayload(arrival.bytes, event.request.contentType);
  const resolution: Debugged<Resolution> = payload.ok
    ? await resolveHook(
        { ...arrival.request, credential, byHookToken: credential === "hooks.token", payload: payload.payload, now },
        snapshot,
      )
    : { kind: "refused", outcome: "rejected", failure: payload.failure };
  const described = describe(resolution);
  if (dryRun) return { ok: true, result: { eventId, ...described } };
  // An operator's replay is meant: keys that earlier work holds do not stop it.
  const unkeyed: Debugged<Resolution> =
    resolution.kind === "work"
      ? {
          ...resolution,
          items: resolution.items.map((item) => (item.ok ? { ok: true, action: item.action, missing: item.missing } : item)),
        }
      : resolution;
  const answered = await recordResolution(deps.record(snapshot), arrival, unkeyed, undefined);
  const ids = answered.event.actions.map((action) => (action.kind === "run" ? action.runId : action.systemEventId));
  return {
    ok: true,
    result: {
      eventId,
      newEventId: answered.event.id,
      ...described,
      actions: described.actions.map((action, index) => ({ ...action, ...(ids[index] === undefined ? {} : { id: ids[index] }) })),
    },
  };
}

function arrivalOf(event: EventRecord, bytes: Buffer, now: number): Arrival {
  const { method, headers, query, contentType } = event.request;
  const request: HookRequest = {
    method,
    path: event.path,
    query,
    headers: contentType === undefined ? headers : { ...headers, "content-type": contentType },
    shown: { headers, query },
    address: event.address ?? "replay",
    source: null,
  };
  return { id: newId("evt", now), now, request, credential: event.credential, bytes, replayOf: event.id };
}
