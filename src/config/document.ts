import type { z } from "zod";
import { fieldSchema, type JsonSchema } from "./json-schema.ts";
import { configSchema } from "./schema/index.ts";

function renderType(schema: JsonSchema): string {
  if (schema.$ref !== undefined) return "conditions";
  if (schema.enum) return schema.enum.map((value) => `\`${JSON.stringify(value)}\``).join(" ");
  if (schema.const !== undefined) return `\`${JSON.stringify(schema.const)}\``;
  if (schema.anyOf) {
    const file = schema.anyOf.some(
      (option) =>
        option.properties?.["file"] !== undefined && Object.keys(option.properties).length === 1,
    );
    return file ? "secret" : [...new Set(schema.anyOf.map(renderType))].join(" or ");
  }
  if (schema.type === "array")
    return `list of ${schema.items ? renderType(schema.items) : "values"}`;
  return Array.isArray(schema.type) ? schema.type.join(" or ") : (schema.type ?? "any");
}

/** One key of a section, as its schema describes it. Texts are markdown. */
export interface Option {
  path: string;
  type: string;
  /** The default as JSON; undefined if there is none. */
  defaultValue: string | undefined;
  required: boolean;
  description: string;
}

function optionsIn(schema: JsonSchema, path: string): Option[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, field]) => {
    const at = path === "" ? name : `${path}.${name}`;
    const isGroup = field.properties !== undefined;
    const option: Option = {
      path: at,
      type: renderType(field),
      defaultValue:
        field.default === undefined || isGroup ? undefined : JSON.stringify(field.default),
      required: schema.required?.includes(name) ?? false,
      description: field.description ?? "",
    };
    const own = isGroup && field.description === undefined ? [] : [option];
    if (isGroup) return [...own, ...optionsIn(field, at)];
    if (field.items?.properties) return [...own, ...optionsIn(field.items, `${at}[]`)];
    if (typeof field.additionalProperties === "object" && field.additionalProperties.properties)
      return [...own, ...optionsIn(field.additionalProperties, `${at}.<id>`)];
    return own;
  });
}

/** The keys of a section that a schema checks, as they are written in the config. */
export function describeOptions(schema: z.ZodType): Option[] {
  return optionsIn(fieldSchema(schema), "");
}

/** Converts markdown to the cell of a table: outside of code `<id>` would be HTML. */
export const toCell = (text: string): string =>
  text
    .replaceAll("|", "\\|")
    .split("`")
    .map((part, index) => (index % 2 === 0 ? part.replaceAll("<", "&lt;") : part))
    .join("`");

/** The reference of every key of the config file, as markdown. `providerTypes`: the kinds of model providers that ship. */
export function configReference(providerTypes: readonly string[]): string {
  const rows = optionsIn(fieldSchema(configSchema, { providerTypes }), "").map(
    ({ path, type, defaultValue, description }) => {
      const value = defaultValue === undefined ? "" : `\`${defaultValue}\``;
      return `| \`${path}\` | ${type} | ${value} | ${toCell(description)} |`;
    },
  );
  return `# Config reference

Generated from the schemas that check the config (\`npm run docs\`); do not edit by hand. The file is JSON5: comments and trailing commas are fine. \`\${NAME}\` in any text is the environment's variable, without a line end at its end; as the whole value it also stands for a number, or for \`true\` and \`false\` (\`port: "\${PORT}"\`). \`{ file: "…" }\` in place of a secret is a file's content. A key that is there twice is an error. Durations are text such as \`"90s"\`, \`"30m"\`, \`"24h"\`, \`"3d"\`; a number alone is seconds. Relative paths start at the config file's folder.

The gateway watches this file and all that was read because of it: files of mappings and plugins, schemas, transform modules and secrets. A change is applied when they have been quiet for 0.2 seconds, and after one second at the latest; a save during a reload leads to the next one. The log says \`the config was reloaded\`, or has the problems, and then the config before stays in use. Links are followed: an update of a ConfigMap by Kubernetes is a change too. \`SIGHUP\` and \`POST /admin/v1/reload\` reload if the file system reports no changes.

| key | type | default | meaning |
|---|---|---|---|
${rows.join("\n")}
`;
}
