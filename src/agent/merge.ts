import type { LanguageModelMiddleware } from "ai";

type Streamed = Awaited<
  ReturnType<Parameters<NonNullable<LanguageModelMiddleware["wrapStream"]>>[0]["doStream"]>
>["stream"];
type Part = Streamed extends ReadableStream<infer P> ? P : never;
type Read = { done: boolean; value?: Part | undefined };

/** What of a turn's text was a piece of its own. */
export interface Pieces {
  add(length: number): void;
  /** The text in the pieces in which it came. */
  split(text: string): string[];
}

export function createPieces(): Pieces {
  const lengths: number[] = [];
  return {
    add: (length) => void lengths.push(length),
    split(text) {
      const pieces: string[] = [];
      for (let at = 0; at < text.length;) {
        const length = lengths.shift() ?? text.length - at;
        pieces.push(text.slice(at, at + length));
        // What was cut otherwise on the way goes on in the next text.
        if (at + length > text.length) lengths.unshift(at + length - text.length);
        at += length;
      }
      return pieces;
    },
  };
}

/**
 * Joins the pieces of text that are available at the same moment into one part: the SDK passes each part through a dozen
 * streams. `pieces` records the length of each, so that the joined text can be split again after the last stream.
 */
export function mergeText(source: Streamed, pieces: Pick<Pieces, "add">): Streamed {
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
  /** What follows, where it is there before the event loop turns; it stays to be taken. */
  const glance = (turn: Promise<undefined>): Promise<Read | undefined> =>
    Promise.race([next(), turn]);

  return new ReadableStream<Part>(
    {
      async pull(controller) {
        let { value: part } = await take();
        if (part === undefined) return controller.close();
        if (part.type === "text-delta") {
          const heard = (delta: string): void => {
            if (delta !== "") pieces.add(delta.length);
          };
          heard(part.delta);
          const turn = new Promise<undefined>((resolve) => setImmediate(() => resolve(undefined)));
          for (;;) {
            // A failure is the next pull's, which takes the read: what came before it is still said.
            const following = await glance(turn).catch(() => undefined);
            if (following?.value?.type !== "text-delta" || following.value.id !== part.id) break;
            await take();
            heard(following.value.delta);
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

/** The same for a model of the SDK, in one turn. */
export const mergingText = (pieces: Pieces): LanguageModelMiddleware => ({
  specificationVersion: "v4",
  async wrapStream({ doStream }) {
    const { stream, ...rest } = await doStream();
    return { ...rest, stream: mergeText(stream, pieces) };
  },
});
