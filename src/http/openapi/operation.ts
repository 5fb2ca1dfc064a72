import type { z } from "zod";
import type { ZodOpenApiOperationObject, ZodOpenApiResponseObject } from "zod-openapi";

/** One method of an address in the published document. */
export type Operation = ZodOpenApiOperationObject;

type Responses<S extends string> = Record<S, ZodOpenApiResponseObject>;

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

/** Failures by status, each with its reason and in the shape of `schema`. */
export function failures<S extends string>(
  schema: z.ZodType,
  reasons: Record<S, string>,
): Responses<S> {
  const found = Object.entries<string>(reasons).map(([status, reason]) => [
    status,
    answers(reason, schema),
  ]);
  return Object.fromEntries(found) as Responses<S>;
}
