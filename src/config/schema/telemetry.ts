import { z } from "zod";
import { secretSchema } from "./common.ts";

export const telemetrySchema = z
  .strictObject({
    otlp: z
      .strictObject({
        url: z
          .url({ protocol: /^https?$/ })
          .describe("Address of the collector, such as `http://localhost:4318`."),
        headers: z
          .record(z.string(), secretSchema)
          .default({})
          .describe("Headers of each request, such as a key."),
        serviceName: z.string().min(1).default("rouse").describe("`service.name` of the spans."),
        sampleRatio: z
          .number()
          .min(0)
          .max(1)
          .default(1)
          .describe(
            "The share of traces that is kept. A sender's `traceparent` decides for its own trace.",
          ),
      })
      .optional()
      .describe("Export over OTLP/HTTP, with packages that Rouse does not bring. Read at start."),
  })
  .prefault({})
  .describe("Traces by OpenTelemetry.");
