import { readFile, rename, stat, writeFile } from "node:fs/promises";
import { JsonArrayNode, JsonObjectNode, JsonParser, type JsonValueNode } from "@croct/json5-parser";
import { RouseError } from "../core/errors.ts";

/** A member of the config, by its path, and what it is to be. */
export interface ConfigChange {
  /** A number is a position in a list; the one behind the last adds an element. */
  path: readonly (string | number)[];
  /** Plain JSON; undefined takes the element of a list away. */
  value: unknown;
}

type Value = Parameters<JsonObjectNode["set"]>[1];

function setInList(node: JsonArrayNode, index: number, value: unknown): void {
  if (value === undefined) node.delete(index);
  else if (index >= node.elements.length) node.push(value as Value);
  else node.set(index, value as Value);
}

function setAt(node: JsonObjectNode, [name, ...rest]: readonly (string | number)[], value: unknown): void {
  if (typeof name !== "string") return;
  if (rest.length === 0) {
    node.set(name, value as Value);
    return;
  }
  const inner: JsonValueNode | undefined = node.has(name) ? node.get(name) : undefined;
  if (inner instanceof JsonObjectNode) setAt(inner, rest, value);
  else if (inner instanceof JsonArrayNode && typeof rest[0] === "number") setInList(inner, rest[0], value);
  else
    node.set(name, rest.toReversed().reduce<unknown>((made, key) => (typeof key === "number" ? [made] : { [key]: made }), value) as Value);
}

/** The text of a JSON5 config with these changes; comments, order and layout of all else stay. */
export function editText(text: string, changes: readonly ConfigChange[]): string {
  const root = JsonParser.parse(text, JsonObjectNode);
  for (const { path, value } of changes) setAt(root, path, value);
  return root.toString();
}

/**
 * Changes a config file in one step: whoever reads it sees it as it was or as it is to be.
 * @throws RouseError `config_invalid` if the file cannot be read as JSON5.
 */
export async function editConfigFile(file: string, changes: readonly ConfigChange[]): Promise<void> {
  const text = await readFile(file, "utf8");
  let edited: string;
  try {
    edited = editText(text, changes);
  } catch {
    throw new RouseError({ code: "config_invalid", message: `${file} is not valid JSON5: mend it first (\`rouse config validate\`)` });
  }
  if (edited === text) return;
  const temporary = `${file}.${process.pid}.tmp`;
  await writeFile(temporary, edited, { mode: (await stat(file)).mode });
  await rename(temporary, file);
}
