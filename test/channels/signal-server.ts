import type { ServerResponse } from "node:http";
import { z } from "zod";
import { bytesAnswer, createShelf } from "./shelf.ts";
import { createFaults, failing, json, serve, type Answer, type Call } from "./wire.ts";
import { createTypingLog, keepSign } from "./typing-log.ts";

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

export type SignalServer = Awaited<ReturnType<typeof signalServer>>;

export const ACCOUNT = "+15550009999";
export const ACCOUNT_ID = "99999999-aaaa-4bbb-8ccc-999999999999";

interface Kept {
  sequence: number;
  text: string;
}

/** A small signal-cli daemon. */
export async function signalServer() {
  const sent: SignalRequest["params"][] = [];
  const asked: string[] = [];
  const shelf = createShelf();
  const typing = createTypingLog();
  const lastEventIds: (string | undefined)[] = [];
  const open = new Set<ServerResponse>();
  let events: Kept[] = [];
  let sequence = 0;
  let run = 1;
  const faults = createFaults<SignalFault>();

  const frame = (event: Kept): string =>
    `id:${run}-${event.sequence}\nevent:receive\ndata:${event.text}\n\n`;
  const keep = (data: object): Kept => {
    const event = { sequence: ++sequence, text: JSON.stringify({ account: ACCOUNT, ...data }) };
    events = [...events, event].slice(-KEPT);
    return event;
  };

  const rpc = ({ headers, body, bytes }: Call, fault: SignalFault | undefined): Answer => {
    if (fault === "not-json") return { status: 200, text: "<html>" };
    const parsed = REQUEST.safeParse(body);
    const answer = (more: object): Answer =>
      json(200, { jsonrpc: "2.0", id: parsed.data?.id ?? null, ...more });
    // Like the daemon's, the messages quote what they should not: none of it may reach a reason.
    const error = (code: number, results?: object[]): Answer =>
      answer({
        error: {
          code,
          message: `failed: ${bytes.toString()}`,
          data: results ? { response: { timestamp: 1, results } } : null,
        },
      });
    if (!parsed.success || headers["content-type"] !== "application/json") return error(-32600);
    const { method, params } = parsed.data;
    if (fault === "bad-credential" || ![ACCOUNT, ACCOUNT_ID].includes(params.account))
      return error(-32602);
    if (method === "listContacts") return answer({ result: [] });
    const hasOneTarget = (params.recipient === undefined) !== (params.groupId === undefined);
    if (method === "getAttachment") {
      if (!hasOneTarget) return error(-1);
      const file = bytesAnswer(shelf, params.id ?? "", { path: method, headers: {} });
      if (typeof file !== "object" || file.status === 503) return file;
      return file.bytes ? answer({ result: { data: file.bytes.toString("base64") } }) : error(-1);
    }
    if (method !== "send" && method !== "sendTyping") return error(-32601);
    const recipientAddress = { uuid: null, number: params.recipient?.[0] ?? null };
    const failed = (type: string, more: object = {}): Answer =>
      error(type === "IDENTITY_FAILURE" ? -4 : -1, [{ recipientAddress, type, ...more }]);
    if (fault === "rate-limited")
      return error(-5, [{ recipientAddress, type: "RATE_LIMIT_FAILURE", retryAfterSeconds: 7 }]);
    if (fault === "captcha")
      return failed("RATE_LIMIT_FAILURE", { retryAfterSeconds: 3600, token: "challenge-token-1" });
    if (fault === "no-such-recipient") return failed("UNREGISTERED_FAILURE");
    if (fault === "untrusted-key") return failed("IDENTITY_FAILURE");
    if (fault === "network") return failed("NETWORK_FAILURE");
    if (fault === "internal") return error(-32603);
    if (!hasOneTarget) return error(-1);
    if (method === "sendTyping") {
      const sign = keepSign(typing, params.recipient?.[0] ?? params.groupId ?? "");
      return sign ?? answer({ result: { timestamp: 1_700_000_000_000, results: [] } });
    }
    // Signal's apps would show no body that is too long, so the test server rejects it.
    if (!params.message || Buffer.byteLength(params.message) > LONGEST) return error(-1);
    sent.push(params);
    return answer({
      result: {
        timestamp: 1_700_000_000_000 + sent.length,
        results: [{ recipientAddress, type: "SUCCESS" }],
      },
    });
  };

  const stream = ({ query, headers }: Call): Answer => {
    if (![ACCOUNT, ACCOUNT_ID].includes(query.get("account") ?? "")) return { status: 400 };
    const given = headers["last-event-id"];
    const last = typeof given === "string" ? given : undefined;
    lastEventIds.push(last);
    return (response) => {
      response.writeHead(200, { "content-type": "text/event-stream" }).write(":\n");
      if (last !== undefined) {
        const [prefix, number] = last.split("-");
        const after = prefix === String(run) ? Number(number) : 0;
        for (const event of events) if (event.sequence > after) response.write(frame(event));
      }
      open.add(response);
      response.on("close", () => open.delete(response));
    };
  };

  const { url, close } = await serve((call): Answer | Promise<Answer> => {
    asked.push(`${call.method} ${call.path}`);
    switch (asked.at(-1)) {
      case "POST /api/v1/rpc": {
        const fault = faults.take();
        return failing(fault, () => rpc(call, fault));
      }
      case "GET /api/v1/check":
        return { status: 200 };
      case "GET /api/v1/events":
        return stream(call);
      default:
        return { status: 404 };
    }
  });
  const cutStreams = (): void => {
    for (const response of open) response.socket?.destroy();
  };
  return {
    url,
    /** The messages that were sent, oldest first. */
    sent,
    /** Files that people have sent. */
    shelf,
    typing,
    /** Everything that was asked, `METHOD path`. */
    asked,
    /** `Last-Event-ID` of each connection to the stream. */
    lastEventIds,
    /** Makes the next requests fail: `times` of them, or all. */
    fail: faults.fail,
    /** Puts an event into the stream; it is kept for those who come again. */
    emit: (data: object) => {
      const event = keep(data);
      for (const response of open) response.write(frame(event));
    },
    /** Half of an event, then the connection ends; the event is kept. */
    emitCut: (data: object) => {
      const text = frame(keep(data));
      for (const response of open)
        response.write(text.slice(0, text.length / 2), () => response.socket?.destroy());
    },
    /** An event in two parts, cut in the middle of this letter. */
    emitInTwo: (data: object, letter: string) => {
      const bytes = Buffer.from(frame(keep(data)));
      const at = bytes.indexOf(letter) + 1;
      for (const response of open) {
        response.socket?.setNoDelay(true);
        response.write(bytes.subarray(0, at));
        setTimeout(() => response.write(bytes.subarray(at)), 50);
      }
    },
    /** Ends the open streams. */
    cutStreams,
    streams: () => open.size,
    /** Forgets the ids it gave, as a new start of the daemon does; with `keep` the events stay. */
    restart: (keepEvents = false) => {
      run++;
      sequence = keepEvents ? sequence : 0;
      if (!keepEvents) events = [];
      cutStreams();
    },
    close,
  };
}
