import type { ReceivedEvent, SpanEnd } from "../telemetry/types.ts";
import type { Origin, RawInput, Received, ReceivedHook, Snapshot } from "./types.ts";

/** Paths that are there without a mapping. */
export const OWN_PATHS = new Set(["wake", "agent"]);

/** Whether a path is one of the config's or the gateway's: others are whatever callers send. */
export const isKnownPath = (path: string, { mappings }: Pick<Snapshot, "mappings">): boolean =>
  OWN_PATHS.has(path) || mappings.rules(path) !== undefined;

/** Describes a hook as its span does. */
export function toReceivedEvent({ path, headers }: RawInput, { kind }: Origin, snapshot: Snapshot): ReceivedEvent {
  return { path, isKnown: isKnownPath(path, snapshot), origin: kind, headers };
}

/** Describes what became of a hook. Only what failed in the gateway or in a mapping is an error: a wrong request is not. */
export function describeReceived(received: Received): SpanEnd {
  if (received.kind === "handshake") return { attributes: { "rouse.event.outcome": "handshake" } };
  if (received.kind === "denied") {
    const { code } = received.error;
    return { attributes: { "rouse.event.outcome": "denied", "rouse.error.code": code } };
  }
  const { eventId, outcome, mapping, error } = received;
  return {
    attributes: { "rouse.event.id": eventId, "rouse.event.outcome": outcome, "rouse.mapping": mapping, "rouse.error.code": error?.code },
    error: outcome === "failed" ? error?.code : undefined,
  };
}

/** Describes what the mappings made of a hook. */
export function describeResolution({ resolution }: ReceivedHook): SpanEnd {
  if (!resolution) return {};
  const mapping = resolution.kind === "unmatched" ? undefined : resolution.mapping;
  const failure = resolution.kind === "refused" ? resolution.failure.code : undefined;
  return {
    attributes: { "rouse.mapping": mapping, "rouse.mapping.result": resolution.kind, "rouse.error.code": failure },
    error: resolution.kind === "refused" && resolution.outcome === "failed" ? failure : undefined,
  };
}
