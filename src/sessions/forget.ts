import { FORGOTTEN, forgetOutside } from "../core/text.ts";
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
    (part as { type?: unknown }).type === "tool-result" ? { ...(part as object), output: { type: "text", value: FORGOTTEN } } : part,
  );
  return { ...(message as object), content: kept };
}

/**
 * A turn as it goes into the history. With `hooks.retention` 0 nothing that came from outside is kept beyond the turn
 * that used it; what the model said is.
 */
export function turnToKeep(turn: NewTurn, retentionMs: number): NewTurn {
  if (retentionMs > 0) return turn;
  return { ...turn, input: forgetOutside(turn.input), messages: turn.messages.map(forgetResults) };
}
