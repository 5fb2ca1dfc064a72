import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import type { ReadableStream as WebStream } from "node:stream/web";
import type { Context } from "hono";

/** How long what is left of a refused upload is read on, so that its sender gets to read the answer. */
const LINGER_MS = 5_000;

/** Where a body's bytes come from: a socket, or a request that was made in this process. */
export function sourceOf(c: Context): Readable {
  const incoming = (c.env as { incoming?: IncomingMessage } | undefined)?.incoming;
  if (incoming) return incoming;
  const { body } = c.req.raw;
  return body ? Readable.fromWeb(body as WebStream<Uint8Array>) : Readable.from([]);
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
