import { BODY_GONE_ADVICE, BODY_GONE } from "../vocabulary/body-gone.ts";
import type { Failure } from "../core/errors.ts";
import { plainText, plural } from "../core/text.ts";
import { hasFailed, type EventRecord, type Ms, type Store } from "../store/types.ts";
import type { Effect } from "./resolve.ts";
import type {
  Origin,
  RawInput,
  ReceivedHook,
  ReplayResult,
  StageResult,
  Snapshot,
} from "./types.ts";
import { decodePayload } from "../core/http/payload.ts";
import type { MappingInput } from "../mapping/types.ts";
import { WITHOUT_MAPPINGS } from "./authenticate.ts";

const NO_BODY: Failure = { code: "not_found", message: BODY_GONE_ADVICE };

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
): Extract<RecordedInput, { ok: true }> | { ok: false; reason: string; failure: Failure } {
  const { path, credential, receivedAt: now } = event;
  const { method, headers, query, body, contentType } = event.request;
  if (body === null) return { ok: false, reason: BODY_GONE, failure: NO_BODY };
  const format = snapshot?.mappings.rules.get(path)?.body;
  const decoded =
    method === "GET"
      ? { ok: true as const, payload: query }
      : decodePayload(Buffer.from(body), { contentType, format });
  if (!decoded.ok)
    return {
      ok: false,
      reason: `the body cannot be read: ${decoded.failure.message}`,
      failure: decoded.failure,
    };
  const byHookToken = credential === "hooks.token";
  return {
    ok: true,
    input: { path, method, byHookToken, payload: decoded.payload, headers, query, now },
  };
}

type Replayed =
  | { ok: true; input: RawInput; origin: Extract<Origin, { kind: "replay" }> }
  | { ok: false; failure: Failure };

/** Reads a recorded event as the input of a new one. Fails with `not_found` if its body is gone and no other one is given. */
export function toReplayInput(event: EventRecord, edited: Uint8Array | undefined): Replayed {
  const { id, path, credential, address } = event;
  const { body: recorded, contentType, method, query, headers } = event.request;
  const body = edited ?? recorded;
  if (body === null) return { ok: false, failure: NO_BODY };
  const typed = contentType === undefined ? headers : { ...headers, "content-type": contentType };
  return {
    ok: true,
    input: { method, path, query, headers: typed, body },
    origin: { kind: "replay", of: id, credential, address, ...(edited && { edited: true }) },
  };
}

/**
 * Leaves one action of the hook's work, by its number from 1; without a number all. Numbers count actions that fail too, as
 * reasons do. Returns the failure if there is no action of this number, or if it fails.
 */
export function keepAction(
  hook: Pick<ReceivedHook, "resolution">,
  number: number | undefined,
): Failure | undefined {
  if (number === undefined) return undefined;
  const { resolution } = hook;
  const items = resolution?.kind === "work" ? resolution.items : [];
  const item = items[number - 1];
  if (!item) {
    const message = `there is no action ${number}: the event makes ${plural(items.length, "action")} now`;
    return { code: "usage", message };
  }
  if (!item.ok) return item.failure;
  if (resolution?.kind === "work") hook.resolution = { ...resolution, items: [item] };
  return undefined;
}

const NOTHING: Effect = {
  outcome: "rejected",
  mapping: null,
  reason: null,
  actions: [],
  shadow: [],
  missing: [],
};

/** Builds the result of a replay, or without a receipt the one that it would have. */
export function toReplayResult(
  eventId: string,
  { outcome, mapping, reason, actions, shadow }: Effect = NOTHING,
  end?: StageResult,
): ReplayResult {
  const receipt = end?.kind === "receipt" ? end : undefined;
  const ids = receipt?.actions.map((one) =>
    one.ok ? (one.runId ?? one.systemEventId) : undefined,
  );
  const said = end?.kind === "rejected" ? end.error.message : (receipt?.reason ?? reason);
  return {
    eventId,
    ...(receipt && { newEventId: receipt.eventId }),
    outcome: receipt?.outcome ?? outcome,
    ...(mapping !== null && { mapping }),
    ...(said !== null && { reason: said }),
    actions: [...actions.map(({ action }) => action), ...shadow].map((action, index) => ({
      kind: action.kind,
      ...(ids?.[index] !== undefined && { id: ids[index] }),
      ...(action.mapping !== undefined && { mapping: action.mapping }),
      summary: plainText(action.kind === "run" ? action.spec.input : action.text).slice(0, 200),
    })),
  };
}

/** Notes at an event that failed that its replay has done all of it: it asks for no attention any more. Returns the result. */
export async function markReplayed(
  result: ReplayResult,
  action: number | undefined,
  store: Store,
  now: Ms,
): Promise<ReplayResult> {
  const { eventId, newEventId, outcome } = result;
  if (newEventId === undefined || outcome === "failed" || outcome === "rejected") return result;
  const [event, again] = [await store.events.get(eventId), await store.events.get(newEventId)];
  const isWhole = action === undefined || event?.failedActions === 1;
  if (event && isWhole && hasFailed(event) && !(again && hasFailed(again)))
    await store.commit((tx) =>
      tx.events.update(eventId, { handled: { at: now, as: "replayed", eventId: newEventId } }),
    );
  return result;
}
