import type { SpanEnd, Telemetry } from "../telemetry/types.ts";
import type { Intake } from "./receive.ts";
import { OWN_PATHS } from "./traced-event.ts";
import type { Received, ReplayResult, Snapshot } from "./types.ts";

/** Whether a path is one of the config's or the gateway's: others are whatever callers send. */
export const isKnownPath = (path: string, { mappings }: Pick<Snapshot, "mappings">): boolean =>
  OWN_PATHS.has(path) || mappings.rules.has(path);

/** Describes what became of a hook. Only what failed in the gateway or in a mapping is an error: a wrong request is not. */
function describeReceived(received: Received): SpanEnd {
  if (received.kind === "handshake") return { attributes: { "rouse.event.outcome": "handshake" } };
  if (received.kind === "denied")
    return {
      attributes: { "rouse.event.outcome": "denied", "rouse.error.code": received.error.code },
    };
  const { eventId, outcome, mapping, error } = received;
  return {
    attributes: {
      "rouse.event.id": eventId,
      "rouse.event.outcome": outcome,
      "rouse.mapping": mapping,
      "rouse.error.code": error?.code,
    },
    error: outcome === "failed" ? error?.code : undefined,
  };
}

const describeReplay = ({ newEventId, outcome, mapping }: ReplayResult): SpanEnd => ({
  attributes: {
    "rouse.event.id": newEventId,
    "rouse.event.outcome": outcome,
    "rouse.mapping": mapping,
  },
});

/** The same intake; what comes in is taken in within a span. */
export function traceIntake(
  intake: Intake,
  telemetry: Telemetry,
  snapshot: () => Snapshot,
): Intake {
  const { receive, receiveMessage, replay } = intake;
  return {
    ...intake,
    receive(input, origin) {
      const { path, headers } = input;
      const event = { path, isKnown: isKnownPath(path, snapshot()), origin: origin.kind, headers };
      return telemetry.receive(event, () => receive(input, origin), describeReceived);
    },
    receiveMessage(channel, ...rest) {
      const event = { path: `channels/${channel}`, isKnown: true, origin: "channel", headers: {} };
      return telemetry.receive(event, () => receiveMessage(channel, ...rest), describeReceived);
    },
    replay(eventId, options) {
      const event = { path: "replay", isKnown: true, origin: "replay", headers: {} };
      return telemetry.receive(
        event,
        () => replay(eventId, options),
        (replayed) => (replayed.ok ? describeReplay(replayed.result) : {}),
      );
    },
  };
}
