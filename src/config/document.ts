import { fieldSchema, type JsonSchema } from "./json-schema.ts";
import { configSchema } from "./schema/index.ts";

function typeOf(schema: JsonSchema): string {
  if (schema.$ref !== undefined) return "conditions";
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
  rowsOf(fieldSchema(configSchema), "", rows);
  return `# Config reference

Generated from the schemas that check the config (\`npm run docs\`); do not edit by hand. The file is JSON5: comments and trailing commas are fine. \`\${NAME}\` in any text is the environment's variable; as the whole value it also stands for a number, or for \`true\` and \`false\` (\`port: "\${PORT}"\`). \`{ file: "…" }\` in place of a secret is a file's content. A key that is there twice is an error. Durations are text such as \`"90s"\`, \`"30m"\`, \`"24h"\`, \`"3d"\`; a number alone is seconds. Relative paths start at the config file's folder.

| key | type | default | meaning |
|---|---|---|---|
${rows.join("\n")}
`;
}
