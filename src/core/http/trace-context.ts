/** The place of a span in its trace, as the headers of W3C Trace Context carry it. */
export interface TraceContext {
  /** `00-<trace id>-<span id>-<flags>`. */
  traceparent: string;
  tracestate?: string;
}

/** The trace of what began something, and those of further events that came together in it. */
export interface JoinedTraces extends TraceContext {
  links?: TraceContext[];
}

/** The attributes of a span by name. Undefined values are left out. */
export type Attributes = Readonly<
  Record<string, string | number | boolean | readonly string[] | undefined>
>;

/** A span whose work is under way. */
export interface Span {
  /** Adds attributes. None has a body, a prompt, an address of a person or a secret. */
  set(attributes: Attributes): void;
  /** Marks the span as failed, with a code of few values. */
  fail(code: string): void;
}

/** The place of a span, if it is not just a child of the active span. */
export interface SpanOptions {
  /** Default: internal. */
  kind?: "server" | "client" | "consumer";
  /** The headers of a request: the span continues its sender's trace, unless a span of this program is active. */
  headers?: Readonly<Record<string, string | undefined>>;
  /** The trace to continue. Default: that of the active span. */
  trace?: JoinedTraces | undefined;
  /** Within a request, its span gets the attributes, and there is no further span. */
  joinsRequest?: true;
}

/** The traces of a gateway: OpenTelemetry's if anything collects them, else `NO_TRACES`. */
export interface Traces {
  readonly isOn: boolean;
  /** Does work within a span. If the work throws, the span is marked as failed. */
  span<R>(
    name: string,
    attributes: Attributes,
    work: (span: Span) => R,
    options?: SpanOptions,
  ): R | Promise<Awaited<R>>;
  /** Does work within a trace, without a span of its own; with `undefined`, within no trace. */
  within<R>(trace: TraceContext | undefined, work: () => R): R;
  /** The active span, as it is stored and passed on. */
  current(): TraceContext | undefined;
  /** Names the active span in the log; empty if there is none. */
  ids(): { traceId?: string; spanId?: string };
  /** Exports the remaining spans. Waits a few seconds at most. */
  close(): Promise<void>;
}

const NO_SPAN: Span = { set: () => undefined, fail: () => undefined };

/** The traces of a gateway whose traces nothing collects. */
export const NO_TRACES: Traces = {
  isOn: false,
  span: (_name, _attributes, work) => work(NO_SPAN),
  within: (_trace, work) => work(),
  current: () => undefined,
  ids: () => ({}),
  close: async () => undefined,
};

const TRACEPARENT =
  /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:$|-)/;
const MAX_TRACESTATE = 512;

/** Reads the headers of a request, with lower-case names. Undefined if there is no valid `traceparent`. */
export function readTraceContext(
  headers: Readonly<Record<string, string | undefined>>,
): TraceContext | undefined {
  const { traceparent, tracestate } = headers;
  if (traceparent === undefined || !TRACEPARENT.test(traceparent)) return undefined;
  // Version 00 ends after the flags; what later versions add there is not known.
  if (traceparent.startsWith("00") && traceparent.length > 55) return undefined;
  const context: TraceContext = { traceparent: traceparent.slice(0, 55) };
  if (tracestate !== undefined && tracestate !== "" && tracestate.length <= MAX_TRACESTATE)
    context.tracestate = tracestate;
  return context;
}

/** Returns the id of the trace: 32 hexadecimal digits. */
export const getTraceId = ({ traceparent }: TraceContext): string => traceparent.slice(3, 35);

/** Joins the traces of events that become one run: the first trace is the run's own, the further traces are linked. */
export function joinTraces(events: readonly { trace?: TraceContext }[]): { trace?: JoinedTraces } {
  const [first, ...links] = new Map(
    events.flatMap(({ trace }) => (trace ? [[getTraceId(trace), trace]] : [])),
  ).values();
  return first ? { trace: { ...first, ...(links.length > 0 && { links }) } } : {};
}

/** The same `fetch`; its requests carry the active span of `read`, if there is one. */
export function passOnTrace(
  fetcher: typeof fetch,
  read: () => TraceContext | undefined,
): typeof fetch {
  return (input, init) => {
    const trace = read();
    if (!trace) return fetcher(input, init);
    const headers = new Headers(
      init?.headers ?? (input instanceof Request ? input.headers : undefined),
    );
    for (const [name, value] of Object.entries(trace)) headers.set(name, value);
    return fetcher(input, { ...init, headers });
  };
}
