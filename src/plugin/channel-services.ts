import { once } from "node:events";
import type {
  ApprovalPress,
  ChannelHost,
  LostMessage,
  ReceivedMessage,
} from "../contract/channel.ts";
import type { Offers } from "../contract/offers.ts";
import type { NamedService } from "./services.ts";
import { keptCursor } from "../store/cursor.ts";
import type { FencingToken, Store } from "../store/types.ts";
import type { Channels } from "../delivery/channels.ts";

interface ListenDeps {
  store: Store;
  /** Takes a message; resolves once it is on disk. Refused once the lease of `fencingToken` is lost. */
  receiveMessage(
    channel: string,
    message: ReceivedMessage,
    fencingToken: FencingToken | undefined,
  ): Promise<unknown>;
  receivePress(channel: string, press: ApprovalPress): Promise<{ text: string }>;
  notDelivered(channel: string, message: LostMessage): Promise<void>;
}

/**
 * Channels that receive, as services: what listens is supervised and runs in one gateway at a time; requests are
 * answered by every gateway, while its services run.
 */
function channelServices(
  channels: Channels,
  { store, receiveMessage, receivePress, notDelivered }: ListenDeps,
): NamedService[] {
  return channels.loaded.flatMap(({ id, channel }): NamedService[] => {
    if (!channel.listen && !channel.request) return [];
    const createHost = (
      report: ChannelHost["report"],
      fencingToken: FencingToken | undefined,
    ): ChannelHost => ({
      report,
      receive: async (message) => void (await receiveMessage(id, message, fencingToken)),
      decide: (press) => receivePress(id, press),
      notDelivered: (message) => notDelivered(id, message),
      ...keptCursor(store, `channel.cursor:${id}`, fencingToken),
    });
    let report: ChannelHost["report"] = () => undefined;
    const start: NamedService["start"] = async ({ signal, fencingToken }, host) => {
      report = host.report;
      if (channel.listen) return channel.listen(signal, createHost(host.report, fencingToken));
      host.report({ ok: true, message: "waits for requests" });
      if (!signal.aborted) await once(signal, "abort");
    };
    const service: NamedService["service"] = {};
    if (channel.request) {
      const answer = channel.request.bind(channel);
      // Two gateways that get the same request keep its message once: it has an id.
      service.request = (request) =>
        answer(
          request,
          createHost((state) => report(state), undefined),
        );
    }
    return [{ id, service, start, everywhere: !channel.listen }];
  });
}

/** Lists what a snapshot has of services: the sources of plugins, and channels that receive. */
export const listServices = (
  { offers, channels }: { offers: Offers; channels: Channels },
  deps: ListenDeps,
): NamedService[] => [
  ...offers.sources.map(({ plugin: id, value: service }): NamedService => ({
    id,
    service,
    start: ({ signal }, host) => service.start(signal, host),
  })),
  ...channelServices(channels, deps),
];
