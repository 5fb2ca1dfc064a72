import { Readable } from "node:stream";
import type { Context } from "hono";
import { bodySource } from "./request.ts";

/** How long what is left of a refused upload is read on, so that its sender gets to read the answer. */
const LINGER_MS = 5_000;

/** Milliseconds for a whole upload: the longest that any body may take, unless `hooks.bodyTimeoutSeconds` is longer. */
export const UPLOAD_MS = 30 * 60_000;

/** A request's body as a stream of Node. */
export function toReadable(c: Context): Readable {
  const source = bodySource(c);
  if (source === null) return Readable.from([]);
  return source instanceof Readable ? source : Readable.fromWeb(source);
}

/**
 * Reads what is left of a body that is not wanted. A sender that is still writing does not read: it would see a broken
 * connection in place of the answer. False where there is still more: the connection must be closed then.
 */
export async function discard(source: Readable): Promise<boolean> {
  if (source.readableEnded || source.destroyed) return source.readableEnded;
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, LINGER_MS);
    const done = (): void => {
      clearTimeout(timer);
      resolve();
    };
    source.on("end", done).on("close", done).on("error", done).resume();
  });
  return source.readableEnded;
}
