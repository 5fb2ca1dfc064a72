import type { LanguageModelMiddleware } from "ai";
import type { JoinedTraces, TraceContext } from "../core/trace-context.ts";

/** The attributes of a span by name. Undefined values are left out. */
export type Attributes = Readonly<
  Record<string, string | number | boolean | readonly string[] | undefined>
>;

/** How the work of a span has ended. `error` is a short code of few values; its presence marks the span as failed. */
export interface SpanEnd {
  error?: string | undefined;
  attributes?: Attributes;
}

/** A request to the gateway's own server. */
export interface ServedRequest {
  method: string;
  /** The route, such as `/hooks/shop`: few values, whatever callers send. */
  route: string;
  scheme: string;
  /** The caller's headers. */
  headers: TraceHeaders;
}

export interface TraceHeaders {
  traceparent: string | undefined;
  tracestate: string | undefined;
}

/** An incoming event. */
export interface ReceivedEvent {
  /** The hook path, `channels/<id>` or `replay`. */
  path: string;
  /** Whether the config has `path`: only then it is part of the span's name. */
  isKnown: boolean;
  /** How it was received: `http`, `source`, `channel`, `replay` or `internal`. */
  origin: string;
  headers: Readonly<Record<string, string | undefined>>;
}

/** One attempt of a run. */
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
  /** The trace of the event that caused it; undefined if a caller waits, whose request is the active span. */
  trace: JoinedTraces | undefined;
  /** The ids that the front end of an API user gave its chat and message, by the headers' names. */
  correlation: Readonly<Record<string, string>> | undefined;
}

/** The model of a call, and its API by the name in the conventions. */
export interface TracedModel {
  provider: string;
  model: string;
  baseUrl: string | undefined;
  agent: { id: string; name: string };
  session: string;
}

export interface TracedTool {
  /** The name that the model uses. */
  name: string;
  /** The name in the config. */
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
 * The traces of a gateway. Absent if no traces are collected, so that nothing is loaded. No attribute
 * has a body, a prompt, an address of a person or a secret.
 */
export interface Telemetry {
  /** Answers a request within a server span, which continues the caller's trace. */
  serve(request: ServedRequest, answer: () => Promise<Response>): Promise<Response>;
  /** Processes an event within the span of its request, or within a span of its own. `read` reads the outcome. */
  receive<T>(
    event: ReceivedEvent,
    work: () => Promise<T>,
    read: (result: T) => SpanEnd,
  ): Promise<T>;
  /** Evaluates the mappings for an event. */
  evaluate<T>(
    path: string | undefined,
    work: () => T | Promise<T>,
    read: (result: T) => SpanEnd,
  ): Promise<T>;
  /** Executes one attempt of a run. `read` reads its result. */
  run(run: TracedRun, work: () => Promise<void>, read: () => SpanEnd): Promise<void>;
  /** Wraps each call of a model. It must be the innermost middleware, to see the changes of all other middleware. */
  modelCalls(model: TracedModel): LanguageModelMiddleware;
  /** Executes a tool call. If it throws, the span is marked as failed. */
  tool<T>(tool: TracedTool, work: () => Promise<T>, read: (result: T) => SpanEnd): Promise<T>;
  /** Makes one attempt to send a chunk of a reply. */
  send<T extends { status: string }>(send: TracedSend, work: () => Promise<T>): Promise<T>;
  /** Does work within a trace, without a span of its own; with `undefined`, within no trace. */
  within<T>(trace: TraceContext | undefined, work: () => T): T;
  /** The active span, as it is stored and passed on. */
  current(): TraceContext | undefined;
  /** Names the active span in the log; empty if there is none. */
  ids(): { traceId?: string; spanId?: string };
  /** Exports the remaining spans. Waits a few seconds at most. */
  close(): Promise<void>;
}
