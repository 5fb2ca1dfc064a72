import { BODY_GONE } from "../core/body-gone.ts";
import { decodePayload } from "../core/payload.ts";
import type { MappingInput } from "../mapping/types.ts";
import type { EventRecord } from "../store/types.ts";
import { WITHOUT_MAPPINGS } from "./authenticate.ts";
import type { Snapshot } from "./types.ts";

/** What of a recorded event the mappings see. */
export type RecordedHook = Pick<EventRecord, "path" | "credential" | "receivedAt" | "request">;

/** `reason` says why the mappings cannot be asked about the event. */
export type RecordedInput = { ok: true; input: MappingInput } | { ok: false; reason: string };

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
