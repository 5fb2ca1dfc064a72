import type { Clock } from "../core/clock.ts";
import { safeError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import type { SendResult } from "../contract/channel.ts";
import { sendPiece } from "./send.ts";
import { cutMeasured } from "./split.ts";
import type { Channels } from "./channels.ts";

/** The result of a channel's last probe. */
export interface ChannelState {
  id: string;
  ok: boolean;
  message: string;
  /** Milliseconds since the epoch. */
  at: number;
}

export type ChannelHealth = ReturnType<typeof createChannelHealth>;

const PROBE_MS = 5_000;
const EVERY_MS = 300_000;

/** Probes the current snapshot's channels. */
export function createChannelHealth({
  channels,
  clock,
  log,
}: {
  channels(): Channels;
  clock: Clock;
  log: Logger;
}) {
  let states: readonly ChannelState[] = [];

  const probeAll = async (): Promise<readonly ChannelState[]> => {
    const signal = AbortSignal.timeout(PROBE_MS);
    const found = channels().loaded.flatMap(({ id, channel }) => {
      if (!channel.probe) return [];
      const late = new Promise<{ ok: false; message: string }>((done) => {
        signal.addEventListener("abort", () => done({ ok: false, message: "no answer in time" }), {
          once: true,
        });
      });
      const probe = channel.probe(signal).catch((error: unknown) => ({
        ok: false as const,
        message: safeError(error).code ?? safeError(error).name,
      }));
      return [
        Promise.race([probe, late]).then((result): ChannelState => {
          const message = result.ok ? "can be reached" : `cannot be reached: ${result.message}`;
          return { id, ok: result.ok, message, at: clock.now() };
        }),
      ];
    });
    const before = new Map(states.map((state) => [state.id, state.ok]));
    states = await Promise.all(found);
    for (const { id, ok, message } of states) {
      if (!ok && before.get(id) !== false)
        log.warn({ channel: id, reason: message }, "a channel cannot be reached");
      if (ok && before.get(id) === false)
        log.info({ channel: id }, "a channel can be reached again");
    }
    return states;
  };

  return {
    /** Looks at all channels now; those that cannot tell are left out. */
    probeAll,
    /** Returns the results of the last probe; empty before the first. */
    states: () => states,
    /** Looks at start and every five minutes, until `signal` aborts. Keeps nothing waiting. */
    async watch(signal: AbortSignal): Promise<void> {
      while (!signal.aborted) {
        await probeAll().catch((error: unknown) =>
          log.error({ err: safeError(error) }, "the channels could not be looked at"),
        );
        await clock.sleep(EVERY_MS, signal);
      }
    },
    /** Sends a text immediately, bypassing the outbox. `to` is checked before. */
    async test(id: string, to: string, text: string): Promise<SendResult> {
      const channel = channels().get(id)?.channel;
      if (!channel) return { status: "failed", reason: "the channel is not configured" };
      const [piece = text] = cutMeasured(
        text,
        channel.limit ?? Infinity,
        channel.lengthOf?.bind(channel),
      );
      const idempotencyKey = `test_${clock.now().toString(36)}.0`;
      return sendPiece(
        (signal) => channel.send({ to, text: piece, idempotencyKey }, signal),
        clock,
        new AbortController().signal,
      );
    },
  };
}
