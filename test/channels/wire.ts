import { once } from "node:events";
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";

/** A request with its body read. */
export interface Call {
  method: string;
  path: string;
  query: URLSearchParams;
  headers: IncomingMessage["headers"];
  // The shape is what the server of each vendor checks.
  body: Record<string, unknown>;
  /** A body that is a form with files. `bytes` has the raw body. */
  form?: FormData;
  bytes: Buffer;
}

/** The answer of a test server. After `hang` and `cut` there is none; a function takes the response over. */
export type Answer =
  | {
      status: number;
      json?: unknown;
      text?: string;
      bytes?: Buffer;
      headers?: Record<string, string>;
    }
  | ((response: ServerResponse) => void)
  | "hang"
  | "cut";

async function readBytes(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts);
}

/** The body of a request as text. */
export const readText = async (request: IncomingMessage): Promise<string> =>
  (await readBytes(request)).toString();

/** A server on the loopback interface that reads JSON and answers what `answer` says. */
export async function serve(
  answer: (call: Call, aborted: AbortSignal) => Promise<Answer> | Answer,
): Promise<{ server: Server; url: string; close(): Promise<void> }> {
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const bytes = await readBytes(request);
    const text = bytes.toString();
    const type = request.headers["content-type"] ?? "";
    const form = type.startsWith("multipart/form-data")
      ? { form: await new Response(bytes, { headers: { "content-type": type } }).formData() }
      : {};
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://local");
    const gone = new AbortController();
    response.once("close", () => gone.abort());
    const body = /^[{[]/.test(text) ? (JSON.parse(text) as Record<string, unknown>) : {};
    const given = await answer(
      {
        method: request.method ?? "",
        path: pathname,
        query: searchParams,
        headers: request.headers,
        body,
        bytes,
        ...form,
      },
      gone.signal,
    );
    if (given === "hang") return;
    if (given === "cut") return void request.socket.destroy();
    if (typeof given === "function") return given(response);
    const json = given.json === undefined ? {} : { "content-type": "application/json" };
    response.writeHead(given.status, { ...json, ...given.headers });
    response.end(
      given.json === undefined ? (given.bytes ?? given.text ?? "") : JSON.stringify(given.json),
    );
  };
  return listenOn(
    (request, response) => void handle(request, response).catch(() => request.socket.destroy()),
  );
}

/** A server on the loopback interface; `close` ends its connections too. */
export async function listenOn(
  listener: RequestListener,
): Promise<{ server: Server; url: string; close(): Promise<void> }> {
  const server = createServer(listener);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const close = async (): Promise<void> => {
    if (!server.listening) return;
    const closed = once(server, "close");
    server.close();
    server.closeAllConnections();
    await closed;
  };
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close };
}

/** Makes the next requests fail: `times` of them, or all. */
export function createFaults<F>() {
  let fault: F | undefined;
  let left = 0;
  return {
    fail(next: F | undefined, times = Infinity): void {
      fault = next;
      left = times;
    },
    /** The fault that is set, whether or not it is taken by this request. */
    see: (): F | undefined => (left > 0 ? fault : undefined),
    /** The fault of this request. */
    take: (): F | undefined => (left-- > 0 ? fault : undefined),
  };
}

/** An answer with a JSON body. */
export const json = (status: number, body: unknown, headers?: Record<string, string>): Answer => ({
  status,
  json: body,
  ...(headers && { headers }),
});

/** The answer of a proxy whose server is away. */
export const UNAVAILABLE: Answer = {
  status: 503,
  text: "<html>body-mark-7f3a</html>",
  headers: { "content-type": "text/html" },
};

/** Fails a request in a way that needs no word of the vendor; other requests get the answer of `take`. */
export async function failing(
  fault: unknown,
  take: () => Promise<Answer> | Answer,
): Promise<Answer> {
  switch (fault) {
    case "hang":
      return "hang";
    case "cut-connection":
      return "cut";
    case "unavailable":
      return UNAVAILABLE;
    case "cut-after-taking":
      await take();
      return "cut";
    case "hang-after-taking":
      await take();
      return "hang";
    default:
      return take();
  }
}
