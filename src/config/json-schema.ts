import { z } from "zod";
import { VARIABLE_REFERENCE } from "./secrets.ts";
import { configSchema } from "./schema/index.ts";
import { mappingFileSchema } from "./schema/mapping.ts";

export interface JsonSchema {
  $schema?: string;
  type?: string | string[];
  description?: string;
  default?: unknown;
  properties?: Record<string, JsonSchema>;
  propertyNames?: JsonSchema;
  required?: string[];
  items?: JsonSchema;
  additionalProperties?: JsonSchema | boolean;
  anyOf?: JsonSchema[];
  if?: JsonSchema;
  else?: JsonSchema;
  enum?: unknown[];
  const?: unknown;
  pattern?: string;
  format?: string;
  minItems?: number;
  minLength?: number;
  minProperties?: number;
  $ref?: string;
  $defs?: Record<string, JsonSchema>;
}

/** Values that the schemas do not contain. */
export interface SchemaParts {
  /** The names of the presets that ship. */
  presets: readonly string[];
  /** The kinds of model providers that ship. */
  providerTypes: readonly string[];
  /** The plugins that ship: the schema of each one's section, and where it is. */
  sections: readonly { id: string; section: "channels" | "hooks" | "plugins"; schema: z.ZodType }[];
}

const FILE: JsonSchema = {
  type: "object",
  properties: {
    file: {
      type: "string",
      description: "A file whose content is the value; relative to the config's folder.",
    },
  },
  required: ["file"],
  additionalProperties: false,
};
const VARIABLE: JsonSchema = { type: "string", pattern: VARIABLE_REFERENCE.source };
const WITH_VARIABLE: JsonSchema = {
  type: "string",
  pattern: VARIABLE_REFERENCE.source.slice(1, -1),
};

/** Marks of our schemas for this file and for masking; no keywords of JSON Schema. */
const MARKS = ["secret", "offers", "conditions"];

/** Puts another schema in place of one; its description and default stay. */
function replace(schema: JsonSchema, by: JsonSchema): void {
  for (const key of Object.keys(schema))
    if (key !== "description" && key !== "default") delete schema[key as keyof JsonSchema];
  Object.assign(schema, by);
}

/** Conditions by field. Those of the payload may be grouped, and the groups hold such objects again. */
function conditionsSchema(kind: "flat" | "payload"): JsonSchema {
  const condition: JsonSchema = { $ref: "#/$defs/condition" };
  if (kind === "flat") return { type: "object", additionalProperties: condition };
  const group: JsonSchema = { $ref: "#/$defs/payloadConditions" };
  return {
    type: "object",
    properties: {
      $and: { type: "array", items: group, minItems: 1, description: "All of these must hold." },
      $or: { type: "array", items: group, minItems: 1, description: "One of these must hold." },
      $not: { ...group, description: "These must not hold." },
    },
    propertyNames: { anyOf: [{ enum: ["$and", "$or", "$not"] }, { pattern: "^[^$]" }] },
    additionalProperties: condition,
  };
}

/** The JSON Schema of a zod schema's input. `secretFiles`: secrets may also be `{ file }`. */
export function fieldSchema(
  schema: z.ZodType,
  {
    secretFiles = true,
    ...names
  }: { secretFiles?: boolean } & Partial<Omit<SchemaParts, "sections">> = {},
): JsonSchema {
  return z.toJSONSchema(schema, {
    io: "input",
    unrepresentable: "any",
    override({ zodSchema, jsonSchema }) {
      const meta = (zodSchema as unknown as z.ZodType).meta?.() ?? {};
      const made = jsonSchema as JsonSchema;
      for (const mark of MARKS) delete jsonSchema[mark];
      if (meta["secret"] === true && secretFiles)
        replace(made, {
          anyOf: [
            { type: made.type ?? "string", minLength: made.minLength ?? 1 },
            structuredClone(FILE),
          ],
        });
      // The names that ship are offered; plugins and files of `hooks.mappingsDir` bring others.
      const offered = names[meta["offers"] as keyof typeof names] ?? [];
      const { pattern } = made;
      if (offered.length > 0)
        replace(made, {
          anyOf: [
            { type: "string", enum: [...offered] },
            { type: "string", ...(pattern !== undefined && { pattern }) },
          ],
        });
      if (meta["conditions"] === "flat" || meta["conditions"] === "payload")
        replace(made, conditionsSchema(meta["conditions"]));
    },
  }) as JsonSchema;
}

const isLeaf = ({ const: fixed, anyOf, properties, $ref }: JsonSchema): boolean =>
  fixed === undefined && anyOf === undefined && properties === undefined && $ref === undefined;

