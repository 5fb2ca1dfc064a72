import { readFile, realpath } from "node:fs/promises";
import { isDeepStrictEqual } from "node:util";
import JSON5 from "json5";
import { RouseError } from "../core/errors.ts";
import { replaceFile } from "../core/replace-file.ts";
import {
  appendItem,
  indentAt,
  isOnOneLine,
  readStyle,
  removeItem,
  renderWritten,
} from "./json5-layout.ts";
import { parseExactJson5 } from "./json5.ts";
import { getMember, readTree, type TextNode } from "./json5-tree.ts";

type Path = readonly (string | number)[];

/** A member of the config, by its path, and what it is to be. */
export interface ConfigChange {
  /** A number is a position in a list; the one behind the last adds an element. */
  path: Path;
  /** Plain JSON; undefined takes the member, or the element of a list, away. */
  value: unknown;
}

/** A value as a path that is not there yet needs it: `{ a: { b: value } }`. */
const nest = (path: Path, value: unknown): unknown =>
  path
    .toReversed()
    .reduce((made, key) => (typeof key === "number" ? [made] : { [key]: made }), value);

const isList = (node: TextNode): boolean => node.items !== undefined && !node.isObject;

/** The position of an item in its object or list; -1 if it is not there. */
function findIndex(node: TextNode, at: string | number): number {
  if (typeof at === "number") return isList(node) && at < (node.items?.length ?? 0) ? at : -1;
  const item = getMember(node, at);
  return item ? (node.items?.indexOf(item) ?? -1) : -1;
}

/** The changes that make one value into another value of the same kind; what is equal in both keeps its text. */
function compareInside(before: object, after: object, path: Path): ConfigChange[] {
  const key = (name: string): string | number => (Array.isArray(after) ? Number(name) : name);
  const gone = Object.keys(before).filter(
    (name) => (after as Record<string, unknown>)[name] === undefined,
  );
  return [
    // From the end, so that the positions before stay.
    ...gone.toReversed().map((name) => ({ path: [...path, key(name)], value: undefined })),
    ...Object.entries(after).map(([name, value]) => ({
      path: [...path, key(name)],
      value: value as unknown,
    })),
  ];
}

const isSameKind = (before: unknown, after: unknown): before is object =>
  typeof before === "object" &&
  typeof after === "object" &&
  before !== null &&
  after !== null &&
  Array.isArray(before) === Array.isArray(after);

function setValue(text: string, node: TextNode, { path, value }: ConfigChange): string {
  const before = parseExactJson5(text.slice(node.start, node.end));
  if (isDeepStrictEqual(before, value)) return text;
  if (isSameKind(before, value))
    return editText(text, compareInside(before, value as object, path));
  const indent =
    isOnOneLine(text, node) && node.items?.length ? undefined : indentAt(text, node.start);
  const written = renderWritten(value, {
    style: readStyle(text, readTree(text)),
    indent,
    trailing: false,
  });
  return text.slice(0, node.start) + written + text.slice(node.end);
}

/** Makes one change. */
function setAt(text: string, change: ConfigChange): string {
  const { path, value } = change;
  const root = readTree(text) as TextNode;
  let node = root;
  for (const [depth, at] of path.entries()) {
    const index = findIndex(node, at);
    const rest = path.slice(depth + 1);
    if (index < 0) {
      if (value === undefined) return text;
      const fits = isList(node) ? typeof at === "number" : node.isObject && typeof at === "string";
      if (!fits)
        return setValue(text, node, {
          path: path.slice(0, depth),
          value: nest(path.slice(depth), value),
        });
      return appendItem(text, node, readStyle(text, root), {
        ...(typeof at === "string" && { key: at }),
        value: nest(rest, value),
      });
    }
    if (rest.length === 0 && value === undefined) return removeItem(text, node, index);
    node = node.items?.[index]?.value as TextNode;
  }
  return setValue(text, node, change);
}

/**
 * The text of a JSON5 config with these changes; comments, order and layout of all else stay.
 * @throws an error if the text is not a JSON5 object.
 */
export function editText(text: string, changes: readonly ConfigChange[]): string {
  const value: unknown = JSON5.parse(text);
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new TypeError("the text is not a JSON5 object");
  return changes.reduce(setAt, text);
}

/**
 * Changes a config file in one step: a reader sees it as it was or as it is to be.
 * @throws RouseError `config_invalid` if the file cannot be read as JSON5.
 */
export async function editConfigFile(
  file: string,
  changes: readonly ConfigChange[],
): Promise<void> {
  const text = await readFile(file, "utf8");
  let edited: string;
  try {
    edited = editText(text, changes);
  } catch {
    throw new RouseError({
      code: "config_invalid",
      message: `${file} is not valid JSON5: mend it first (\`rouse config validate\`)`,
    });
  }
  if (edited === text) return;
  // The file itself, so that a link to it stays a link.
  await replaceFile(await realpath(file), edited);
}
