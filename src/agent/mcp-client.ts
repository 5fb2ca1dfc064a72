import type {
  Client,
  StreamableHTTPClientTransport,
  Transport,
} from "@modelcontextprotocol/client";
import type { Config } from "../config/schema/index.ts";
import { VERSION } from "../core/version.ts";
import type { ToolOutput } from "../store/steps.ts";
import { isGone, isNotSent, isOutcomeUnknown } from "./mcp-errors.ts";
import { toToolOutput } from "./mcp-results.ts";
import { OutcomeUnknownError, type OfferedCall } from "./offered-tool.ts";
import { raceAbort } from "./race.ts";

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

export interface McpCall extends OfferedCall {
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

export interface ConnectionOptions extends McpEnvironment {
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

/** Watches the requests for the server's event stream, and calls `onLost` if the server or the session is gone. */
function watchStream(fetcher: typeof fetch, onLost: (error: unknown) => void): typeof fetch {
  return async (input, init) => {
    if (init?.method !== "GET") return fetcher(input, init);
    const response = await fetcher(input, init).catch((error: unknown) => {
      if (!init.signal?.aborted) onLost(error);
      throw error;
    });
    if (isGone(response.status) && new Headers(init.headers).has("mcp-session-id"))
      onLost(response);
    return response;
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
        fetch: watchStream(options.fetch, onLost),
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

/** Whether the server rejected a call because it does not know the session any more, or could not be reached. */
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
        await client.request({ method: "tools/call", params }, { signal: both, timeout: callMs }),
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
        tools: { onChanged: (error, tools) => (error ? undefined : onTools(tools ?? [])) },
      },
    },
  );
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
    const { tools } = client.getServerCapabilities()?.tools
      ? await client.listTools({}, { timeout: connectMs, signal })
      : { tools: [] };
    onTools(tools);
    return { call: createCall(client, transport, calls, server.callTimeout), close };
  } catch (error) {
    isOpen = false;
    await close("now");
    throw error;
  }
}
