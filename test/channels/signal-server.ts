import type { IncomingMessage, ServerResponse } from "node:http";
import { z } from "zod";
import { bytesAnswer, createShelf, type Shelf } from "./shelf.ts";
import { answerJson, createFaults, listenOn, readText } from "./wire.ts";
import { createTypingLog, keepSign, type TypingLog } from "./typing-log.ts";

/** Ways in which the daemon, or what it talks to, fails. */
export type SignalFault =
  | "rate-limited"
  | "captcha"
  | "unavailable"
  | "cut-connection"
  | "hang"
  | "bad-credential"
  | "no-such-recipient"
  | "untrusted-key"
  | "network"
  | "internal"
  | "not-json";

/** A request by the rules of JSON-RPC 2.0, with the parameters of the daemon's `send`. Unknown ones are an error here. */
const REQUEST = z.strictObject({
  jsonrpc: z.literal("2.0"),
  id: z.union([z.string(), z.number()]),
  method: z.string(),
  params: z.strictObject({
    account: z.string(),
    recipient: z.union([z.array(z.string()), z.string().transform((one) => [one])]).optional(),
    groupId: z.string().optional(),
    message: z.string().optional(),
    id: z.string().optional(),
    textStyle: z
      .array(z.string().regex(/^\d+:\d+:(?:BOLD|ITALIC|STRIKETHROUGH|MONOSPACE|SPOILER)$/))
      .optional(),
    quoteTimestamp: z.number().optional(),
    quoteAuthor: z.string().optional(),
  }),
});
export type SignalRequest = z.output<typeof REQUEST>;

/** The number of events that the daemon keeps. */
const KEPT = 1000;
/** From this many bytes on, Signal's apps drop a message's body. */
const LONGEST = 2048;

export interface SignalServer {
  url: string;
  /** The messages that were sent, oldest first. */
  sent: SignalRequest["params"][];
  /** Files that people have sent. */
  shelf: Shelf;
  typing: TypingLog;
  /** Everything that was asked, `METHOD path`. */
  asked: string[];
  /** `Last-Event-ID` of each connection to the stream. */
  lastEventIds: (string | undefined)[];
  /** Makes the next requests fail: `times` of them, or all. */
  fail(fault: SignalFault, times?: number): void;
  /** Puts an event into the stream; it is kept for those who come again. */
  emit(data: object): void;
  /** Half of an event, then the connection ends; the event is kept. */
  emitCut(data: object): void;
  /** An event in two parts, cut in the middle of this letter. */
  emitInTwo(data: object, letter: string): void;
  /** Ends the open streams. */
  cutStreams(): void;
  streams(): number;
  /** Forgets the ids it gave, as a new start of the daemon does; with `keep` the events stay. */
  restart(keep?: boolean): void;
  close(): Promise<void>;
}

export const ACCOUNT = "+15550009999";
export const ACCOUNT_ID = "99999999-aaaa-4bbb-8ccc-999999999999";

