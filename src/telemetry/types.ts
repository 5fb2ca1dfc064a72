import type { LanguageModelMiddleware } from "ai";
import type { JoinedTraces, TraceContext } from "../core/trace-context.ts";

/** What a span says of itself, by the name of the attribute. What is undefined is left out. */
export type Attributes = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>;

/** How the work of a span has ended. `error` is a short code of few values; its presence makes the span a failed one. */
export interface SpanEnd {
  error?: string | undefined;
  attributes?: Attributes;
}

/** A request as the gateway's own server takes it. */
export interface ServedRequest {
  method: string;
  /** The pattern of the address, as `/hooks/shop`: few values, whatever callers send. */
  route: string;
  scheme: string;
  /** The caller's headers. */
  headers: TraceHeaders;
}

export interface TraceHeaders {
  traceparent: string | undefined;
  tracestate: string | undefined;
}

/** An event that comes in. */
export interface ReceivedEvent {
  /** The hook path, `channels/<id>` or `replay`. */
  path: string;
  /** Whether `path` is one of the config: only then it names spans. */
  isKnown: boolean;
  /** How it came in: `http`, `source`, `channel`, `replay` or `internal`. */
  origin: string;
  headers: Readonly<Record<string, string | undefined>>;
}

/** A try of a run. */
export interface TracedRun {
  id: string;
  kind: string;
  eventId: string | null;
  mapping: string | undefined;
  attempt: number;
  agentId: string;
  agentName: string | undefined;
  /** The name of its session. */
  session: string;
  /** The trace of what asked for it; undefined if a caller waits, whose request is the active span. */
  trace: JoinedTraces | undefined;
}

/** The model of a call, and the API that it speaks by its name in the conventions. */
export interface TracedModel {
  provider: string;
  model: string;
  baseUrl: string | undefined;
  agent: { id: string; name: string };
  session: string;
}

export interface TracedTool {
  /** As the model calls it. */
  name: string;
  /** As the config names it. */
  tool: string;
  callId: string;
}

export interface TracedSend {
  deliveryId: string;
  runId: string;
  channel: string;
  attempt: number;
  /** Which chunk of the text, from 0. */
  chunk: number;
}

/**
 * The traces of a gateway. Absent if nothing collects them, so that nothing is loaded. No attribute
 * holds a body, a prompt, an address of a person or a secret.
 */
export interface Telemetry {
  /** Answers a request within a server span, which continues the caller's trace. */
  serve(request: ServedRequest, answer: () => Promise<Response>): Promise<Response>;
  /** Takes an event in: within the span of its request, or one of its own. `read` reads what became of it. */
  receive<T>(event: ReceivedEvent, work: () => Promise<T>, read: (result: T) => SpanEnd): Promise<T>;
  /** Evaluates the mappings for an event. */
  evaluate<T>(path: string | undefined, work: () => T | Promise<T>, read: (result: T) => SpanEnd): Promise<T>;
  /** Executes a try of a run. `read` reads how it ended. */
  run(run: TracedRun, work: () => Promise<void>, read: () => SpanEnd): Promise<void>;
  /** Wraps each call of a model. It has to be the innermost middleware: what others change is to be seen. */
  modelCalls(model: TracedModel): LanguageModelMiddleware;
  /** Executes the call of a tool. What it throws makes the span a failed one. */
  tool<T>(tool: TracedTool, work: () => Promise<T>, read: (result: T) => SpanEnd): Promise<T>;
  /** Sends a chunk of a reply once. */
  send<T extends { status: string }>(send: TracedSend, work: () => Promise<T>): Promise<T>;
  /** Does work that belongs to a trace but is no span of its own, or with `undefined` to none. */
  within<T>(trace: TraceContext | undefined, work: () => T): T;
  /** The active span, as it is stored and passed on. */
  current(): TraceContext | undefined;
  /** Names the active span in the log; empty if there is none. */
  ids(): { traceId?: string; spanId?: string };
  /** Exports what is left. Waits a few seconds at most. */
  close(): Promise<void>;
}
