import type {
  Client,
  RequestOptions,
  StreamableHTTPClientTransport,
  Transport,
} from "@modelcontextprotocol/client";
import { z } from "zod";
import type { Config } from "../../config/schema/index.ts";
import { readImageInfo } from "../../core/image-info.ts";
import { isRecord, parseJson } from "../../core/json.ts";
import { VERSION } from "../../core/version.ts";
import type { ToolOutput, ToolOutputPart } from "../../store/steps.ts";
import { OutcomeUnknownError, type OfferedCall } from "./offered-tool.ts";
import { raceAbort } from "../../core/pause.ts";
import { renderFile } from "./tool-results.ts";

const isText = (value: unknown): value is string => typeof value === "string";
const toJson = (value: unknown): string => JSON.stringify(value) ?? "null";

/** The most pixels that a side of an image may have. */
const MAX_SIDE = 8000;

/**
 * Returns a file with the type of its bytes: vendors refuse a whole request for an image that is named a PNG and is a JPEG,
 * cannot be read, is of a kind that they do not know, or is too large.
 */
function toFile(encoded: string, named: unknown, filename?: unknown): ToolOutputPart {
  const bytes = Buffer.from(encoded.replace(/^data:[^,]*,/, ""), "base64");
  const seen = readImageInfo(bytes);
  const mediaType = seen?.mediaType ?? (isText(named) ? named : "application/octet-stream");
  const data = bytes.toString("base64");
  const isShown = seen !== undefined && Math.max(seen.width, seen.height) <= MAX_SIDE;
  if (!isShown && /^image\//i.test(mediaType)) {
    const why = seen
      ? `a side has more than ${MAX_SIDE} pixels`
      : "no PNG, JPEG, GIF or WebP image";
    return { type: "text", text: renderFile(mediaType, data, why) };
  }
  return { type: "file", mediaType, data, ...(isText(filename) && { filename }) };
}

function toPart(item: unknown): ToolOutputPart {
  if (!isRecord(item)) return { type: "text", text: isText(item) ? item : toJson(item) };
  const { type, text, data, mimeType, resource } = item;
  if (type === "text" && isText(text)) return { type: "text", text };
  if ((type === "image" || type === "audio") && isText(data)) return toFile(data, mimeType);
  if (type === "resource" && isRecord(resource)) {
    if (isText(resource["blob"]))
      return toFile(resource["blob"], resource["mimeType"], resource["uri"]);
    if (isText(resource["text"]))
      return { type: "text", text: `Resource ${String(resource["uri"])}:\n${resource["text"]}` };
  }
  if (type === "resource_link")
    return {
      type: "text",
      text: [
        "Link to a resource:",
        item["uri"],
        item["title"] ?? item["name"],
        item["description"],
        mimeType,
      ]
        .filter(isText)
        .join("\n"),
    };
  return { type: "text", text: toJson(item) };
}

/** Characters that are searched through, for all values together. Of a larger result the model gets both. */
const MAX_SEARCHED = 200_000_000;

/** Lists the values of structured content that are no lists and no objects. */
const listValues = (value: unknown): unknown[] =>
  typeof value === "object" && value !== null ? Object.values(value).flatMap(listValues) : [value];

/**
 * Returns whether the content says all that the structured content does. The protocol has servers repeat it as text ("a
 * tool that returns structured content SHOULD also return the serialized JSON in a TextContent block", 2025-06-18,
 * server/tools); some write a summary instead, and then the data is nowhere else.
 */
function saysAll(content: readonly unknown[], structured: unknown): boolean {
  if (content.length === 0) return false;
  const text = content
    .map((item) => (isRecord(item) && isText(item["text"]) ? item["text"] : toJson(item)))
    .join("\n");
  const values = listValues(structured);
  if (text.length * values.length > MAX_SEARCHED) return false;
  const words = new Set(text.match(/[\w.+-]+/g));
  return values.map(String).every((said) => {
    if (/^[\w.+-]+$/.test(said)) return words.has(said);
    return text.includes(said.trim()) || text.includes(JSON.stringify(said).slice(1, -1));
  });
}

/**
 * Reads a server's answer to a call. All of it is text from outside. Structured content is added if the content does not say
 * the same.
 */
export function toToolOutput(result: unknown): ToolOutput {
  const { content, structuredContent, isError }: Record<string, unknown> = isRecord(result)
    ? result
    : { content: [result] };
  const items: readonly unknown[] = [content ?? []].flat();
  const parts = items.map(toPart);
  if ((structuredContent ?? undefined) !== undefined && !saysAll(items, structuredContent))
    parts.push({ type: "text", text: toJson(structuredContent) });
  return { parts, ...(isError === true && { isError }) };
}

