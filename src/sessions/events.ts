import type { SystemEvent } from "../store/types.ts";
import { plainText, type TextPart } from "../core/text.ts";

/** At most so many events, and so many characters, go into one heartbeat. */
export const MAX_BATCH_EVENTS = 50;
export const MAX_BATCH_CHARS = 16_000;
/** After so many failures of a batch it is halved each time. */
const FAILURES_BEFORE_HALVING = 3;

/** How many events a heartbeat may take, given how often the oldest one has failed. */
export function batchSize(failures: number): number {
  return Math.max(1, MAX_BATCH_EVENTS >> Math.max(0, failures - FAILURES_BEFORE_HALVING + 1));
}

/**
 * The events of the next heartbeat, oldest first: as many as have come through so far without failing,
 * within the limits; the first one always.
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

/** True when a batch of one has failed so often that no smaller batch is left to try. */
export function isHopeless(batch: readonly SystemEvent[]): boolean {
  const only = batch[0];
  return batch.length === 1 && only !== undefined && batchSize(only.failures) === 1 && only.failures >= FAILURES_BEFORE_HALVING;
}

/** The input of a heartbeat: one numbered entry for each event, its words marked as outside text. */
export function renderBatch(batch: readonly SystemEvent[]): TextPart[] {
  const parts: TextPart[] = [];
  for (const [index, event] of batch.entries()) {
    const lead = index === 0 ? "System events since the last heartbeat:\n" : "\n";
    parts.push({ text: `${lead}${index + 1}. [${new Date(event.at).toISOString()}] `, outside: false });
    parts.push(...event.text.map((part) => (event.unsafe ? { ...part, outside: false } : part)));
  }
  return parts;
}
