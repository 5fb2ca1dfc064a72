import { readFileSync, realpathSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import JSON5 from "json5";
import { RouseError } from "../../core/errors.ts";
import { describeFileError, isInside } from "../../core/files.ts";
import { isRecord } from "../../core/json.ts";

/** As OpenClaw limits them. */
const MAX_DEPTH = 10;
const MAX_BYTES = 2 * 1024 * 1024;
const HIDDEN = new Set(["__proto__", "constructor", "prototype"]);

type Fields = Record<string, unknown>;

/** Lists are joined, objects merged, of anything else the later value counts. */
function merge(first: unknown, later: unknown): unknown {
  if (Array.isArray(first) && Array.isArray(later))
    return [...(first as unknown[]), ...(later as unknown[])];
  if (!isRecord(first) || !isRecord(later)) return later;
  const merged: Fields = { ...first };
  for (const [name, value] of Object.entries(later))
    if (!HIDDEN.has(name))
      merged[name] = Object.hasOwn(merged, name) ? merge(merged[name], value) : value;
  return merged;
}

const failure = (message: string): RouseError =>
  new RouseError({ code: "config_invalid", message });

/** Reads the file of an OpenClaw config with what `$include` names in it. */
class ConfigReader {
  readonly #root: string;
  readonly #opened: string[] = [];

  constructor(root: string) {
    this.#root = root;
  }

  read(file: string): unknown {
    if (this.#opened.includes(file))
      throw failure(`$include goes in a circle: ${[...this.#opened, file].join(" → ")}`);
    if (this.#opened.length > MAX_DEPTH)
      throw failure(`$include: ${file} is more than ${MAX_DEPTH} files deep`);
    this.#opened.push(file);
    const value = this.#resolve(this.#parse(file), dirname(file));
    this.#opened.pop();
    return value;
  }

  #parse(file: string): unknown {
    try {
      // A link out of the folder must not bring in what lies elsewhere.
      if (!isInside(this.#root, realpathSync(file)))
        throw failure(`$include: ${file} is outside ${this.#root}`);
      if (statSync(file).size > MAX_BYTES)
        throw failure(`${file} is larger than ${MAX_BYTES} bytes`);
      return JSON5.parse(readFileSync(file, "utf8"));
    } catch (error) {
      if (error instanceof RouseError) throw error;
      const { code, lineNumber, columnNumber } = error as {
        code?: string;
        lineNumber?: number;
        columnNumber?: number;
      };
      if (code !== undefined) throw failure(`${file} cannot be read: ${describeFileError(error)}`);
      throw failure(`${file} is not valid JSON5 at line ${lineNumber}, column ${columnNumber}`);
    }
  }

  #resolve(value: unknown, folder: string): unknown {
    if (Array.isArray(value)) return value.map((entry) => this.#resolve(entry, folder));
    if (!isRecord(value)) return value;
    const { $include: include, ...own } = value;
    const rest = Object.fromEntries(
      Object.entries(own).map(([name, inner]) => [name, this.#resolve(inner, folder)]),
    );
    if (include === undefined) return rest;
    const names = Array.isArray(include) ? (include as unknown[]) : [include];
    const included = names.map((name) => {
      if (typeof name !== "string")
        throw failure("$include must be the path of a file, or a list of paths");
      return this.read(resolve(folder, name));
    });
    return merge(included.reduce(merge), rest);
  }
}

/**
 * Reads an OpenClaw config: JSON5, in which `$include` stands for the content of other files in the same folder or below it.
 * @throws RouseError `config_invalid` if a file cannot be read, is not JSON5, or is included in a circle or from elsewhere.
 */
export function readOpenClawConfig(file: string): unknown {
  let real: string;
  try {
    real = realpathSync(file);
  } catch (error) {
    throw failure(`${file} cannot be read: ${describeFileError(error)}`);
  }
  return new ConfigReader(dirname(real)).read(real);
}
