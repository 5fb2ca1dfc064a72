import { AsyncLocalStorage } from "node:async_hooks";
import {
  createContextKey,
  createTraceState,
  isSpanContextValid,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  type Attributes as OtelAttributes,
  type Context,
  type Tracer,
} from "@opentelemetry/api";
import { safeError } from "../core/errors.ts";
import {
  readTraceContext,
  type Attributes,
  type Span,
  type SpanOptions,
  type TraceContext,
  type Traces,
} from "../core/http/trace-context.ts";

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

const SAMPLED = 1;
/** Marks the context of a request whose span gets the attributes of its event. */
const SERVED = createContextKey("rouse.served");
const KINDS = { server: SpanKind.SERVER, client: SpanKind.CLIENT, consumer: SpanKind.CONSUMER };

/** Creates the context of a span that another process, or another part of this process, has started. */
function toContext({ traceparent, tracestate }: TraceContext, base = ROOT_CONTEXT): Context {
  return trace.setSpanContext(base, {
    traceId: traceparent.slice(3, 35),
    spanId: traceparent.slice(36, 52),
    traceFlags: Number.parseInt(traceparent.slice(53, 55), 16) & SAMPLED,
    isRemote: true,
    ...(tracestate === undefined ? {} : { traceState: createTraceState(tracestate) }),
  });
}

/** Reads the span of a context. Undefined if there is none. */
function toTraceContext(context: Context): TraceContext | undefined {
  const found = trace.getSpanContext(context);
  if (!found || !isSpanContextValid(found)) return undefined;
  const { traceId, spanId, traceFlags, traceState } = found;
  const tracestate = traceState?.serialize();
  const traceparent = `00-${traceId}-${spanId}-0${traceFlags & SAMPLED}`;
  return tracestate ? { traceparent, tracestate } : { traceparent };
}

const toOtel = (attributes: Attributes): OtelAttributes =>
  Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== undefined));

/** Returns an error type with few values: never the message, which may quote a body. */
function getErrorType(error: unknown): string {
  const { code, status, name } = safeError(error);
  return String(code ?? status ?? name);
}

/** Creates the traces of one gateway. The active span is private to it, or shared with the embedding program if the spans are that program's. */
export function createTraces({ tracer, host, close }: SpanTarget): Traces {
  const storage = new AsyncLocalStorage<Context>();

  const active = (): Context => {
    const around = host?.active();
    // A program may have a tracer provider without a context manager.
    return around && trace.getSpanContext(around) ? around : (storage.getStore() ?? ROOT_CONTEXT);
  };
  const activate = <T>(context: Context, work: () => T): T =>
    storage.run(context, host ? () => host.with(context, work) : work);

  /** The parent of a span: the trace that it continues, else the active span, else that of the sender. */
  const findParent = (around: Context, { trace: continued, headers }: SpanOptions): Context => {
    if (continued) return toContext(continued);
    const sender = headers && !trace.getSpanContext(around) ? readTraceContext(headers) : undefined;
    return sender ? toContext(sender, around) : around;
  };

  const span = async <R>(
    name: string,
    attributes: Attributes,
    work: (span: Span) => R,
    options: SpanOptions = {},
  ): Promise<Awaited<R>> => {
    const { kind, trace: continued, joinsRequest } = options;
    const around = active();
    const request = joinsRequest && around.getValue(SERVED) ? trace.getSpan(around) : undefined;
    if (request) {
      request.setAttributes(toOtel(attributes));
      return await work({
        set: (more) => void request.setAttributes(toOtel(more)),
        fail: () => undefined,
      });
    }
    const parent = findParent(around, options).setValue(SERVED, kind === "server");
    const links = (continued?.links ?? [])
      .flatMap((link) => trace.getSpanContext(toContext(link)) ?? [])
      .map((context) => ({ context }));
    const started = tracer.startSpan(
      name,
      { kind: kind ? KINDS[kind] : SpanKind.INTERNAL, attributes: toOtel(attributes), links },
      parent,
    );
    const fail = (code: string): void => {
      started.setAttribute("error.type", code);
      started.setStatus({ code: SpanStatusCode.ERROR });
    };
    const set = (more: Attributes): void => void started.setAttributes(toOtel(more));
    try {
      return await activate(trace.setSpan(parent, started), () => work({ set, fail }));
    } catch (error) {
      fail(getErrorType(error));
      throw error;
    } finally {
      started.end();
    }
  };

  return {
    isOn: true,
    span,
    within: (context, work) => activate(context ? toContext(context) : ROOT_CONTEXT, work),
    current: () => toTraceContext(active()),
    ids() {
      const found = trace.getSpanContext(active());
      return found && isSpanContextValid(found)
        ? { traceId: found.traceId, spanId: found.spanId }
        : {};
    },
    close,
  };
}
