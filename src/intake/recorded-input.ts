import { BODY_GONE } from "../core/body-gone.ts";
import type { MappingInput } from "../mapping/types.ts";
import type { EventRecord } from "../store/types.ts";
import { WITHOUT_MAPPINGS } from "./authenticate.ts";
import { parsePayload } from "./body.ts";

/** What of a recorded event the mappings see. */
export type RecordedHook = Pick<EventRecord, "path" | "credential" | "receivedAt" | "request">;

/** `reason` says why the mappings cannot be asked about the event. */
export type RecordedInput = { ok: true; input: MappingInput } | { ok: false; reason: string };

/** Reads a recorded event as the mappings saw it when it came in. */
export async function readRecordedInput(event: RecordedHook): Promise<RecordedInput> {
  const { path } = event;
  if (WITHOUT_MAPPINGS.has(path))
    return { ok: false, reason: `no mapping decides about /${path}: its body names the work` };
  return readRecordedHook(event);
}

/** Reads a recorded event as it came in, also one of a path about which no mapping decides. */
export async function readRecordedHook(event: RecordedHook): Promise<RecordedInput> {
  const { path, credential, receivedAt: now } = event;
  const { method, headers, query, body, contentType } = event.request;
  if (body === null) return { ok: false, reason: BODY_GONE };
  const parsed =
    method === "GET"
      ? { ok: true as const, payload: query }
      : await parsePayload(Buffer.from(body), contentType);
  if (!parsed.ok)
    return { ok: false, reason: `the body cannot be read: ${parsed.failure.message}` };
  const byHookToken = credential === "hooks.token";
  return {
    ok: true,
    input: { path, method, byHookToken, payload: parsed.payload, headers, query, now },
  };
}
