/** The place of a span in its trace, as the headers of W3C Trace Context carry it. */
export interface TraceContext {
  /** `00-<trace id>-<span id>-<flags>`. */
  traceparent: string;
  tracestate?: string;
}

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:$|-)/;
const MAX_TRACESTATE = 512;

/** Reads the headers of a request, with lower-case names. Undefined if there is no valid `traceparent`. */
export function readTraceContext(headers: Readonly<Record<string, string | undefined>>): TraceContext | undefined {
  const { traceparent, tracestate } = headers;
  if (traceparent === undefined || !TRACEPARENT.test(traceparent)) return undefined;
  // Version 00 ends after the flags; what later versions add there is not known.
  if (traceparent.startsWith("00") && traceparent.length > 55) return undefined;
  const context: TraceContext = { traceparent: traceparent.slice(0, 55) };
  if (tracestate !== undefined && tracestate !== "" && tracestate.length <= MAX_TRACESTATE) context.tracestate = tracestate;
  return context;
}

/** Returns the id of the trace: 32 hexadecimal digits. */
export const getTraceId = ({ traceparent }: TraceContext): string => traceparent.slice(3, 35);
