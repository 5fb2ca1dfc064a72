import type { ChannelHost, PluginLog, ReceivedMessage } from "../contract/channel.ts";
import { retryMessage, reconnectLoop } from "./reconnect-loop.ts";
import type { ErrorRules } from "./errors.ts";
import { followEvents, type EventStream } from "./stream.ts";

/** A stream of events in JSON that goes on behind the `Last-Event-ID`. */
export interface EventListener<E> extends Pick<
  EventStream,
  "url" | "fetch" | "statuses" | "silenceMs"
> {
  vendor: ErrorRules;
  log: PluginLog;
  now(): number;
  /** By how much the clocks of the vendor and of this machine may differ, in milliseconds. */
  skewMs: number;
  /** The time of an event, in milliseconds since 1970; undefined if the event has none. */
  at(event: E): number | undefined;
  /** The message in an event; undefined if the event is no message. */
  read(event: E): ReceivedMessage | undefined;
}

/** A cursor of ours, before the stream gave one: its time. The far side takes it for an id that it has forgotten, and sends all it kept. */
const SINCE = "rouse-since-";

/** Follows the stream until `signal` aborts; comes back after every end of it. What was there before the channel was is passed over. */
export async function listenToEvents<E>(
  listener: EventListener<E>,
  signal: AbortSignal,
  host: ChannelHost,
): Promise<void> {
  const { vendor, log, now, skewMs, at, read, ...stream } = listener;
  let place = await host.cursor();
  const parse = (data: string): E | undefined => {
    try {
      return JSON.parse(data) as E;
    } catch {
      log.warn("an event of the stream was not JSON");
      return undefined;
    }
  };
  const connect = async (to: ChannelHost): Promise<void> => {
    const since = place?.startsWith(SINCE) ? Number(place.slice(SINCE.length)) - skewMs : 0;
    const follow = {
      name: vendor.name,
      ...stream,
      headers: place === undefined ? {} : { "last-event-id": place },
      async opened() {
        if (place === undefined) await to.saveCursor((place = `${SINCE}${now()}`));
        to.report({ ok: true, message: "listening" });
      },
      async event(data: string, id: string | undefined) {
        const event = parse(data);
        const message =
          event === undefined || (at(event) ?? Infinity) < since ? undefined : read(event);
        if (message) await to.receive(message);
        if (id === undefined) return;
        place = id;
        // Only a message moves the stored place: coming again past receipts and typing does no harm.
        if (message) await to.saveCursor(id);
      },
    };
    await followEvents(follow, signal);
  };
  await reconnectLoop(signal, host, { connect, vendor, say: retryMessage });
}
