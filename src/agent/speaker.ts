import type { TextStreamPart, ToolSet, LanguageModelMiddleware } from "ai";
import { ThoughtReader, type SaidPiece } from "./thoughts.ts";

type Streamed = Awaited<
  ReturnType<Parameters<NonNullable<LanguageModelMiddleware["wrapStream"]>>[0]["doStream"]>
>["stream"];
type Part = Streamed extends ReadableStream<infer P> ? P : never;
type Read = { done: boolean; value?: Part | undefined };

/**
 * Joins the pieces of text that are available at the same moment into one part: the SDK passes each part through a dozen
 * streams.
 */
export function mergeText(source: Streamed): Streamed {
  const reader = source.getReader();
  /** A read that was begun and whose result is not consumed yet. */
  let ahead: Promise<Read> | undefined;
  const next = (): Promise<Read> => {
    ahead ??= reader.read();
    return ahead;
  };
  const take = async (): Promise<Read> => {
    const read = await next();
    ahead = undefined;
    return read;
  };
  /** Returns the next part if it is there before the event loop turns; the part stays to be taken. */
  const glance = (turn: Promise<undefined>): Promise<Read | undefined> =>
    Promise.race([next(), turn]);

  return new ReadableStream<Part>(
    {
      async pull(controller) {
        let { value: part } = await take();
        if (part === undefined) return controller.close();
        if (part.type === "text-delta") {
          const turn = new Promise<undefined>((resolve) => setImmediate(() => resolve(undefined)));
          for (;;) {
            // A failure is the next pull's, which takes the read: what came before it is still said.
            const following = await glance(turn).catch(() => undefined);
            if (following?.value?.type !== "text-delta" || following.value.id !== part.id) break;
            await take();
            part = { ...part, delta: part.delta + following.value.delta };
          }
        }
        controller.enqueue(part);
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}

/** The same for a model of the SDK. */
export const mergingText: LanguageModelMiddleware = {
  specificationVersion: "v4",
  async wrapStream({ doStream }) {
    const { stream, ...rest } = await doStream();
    return { ...rest, stream: mergeText(stream) };
  },
};

/** The text between the texts of two steps. */
export const STEP_GAP = "\n\n";

export type Speaker = ReturnType<typeof createSpeaker>;

/** Creates what passes on the text of a turn's streams, one stream per step. */
export function createSpeaker(
  onText: (delta: string) => void,
  onReasoning: (delta: string) => void = () => undefined,
  onCall?: () => void,
) {
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
    /** Begins a step. */
    begin(): void {
      onCall?.();
      steps++;
      spokeBefore ||= spoke;
      spoke = false;
    },
    /** Reads a step's stream to its end. A stream does not throw by itself: its errors are parts of the stream. */
    async read(parts: AsyncIterable<TextStreamPart<ToolSet>>): Promise<void> {
      const thoughts = new ThoughtReader();
      for await (const part of parts) {
        if (part.type === "text-delta") say(thoughts.push(part.text));
        else if (part.type === "reasoning-delta" && part.text !== "") think(part.id, part.text);
        else if (part.type === "error") throw part.error;
        else if (part.type === "abort") throw new DOMException("aborted", "AbortError");
      }
      say(thoughts.end());
    },
    /** Returns whether the current step has passed on text that cannot be taken back: then the step cannot be retried. */
    hasSpoken: (): boolean => spoke && onCall === undefined,
  };
}
