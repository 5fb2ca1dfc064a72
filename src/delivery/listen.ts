import type { ChannelHost, IncomingMessage, Service } from "../plugin/api.ts";
import type { Store } from "../store/types.ts";
import type { Channels } from "./types.ts";

export interface ListenDeps {
  store: Pick<Store, "getValue" | "commit">;
  /** Takes a message; resolves once it is on disk. */
  receive(channel: string, message: IncomingMessage): Promise<void>;
}

const untilAborted = (signal: AbortSignal): Promise<void> =>
  new Promise((done) => {
    if (signal.aborted) return done();
    signal.addEventListener("abort", () => done(), { once: true });
  });

/** Channels that receive, as services: what listens is supervised, and requests are answered while it runs. */
export function channelServices(channels: Channels, { store, receive }: ListenDeps): { id: string; service: Service }[] {
  return channels.loaded.flatMap(({ id, channel }) => {
    if (!channel.listen && !channel.request) return [];
    const cursorKey = `channel.cursor:${id}`;
    const hostOf = (report: ChannelHost["report"]): ChannelHost => ({
      report,
      receive: (message) => receive(id, message),
      async cursor() {
        const value = await store.getValue(cursorKey);
        return typeof value === "string" ? value : undefined;
      },
      async saveCursor(cursor) {
        await store.commit((tx) => tx.setValue(cursorKey, cursor));
      },
    });
    let report: ChannelHost["report"] = () => undefined;
    const service: Service = {
      async start(signal, host) {
        report = host.report;
        if (channel.listen) await channel.listen(signal, hostOf(host.report));
        else {
          host.report({ ok: true, message: "waits for requests" });
          await untilAborted(signal);
        }
      },
    };
    if (channel.request) {
      const answer = channel.request.bind(channel);
      service.request = (request) =>
        answer(
          request,
          hostOf((state) => report(state)),
        );
    }
    return [{ id, service }];
  });
}
