import { z } from "zod";

/** A choice of one is none. */
function override({ jsonSchema }: { jsonSchema: { oneOf?: unknown[] } }): void {
  const [only, ...others] = jsonSchema.oneOf ?? [];
  if (only === undefined || others.length > 0) return;
  delete jsonSchema.oneOf;
  Object.assign(jsonSchema, only);
}

/** A zod schema as JSON schema, for the published document. */
export const schemaOf = (schema: z.ZodType, io: "input" | "output"): unknown => {
  const { $schema: _draft, ...json } = z.toJSONSchema(schema, { io, unrepresentable: "any", override });
  return json;
};
const json = (description: string, schema: unknown) => ({ description, content: { "application/json": { schema } } });
/** A body that is answered. */
export const answer = (description: string, schema: z.ZodType) => json(description, schemaOf(schema, "output"));
/** A failure; `name` is its shape among the document's components. */
export const problem = (description: string, name = "Error") => json(description, { $ref: `#/components/schemas/${name}` });
/** A body that is sent. */
export const body = (schema: z.ZodType) => ({ required: true, content: { "application/json": { schema: schemaOf(schema, "input") } } });
