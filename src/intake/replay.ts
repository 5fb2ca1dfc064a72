import { BODY_GONE_ADVICE, BODY_GONE } from "../vocabulary/body-gone.ts";
import type { Failure } from "../core/errors.ts";
import { plainText } from "../core/text.ts";
import type { Ms, Reads, Store, StoredAction, EventRecord } from "../store/types.ts";
import type {
  Origin,
  RawInput,
  ReceivedHook,
  ReplayOptions,
  ReplayResult,
  Resolution,
  StageResult,
  Snapshot,
} from "./types.ts";
import { decodePayload } from "../core/http/payload.ts";
import type { MappingInput } from "../mapping/types.ts";
import { WITHOUT_MAPPINGS } from "./authenticate.ts";

/** The part of a recorded event that the mappings see. */
export type RecordedHook = Pick<EventRecord, "path" | "credential" | "receivedAt" | "request">;

/** `reason` says why the mappings cannot be asked about the event. */
type RecordedInput = { ok: true; input: MappingInput } | { ok: false; reason: string };

/**
 * Reads a recorded event as the mappings see it.
 * @param snapshot whose mappings are asked; they say how bodies of the path are read. Undefined: by their content types.
 */
export function readRecordedInput(
  event: RecordedHook,
  snapshot: Pick<Snapshot, "mappings"> | undefined,
): RecordedInput {
  const { path } = event;
  if (WITHOUT_MAPPINGS.has(path))
    return { ok: false, reason: `no mapping decides about /${path}: its body names the work` };
  return readRecordedHook(event, snapshot);
}

/** Reads a recorded event like `readRecordedInput`, also one of a path about which no mapping decides. */
export function readRecordedHook(
  event: RecordedHook,
  snapshot: Pick<Snapshot, "mappings"> | undefined,
): RecordedInput {
  const { path, credential, receivedAt: now } = event;
  const { method, headers, query, body, contentType } = event.request;
  if (body === null) return { ok: false, reason: BODY_GONE };
  const format = snapshot?.mappings.rules.get(path)?.body;
  const decoded =
    method === "GET"
      ? { ok: true as const, payload: query }
      : decodePayload(Buffer.from(body), { contentType, format });
  if (!decoded.ok)
    return { ok: false, reason: `the body cannot be read: ${decoded.failure.message}` };
  const byHookToken = credential === "hooks.token";
  return {
    ok: true,
    input: { path, method, byHookToken, payload: decoded.payload, headers, query, now },
  };
}

type Replayed =
  | { ok: true; input: RawInput; origin: Extract<Origin, { kind: "replay" }> }
  | { ok: false; failure: Failure };

/**
 * Reads a recorded event as the input of a new one. Fails with `not_found` if the event is no longer there, or its body if no other
 * one is given.
 */
export async function findReplayed(
  eventId: string,
  { body: edited, recorded: kept }: Pick<ReplayOptions, "body" | "recorded">,
  store: Reads,
): Promise<Replayed> {
  const event = kept ?? (await store.events.get(eventId));
  if (!event)
    return { ok: false, failure: { code: "not_found", message: "there is no event with this id" } };
  const { body: recorded, contentType, method, query, headers } = event.request;
  const body = edited ?? recorded;
  if (body === null)
    return { ok: false, failure: { code: "not_found", message: BODY_GONE_ADVICE } };
  const { path, credential, address } = event;
  const typed = contentType === undefined ? headers : { ...headers, "content-type": contentType };
  return {
    ok: true,
    input: { method, path, query, headers: typed, body },
    origin: { kind: "replay", of: eventId, credential, address, ...(edited && { edited: true }) },
  };
}

/** Leaves one action of the hook's work, by its number from 1; without a number all. Fails if there is none with this number. */
export function keepAction(hook: ReceivedHook, number: number | undefined): Failure | undefined {
  if (number === undefined) return undefined;
  const { resolution } = hook;
  const items = resolution?.kind === "work" ? resolution.items.filter((item) => item.ok) : [];
  const item = items[number - 1];
  const made = items.length === 1 ? "one action" : `${items.length} actions`;
  if (!item || resolution?.kind !== "work")
    return { code: "usage", message: `there is no action ${number}: the event makes ${made} now` };
  hook.resolution = { ...resolution, items: [item] };
  return undefined;
}

type ReplayedAction = ReplayResult["actions"][number];

function summarize(action: StoredAction): ReplayedAction {
  const text = plainText(action.kind === "run" ? action.spec.input : action.text);
  return {
    kind: action.kind,
    summary: text.slice(0, 200),
    ...(action.mapping === undefined ? {} : { mapping: action.mapping }),
  };
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
      const actions = would.flatMap((one) => (one.kind === "none" ? [] : summarize(one)));
      return { outcome: "skipped", reason, mapping, actions };
    }
    case "work": {
      const actions = resolution.items.flatMap((item) => (item.ok ? [summarize(item.action)] : []));
      return {
        outcome: "accepted",
        actions,
        ...(resolution.mapping === undefined ? {} : { mapping: resolution.mapping }),
      };
    }
  }
}

/** Builds the result of a replay. `end` is the result of the stages: undefined for a dry run without a failure. */
export function toReplayResult(
  eventId: string,
  { resolution }: ReceivedHook,
  end: StageResult,
): ReplayResult {
  const described: Omit<ReplayResult, "eventId"> = resolution
    ? describe(resolution)
    : { outcome: "rejected", actions: [] };
  if (end?.kind === "rejected") return { eventId, ...described, reason: end.error.message };
  if (end?.kind !== "receipt") return { eventId, ...described };
  const ids = end.actions.flatMap((action) =>
    action.ok ? [action.runId ?? action.systemEventId] : [],
  );
  const actions = described.actions.map((action, index) => ({
    ...action,
    ...(ids[index] === undefined ? {} : { id: ids[index] }),
  }));
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

/** Notes at an event that failed that its replay has taken it in: it asks for no attention any more. Returns the result. */
export async function markReplayed(
  result: ReplayResult,
  store: Store,
  now: Ms,
): Promise<ReplayResult> {
  const { eventId, newEventId, outcome } = result;
  if (newEventId === undefined || outcome === "failed" || outcome === "rejected") return result;
  const event = await store.events.get(eventId);
  if (event?.outcome === "failed")
    await store.commit((tx) =>
      tx.events.update(eventId, { handled: { at: now, as: "replayed", eventId: newEventId } }),
    );
  return result;
}
