import { readFile, rename, stat, writeFile } from "node:fs/promises";
import { JsonObjectNode, JsonParser, type JsonValueNode } from "@croct/json5-parser";
import { RouseError } from "../core/errors.ts";

/** A member of the config, by its path, and what it is to be. */
export interface ConfigChange {
  path: readonly string[];
  /** Plain JSON. */
  value: unknown;
}

type Value = Parameters<JsonObjectNode["set"]>[1];

function setAt(node: JsonObjectNode, [name, ...rest]: readonly string[], value: unknown): void {
  if (name === undefined) return;
  if (rest.length === 0) {
    node.set(name, value as Value);
    return;
  }
  const inner: JsonValueNode | undefined = node.has(name) ? node.get(name) : undefined;
  if (inner instanceof JsonObjectNode) setAt(inner, rest, value);
  else node.set(name, rest.toReversed().reduce<unknown>((made, key) => ({ [key]: made }), value) as Value);
}

/** The text of a JSON5 config with these changes; comments, order and layout of all else stay. */
export function editText(text: string, changes: readonly ConfigChange[]): string {
  const root = JsonParser.parse(text, JsonObjectNode);
  for (const { path, value } of changes) setAt(root, path, value);
  return root.toString();
}

/**
 * Changes a config file in one step: whoever reads it sees it as it was or as it is to be.
 * @throws RouseError `config_invalid` where it cannot be read as JSON5.
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
