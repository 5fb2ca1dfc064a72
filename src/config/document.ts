import { z } from "zod";
import { ONE_VARIABLE } from "./secrets.ts";
import { configSchema } from "./schema/index.ts";

interface JsonSchema {
  type?: string | string[];
  description?: string;
  default?: unknown;
  properties?: Record<string, JsonSchema>;
  items?: JsonSchema;
  additionalProperties?: JsonSchema | boolean;
  anyOf?: JsonSchema[];
  enum?: unknown[];
  const?: unknown;
  pattern?: string;
  $ref?: string;
}

/** The JSON Schema of the config file. Secrets may also be `{ file }`. */
function fieldSchema(): JsonSchema {
  return z.toJSONSchema(configSchema, {
    io: "input",
    unrepresentable: "any",
    override({ zodSchema, jsonSchema }) {
      const meta = (zodSchema as unknown as z.ZodType).meta?.() as { secret?: boolean } | undefined;
      if (!meta?.secret) return;
      const { type, minLength } = jsonSchema;
      for (const key of Object.keys(jsonSchema)) delete jsonSchema[key];
      jsonSchema.anyOf = [
        { type: type ?? "string", minLength: minLength ?? 1 },
        { type: "object", properties: { file: { type: "string" } }, required: ["file"], additionalProperties: false },
      ];
    },
  }) as JsonSchema;
}

/** Lets one variable of the environment stand for each number and boolean. */
function withVariables(schema: JsonSchema): JsonSchema {
  const { type, properties, items, additionalProperties, anyOf, description, default: standard, ...rest } = schema;
  const shown = { ...(description === undefined ? {} : { description }), ...(standard === undefined ? {} : { default: standard }) };
  if (type === "number" || type === "integer" || type === "boolean")
    return rest.const === undefined
      ? {
          anyOf: [
            { type, ...rest },
            { type: "string", pattern: ONE_VARIABLE.source },
          ],
          ...shown,
        }
      : schema;
  return {
    ...schema,
    ...(properties && { properties: Object.fromEntries(Object.entries(properties).map(([name, inner]) => [name, withVariables(inner)])) }),
    ...(items && { items: withVariables(items) }),
    ...(typeof additionalProperties === "object" && { additionalProperties: withVariables(additionalProperties) }),
    // A choice between text and something else takes a variable as it is.
    ...(anyOf && { anyOf: anyOf.map((option) => (option.properties ? withVariables(option) : option)) }),
  };
}

/** The JSON Schema of the config file, for editors: as it is written, before variables and files are put in. */
export function configJsonSchema(): JsonSchema {
  return withVariables(fieldSchema());
}

function typeOf(schema: JsonSchema): string {
  if (schema.enum) return schema.enum.map((value) => `\`${JSON.stringify(value)}\``).join(" ");
  if (schema.const !== undefined) return `\`${JSON.stringify(schema.const)}\``;
  if (schema.anyOf) {
    const file = schema.anyOf.some((option) => option.properties?.["file"] !== undefined && Object.keys(option.properties).length === 1);
    return file ? "secret" : [...new Set(schema.anyOf.map(typeOf))].join(" or ");
  }
  if (schema.type === "array") return `list of ${schema.items ? typeOf(schema.items) : "values"}`;
  return Array.isArray(schema.type) ? schema.type.join(" or ") : (schema.type ?? "any");
}

function rowsOf(schema: JsonSchema, path: string, rows: string[]): void {
  for (const [name, field] of Object.entries(schema.properties ?? {})) {
    const at = path === "" ? name : `${path}.${name}`;
    const isGroup = field.properties !== undefined;
    if (!isGroup || field.description !== undefined) {
      const standard = field.default === undefined || isGroup ? "" : `\`${JSON.stringify(field.default)}\``;
      rows.push(`| \`${at}\` | ${typeOf(field)} | ${standard} | ${(field.description ?? "").replaceAll("|", "\\|")} |`);
    }
    if (isGroup) rowsOf(field, at, rows);
    else if (field.items?.properties) rowsOf(field.items, `${at}[]`, rows);
    else if (typeof field.additionalProperties === "object" && field.additionalProperties.properties)
      rowsOf(field.additionalProperties, `${at}.<id>`, rows);
  }
}

/** The reference of every key of the config file, as markdown. */
export function configReference(): string {
  const rows: string[] = [];
  rowsOf(fieldSchema(), "", rows);
  return `# Config reference

Generated from the schemas that check the config (\`npm run docs\`); do not edit by hand. The file is JSON5: comments and trailing commas are fine. \`\${NAME}\` in any text is the environment's variable; as the whole value it also stands for a number, or for \`true\` and \`false\` (\`port: "\${PORT}"\`). \`{ file: "…" }\` in place of a secret is a file's content. A key that is there twice is an error. Durations are text such as \`"90s"\`, \`"30m"\`, \`"24h"\`, \`"3d"\`; a number alone is seconds. Relative paths start at the config file's folder.

| key | type | default | meaning |
|---|---|---|---|
${rows.join("\n")}
`;
}
