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
  const options = Object.entries(schema.properties ?? {}).flatMap(([name, field]): Option[] => {
    const at = path === "" ? name : `${path}.${name}`;
    const isGroup = field.properties !== undefined;
    const forms = getForms(field);
    const option: Option = {
      path: at,
      type: renderType(field),
      defaultValue:
        field.default === undefined || isGroup ? undefined : JSON.stringify(field.default),
      required: schema.required?.includes(name) ?? false,
      description: field.description ?? "",
    };
    const own = isGroup && field.description === undefined ? [] : [option];
    return [...own, ...forms.flatMap(([form, suffix]) => optionsIn(form, `${at}${suffix}`))];
  });
  // Forms of one object may share keys.
  return options.filter(
    ({ path: at }, index) => options.findIndex((one) => one.path === at) === index,
  );
}

/** The objects that a value may be, hold as a list, or hold by names, with what follows the key in the path of theirs. */
function getForms(field: JsonSchema, suffix = ""): [form: JsonSchema, suffix: string][] {
  const names = Object.keys(field.properties ?? {});
  // The file of a secret, and what is a document of its own, with its own page.
  if (names.join() === "file" || names.includes("$schema")) return [];
  if (field.properties) return [[field, suffix]];
  if (field.anyOf) return field.anyOf.flatMap((option) => getForms(option, suffix));
  if (field.items) return getForms(field.items, `${suffix}[]`);
  if (typeof field.additionalProperties === "object")
    return getForms(field.additionalProperties, `${suffix}.<id>`);
  return [];
}

/** The keys of a section that a schema checks, as they are written in the config. */
export function describeOptions(schema: z.ZodType): Option[] {
  return optionsIn(fieldSchema(schema), "");
}

/** Markdown in which `<id>` is text: outside of code it would be HTML. */
const toText = (text: string): string =>
  text
    .split("`")
    .map((part, index) => (index % 2 === 0 ? part.replaceAll("<", "&lt;") : part))
    .join("`");

/** Converts markdown to the cell of a table. */
export const toCell = (text: string): string => toText(text.replaceAll("|", "\\|"));

/** The reference of every key of the config file, as markdown. `providerTypes`: the kinds of model providers that ship. */
export function configReference(providerTypes: readonly string[]): string {
  const entries = optionsIn(fieldSchema(configSchema, { providerTypes }), "").map(
    ({ path, type, defaultValue, required, description }) => {
      const facts = [
        type,
        ...(defaultValue === undefined ? [] : [`default \`${defaultValue}\``]),
        ...(required && path.includes("[") ? ["required"] : []),
      ];
      const level = /[.[]/.test(path) ? "###" : "##";
      return `${level} \`${path}\`\n\n${toText(description)}\n\n${facts.join(", ")}\n`;
    },
  );
  return `# Config reference

Generated from the schemas that check the config (\`npm run docs\`); do not edit by hand. The file is JSON5: comments and trailing commas are fine. \`\${NAME}\` in any text is the environment's variable, without a line end at its end; as the whole value it also stands for a number, or for \`true\` and \`false\` (\`port: "\${PORT}"\`). \`{ file: "…" }\` in place of a secret is a file's content. A key that is there twice is an error. Durations are text such as \`"90s"\`, \`"30m"\`, \`"24h"\`, \`"3d"\`; a number alone is seconds. Relative paths start at the config file's folder.

The gateway watches this file and all that was read because of it: files of mappings and plugins, schemas, transform modules and secrets. A change is applied when they have been quiet for 0.2 seconds, and after one second at the latest; a save during a reload leads to the next one. The log says \`the config was reloaded\`, or has the problems, and then the config before stays in use. Links are followed: an update of a ConfigMap by Kubernetes is a change too. \`SIGHUP\` and \`POST /admin/v1/reload\` reload if the file system reports no changes.

${entries.join("\n")}`;
}
