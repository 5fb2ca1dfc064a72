import type { ChannelHost, ReceivedMessage, Service } from "../plugin/api.ts";
import type { NamedService } from "../plugin/services.ts";
import { keptCursor } from "../store/cursor.ts";
import type { Fence, Store } from "../store/types.ts";
import type { Channels } from "./types.ts";

export interface ListenDeps {
  store: Pick<Store, "getValue" | "commit">;
  /** Takes a message; resolves once it is on disk. Refused once the lease of `fence` is lost. */
  receive(channel: string, message: ReceivedMessage, fence: Fence | undefined): Promise<unknown>;
}

const untilAborted = (signal: AbortSignal): Promise<void> =>
  new Promise((done) => {
    if (signal.aborted) return done();
    signal.addEventListener("abort", () => done(), { once: true });
  });

/**
 * Channels that receive, as services: what listens is supervised and runs in one gateway at a time; requests are
 * answered by every gateway, while its services run.
 */
export function channelServices(channels: Channels, { store, receive }: ListenDeps): NamedService[] {
  return channels.loaded.flatMap(({ id, channel }): NamedService[] => {
    if (!channel.listen && !channel.request) return [];
    const hostOf = (report: ChannelHost["report"], fence: Fence | undefined): ChannelHost => ({
      report,
      receive: async (message) => void (await receive(id, message, fence)),
      ...keptCursor(store, `channel.cursor:${id}`, fence),
    });
    let report: ChannelHost["report"] = () => undefined;
    const start: NonNullable<NamedService["start"]> = async ({ signal, fence }, host) => {
      report = host.report;
      if (channel.listen) return channel.listen(signal, hostOf(host.report, fence));
      host.report({ ok: true, message: "waits for requests" });
      await untilAborted(signal);
    };
    const service: Service = { start: (signal, host) => start({ signal, fence: undefined }, host) };
    if (channel.request) {
      const answer = channel.request.bind(channel);
      // Two gateways that get the same request keep its message once: it has an id.
      service.request = (request) =>
        answer(
          request,
          hostOf((state) => report(state), undefined),
        );
    }
    return [{ id, service, start, everywhere: !channel.listen }];
  });
}