/**
 * Returns whether a status says that the server does not know the session: a server that was restarted answers 404, or
 * 400.
 */
const isGone = (status: number): boolean => status === 404 || status === 400;

/** Codes of errors before a connection was established: nothing was sent. */
const NOT_SENT = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
  "ENOENT",
  "EACCES",
  "NOT_CONNECTED",
]);

interface Details {
  code?: unknown;
  status?: unknown;
  cause?: unknown;
  message: string;
}

/** The older transport has the status only in its message. */
function getStatus({ status, message }: Details): number | undefined {
  if (typeof status === "number") return status;
  const found = /\(HTTP (\d{3})\)/.exec(message)?.[1];
  return found === undefined ? undefined : Number(found);
}

function getCode(error: unknown): string | undefined {
  const { code, cause, message } = error as Details;
  if (typeof code === "string") return code;
  if (message === "Not connected") return "NOT_CONNECTED";
  return cause instanceof Error ? getCode(cause) : undefined;
}

/** Returns whether a request failed before it was sent. */
const isNotSent = (error: unknown): boolean =>
  error instanceof Error && NOT_SENT.has(getCode(error) ?? "");

/** Returns whether a call may have been carried out although it failed with this error. */
function isOutcomeUnknown(error: unknown): boolean {
  if (!(error instanceof Error)) return true;
  const status = getStatus(error);
  // A server that answers 503 has rejected the request.
  if (status !== undefined) return status >= 500 && status !== 503;
  // Errors of the protocol have numbers. With all others an answer may have come that could not be read.
  return typeof (error as Details).code !== "number" && !isNotSent(error);
}

/** Describes for the operator why a server cannot be reached. Quotes no text of the server. */
export function describeProblem(error: unknown): string {
  if (error instanceof Response) return `the session is gone (HTTP ${error.status})`;
  if (!(error instanceof Error)) return "it cannot be reached";
  const status = getStatus(error);
  if (status !== undefined)
    return status === 401 || status === 403
      ? `it refuses the credentials (HTTP ${status})`
      : `HTTP ${status}`;
  if (error instanceof SyntaxError) return "its answer is not valid JSON";
  const code = getCode(error);
  if (code === "CLIENT_HTTP_UNEXPECTED_CONTENT")
    return "its answer is neither JSON nor an event stream: check the address";
  if (code === "ENOENT") return "its program or its folder does not exist (ENOENT)";
  if (code === "REQUEST_TIMEOUT" || error.name === "TimeoutError")
    return "it did not answer in time";
  if (code === "CONNECTION_CLOSED" || error.message === "closed")
    return "the connection was closed, or the program ended";
  return code === undefined || code === "INVALID_RESULT"
    ? "it does not speak MCP as expected"
    : `it cannot be reached (${code.slice(0, 60)})`;
}

/** An entry of `mcp.servers`. */
export type McpServerConfig = Config["mcp"]["servers"][string];

/** The settings of MCP servers that are not in the config. */
export interface McpEnvironment {
  /** Programs run in this folder. */
  cwd: string;
  env: Record<string, string | undefined>;
  fetch: typeof fetch;
}

/** A tool as its server lists it. All of it is text from outside. */
export interface ListedTool {
  name: string;
  description?: string | undefined;
  inputSchema: unknown;
  annotations?: Record<string, unknown> | undefined;
}

/**
 * The answer to `initialize`. Only the version and the capabilities are needed: the protocol's client would reject a server
 * that leaves its own name or version out, or writes null for a field that may be absent.
 */
const INITIALIZED = z.looseObject({
  protocolVersion: z.string(),
  capabilities: z.record(z.string(), z.unknown()).nullish(),
  serverInfo: z
    .unknown()
    .transform(() => undefined)
    .optional(),
});

/** The answer to `tools/list`: a field that is not read cannot make a server unusable, nor can one tool all others. */
const LIST = z.looseObject({ tools: z.array(z.unknown()).nullable() });
const MAX_PAGES = 64;

function toListedTool(listed: unknown): ListedTool {
  const { name, description, inputSchema, annotations } = isRecord(listed) ? listed : {};
  return {
    name: isText(name) ? name : "",
    inputSchema,
    ...(isText(description) && { description }),
    ...(isRecord(annotations) && { annotations }),
  };
}

