import { isDeepStrictEqual } from "node:util";
import JSON5 from "json5";
import { editText } from "../../config/edit.ts";
import { parseExactJson5 } from "../../config/json5.ts";
import {
  appendOnLine,
  indentAt,
  readStyle,
  splitLines,
  type TextStyle,
} from "../../config/json5-layout.ts";
import { getMember, readTree, type TextNode } from "../../config/json5-tree.ts";
import { RouseError } from "../../core/errors.ts";

/** The config has its mappings in `hooks.mappings`, a file of `hooks.mappingsDir` in `mappings`. */
export type MappingHome = "config" | "mappings";

const LIST_PATH: Record<MappingHome, readonly string[]> = {
  config: ["hooks", "mappings"],
  mappings: ["mappings"],
};

const invalid = (message: string): RouseError =>
  new RouseError({ code: "config_invalid", message });

/** The place of the one object that a text is. */
function parseRoot(text: string): TextNode {
  try {
    const root = readTree(text);
    JSON5.parse(text);
    if (root?.isObject) return root;
  } catch {
    // Reported below.
  }
  throw invalid(
    "the file is not a JSON5 object: mend it first (`rouse config validate` shows the place)",
  );
}

function findList(text: string, home: MappingHome): TextNode | undefined {
  let node: TextNode | undefined = parseRoot(text);
  for (const name of LIST_PATH[home]) node = getMember(node, name)?.value;
  return node?.items && !node.isObject ? node : undefined;
}

/**
 * Lists the mappings of a file as they stand in it, in order. `start` and `end` are positions in the text, `end` behind the brace.
 * @throws RouseError `config_invalid` if the text is not a JSON5 object.
 */
export function listWrittenMappings(text: string, home: MappingHome) {
  return (findList(text, home)?.items ?? []).map(({ value: { start, end } }) => {
    const written = text.slice(start, end);
    const value = JSON5.parse<Record<string, unknown>>(written);
    return {
      id: typeof value?.["id"] === "string" ? value["id"] : undefined,
      value,
      text: written,
      start,
      end,
    };
  });
}

/** Gives a mapping's lines the line breaks of a file, and the indent of the place where it will stand. */
function fitLayout(mapping: string, { eol }: Pick<TextStyle, "eol">, indent: string): string {
  const lines = splitLines(mapping);
  const own = /^[ \t]*/.exec(lines.at(-1) ?? "")?.[0] ?? "";
  const moved = lines.map((line, index) =>
    index > 0 && line.startsWith(own) && line !== "" ? indent + line.slice(own.length) : line,
  );
  const joined = moved.join(eol);
  // A text that goes on over a line break would change with its indent.
  return isDeepStrictEqual(JSON5.parse(joined), JSON5.parse(mapping)) ? joined : lines.join(eol);
}

/**
 * Returns the text of one mapping, without what stands around it, as a file takes it: a `.json` file stays JSON.
 * @throws RouseError `config_invalid` if it is not one JSON5 object.
 */
export function readMappingText(text: string, file: string): string {
  const { start, end } = parseRoot(text);
  const mapping = text.slice(start, end);
  return file.endsWith(".json") ? JSON.stringify(parseExactJson5(mapping), null, 2) : mapping;
}

/** Takes away the indent that the lines of a mapping have in its file. */
export const withoutIndent = (text: string): string => fitLayout(text, { eol: "\n" }, "");

/** The config or mapping file without its mappings, which is what a change must leave alone. */
function withoutMappings(text: string, home: MappingHome): unknown {
  const value = JSON5.parse<Record<string, unknown>>(text);
  const { mappings: _mappings, ...rest } = (
    home === "config" ? (value["hooks"] ?? {}) : value
  ) as Record<string, unknown>;
  return home === "config" ? { ...value, hooks: rest } : rest;
}

/** Makes sure of what a change promises: one mapping is as given, and all else as before. */
function checkChange(
  before: string,
  after: string,
  home: MappingHome,
  expected: readonly unknown[],
): string {
  const values = listWrittenMappings(after, home).map(({ value }) => value);
  if (
    isDeepStrictEqual(values, expected) &&
    isDeepStrictEqual(withoutMappings(before, home), withoutMappings(after, home))
  )
    return after;
  throw invalid(
    "this place of the file cannot be changed without touching what stands around it: change it by hand",
  );
}

/**
 * Replaces one mapping by a text that `readMappingText` gave. All else stays byte for byte.
 * @throws RouseError `config_invalid` if the file is not valid JSON5.
 */
export function replaceMapping(
  text: string,
  home: MappingHome,
  index: number,
  mapping: string,
): string {
  const written = listWrittenMappings(text, home);
  const at = written[index];
  if (!at) throw invalid(`the file has no mapping ${index}`);
  const style = readStyle(text, parseRoot(text));
  const placed = fitLayout(mapping, style, indentAt(text, at.start));
  const after = text.slice(0, at.start) + placed + text.slice(at.end);
  const expected = written.map(({ value }) => value).with(index, JSON5.parse(mapping));
  return checkChange(text, after, home, expected);
}

/** Adds one mapping behind the last one, as `replaceMapping` replaces one: a comma may follow the one before. */
export function addMapping(text: string, home: MappingHome, mapping: string): string {
  const start = findList(text, home)
    ? text
    : editText(text, [{ path: LIST_PATH[home], value: [] }]);
  const style = readStyle(start, parseRoot(start));
  const after = appendOnLine(start, findList(start, home) as TextNode, style, (indent) =>
    fitLayout(mapping, style, indent),
  );
  const kept = listWrittenMappings(text, home).map(({ value }) => value);
  return checkChange(text, after, home, [...kept, JSON5.parse(mapping)]);
}
