import { onTestFinished } from "vitest";
import { getOwnText } from "../../src/turns/channel/channel-input.ts";
import type {
  ApprovalPress,
  Channel,
  ChannelHost,
  IncomingMessage,
  MessagePart,
  ServiceState,
  SkippedMessage,
} from "../../src/plugin/api.ts";

/** A message that was handed over; `text` are its sender's own words. */
export interface Received extends IncomingMessage {
  text: string;
}

/** A message's text and parts as they are handed over: what its sender wrote, and what others said. */
export const said = (text: string, ...others: MessagePart[]) => ({
  text,
  parts: [...(text === "" ? [] : [{ kind: "own" as const, text }]), ...others],
});

/** The gateway as a channel sees it, with what outlasts a restart. */
export interface TestHost extends ChannelHost {
  received: Received[];
  /** Messages that the channel reports as not meant for the agent. */
  skipped: SkippedMessage[];
  states: ServiceState[];
  /** Presses of buttons, each answered with `answer`. */
  presses: ApprovalPress[];
  answer: string;
  lost: { idempotencyKey: string; reason: string }[];
  saved: { cursor?: string };
  /** Makes the next messages, or those with this text, fail to be written; 0 makes an end of it. */
  refuse(times: number, text?: string): void;
}

/**
 * A gateway whose disk is `saved`: another one with the same `saved` is the same gateway after a restart. With `once` it
 * takes no message twice, as the core does; without, a test sees what a channel hands over again.
 */
export function testHost(saved: { cursor?: string } = {}, { once = false } = {}): TestHost {
  const received: Received[] = [];
  const skipped: SkippedMessage[] = [];
  const states: ServiceState[] = [];
  const presses: ApprovalPress[] = [];
  const lost: TestHost["lost"] = [];
  let refusals = 0;
  let refused: string | undefined;
  return {
    received,
    skipped,
    states,
    presses,
    answer: "Approved.",
    lost,
    saved,
    async decide(press) {
      if (refusals-- > 0) throw new Error("the disk is full");
      presses.push(press);
      return { text: this.answer };
    },
    async notDelivered(message) {
      lost.push(message);
    },
    refuse(times, text) {
      refusals = times;
      refused = text;
    },
    async receive(message) {
      if ("skipped" in message) return void skipped.push(message);
      const text = getOwnText(message.parts);
      if ((refused === undefined || refused === text) && refusals-- > 0)
        throw new Error(`the disk is full of ${text}`);
      if (!once || !received.some((known) => known.id === message.id))
        received.push({ ...message, text });
    },
    report: (state) => void states.push(state),
    cursor: async () => saved.cursor,
    async saveCursor(cursor) {
      saved.cursor = cursor;
    },
  };
}

/** Lets a channel listen until `stop`, which ends with the test at the latest. */
export function listening(channel: Channel, host: ChannelHost): { stop(): Promise<void> } {
  const abort = new AbortController();
  const done =
    channel.listen?.(abort.signal, host) ??
    Promise.reject(new Error("the channel does not listen"));
  const stop = async (): Promise<void> => {
    abort.abort();
    const late = new Promise<never>((_, reject) =>
      setTimeout(reject, 3_000, new Error("the channel does not stop")).unref(),
    );
    await Promise.race([done, late]);
  };
  onTestFinished(stop);
  return { stop };
}