/** Lists the tools of all pages. A cursor that was there before ends the list. */
async function listTools(client: Client, options: RequestOptions): Promise<ListedTool[]> {
  const tools = new Map<string, ListedTool>();
  const cursors = new Set<unknown>();
  for (let cursor: unknown; !cursors.has(cursor) && cursors.size < MAX_PAGES;) {
    cursors.add(cursor);
    const params = isText(cursor) ? { cursor } : {};
    const page = await client.request({ method: "tools/list", params }, LIST, options);
    for (const tool of (page.tools ?? []).map(toListedTool)) tools.set(tool.name, tool);
    cursor = page["nextCursor"] ?? undefined;
  }
  return [...tools.values()];
}

export interface McpCall extends Omit<OfferedCall, "inputText"> {
  tool: string;
  input: unknown;
}

export interface McpConnection {
  /**
   * Calls a tool, with the call's id as `_meta.idempotencyKey`, and with the span's trace context in `_meta`. An abort cancels the call at the server.
   * @throws SessionGoneError if the server cannot be reached, or does not know the session any more: the call was not carried out.
   * @throws OutcomeUnknownError if the call was sent and no answer came.
   */
  call(call: McpCall): Promise<ToolOutput>;
  /** Ends the connection once no call is in progress, or immediately; a program is ended too. */
  close(when: "idle" | "now"): Promise<void>;
}

/** Thrown if the server is down, was restarted, or ended the session: the call was not carried out, and may be made in another session. */
export class SessionGoneError extends Error {
  override readonly name = "SessionGoneError";
}

interface ConnectionOptions extends McpEnvironment {
  server: McpServerConfig;
  /** Milliseconds for connecting. */
  connectMs: number;
  /** Ends the attempt to connect. */
  signal: AbortSignal;
  onTools(tools: readonly ListedTool[]): void;
  /** Called once if the program ended, or if the server or its session is gone. */
  onLost(error: unknown): void;
}

const MAX_MESSAGE_BYTES = 32_000_000;
const GOODBYE_MS = 1_000;

/**
 * Watches the requests for the server's event stream, and calls `onLost` if the server or the session is gone. Servers that
 * have no such stream reject the first request for it in their own ways.
 */
function watchStream(fetcher: typeof fetch, onLost: (error: unknown) => void): typeof fetch {
  let wasOpen = false;
  return async (input, init) => {
    if (init?.method !== "GET") return fetcher(input, init);
    const response = await fetcher(input, init).catch((error: unknown) => {
      if (wasOpen && !init.signal?.aborted) onLost(error);
      throw error;
    });
    wasOpen ||= response.ok;
    if (wasOpen && isGone(response.status) && new Headers(init.headers).has("mcp-session-id"))
      onLost(response);
    return response;
  };
}

function dropNulls(message: unknown): unknown {
  if (!isRecord(message)) return message;
  const { error, result } = message;
  return { ...message, error: error ?? undefined, result: result ?? undefined };
}

/** Reads answers of servers that write `"error": null` beside a result: the protocol's client takes no answer with both. */
function readJson(fetcher: typeof fetch): typeof fetch {
  return async (input, init) => {
    const response = await fetcher(input, init);
    const type = response.headers.get("content-type") ?? "";
    if (response.status !== 200 || !type.startsWith("application/json")) return response;
    const text = await response.text();
    try {
      const messages = [parseJson(text)].flat().map(dropNulls);
      return new Response(JSON.stringify(messages), response);
    } catch {
      return new Response(text, response);
    }
  };
}

async function createTransport(
  options: ConnectionOptions,
  onLost: (error: unknown) => void,
): Promise<Transport> {
  const { server, cwd, env } = options;
  if (!("url" in server)) {
    const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
    const { PATH = "" } = env;
    const { command, args } = server;
    return new StdioClientTransport({
      command,
      args,
      env: { PATH, ...server.env },
      cwd,
      maxBufferSize: MAX_MESSAGE_BYTES,
    });
  }
  const { SSEClientTransport, StreamableHTTPClientTransport } =
    await import("@modelcontextprotocol/client");
  const url = new URL(server.url);
  const requestInit = { headers: server.headers };
  return server.type === "sse"
    ? new SSEClientTransport(url, { requestInit, fetch: options.fetch })
    : new StreamableHTTPClientTransport(url, {
        requestInit,
        fetch: readJson(watchStream(options.fetch, onLost)),
      });
}

/** Calls in progress, by their ids. */
interface Calls {
  pending: Map<string, AbortController>;
  /** Called when the last one has ended. */
  onIdle?: () => void;
}

