import type { TextStreamPart, ToolSet } from "ai";
import { createPieces, type Pieces } from "./merge.ts";
import { ThoughtReader, type SaidPiece } from "./thoughts.ts";

/** The text between the texts of two steps. */
export const STEP_GAP = "\n\n";

/** Passes on the text of a turn's streams, one stream per step. */
export interface Speaker {
  /** Begins a step. The pieces are those of its stream. */
  begin(): Pieces;
  /** Reads a step's stream to its end. A stream does not throw by itself: its errors are parts of the stream. */
  read(parts: AsyncIterable<TextStreamPart<ToolSet>>): Promise<void>;
  /** Whether the current step has passed on text that cannot be taken back: then the step cannot be retried. */
  hasSpoken(): boolean;
}

export function createSpeaker(
  onText: (delta: string) => void,
  onReasoning: (delta: string) => void = () => undefined,
  onCall?: () => void,
): Speaker {
  let pieces = createPieces();
  /** The block of reasoning that was passed on last. */
  let thought: string | undefined;
  let steps = 0;
  let spokeBefore = false;
  let spoke = false;
  const think = (id: string, text: string): void => {
    const block = `${steps}.${id}`;
    onReasoning(thought !== undefined && thought !== block ? STEP_GAP + text : text);
    thought = block;
  };
  const say = (said: readonly SaidPiece[]): void => {
    for (const { text, block } of said) {
      if (block !== undefined) think(`tag ${block}`, text);
      else {
        onText(spokeBefore && !spoke ? STEP_GAP + text : text);
        spoke = true;
      }
    }
  };
  return {
    begin() {
      onCall?.();
      steps++;
      pieces = createPieces();
      spokeBefore ||= spoke;
      spoke = false;
      return pieces;
    },
    async read(parts) {
      const thoughts = new ThoughtReader();
      for await (const part of parts) {
        if (part.type === "text-delta")
          for (const piece of pieces.split(part.text)) say(thoughts.push(piece));
        else if (part.type === "reasoning-delta" && part.text !== "") think(part.id, part.text);
        else if (part.type === "error") throw part.error;
        else if (part.type === "abort") throw new DOMException("aborted", "AbortError");
      }
      say(thoughts.end());
    },
    hasSpoken: () => spoke && onCall === undefined,
  };
}
