import type { IncomingHttpHeaders } from "node:http";
import { onTestFinished } from "vitest";
import { serve } from "../channels/wire.ts";

type Value = Partial<Record<"stringValue" | "intValue" | "doubleValue" | "boolValue", unknown>> & {
  arrayValue?: { values: Value[] };
};
type Attribute = { key: string; value: Value };

interface OtlpSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  traceState?: string;
  name: string;
  kind: number;
  attributes: Attribute[];
  links: { traceId: string; spanId: string }[];
  status: { code: number; message?: string };
}
interface OtlpRequest {
  resourceSpans: {
    resource: { attributes: Attribute[] };
    scopeSpans: { scope: { name: string }; spans: OtlpSpan[] }[];
  }[];
}

export const KINDS = [
  "unspecified",
  "internal",
  "server",
  "client",
  "producer",
  "consumer",
] as const;

/** A span as a collector gets it. */
export interface CollectedSpan {
  name: string;
  kind: (typeof KINDS)[number];
  traceId: string;
  spanId: string;
  parentId: string | undefined;
  state: string | undefined;
  attributes: Record<string, unknown>;
  links: string[];
  failed: boolean;
  service: unknown;
}

function toValue({ arrayValue, intValue, ...value }: Value): unknown {
  if (arrayValue) return arrayValue.values.map(toValue);
  return intValue === undefined ? Object.values(value)[0] : Number(intValue);
}
const toRecord = (attributes: readonly Attribute[]): Record<string, unknown> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, toValue(value)]));

const toSpan = (span: OtlpSpan, service: unknown): CollectedSpan => ({
  name: span.name,
  kind: KINDS[span.kind] ?? "unspecified",
  traceId: span.traceId,
  spanId: span.spanId,
  parentId: span.parentSpanId,
  state: span.traceState,
  attributes: toRecord(span.attributes),
  links: span.links.map(({ traceId, spanId }) => `${traceId}-${spanId}`),
  failed: span.status.code === 2,
  service,
});

export interface Collector {
  url: string;
  spans: CollectedSpan[];
  /** The requests: where they went, and their headers. */
  requests: { path: string | undefined; headers: IncomingHttpHeaders; text: string }[];
  status: number;
  /** The only span with a name. */
  one(name: string): CollectedSpan;
}

/** A collector that takes OTLP/JSON; it ends with the test. */
export async function createCollector(): Promise<Collector> {
  const collector: Collector = {
    url: "",
    spans: [],
    requests: [],
    status: 200,
    one(name) {
      const found = collector.spans.filter((span) => span.name === name);
      if (found.length !== 1)
        throw new Error(
          `${found.length} spans "${name}" of ${collector.spans.map((span) => span.name).join(", ")}`,
        );
      return found[0] as CollectedSpan;
    },
  };
  const { url, close } = await serve(({ path, headers, body, bytes }) => {
    collector.requests.push({ path, headers, text: bytes.toString() });
    if (collector.status === 200)
      for (const { resource, scopeSpans } of (body as unknown as OtlpRequest).resourceSpans)
        for (const { spans } of scopeSpans)
          collector.spans.push(
            ...spans.map((span) => toSpan(span, toRecord(resource.attributes)["service.name"])),
          );
    return { status: collector.status, json: {} };
  });
  onTestFinished(close);
  collector.url = url;
  return collector;
}
