import type { JSONSchema7 } from "ai";

/** What may stand outside the boundary: names and values of which no sentence can be made. */
const PARAMETER = /^[\w.$@-]{1,64}$/;
const VALUE = /^[\w.:/@+#$*%-]{0,64}$/;
const REFERENCE = /^#(?:\/[\w.$@%-]{1,64}){0,8}$/;
const TYPES = new Set<unknown>([
  "string",
  "number",
  "integer",
  "boolean",
  "object",
  "array",
  "null",
]);

const NAMED = ["properties", "$defs", "definitions", "dependentSchemas"];
const LISTED = ["anyOf", "oneOf", "allOf", "prefixItems"];
const NESTED =
  "items additionalItems additionalProperties unevaluatedItems unevaluatedProperties contains propertyNames not if then else".split(
    " ",
  );
const MEASURES =
  "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength minItems maxItems uniqueItems minProperties maxProperties minContains maxContains nullable readOnly writeOnly deprecated".split(
    " ",
  );
const WORDS = ["description", "$comment", "pattern", "examples"];
const VALUES = ["enum", "const", "default", "format"];
const MAX_DEPTH = 20;

/** A name in the schema that no model may be given. */
class UnsafeName extends Error {}

type Json = Record<string, unknown>;
const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const isPlain = (value: unknown): boolean =>
  Array.isArray(value)
    ? value.every((one) => !Array.isArray(one) && isPlain(one))
    : typeof value === "string"
      ? VALUE.test(value)
      : typeof value !== "object" || value === null;

function checkNames(names: readonly unknown[]): void {
  if (!names.every((name) => typeof name === "string" && PARAMETER.test(name)))
    throw new UnsafeName();
}

/** Whether a keyword's value may stay in the schema as it is. */
function isSafe(keyword: string, value: unknown): boolean {
  if (MEASURES.includes(keyword)) return typeof value === "number" || typeof value === "boolean";
  if (keyword === "type") return [value].flat().every((type) => TYPES.has(type));
  if (keyword === "$ref") return typeof value === "string" && REFERENCE.test(value);
  return VALUES.includes(keyword) && isPlain(value);
}

/** The schema at `place` without its words, which go into `words`. */
function walk(schema: unknown, place: string, words: string[], depth: number): unknown {
  if (typeof schema === "boolean") return schema;
  if (!isObject(schema) || depth > MAX_DEPTH) return {};
  const kept: Json = {};
  const inside = (value: unknown, name: string): unknown =>
    walk(value, place === "" ? name : `${place}.${name}`, words, depth + 1);
  const same = (value: unknown): unknown => walk(value, place, words, depth + 1);
  for (const [keyword, value] of Object.entries(schema)) {
    if (NAMED.includes(keyword) && isObject(value)) {
      checkNames(Object.keys(value));
      kept[keyword] = Object.fromEntries(
        Object.entries(value).map(([name, one]) => [name, inside(one, name)]),
      );
    } else if (LISTED.includes(keyword) && Array.isArray(value)) kept[keyword] = value.map(same);
    else if (NESTED.includes(keyword))
      kept[keyword] = Array.isArray(value) ? value.map(same) : same(value);
    else if (isSafe(keyword, value)) kept[keyword] = value;
    else if (keyword === "required" && Array.isArray(value)) {
      checkNames(value);
      kept[keyword] = value;
    } else if (WORDS.includes(keyword) || VALUES.includes(keyword)) {
      const label = [place, keyword === "description" ? "" : keyword].filter(Boolean).join(", ");
      const text = typeof value === "string" ? value : JSON.stringify(value);
      words.push(label === "" ? text : `${label}: ${text}`);
    }
  }
  return kept;
}

/**
 * Divides the schema that an outside server gives for a tool's input: its structure, with names and values that are single
 * words, stays; what the server says in sentences (descriptions, patterns, values of several words) comes back as text.
 * Keywords that are unknown, and titles, are left out. Undefined if a name has other characters than names have.
 */
export function splitSchema(schema: unknown): { schema: JSONSchema7; words: string } | undefined {
  const words: string[] = [];
  try {
    return {
      schema: { type: "object", properties: {}, ...(walk(schema, "", words, 0) as JSONSchema7) },
      words: words.join("\n"),
    };
  } catch (error) {
    if (error instanceof UnsafeName) return undefined;
    throw error;
  }
}
