import { newId } from "../core/ids.ts";
import type { Ms, NewSystemEvent, SystemEvent } from "../store/types.ts";
import { plainText, type TextPart } from "../core/text.ts";

/** Builds a system event that the next heartbeat sees. */
export function buildHeartbeatEvent(
  agentId: string,
  at: Ms,
  source: string,
  text: string,
  outside = false,
): NewSystemEvent {
  return {
    id: newId("sev", at),
    agentId,
    at,
    text: [{ text, outside }],
    source,
    mode: "next-heartbeat",
    unsafe: false,
  };
}

/** The maximum of events and of characters in one heartbeat. */
export const MAX_BATCH_EVENTS = 50;
export const MAX_BATCH_CHARS = 16_000;
/** From this number of failures on, each failure halves the batch. */
const FAILURES_BEFORE_HALVING = 3;

/** Returns the maximum of events in a heartbeat, depending on the failures of the oldest event. */
export function batchSize(failures: number): number {
  return Math.max(1, MAX_BATCH_EVENTS >> Math.max(0, failures - FAILURES_BEFORE_HALVING + 1));
}

/**
 * Selects the events of the next heartbeat, oldest first, within the limits. Always selects the first event; its failures
 * limit the number of the following ones.
 */
export function selectBatch(queued: readonly SystemEvent[]): SystemEvent[] {
  const first = queued[0];
  if (!first) return [];
  const batch: SystemEvent[] = [];
  let chars = 0;
  for (const event of queued.slice(0, batchSize(first.failures))) {
    chars += plainText(event.text).length;
    if (batch.length > 0 && chars > MAX_BATCH_CHARS) break;
    batch.push(event);
  }
  return batch;
}

/** Returns whether a batch of one event has failed too often: it cannot be halved any more. */
export function isHopeless(batch: readonly SystemEvent[]): boolean {
  const only = batch[0];
  return (
    batch.length === 1 &&
    only !== undefined &&
    batchSize(only.failures) === 1 &&
    only.failures >= FAILURES_BEFORE_HALVING
  );
}

/** The input of a heartbeat: one numbered entry for each event, its text marked as outside text. */
export function renderBatch(batch: readonly SystemEvent[]): TextPart[] {
  const parts: TextPart[] = [];
  for (const [index, event] of batch.entries()) {
    const lead = index === 0 ? "System events since the last heartbeat:\n" : "\n";
    parts.push({
      text: `${lead}${index + 1}. [${new Date(event.at).toISOString()}] `,
      outside: false,
    });
    parts.push(
      ...event.text.map((part) =>
        event.unsafe && part.outside
          ? { text: part.text, outside: false, by: "sender" as const }
          : part,
      ),
    );
  }
  return parts;
}
