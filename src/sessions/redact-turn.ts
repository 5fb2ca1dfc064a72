import { FORGOTTEN, redactOutside } from "../core/text.ts";
import type { NewTurn } from "../store/types.ts";

interface ToolMessage {
  role?: unknown;
  content?: unknown;
}

/** Tool results are outside text. */
function forgetResults(message: unknown): unknown {
  const { role, content } = message as ToolMessage;
  if (role !== "tool" || !Array.isArray(content)) return message;
  const kept = content.map((part: unknown) =>
    (part as { type?: unknown }).type === "tool-result"
      ? { ...(part as object), output: { type: "text", value: FORGOTTEN } }
      : part,
  );
  return { ...(message as object), content: kept };
}

/**
 * Returns a turn as it is stored in the history. With `hooks.retention` 0 it contains no outside text;
 * the model's text stays.
 */
export function turnToKeep(turn: NewTurn, retentionMs: number): NewTurn {
  if (retentionMs > 0) return turn;
  const { context: _context, ...kept } = turn;
  return { ...kept, input: redactOutside(turn.input), messages: turn.messages.map(forgetResults) };
}
