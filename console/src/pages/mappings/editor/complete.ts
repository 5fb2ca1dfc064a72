import type {
  Completion,
  CompletionContext,
  CompletionResult,
  CompletionSource,
} from "@codemirror/autocomplete";
import type { JsonSchema } from "../../../../../src/config/json-schema.ts";
import type { FieldShape } from "../../../../../src/operate/shapes/shape.ts";
import { findContext, type TextContext } from "./context.ts";

/** The completions: keys of mappings, functions of expressions, and fields of one hook. */
export interface Words {
  mapping: JsonSchema;
  $defs: Record<string, JsonSchema>;
  functions: readonly string[];
  fields: readonly FieldShape[];
}

/** The branches of a schema, with references followed. */
function branches(schema: JsonSchema | undefined, words: Words): JsonSchema[] {
  if (!schema) return [];
  const name = schema.$ref?.replace("#/$defs/", "");
  if (name !== undefined) return branches(words.$defs[name], words);
  return schema.anyOf ? schema.anyOf.flatMap((one) => branches(one, words)) : [schema];
}

/** The schemas that a path of names leads to. */
function findSchemas(path: readonly string[], words: Words): JsonSchema[] {
  let found = branches(words.mapping, words);
  for (const name of path)
    found = found.flatMap(({ properties, items, additionalProperties }) => {
      if (name === "[]") return branches(items, words);
      const own =
        properties?.[name] ??
        (typeof additionalProperties === "object" ? additionalProperties : undefined);
      return branches(own, words);
    });
  return found;
}

const typeText = ({ types, share }: FieldShape): string =>
  `${Object.keys(types).join(" or ")} · ${Math.round(share * 100)} %`;

/** Fields of the hook, those that most bodies have first. */
const fieldOptions = (words: Words, apply?: (name: string) => string): Completion[] =>
  words.fields
    .filter(({ name }) => !name.includes("[]") && !name.includes("*"))
    .map((field) => ({
      label: field.name,
      detail: typeText(field),
      type: "property",
      boost: Math.round(field.share * 50),
      ...(apply ? { apply: apply(field.name) } : {}),
    }));

const functionOptions = (words: Words): Completion[] =>
  words.functions.map((name) => ({
    label: `$${name}`,
    type: "function",
    apply: `$${name}(`,
    detail: "function",
  }));

const isPlain = (name: string): boolean => /^[A-Za-z_$][\w$]*$/.test(name);

/** A name as a member's key: quoted where it must be, and only where no quote is open. */
const toKey = (name: string, quote: string): string =>
  quote === "" && !isPlain(name) ? JSON.stringify(name) : name;

function completeKeys(context: TextContext, words: Words): Completion[] {
  const { path, quote } = context;
  const isPayload =
    path[0] === "match" &&
    path[1] === "payload" &&
    path.every((name, index) => index < 2 || name.startsWith("$") || name === "[]");
  const schemas = findSchemas(path, words);
  const keys = schemas.flatMap(({ properties = {} }) => Object.entries(properties));
  const own = keys.map(([name, { description }]): Completion => ({
    label: name,
    type: name.startsWith("$") ? "operator" : "keyword",
    ...(description === undefined ? {} : { info: description }),
    apply: quote === "" ? `${toKey(name, quote)}: ` : name,
  }));
  const fields = isPayload
    ? fieldOptions(words, (name) => (quote === "" ? `${toKey(name, quote)}: ` : name))
    : [];
  return [...fields, ...own];
}

/** Values that a condition's field had, or that the schema names. */
function completeValues({ path, quote }: TextContext, words: Words): Completion[] {
  const written = path.filter((name) => !name.startsWith("$") && name !== "[]");
  const isPayload = written[0] === "match" && written[1] === "payload";
  const field = isPayload
    ? words.fields.find(({ name }) => name === written.slice(2).join("."))
    : undefined;
  const known = field?.values ?? [];
  const named = findSchemas(path, words).flatMap((schema) => [
    ...(schema.enum ?? []),
    ...(schema.const === undefined ? [] : [schema.const]),
    ...(schema.type === "boolean" ? [true, false] : []),
  ]);
  const values = [...new Set([...known, ...named])];
  return values
    .filter((value) => quote === "" || typeof value === "string")
    .map((value): Completion => ({
      label: quote === "" ? JSON.stringify(value) : String(value),
      type: "constant",
    }));
}

const isExpressionPath = (path: readonly string[]): boolean => path.join(".") === "match.when";

/** Completes keys, operators, values, and in expressions fields and functions. */
export function createCompletion(getWords: () => Words | null): CompletionSource {
  return (completion: CompletionContext): CompletionResult | null => {
    const words = getWords();
    if (!words) return null;
    const context = findContext(completion.state.doc.toString(), completion.pos);
    const code =
      context.expression ??
      (context.quote !== "" && isExpressionPath(context.path)
        ? completion.state.sliceDoc(context.from, completion.pos)
        : null);
    if (code !== null) {
      const word = /[$\w.[\]`]*$/.exec(code)?.[0] ?? "";
      if (word === "" && !completion.explicit) return null;
      return {
        from: completion.pos - word.length,
        options: [...fieldOptions(words), ...functionOptions(words)],
        validFor: /^[$\w.[\]`]*$/,
      };
    }
    if (context.from === completion.pos && !completion.explicit) return null;
    const options = context.isKey ? completeKeys(context, words) : completeValues(context, words);
    return options.length === 0 ? null : { from: context.from, options, validFor: /^[\w$. -]*$/ };
  };
}