/** Ends a call whose response stream was cut: the protocol's client would wait on until the time limit. */
function endCutCalls(transport: Transport, { pending }: Calls): void {
  const send = transport.send.bind(transport);
  transport.send = (message, options) => {
    const params =
      "params" in message
        ? (message.params as { _meta?: { idempotencyKey?: unknown } } | undefined)
        : undefined;
    const key = params?._meta?.idempotencyKey;
    const onRequestStreamEnd = (): void => {
      options?.onRequestStreamEnd?.();
      pending.get(String(key))?.abort(new DOMException("the connection was cut", "NetworkError"));
    };
    return send(message, key === undefined ? options : { ...options, onRequestStreamEnd });
  };
}

/** Creates `close`, which waits for calls in progress, ends the session, and kills a program that does not exit by itself. */
function createClose(client: Client, transport: Transport, calls: Calls): McpConnection["close"] {
  const end = async (): Promise<void> => {
    if ("terminateSession" in transport)
      await raceAbort(
        (transport as StreamableHTTPClientTransport).terminateSession(),
        AbortSignal.timeout(GOODBYE_MS),
      ).catch(() => undefined);
    await client.close();
    await transport.close();
  };
  // If connecting fails, the client closes the connection without waiting, and a second `close` does not wait either.
  const closeTransport = transport.close.bind(transport);
  let closed: Promise<void> | undefined;
  transport.close = () => (closed ??= closeTransport());
  let ended: Promise<void> | undefined;
  return async (when) => {
    if (when === "idle" && calls.pending.size > 0)
      await new Promise<void>((resolve) => (calls.onIdle = resolve));
    return (ended ??= end());
  };
}

/**
 * Returns whether the server rejected a call because it does not know the session any more, or could not be reached.
 */
function wasNotCarriedOut(error: unknown, { sessionId }: Transport): boolean {
  const { status } = error as { status?: unknown };
  return typeof status === "number" ? sessionId !== undefined && isGone(status) : isNotSent(error);
}

function createCall(
  client: Client,
  transport: Transport,
  calls: Calls,
  callMs: number,
): McpConnection["call"] {
  return async ({ tool, input, callId, signal, trace }) => {
    signal.throwIfAborted();
    const cut = new AbortController();
    calls.pending.set(callId, cut);
    const both = AbortSignal.any([signal, cut.signal]);
    try {
      const params = {
        name: tool,
        arguments: input as Record<string, unknown>,
        _meta: { idempotencyKey: callId, ...trace },
      };
      return toToolOutput(
        await client.request({ method: "tools/call", params }, z.unknown(), {
          signal: both,
          timeout: callMs,
        }),
      );
    } catch (error) {
      if (!both.aborted && wasNotCarriedOut(error, transport))
        throw new SessionGoneError("the session is gone", { cause: error });
      if (both.aborted || isOutcomeUnknown(error))
        throw new OutcomeUnknownError("no answer came; the tool may have done its work", {
          cause: error,
        });
      throw error;
    } finally {
      calls.pending.delete(callId);
      if (calls.pending.size === 0) calls.onIdle?.();
    }
  };
}

/**
 * Connects to a server and lists its tools; `onTools` gets them, again after each change.
 * @throws the error that prevented the connection; no program or stream stays open.
 */
export async function openConnection(options: ConnectionOptions): Promise<McpConnection> {
  const { connectMs, server, signal, onTools } = options;
  const { Client, SseError } = await import("@modelcontextprotocol/client");
  let isOpen = false;
  const onLost = (error: unknown): void => {
    if (isOpen) options.onLost(error);
    isOpen = false;
  };
  const transport = await createTransport(options, onLost);
  const client = new Client(
    { name: "rouse", version: VERSION },
    {
      listChanged: {
        tools: {
          autoRefresh: false,
          onChanged: () =>
            void listTools(client, { timeout: connectMs }).then(onTools, () => undefined),
        },
      },
    },
  );
  const request = client.request.bind(client);
  client.request = (asked: { method: string }, ...rest: [never]) =>
    asked.method === "initialize" ? request(asked, INITIALIZED, ...rest) : request(asked, ...rest);
  const calls: Calls = { pending: new Map() };
  endCutCalls(transport, calls);
  Object.assign(client, {
    onclose: () => onLost(new Error("closed")),
    // With this older transport the stream is the session. The transport would open another session without notice.
    onerror: (error: unknown) => void (error instanceof SseError && client.close()),
  });
  const close = createClose(client, transport, calls);
  try {
    await raceAbort(client.connect(transport, { timeout: connectMs, signal }), signal);
    isOpen = true;
    const hasTools = client.getServerCapabilities()?.tools !== undefined;
    onTools(hasTools ? await listTools(client, { timeout: connectMs, signal }) : []);
    return { call: createCall(client, transport, calls, server.callTimeout), close };
  } catch (error) {
    isOpen = false;
    await close("now");
    throw error;
  }
}
