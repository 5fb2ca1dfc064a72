/** The keys of a section as its schema describes them, for tables of pages. */
import type { z } from "zod";
import { fieldSchema, type JsonSchema } from "../src/config/json-schema.ts";

/** A list's type: `strings` for a list of text. */
const renderList = (item: string): string =>
  /^(?:\w+ or )*\w+$/.test(item) ? item.replaceAll(/\w*[^s](?= or |$)/g, "$&s") : `list of ${item}`;

function renderType(schema: JsonSchema): string {
  if (schema.$ref !== undefined) return "conditions";
  if (schema.enum) return schema.enum.map((value) => `\`${JSON.stringify(value)}\``).join(" ");
  if (schema.const !== undefined) return `\`${JSON.stringify(schema.const)}\``;
  if (schema.anyOf) {
    const file = schema.anyOf.some(
      (option) =>
        option.properties?.["file"] !== undefined && Object.keys(option.properties).length === 1,
    );
    if (file) return "secret";
    return [...new Set(schema.anyOf.map(renderType))].join(" or ");
  }
  if (schema.type === "array") return renderList(schema.items ? renderType(schema.items) : "value");
  const types = Array.isArray(schema.type) ? schema.type.join(" or ") : (schema.type ?? "any");
  // Text or a number of seconds.
  return types === "string or number" ? "duration" : types;
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

/** Objects that were described, by their keys: the path of each. */
type Described = Map<string, string>;

/** The path of an earlier object with the same keys. An object of one key is described each time. */
function findEarlier(
  forms: readonly (readonly [form: JsonSchema, suffix: string])[],
  path: string,
  described: Described | undefined,
): string | undefined {
  const keys = forms.map(([{ properties }]) => properties);
  if (!described || keys.flatMap((one = {}) => Object.keys(one)).length < 2) return undefined;
  const text = JSON.stringify(keys);
  const earlier = described.get(text);
  if (earlier === undefined) described.set(text, path);
  return earlier;
}

/** `described`: objects that are described already are referred to. Without it each is described. */
export function optionsIn(schema: JsonSchema, path: string, described?: Described): Option[] {
  const options = Object.entries(schema.properties ?? {}).flatMap(([name, field]): Option[] => {
    const at = path === "" ? name : `${path}.${name}`;
    const isGroup = field.properties !== undefined;
    const forms = getForms(field);
    const earlier = findEarlier(forms, at, described);
    const description = field.description ?? "";
    const option: Option = {
      path: at,
      type: renderType(field),
      defaultValue:
        field.default === undefined || isGroup ? undefined : JSON.stringify(field.default),
      required: schema.required?.includes(name) ?? false,
      description:
        earlier === undefined ? description : `${description} Keys as in \`${earlier}\`.`.trim(),
    };
    if (earlier !== undefined) return [option];
    const own = isGroup && field.description === undefined ? [] : [option];
    return [
      ...own,
      ...forms.flatMap(([form, suffix]) => optionsIn(form, `${at}${suffix}`, described)),
    ];
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
const toCell = (text: string): string => toText(text.replaceAll("|", "\\|"));

/** A markdown table, its columns padded as the formatter does. */
export function table(rows: readonly string[][]): string {
  const [head = [], ...body] = rows;
  const widths = head.map((_, column) =>
    Math.max(3, ...rows.map((cells) => cells[column]?.length ?? 0)),
  );
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((text, column) => text.padEnd(widths[column] ?? 0)).join(" | ")} |`;
  return [line(head), line(widths.map((width) => "-".repeat(width))), ...body.map(line)].join("\n");
}

/** Types of one plain value: a default tells such a type. */
const PLAIN = new Set(["string", "integer", "number", "boolean", "duration"]);

/** The table of options. A key is shown as required if `showsRequired` allows it. */
export function optionTable(
  options: readonly Option[],
  showsRequired: (option: Option) => boolean = () => true,
): string[][] {
  return [
    ["key", "type or default", "meaning"],
    ...options.map((option) => {
      const { path, type, defaultValue, required, description } = option;
      const value =
        defaultValue === undefined || defaultValue === "{}" ? "" : `\`${defaultValue}\``;
      const facts = [
        ...(value !== "" && PLAIN.has(type) ? [] : [type]),
        ...(value === "" || value === "`[]`" ? [] : [value]),
        ...(required && showsRequired(option) ? ["required"] : []),
      ];
      return [`\`${path}\``, facts.join(", "), description].map(toCell);
    }),
  ];
}
