import { expect } from "vitest";
import type { Channel, ChannelHost, IncomingMessage, ServiceState } from "../../src/plugin/api.ts";
import { load, userFolder } from "../plugin/support.ts";

/** One of Rouse's own channels with this section, as a gateway loads it. */
export async function openChannel(id: string, section: Record<string, unknown>): Promise<{ channel: Channel; logged: string[] }> {
  const { channels, issues, logged } = await load(userFolder({}).dir, { channels: { [id]: section } });
  expect(issues).toEqual([]);
  const channel = channels.get(id)?.channel;
  if (!channel) throw new Error("the plugin is not there");
  return { channel, logged };
}

/** A host that keeps what a gateway keeps. */
export interface MemoryHost extends ChannelHost {
  received: IncomingMessage[];
  states: ServiceState[];
  /** Makes `receive` fail. */
  failing: boolean;
  /** The cursor. */
  place: string | undefined;
}

/** A host in memory; as the core does, it takes no message twice. */
export function memoryHost(): MemoryHost {
  const host: MemoryHost = {
    received: [],
    states: [],
    failing: false,
    place: undefined,
    async receive(message) {
      if (host.failing) throw new Error("the disk is full");
      if (!host.received.some((known) => known.id === message.id)) host.received.push(message);
    },
    report: (state) => void host.states.push(state),
    cursor: async () => host.place,
    saveCursor: async (cursor) => void (host.place = cursor),
  };
  return host;
}
