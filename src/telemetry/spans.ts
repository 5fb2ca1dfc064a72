import { AsyncLocalStorage } from "node:async_hooks";
import {
  createTraceState,
  isSpanContextValid,
  ROOT_CONTEXT,
  SpanStatusCode,
  trace,
  type Attributes as OtelAttributes,
  type Context,
  type Span,
  type SpanKind,
  type Tracer,
} from "@opentelemetry/api";
import { safeError } from "../core/errors.ts";
import type { TraceContext } from "../core/trace-context.ts";
import type { Attributes, SpanEnd } from "./types.ts";

/** The context manager of the program that embeds a gateway. */
export interface HostContexts {
  active(): Context;
  with<T>(context: Context, work: () => T): T;
}

/** The destination of spans. */
export interface SpanTarget {
  tracer: Tracer;
  /** Set if spans go to the embedding program's provider: its own spans can be their parents and children. */
  host?: HostContexts | undefined;
  close(): Promise<void>;
}

export interface SpanOptions {
  name: string;
  kind: SpanKind;
  attributes: Attributes;
  /** Default: the active context. */
  parent?: Context;
  links?: readonly TraceContext[];
}

/** The spans of one gateway. The active span is private to it, or shared with the embedding program if the spans are that program's. */
export interface Spans {
  active(): Context;
  activate<T>(context: Context, work: () => T): T;
  /** Starts a span that its caller ends. */
  start(options: SpanOptions): { span: Span; context: Context };
  end(span: Span, end: SpanEnd): void;
  /** Does work within a span. If the work throws, the span is marked as failed. */
  inside<T>(
    options: SpanOptions,
    work: () => T | PromiseLike<T>,
    read?: (result: T) => SpanEnd,
  ): Promise<T>;
}

const SAMPLED = 1;

/** Creates the context of a span that another process, or another part of this process, has started. */
export function toContext(
  { traceparent, tracestate }: TraceContext,
  base: Context = ROOT_CONTEXT,
): Context {
  return trace.setSpanContext(base, {
    traceId: traceparent.slice(3, 35),
    spanId: traceparent.slice(36, 52),
    traceFlags: Number.parseInt(traceparent.slice(53, 55), 16) & SAMPLED,
    isRemote: true,
    ...(tracestate === undefined ? {} : { traceState: createTraceState(tracestate) }),
  });
}

/** Reads the span of a context. Undefined if there is none. */
export function toTraceContext(context: Context): TraceContext | undefined {
  const found = trace.getSpanContext(context);
  if (!found || !isSpanContextValid(found)) return undefined;
  const { traceId, spanId, traceFlags, traceState } = found;
  const tracestate = traceState?.serialize();
  const traceparent = `00-${traceId}-${spanId}-0${traceFlags & SAMPLED}`;
  return tracestate ? { traceparent, tracestate } : { traceparent };
}

export const toOtel = (attributes: Attributes): OtelAttributes =>
  Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== undefined));

/** Returns an error type with few values: never the message, which may quote a body. */
export function getErrorType(error: unknown): string {
  const { code, status, name } = safeError(error);
  return String(code ?? status ?? name);
}

export function createSpans({ tracer, host }: SpanTarget): Spans {
  const storage = new AsyncLocalStorage<Context>();

  const active = (): Context => {
    const around = host?.active();
    // A program may have a tracer provider without a context manager.
    return around && trace.getSpanContext(around) ? around : (storage.getStore() ?? ROOT_CONTEXT);
  };
  const activate = <T>(context: Context, work: () => T): T =>
    storage.run(context, host ? () => host.with(context, work) : work);

  const start: Spans["start"] = ({ name, kind, attributes, parent = active(), links = [] }) => {
    const linked = links
      .flatMap((link) => trace.getSpanContext(toContext(link)) ?? [])
      .map((context) => ({ context }));
    const span = tracer.startSpan(
      name,
      { kind, attributes: toOtel(attributes), links: linked },
      parent,
    );
    return { span, context: trace.setSpan(parent, span) };
  };
  const end: Spans["end"] = (span, { error, attributes = {} }) => {
    span.setAttributes(toOtel({ ...attributes, "error.type": error }));
    if (error !== undefined) span.setStatus({ code: SpanStatusCode.ERROR });
    span.end();
  };
  return {
    active,
    activate,
    start,
    end,
    async inside(options, work, read) {
      const { span, context } = start(options);
      try {
        const result = await activate(context, work);
        end(span, read?.(result) ?? {});
        return result;
      } catch (error) {
        end(span, { error: getErrorType(error) });
        throw error;
      }
    },
  };
}
