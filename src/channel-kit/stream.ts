import { loadPackage, ChannelError } from "./errors.ts";
import { withConnection, type Connection } from "./connection.ts";

/** A stream of server-sent events. */
export interface EventStream {
  /** What errors call the far side. */
  name: string;
  url: string;
  fetch: typeof fetch;
  headers?: Record<string, string>;
  /** What statuses mean, for the operator. */
  statuses?: Readonly<Record<number, string>>;
  /** After so long without a sign, in milliseconds, the connection is dead. */
  silenceMs: number;
  opened(): Promise<void>;
  /** The next waits until it resolves. */
  event(data: string, id: string | undefined): Promise<void>;
}

/** Follows a stream until it ends, which it always tells by an error. */
export async function followEvents(stream: EventStream, signal: AbortSignal): Promise<never> {
  const { createParser } = await loadPackage(
    "eventsource-parser",
    () => import("eventsource-parser"),
  );
  const { name, url, fetch, headers, statuses = {}, silenceMs } = stream;
  const stop = new AbortController();
  const silence = setTimeout(
    () => stop.abort(new ChannelError("the stream fell silent")),
    silenceMs,
  );
  try {
    const response = await fetch(url, {
      headers: { accept: "text/event-stream", ...headers },
      signal: AbortSignal.any([signal, stop.signal]),
    });
    if (!response.ok || !response.body)
      throw new ChannelError(
        statuses[response.status] ??
          `${name} answered ${response.status} to ${new URL(url).pathname}`,
      );
    await stream.opened();
    const events: { id?: string | undefined; data: string }[] = [];
    const parser = createParser({ onEvent: (event) => events.push(event) });
    const decoder = new TextDecoder();
    for await (const chunk of response.body) {
      silence.refresh();
      parser.feed(decoder.decode(chunk, { stream: true }));
      for (const { id, data } of events.splice(0)) await stream.event(data, id);
    }
    throw new ChannelError(`${name} closed the stream`);
  } finally {
    clearTimeout(silence);
  }
}

/** A WebSocket that speaks JSON. Times are in milliseconds. */
export interface Socket {
  name: string;
  url: string;
  /** A connection without its greeting by then carries nothing. */
  helloMs: number;
  /** A connection on which nothing comes is asked so often, and given up if it stays silent. */
  pingMs: number;
  /** What is sent once the connection is open, and to ask whether it lives. */
  hello: object;
  ping: object;
  /** Reads a frame, synchronously. */
  read(frame: unknown, connection: Connection): void;
}

/** One connection, from its start to its end. Throws a `ChannelError` where it does not come about, and what work threw. */
export async function followSocket(
  { name, url, helloMs, pingMs, hello, ping, read }: Socket,
  signal: AbortSignal,
): Promise<void> {
  const greeting = {
    helloMs,
    late: `${name} did not greet`,
    unopened: "the websocket cannot be opened",
  };
  await withConnection(signal, greeting, (connection) => {
    const socket = new WebSocket(url);
    let toIncomingMessage = true;
    let seq = 1;
    const send = (frame: object): void => socket.send(JSON.stringify({ ...frame, seq: seq++ }));
    socket.addEventListener("open", () => send(hello));
    socket.addEventListener("error", () => {});
    socket.addEventListener("close", () => connection.ended());
    socket.addEventListener("message", ({ data }) => {
      toIncomingMessage = true;
      try {
        read(JSON.parse(String(data)), connection);
      } catch {
        connection.fail(new ChannelError(`${name} sent what is not its format`));
      }
    });
    const pulse = setInterval(() => {
      if (!toIncomingMessage) return connection.ended();
      toIncomingMessage = false;
      if (socket.readyState === WebSocket.OPEN) send(ping);
    }, pingMs);
    return () => {
      clearInterval(pulse);
      socket.close();
    };
  });
}
