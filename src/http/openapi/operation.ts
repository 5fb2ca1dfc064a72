import type { z } from "zod";
import type { ZodOpenApiOperationObject, ZodOpenApiResponseObject } from "zod-openapi";

/** One method of an address in the published document. */
export type Operation = ZodOpenApiOperationObject;

/** An answer in JSON. */
export const answers = (description: string, schema: z.ZodType): ZodOpenApiResponseObject => ({
  description,
  content: { "application/json": { schema } },
});

/** A body in JSON. */
export const sends = (schema: z.ZodType) => ({
  required: true,
  content: { "application/json": { schema } },
});

/** The failures of an operation: all have one shape, and a code that says what happened. */
export function failures(schema: z.ZodType): Record<"4XX" | "5XX", ZodOpenApiResponseObject> {
  return {
    "4XX": answers("Refused: `message` says what to change.", schema),
    "5XX": answers(
      "Failed inside the gateway or behind it; `retry-after` says when to try again.",
      schema,
    ),
  };
}