/** A small signal-cli daemon. */
export async function signalServer(): Promise<SignalServer> {
  const sent: SignalRequest["params"][] = [];
  const asked: string[] = [];
  const shelf = createShelf();
  const typing = createTypingLog();
  const lastEventIds: (string | undefined)[] = [];
  const open = new Set<ServerResponse>();
  let events: { sequence: number; text: string }[] = [];
  let sequence = 0;
  let run = 1;
  const faults = createFaults<SignalFault>();

  const frame = (event: { sequence: number; text: string }): string =>
    `id:${run}-${event.sequence}\nevent:receive\ndata:${event.text}\n\n`;
  const keep = (data: object): { sequence: number; text: string } => {
    const event = { sequence: ++sequence, text: JSON.stringify({ account: ACCOUNT, ...data }) };
    events = [...events, event].slice(-KEPT);
    return event;
  };

  const rpc = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const text = await readText(request);
    const now = faults.take();
    if (now === "hang") return;
    if (now === "cut-connection") return void request.socket.destroy();
    if (now === "unavailable") return void response.writeHead(503).end(`busy: ${text}`);
    if (now === "not-json") return void response.end("<html>");
    const parsed = REQUEST.safeParse(JSON.parse(text));
    const answer = (body: object, id: unknown = parsed.data?.id ?? null): void =>
      answerJson(response, 200, { jsonrpc: "2.0", id, ...body });
    // Like the daemon's, the messages quote what they should not: none of it may reach a reason.
    const error = (code: number, results?: object[]): void =>
      answer({
        error: {
          code,
          message: `failed: ${text}`,
          data: results ? { response: { timestamp: 1, results } } : null,
        },
      });
    if (!parsed.success || request.headers["content-type"] !== "application/json")
      return error(-32600);
    const { method, params } = parsed.data;
    if (now === "bad-credential" || ![ACCOUNT, ACCOUNT_ID].includes(params.account))
      return error(-32602);
    if (method === "listContacts") return answer({ result: [] });
    if (method === "getAttachment") {
      const file =
        params.recipient || params.groupId
          ? bytesAnswer(shelf, params.id ?? "", method, undefined)
          : undefined;
      if (file?.status === 503) return void response.writeHead(503).end();
      return file?.bytes ? answer({ result: { data: file.bytes.toString("base64") } }) : error(-1);
    }
    if (method !== "send" && method !== "sendTyping") return error(-32601);
    const recipientAddress = { uuid: null, number: params.recipient?.[0] ?? null };
    const failed = (type: string, more: object = {}): void =>
      error(type === "IDENTITY_FAILURE" ? -4 : -1, [{ recipientAddress, type, ...more }]);
    if (now === "rate-limited")
      return error(-5, [{ recipientAddress, type: "RATE_LIMIT_FAILURE", retryAfterSeconds: 7 }]);
    if (now === "captcha")
      return failed("RATE_LIMIT_FAILURE", { retryAfterSeconds: 3600, token: "challenge-token-1" });
    if (now === "no-such-recipient") return failed("UNREGISTERED_FAILURE");
    if (now === "untrusted-key") return failed("IDENTITY_FAILURE");
    if (now === "network") return failed("NETWORK_FAILURE");
    if (now === "internal") return error(-32603);
    if (method === "sendTyping") {
      if ((params.recipient === undefined) === (params.groupId === undefined)) return error(-1);
      const mode = keepSign(typing, params.recipient?.[0] ?? params.groupId ?? "");
      if (mode === "unavailable") return void response.writeHead(503).end();
      return mode === "ok"
        ? answer({ result: { timestamp: 1_700_000_000_000, results: [] } })
        : undefined;
    }
    if (!params.message || (params.recipient === undefined) === (params.groupId === undefined))
      return error(-1);
    // Signal's apps would show no body, so the test server rejects it.
    if (Buffer.byteLength(params.message) > LONGEST) return error(-1);
    sent.push(params);
    answer({
      result: {
        timestamp: 1_700_000_000_000 + sent.length,
        results: [{ recipientAddress, type: "SUCCESS" }],
      },
    });
  };

  const stream = (request: IncomingMessage, response: ServerResponse): void => {
    const account = new URL(request.url ?? "", "http://daemon").searchParams.get("account");
    if (account !== ACCOUNT && account !== ACCOUNT_ID) return void response.writeHead(400).end();
    const last = request.headers["last-event-id"];
    lastEventIds.push(typeof last === "string" ? last : undefined);
    response.writeHead(200, { "content-type": "text/event-stream" }).write(":\n");
    if (typeof last === "string") {
      const [prefix, number] = last.split("-");
      const after = prefix === String(run) ? Number(number) : 0;
      for (const event of events) if (event.sequence > after) response.write(frame(event));
    }
    open.add(response);
    response.on("close", () => open.delete(response));
  };

  const { url, close } = await listenOn((request, response) => {
    const path = (request.url ?? "").replace(/\?.*/, "");
    asked.push(`${request.method} ${path}`);
    if (request.method === "POST" && path === "/api/v1/rpc") return void rpc(request, response);
    if (request.method === "GET" && path === "/api/v1/check")
      return void response.writeHead(200).end();
    if (request.method === "GET" && path === "/api/v1/events") return stream(request, response);
    response.writeHead(404).end();
  });
  const cutStreams = (): void => {
    for (const response of open) response.socket?.destroy();
  };
  return {
    url,
    sent,
    shelf,
    typing,
    asked,
    lastEventIds,
    fail: faults.fail,
    emit: (data) => {
      const event = keep(data);
      for (const response of open) response.write(frame(event));
    },
    emitCut: (data) => {
      const text = frame(keep(data));
      for (const response of open)
        response.write(text.slice(0, text.length / 2), () => response.socket?.destroy());
    },
    emitInTwo: (data, letter) => {
      const bytes = Buffer.from(frame(keep(data)));
      const at = bytes.indexOf(letter) + 1;
      for (const response of open) {
        response.socket?.setNoDelay(true);
        response.write(bytes.subarray(0, at));
        setTimeout(() => response.write(bytes.subarray(at)), 50);
      }
    },
    cutStreams,
    streams: () => open.size,
    restart: (keepEvents = false) => {
      run++;
      sequence = keepEvents ? sequence : 0;
      if (!keepEvents) events = [];
      cutStreams();
    },
    close,
  };
}