/** Text of a certain form, which text with a variable in it need not have. */
const isNarrow = ({ type, enum: words, pattern, format }: JsonSchema): boolean =>
  type === "string" && (words ?? pattern ?? format) !== undefined;

/** The schema of what can replace a plain value in a file: a variable and, if `files` is set, a file's content. */
function withReferences(schema: JsonSchema, files: boolean): JsonSchema {
  const { type } = schema;
  const isScalar = type === "number" || type === "integer" || type === "boolean";
  const variable = isScalar ? [VARIABLE] : isNarrow(schema) ? [WITH_VARIABLE] : [];
  const others = [...variable, ...(files && type === "string" ? [FILE] : [])];
  if (others.length === 0) return schema;
  const { description, default: standard, ...rest } = schema;
  return {
    anyOf: [rest, ...others],
    ...(description !== undefined && { description }),
    ...(standard !== undefined && { default: standard }),
  };
}

/** The schema of fields as they are written, before variables and files are put in. */
function asWritten(schema: JsonSchema, files = false): JsonSchema {
  const inner = (one: JsonSchema): JsonSchema => asWritten(one, files);
  const { properties, items, additionalProperties, anyOf } = schema;
  // An alternative for any text takes a variable as it is.
  const takesText = anyOf?.some((option) => option.type === "string" && !isNarrow(option)) === true;
  const options = anyOf?.map((option) =>
    isLeaf(option) && takesText && !files ? option : inner(option),
  );
  const made: JsonSchema = {
    ...schema,
    ...(properties && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, field]) => [name, inner(field)]),
      ),
    }),
    ...(items && { items: inner(items) }),
    ...(typeof additionalProperties === "object" && {
      additionalProperties: inner(additionalProperties),
    }),
    ...(options && { anyOf: options }),
  };
  return isLeaf(made) ? withReferences(made, files) : made;
}

/** The section of a plugin: its own fields, the switch, and for a channel its accounts. One that is off may be incomplete. */
function sectionSchema({ id, section, schema }: SchemaParts["sections"][number]): JsonSchema {
  const { $schema: _draft, required = [], ...fields } = asWritten(fieldSchema(schema), true);
  const off: JsonSchema = { properties: { enabled: { const: false } }, required: ["enabled"] };
  const account: JsonSchema = { ...fields, description: "What is set for this account alone." };
  return {
    ...fields,
    description: `The plugin \`${id}\`.`,
    properties: {
      enabled: {
        ...withReferences({ type: "boolean" }, false),
        description: "`false` turns the plugin off.",
      },
      ...(section === "channels" && {
        accounts: {
          type: "object",
          additionalProperties: account,
          minProperties: 1,
          description:
            "Several accounts by name; what stands beside them is for all. The first one is the channel's own.",
        },
      }),
      ...fields.properties,
    },
    if: section === "channels" ? { anyOf: [off, { required: ["accounts"] }] } : off,
    else: { required },
  };
}

function withDefs(schema: JsonSchema): JsonSchema {
  return { ...schema, $defs: { ...schema.$defs, payloadConditions: conditionsSchema("payload") } };
}

/** The JSON Schema of the config file, for editors. Sections of the user's own plugins may hold anything. */
export function configJsonSchema({
  sections = [],
  ...names
}: Partial<SchemaParts> = {}): JsonSchema {
  const schema = asWritten(fieldSchema(configSchema, names));
  const addSections = (name: "channels" | "hooks"): JsonSchema => {
    const own = sections
      .filter(({ section }) => section === name)
      .map((one) => [one.id, sectionSchema(one)] as const);
    const { propertyNames: _any, ...group } = schema.properties?.[name] ?? {};
    return {
      ...group,
      properties: { ...group.properties, ...Object.fromEntries(own) },
      additionalProperties: { type: "object" },
    };
  };
  return withDefs({
    ...schema,
    properties: {
      ...schema.properties,
      channels: addSections("channels"),
      hooks: addSections("hooks"),
    },
  });
}

/** The JSON Schema of a file of `hooks.mappingsDir`. Variables and `{ file }` stand only in the `auth` of the whole file. */
export function mappingFileJsonSchema(): JsonSchema {
  const schema = fieldSchema(mappingFileSchema, { secretFiles: false });
  const { properties: { auth = {} } = {} } = asWritten(
    fieldSchema(z.object({ auth: mappingFileSchema.shape.auth })),
  );
  return withDefs({ ...schema, properties: { ...schema.properties, auth } });
}
