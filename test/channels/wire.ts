import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { ChannelHost, IncomingMessage as Incoming, ServiceState } from "../../src/plugin/api.ts";

/** A request with its body read. */
export interface Call {
  method: string;
  path: string;
  query: URLSearchParams;
  headers: IncomingMessage["headers"];
  // The shape is what the server of each vendor checks.
  body: Record<string, unknown>;
}

/** What a test server answers; `hang` and `cut` answer nothing. */
export type Answer = { status: number; json?: unknown; text?: string; headers?: Record<string, string> } | "hang" | "cut";

/** A server on the loopback interface that reads JSON and answers what `answer` says. */
export async function serve(
  answer: (call: Call, aborted: AbortSignal) => Promise<Answer> | Answer,
): Promise<{ server: Server; url: string; close(): Promise<void> }> {
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const text = Buffer.concat(parts).toString();
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://local");
    const gone = new AbortController();
    response.once("close", () => gone.abort());
    const body = text.startsWith("{") ? (JSON.parse(text) as Record<string, unknown>) : {};
    const given = await answer(
      { method: request.method ?? "", path: pathname, query: searchParams, headers: request.headers, body },
      gone.signal,
    );
    if (given === "hang") return;
    if (given === "cut") return void request.socket.destroy();
    const json = given.json === undefined ? {} : { "content-type": "application/json" };
    response.writeHead(given.status, { ...json, ...given.headers });
    response.end(given.json === undefined ? (given.text ?? "") : JSON.stringify(given.json));
  };
  const server = createServer((request, response) => void handle(request, response).catch(() => request.socket.destroy()));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const close = async (): Promise<void> => {
    const closed = once(server, "close");
    server.close();
    server.closeAllConnections();
    await closed;
  };
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close };
}

/** The gateway as a channel sees it, with what outlasts a restart. */
export interface TestHost extends ChannelHost {
  received: Incoming[];
  states: ServiceState[];
  saved: { cursor?: string };
  /** Makes the next messages fail to be written. */
  refuse(times: number): void;
}

/** A gateway whose disk is `saved`: another one with the same `saved` is the same gateway after a restart. */
export function testHost(saved: { cursor?: string } = {}): TestHost {
  const received: Incoming[] = [];
  const states: ServiceState[] = [];
  let refusals = 0;
  return {
    received,
    states,
    saved,
    refuse: (times) => void (refusals = times),
    async receive(message) {
      if (refusals-- > 0) throw new Error("the disk is full");
      received.push(message);
    },
    report: (state) => void states.push(state),
    cursor: async () => saved.cursor,
    async saveCursor(cursor) {
      saved.cursor = cursor;
    },
  };
}
