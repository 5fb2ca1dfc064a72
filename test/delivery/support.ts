import type { Clock } from "../../src/core/clock.ts";
import { createLogger, type Logger } from "../../src/core/log.ts";
import type { Channel, OutgoingMessage, SendResult } from "../../src/plugin/api.ts";

/** A clock that stands still until it is moved. Sleepers wake when their time has come. */
export interface ManualClock extends Clock {
  /** Moves the time on, waking sleepers on the way in their order. */
  advance(ms: number): Promise<void>;
}

/** Lets so many turns of the event loop pass. */
export async function passTurns(turns: number): Promise<void> {
  for (let i = 0; i < turns; i++) await new Promise((resolve) => setImmediate(resolve));
}

/** Files that are read or written meanwhile: a commit of the store is one until it is on disk, however long that takes. */
export const isDiskBusy = (): boolean => process.getActiveResourcesInfo().includes("FSReqCallback");

/** Lets promises and the store's commits come to their end: so many turns of the event loop without work for the disk. */
export async function settle(turns = 20): Promise<void> {
  for (let quiet = 0; quiet < turns; quiet++) {
    await passTurns(1);
    for (; isDiskBusy(); quiet = 0) await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

export function manualClock(start = 1_800_000_000_000): ManualClock {
  let now = start;
  const sleepers = new Set<{ at: number; wake: () => void }>();
  return {
    now: () => now,
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        if (signal?.aborted) return resolve();
        const wake = (): void => {
          sleepers.delete(sleeper);
          signal?.removeEventListener("abort", wake);
          resolve();
        };
        const sleeper = { at: now + ms, wake };
        sleepers.add(sleeper);
        signal?.addEventListener("abort", wake, { once: true });
      }),
    async advance(ms) {
      const end = now + ms;
      await settle();
      for (;;) {
        const next = [...sleepers].toSorted((a, b) => a.at - b.at)[0];
        if (!next || next.at > end) break;
        now = Math.max(now, next.at);
        next.wake();
        await settle();
      }
      now = end;
      await settle();
    },
  };
}

/** A logger that keeps its lines. */
export function keptLog(): { log: Logger; lines: string[] } {
  const lines: string[] = [];
  return { log: createLogger("trace", { write: (line: string) => void lines.push(line) }), lines };
}

/** A channel that answers with `answers`, message by message, and then with `sent`. */
export function fakeChannel(members: Partial<Channel> = {}): {
  channel: Channel;
  calls: OutgoingMessage[];
  answers: (SendResult | (() => Promise<SendResult>))[];
} {
  const calls: OutgoingMessage[] = [];
  const answers: (SendResult | (() => Promise<SendResult>))[] = [];
  const channel: Channel = {
    async send(message) {
      calls.push(message);
      const answer = answers.shift() ?? {
        status: "sent" as const,
        messageIds: [`m${calls.length}`],
      };
      return typeof answer === "function" ? answer() : answer;
    },
    ...members,
  };
  return { channel, calls, answers };
}
