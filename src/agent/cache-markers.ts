import type { ModelMessage, SystemModelMessage } from "ai";
import type { ModelProvider } from "../contract/kinds.ts";

type Marker = ModelProvider["cacheMarker"];

/** Marks the instructions: with the tools before them they are the same for all turns of an agent. */
export function markInstructions(
  instructions: string,
  marker: Marker,
): string | SystemModelMessage {
  return marker && instructions !== ""
    ? { role: "system", content: instructions, providerOptions: marker }
    : instructions;
}

/**
 * Marks the message of the turn and the last message; `own` is how many messages at the end are of the turn's steps. The next
 * step and the next turn of the session begin with all of them.
 */
export function markMessages(
  messages: readonly ModelMessage[],
  own: number,
  marker: Marker,
): ModelMessage[] {
  if (!marker) return [...messages];
  const marked = new Set([messages.length - own - 1, messages.length - 1]);
  return messages.map((message, index) =>
    marked.has(index) ? { ...message, providerOptions: marker } : message,
  );
}
