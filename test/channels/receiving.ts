import { onTestFinished } from "vitest";
import { splitText } from "../../src/delivery/split.ts";
import type { Channel, ChannelHost, IncomingMessage, ServiceState } from "../../src/plugin/api.ts";

/** A gateway as a channel sees it. What it was given stays when a channel is opened anew, as across a restart. */
export interface FakeGateway extends ChannelHost {
  received: IncomingMessage[];
  reports: ServiceState[];
  saved: string | undefined;
  /** The next messages cannot be stored. */
  failing: number;
}

export function fakeGateway(): FakeGateway {
  const gateway: FakeGateway = {
    received: [],
    reports: [],
    saved: undefined,
    failing: 0,
    async receive(message) {
      if (gateway.failing-- > 0) throw new Error(`the disk is full of ${message.text}`);
      gateway.received.push(message);
    },
    report: (state) => void gateway.reports.push(state),
    cursor: async () => gateway.saved,
    saveCursor: async (cursor) => void (gateway.saved = cursor),
  };
  return gateway;
}

/** Lets a channel listen until `stop`, which ends with the test at the latest. */
export function listening(channel: Channel, gateway: ChannelHost): { stop(): Promise<void> } {
  const abort = new AbortController();
  const done = channel.listen?.(abort.signal, gateway) ?? Promise.reject(new Error("the channel does not listen"));
  const stop = async (): Promise<void> => {
    abort.abort();
    const late = new Promise<never>((_, reject) => setTimeout(reject, 3_000, new Error("the channel does not stop")).unref());
    await Promise.race([done, late]);
  };
  onTestFinished(stop);
  return { stop };
}

/** A text in pieces that each fit as the channel counts. */
export function piecesFor({ limit = Infinity, measure = ({ length }) => length }: Channel, text: string): string[] {
  for (let most = limit; ; most = Math.floor(most * 0.9)) {
    const pieces = splitText(text, most);
    if (pieces.every((piece) => measure(piece) <= limit)) return pieces;
  }
}
