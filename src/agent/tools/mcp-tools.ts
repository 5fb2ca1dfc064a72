import type { JSONSchema7, jsonSchema as JsonSchema } from "ai";
import { isRecord } from "../../core/json.ts";
import { cutText, plural } from "../../core/text.ts";
import { TOOL_NAME } from "../../vocabulary/tool-names.ts";
import type { Boundary } from "../boundary.ts";
import type { ListedTool } from "./mcp-client.ts";
import type { McpServer } from "./mcp-server.ts";
import { neutralise } from "../neutralise.ts";
import { parseInput } from "./call-inputs.ts";
import { toModelName, type OfferedTool, type ToolHints } from "./offered-tool.ts";

/** Names and values that may stand outside the boundary, because they cannot form a sentence. */
const PARAMETER = /^[\w.$@-]{1,64}$/;
const VALUE = /^[\w.:/@+#$*%-]{0,64}$/;
const REFERENCE = /^#(?:\/[\w.$@-]{1,64}){0,8}$/;
const TYPES = new Set<unknown>([
  "string",
  "number",
  "integer",
  "boolean",
  "object",
  "array",
  "null",
]);

const DEFINITIONS = ["$defs", "definitions"];
const NAMED = ["properties", "dependentSchemas", ...DEFINITIONS];
const BRANCHES = ["anyOf", "oneOf", "allOf"];
const NOT_AT_TOP = [...BRANCHES, "not", "enum", "required", "$ref"];
const LISTED = [...BRANCHES, "prefixItems"];
const NESTED =
  "items additionalProperties unevaluatedItems unevaluatedProperties contains propertyNames not if then else".split(
    " ",
  );
const MEASURES =
  "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength minItems maxItems minProperties maxProperties minContains maxContains".split(
    " ",
  );
const FLAGS = ["uniqueItems", "nullable", "readOnly", "writeOnly", "deprecated"];
const WORDS = ["description", "$comment", "pattern", "examples"];
const VALUES = ["enum", "const", "default", "format"];
const MAX_DEPTH = 20;

/** A name in the schema that no model may be given. */
class UnsafeName extends Error {}

type Json = Record<string, unknown>;

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

/** Returns whether a keyword's value may stay in the schema as it is: vendors refuse a request with a value of another type. */
function isSafe(keyword: string, value: unknown): boolean {
  if (MEASURES.includes(keyword)) return typeof value === "number";
  if (FLAGS.includes(keyword)) return typeof value === "boolean";
  if (keyword === "enum" && !(Array.isArray(value) && value.length > 0)) return false;
  if (keyword === "type") return [value].flat().every((type) => TYPES.has(type));
  if (keyword === "$ref") return typeof value === "string" && REFERENCE.test(value);
  return VALUES.includes(keyword) && isPlain(value);
}

/** Returns the names of an object's members. References do not name definitions with other characters: they are left out. */
function takeNames(keyword: string, members: Json): string[] {
  const isDefined = DEFINITIONS.includes(keyword);
  const names = Object.keys(members).filter((name) => !isDefined || PARAMETER.test(name));
  checkNames(names);
  return names;
}

/** The schema at `place` without its words, which go into `words`. */
function walk(schema: unknown, place: string, words: string[], depth: number): unknown {
  if (typeof schema === "boolean") return schema;
  if (!isRecord(schema) || depth > MAX_DEPTH) return {};
  const kept: Json = {};
  const inside = (value: unknown, name: string): unknown =>
    walk(value, place === "" ? name : `${place}.${name}`, words, depth + 1);
  const same = (value: unknown): unknown => walk(value, place, words, depth + 1);
  // At the top, branches may have the properties.
  const isDefined = (name: string): boolean =>
    depth === 0 || Object.hasOwn(Object(schema["properties"]), name);
  for (const [keyword, value] of Object.entries(schema)) {
    if (NAMED.includes(keyword) && isRecord(value))
      kept[keyword] = Object.fromEntries(
        takeNames(keyword, value).map((name) => [name, inside(value[name], name)]),
      );
    else if (LISTED.includes(keyword) && Array.isArray(value)) kept[keyword] = value.map(same);
    else if (NESTED.includes(keyword))
      // Older drafts list the items of a tuple here.
      kept[keyword] = joinSchemas([value].flat().map(same));
    else if (isSafe(keyword, value)) kept[keyword] = value;
    else if (keyword === "required" && Array.isArray(value)) {
      checkNames(value);
      kept[keyword] = [...new Set(value)].filter(isDefined);
    } else if (WORDS.includes(keyword) || VALUES.includes(keyword)) {
      const label = [place, keyword === "description" ? "" : keyword].filter(Boolean).join(", ");
      const text = typeof value === "string" ? value : JSON.stringify(value);
      words.push(label === "" ? text : `${label}: ${text}`);
    }
  }
  if ([kept["type"]].flat().includes("array")) kept["items"] ??= {};
  return kept;
}

/** Returns a schema that values fit which fit one of these. */
function joinSchemas(schemas: readonly unknown[]): unknown {
  const different = new Map(schemas.map((schema) => [JSON.stringify(schema), schema]));
  return different.size > 1
    ? { anyOf: [...different.values()] }
    : ([...different.values()][0] ?? {});
}

/** Lists the properties of an object and of its branches. `seen`: the references that were followed. */
function listProperties(
  schema: unknown,
  definitions: Json,
  seen = new Set<unknown>(),
): [name: string, schema: unknown][] {
  if (!isRecord(schema)) return [];
  const { properties, $ref } = schema;
  const definition = seen.has($ref) ? undefined : definitions[String($ref).replace(/^.*\//, "")];
  seen.add($ref);
  const branches = [definition, ...BRANCHES.flatMap((keyword) => schema[keyword] ?? [])];
  return [
    ...Object.entries(properties ?? {}),
    ...branches.flatMap((branch) => listProperties(branch, definitions, seen)),
  ];
}

/** The schema of an input as vendors take it. `names`: the server's, by those that models are given. */
interface Input {
  schema: JSONSchema7;
  names: ReadonlyMap<string, string>;
}

/**
 * Returns the schema of an object, without what vendors refuse a request for at its top: branches, of which any property may
 * be given, and `$` and `@` in names.
 */
function toInput(schema: Json): Input {
  const definitions = Object.assign({}, ...DEFINITIONS.map((keyword) => schema[keyword])) as Json;
  const properties = new Map<string, unknown[]>();
  for (const [name, one] of listProperties(schema, definitions))
    properties.set(name, [...(properties.get(name) ?? []), one]);
  const given = new Map<string, string>();
  for (const name of properties.keys()) {
    let plain = name.replaceAll(/[$@]/g, "_");
    while (plain !== name && (properties.has(plain) || given.has(plain))) plain += "_";
    given.set(plain, name);
  }
  const kept = Object.entries(schema).filter(([keyword]) => !NOT_AT_TOP.includes(keyword));
  const required = [...given].flatMap(([plain, name]) =>
    [schema["required"]].flat().includes(name) ? plain : [],
  );
  return {
    schema: {
      ...Object.fromEntries(kept),
      type: "object",
      properties: Object.fromEntries(
        [...given].map(([plain, name]) => [plain, joinSchemas(properties.get(name) ?? [])]),
      ),
      ...(required.length > 0 && { required }),
    } as JSONSchema7,
    names: given,
  };
}

/** Returns an input with the names of the server. */
const restoreNames = (input: unknown, { names }: Input): unknown =>
  isRecord(input)
    ? Object.fromEntries(
        Object.entries(input).map(([name, value]) => [names.get(name) ?? name, value]),
      )
    : input;

/**
 * Divides the schema that an outside server gives for a tool's input: its structure, with names and values that are single
 * words, stays; what the server says in sentences (descriptions, patterns, values of several words) comes back as text.
 * Keywords that are unknown, and titles, are left out. Undefined if a name has other characters than names have.
 */
function splitSchema(schema: unknown): (Input & { words: string }) | undefined {
  const words: string[] = [];
  try {
    return { ...toInput(walk(schema, "", words, 0) as Json), words: words.join("\n") };
  } catch (error) {
    if (error instanceof UnsafeName) return undefined;
    throw error;
  }
}

/** Some vendors refuse descriptions of more than 1,024 characters; the boundary markers need the rest. */
const MAX_DESCRIPTION = 700;
const MAX_WORDS = 10_000;
const GOES_ON = "[goes on in the description of the parameters]";

/** Reads a server's hints about a tool. A tool that changes something counts as destructive, unless the server says otherwise, as the protocol demands. */
function readHints({ annotations = {} }: ListedTool): ToolHints {
  const { readOnlyHint, idempotentHint, destructiveHint } = annotations;
  const readOnly = readOnlyHint === true;
  return {
    readOnly,
    idempotent: idempotentHint === true,
    destructive: !readOnly && destructiveHint !== false,
  };
}

/** Divides a server's descriptions between the description of the tool and that of its parameters. */
function divideWords(description: string, parameters: string): { first: string; rest: string } {
  const safe = neutralise(description);
  const { text, cut } = cutText(safe, MAX_DESCRIPTION);
  const rest = cutText([safe.slice(text.length), parameters].filter(Boolean).join("\n"), MAX_WORDS);
  return {
    first: cut > 0 ? `${text}${GOES_ON}` : text,
    rest: rest.cut > 0 ? `${rest.text}[cut: ${rest.cut} characters]` : rest.text,
  };
}

/**
 * Builds the tool that a turn offers, with the server's descriptions inside the turn's boundary. Undefined if its name may be a
 * sentence, or if models do not accept the name of a parameter.
 */
function offerTool(
  source: string,
  listed: ListedTool,
  server: McpServer,
  { wrap }: Boundary,
  jsonSchema: typeof JsonSchema,
): OfferedTool | undefined {
  const split = splitSchema(listed.inputSchema);
  if (!TOOL_NAME.test(listed.name) || split === undefined) return undefined;
  const { first, rest } = divideWords(listed.description ?? "", split.words);
  const tool = `${source}.${listed.name}`;
  const origin = `tool ${tool}`;
  const schema = rest === "" ? split.schema : { ...split.schema, description: wrap(rest, origin) };
  return {
    name: toModelName(tool),
    tool,
    hints: readHints(listed),
    exclusive: false,
    definition: {
      inputSchema: jsonSchema(schema),
      ...(first === "" ? {} : { description: wrap(first, origin) }),
    },
    execute: (input, { inputText, ...call }) => {
      const given = inputText === undefined ? input : parseInput(inputText);
      return server.call({ ...call, tool: listed.name, input: restoreNames(given, split) });
    },
  };
}

/** Does not quote the names: they are text from outside. */
const unfitWarning = (server: string, count: number): string =>
  `${plural(count, "tool")} of mcp.servers.${server} left out: the name of a tool may have up to 128 letters and digits of any script and the characters "_ - . / : @ $ + ~", and that of a parameter up to 64 letters, digits and the characters "_ - . $ @"; rename them at the server`;

/**
 * Offers the tools of a server that `isCovered`, with the server's descriptions inside the boundary. Tools whose names may be
 * sentences are left out, with a warning.
 */
export async function offerServerTools(
  name: string,
  server: McpServer,
  listed: readonly ListedTool[],
  isCovered: (tool: string) => boolean,
  boundary: Boundary,
): Promise<{ tools: OfferedTool[]; warnings: string[] }> {
  const { jsonSchema } = await import("ai");
  const covered = listed.filter((tool) => isCovered(tool.name));
  const tools = covered.flatMap(
    (tool) => offerTool(name, tool, server, boundary, jsonSchema) ?? [],
  );
  const unfit = covered.length - tools.length;
  return {
    tools,
    warnings: unfit > 0 ? [unfitWarning(name, unfit)] : [],
  };
}
