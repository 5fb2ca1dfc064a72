import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
  type SpanExporter,
} from "@opentelemetry/sdk-trace";
import type { Config } from "../config/schema/index.ts";
import type { Clock } from "../core/clock.ts";
import type { Logger } from "../core/log.ts";
import { VERSION } from "../core/version.ts";
import type { SpanTarget } from "./spans.ts";

type Otlp = NonNullable<Config["telemetry"]["otlp"]>;

const PATH = "/v1/traces";
const CLOSE_MS = 3_000;
const EXPORT_MS = 5_000;

/** The address for traces: that of the collector, with the path of the protocol. */
function tracesUrl(text: string): string {
  const url = new URL(text);
  if (!url.pathname.endsWith(PATH)) url.pathname = url.pathname.replace(/\/+$/, "") + PATH;
  return url.href;
}

/** Wraps an exporter: logs when the collector stops accepting spans, and when it accepts them again. */
function reporting(exporter: SpanExporter, log: Logger): SpanExporter {
  let fails = false;
  return {
    export(spans, done) {
      exporter.export(spans, (result) => {
        const failed = result.error !== undefined;
        if (failed && !fails)
          log.warn(
            { err: result.error },
            "spans could not be exported and are lost: check telemetry.otlp.url and headers",
          );
        if (!failed && fails) log.info("spans are exported again");
        fails = failed;
        done(result);
      });
    },
    shutdown: () => exporter.shutdown(),
    forceFlush: () => exporter.forceFlush?.() ?? Promise.resolve(),
  };
}

/** Opens the export to a collector. Registers nothing for the whole process, because another gateway in it has its own collector. */
export function openOtlp(
  { url, headers, serviceName, sampleRatio }: Otlp,
  { clock, log }: { clock: Clock; log: Logger },
): SpanTarget {
  const exporter = new OTLPTraceExporter({
    url: tracesUrl(url),
    headers,
    timeoutMillis: EXPORT_MS,
  });
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ "service.name": serviceName, "service.version": VERSION }),
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(sampleRatio) }),
    spanProcessors: [new BatchSpanProcessor({ exporter: reporting(exporter, log) })],
  });
  return {
    tracer: provider.getTracer("rouse", VERSION),
    // A collector that does not answer must not block the shutdown.
    close: () => Promise.race([provider.shutdown().catch(() => undefined), clock.sleep(CLOSE_MS)]),
  };
}
