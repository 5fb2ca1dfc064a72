import type { ChannelHost, ReceivedMessage } from "../contract/channel.ts";
import { retryMessage, reconnectLoop } from "./reconnect-loop.ts";
import type { ErrorRules } from "./errors.ts";

/** A vendor that is asked for what has come since a time. Times are in milliseconds since 1970, lengths in milliseconds. */
export interface PollOptions {
  vendor: ErrorRules;
  now(): number;
  everyMs: number;
  /** A message bears the time of its sending, and may come later than one that was sent after it: so much is asked for again. */
  overlapMs: number;
  /** What bears this time or a later one, the oldest first; an entry that is no message has none. */
  read(
    after: number,
  ): AsyncIterable<{ id: string; at: number; message: ReceivedMessage | undefined }>;
}

/** Polls until `signal` aborts. The cursor is the time of the last item read, so messages of a time without a gateway are not lost. */
export async function pollSince(
  signal: AbortSignal,
  host: ChannelHost,
  asking: PollOptions,
): Promise<void> {
  const { vendor, now, everyMs, overlapMs, read } = asking;
  const stored = await host.cursor();
  // What was written before the channel was there is not answered.
  if (stored === undefined) await host.saveCursor(String(now()));
  // Some vendors take 0 for no bound at all, and nothing below it.
  let after = Math.max(stored === undefined ? now() : Number(stored) - overlapMs, 1);
  const seen = new Map<string, number>();

  /** One round: the time of what was handed over or passed over is the new place, also where the round fails later. */
  const connect = async (to: ChannelHost): Promise<number> => {
    let newest: number | undefined;
    try {
      for await (const { id, at, message } of read(after)) {
        if (seen.has(id)) continue;
        if (message) await to.receive(message);
        seen.set(id, at);
        newest = Math.max(newest ?? 0, at);
      }
    } finally {
      if (newest !== undefined) {
        await host.saveCursor(String(newest));
        after = Math.max(after, newest - overlapMs);
        for (const [id, at] of seen) if (at < after) seen.delete(id);
      }
    }
    to.report({ ok: true, message: "listening" });
    return everyMs;
  };
  await reconnectLoop(signal, host, { connect, vendor, say: retryMessage });
}
