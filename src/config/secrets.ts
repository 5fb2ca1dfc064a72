import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import type { Issue } from "../core/errors.ts";
import { describeFileError } from "../core/files.ts";
import { readVariable, toBoolean, type Variables } from "./environment.ts";
import { joinPath, renderPath } from "./issues.ts";
import { hooksKeys } from "./schema/hooks.ts";

/** A value that is one variable and nothing else. */
export const VARIABLE_REFERENCE = /^\$\{([A-Za-z_][A-Za-z0-9_]*)\}$/;
/** Matches references, and those with a shell's default, `${NAME:-text}`, which would stay in the config as written. */
const ENV = /\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(:?[-=?+][^}]*)?\}/g;

/** A path that begins with what only a shell reads as a folder. */
const HOME_PATH = /^(?:sqlite:)?~[\\/]/;
/** Fields with texts, and with words that another program reads, such as a shell. */
const NO_PATHS = /^hooks\.mappings\b|\.(?:args|env|instructions|prompt)\b/;

function isFileSecret(value: object): value is { file: string } {
  const keys = Object.keys(value);
  return (
    keys.length === 1 && keys[0] === "file" && typeof (value as { file: unknown }).file === "string"
  );
}

function describeUnreadable(file: string, error: NodeJS.ErrnoException): string {
  if (error.code === "ENOENT")
    return `there is no file ${file}; write the secret into it, and nothing else`;
  return `the file ${file} cannot be read: ${describeFileError(error)}`;
}

/** The switch of a plugin's section: the plugin's own schema does not know it. */
function isSwitch(path: string): boolean {
  return path.endsWith(".enabled") && isPluginSection(path.slice(0, -".enabled".length));
}

/** A plugin's whole section may happen to have the one field `file`: that is not a secret. */
function isPluginSection(path: string): boolean {
  const [top, name, ...rest] = path.replace(/^plugins\.settings\./, "channels.").split(".");
  if (name === undefined || name.endsWith("]") || rest.length > 0) return false;
  return top === "channels" || (top === "hooks" && !Object.hasOwn(hooksKeys, name));
}

/**
 * Resolves the references of a config: `${ENV}` in any string (`$${` is a literal `${`), and values that are `{ file: "…" }`,
 * trimmed, relative to `baseDir`. An unresolved reference is an issue that names the field and the variable.
 * `variables` are the fields that are one variable and nothing else: a schema may want a number or a boolean there.
 */
export function resolveReferences(
  raw: unknown,
  options: { env: Record<string, string | undefined>; baseDir: string },
): { value: unknown; issues: Issue[]; files: string[]; variables: Variables } {
  const issues: Issue[] = [];
  const files: string[] = [];
  const variables = new Map<string, string>();

  /** Returns false, with an issue, for a path that begins with `~`. */
  const isWhole = (value: string, path: string): boolean => {
    const begins = HOME_PATH.test(value);
    if (begins)
      issues.push({ path, message: "`~` is no folder here: write ${HOME}, or the whole path" });
    return !begins;
  };
  const resolveText = (value: string, path: string): string =>
    value.replace(ENV, (all, name: string | undefined, rest: string | undefined) => {
      if (name === undefined) return "${";
      const found = rest === undefined ? readVariable(options.env, name) : undefined;
      if (found !== undefined) return found;
      const problem =
        rest === undefined
          ? `the environment has no variable ${name}; set it`
          : `a reference has no default; write \${${name}} and set the variable`;
      issues.push({ path, message: `${problem}, or write $\${ for a literal \${` });
      return all;
    });
  const text = (value: string, path: string): string => {
    if (!NO_PATHS.test(path)) isWhole(value, path);
    return resolveText(value, path);
  };

  const file = (written: string, path: string): string => {
    const name = resolveText(written, path);
    if (!isWhole(name, path)) return "unreadable";
    const full = resolve(options.baseDir, name);
    files.push(full);
    try {
      return readFileSync(full, "utf8").trim();
    } catch (error) {
      const message = describeUnreadable(full, error as NodeJS.ErrnoException);
      issues.push({ path, message, transient: true });
      return "unreadable";
    }
  };

  const walk = (value: unknown, path: string): unknown => {
    if (typeof value === "string") {
      const variable = VARIABLE_REFERENCE.exec(value)?.[1];
      if (variable !== undefined) variables.set(path, variable);
      return variable !== undefined && isSwitch(path)
        ? toBoolean(text(value, path))
        : text(value, path);
    }
    if (Array.isArray(value))
      return value.map((entry, index) => walk(entry, joinPath(path, index)));
    if (typeof value !== "object" || value === null) return value;
    if (isFileSecret(value) && !isPluginSection(path)) return file(value.file, path);
    return Object.fromEntries(
      Object.entries(value).map(([key, entry]) => [key, walk(entry, joinPath(path, key))]),
    );
  };

  return { value: walk(raw, ""), issues, files, variables };
}

/** A field of a config that holds a secret, with its value as it is written. */
export interface SecretField {
  path: readonly (string | number)[];
  value: string | { file: string };
}

/** Finds the fields of a config that hold secrets: references to files, and the texts that `masked`, the same config, hides. */
export function findSecretFields(
  written: unknown,
  masked: unknown,
  path: SecretField["path"] = [],
): SecretField[] {
  if (typeof written === "string") return written === masked ? [] : [{ path, value: written }];
  if (typeof written !== "object" || written === null) return [];
  if (isFileSecret(written) && !isPluginSection(renderPath(path)))
    return [{ path, value: written }];
  return Object.entries(written).flatMap(([key, member]) =>
    findSecretFields(member, (masked as Record<string, unknown>)[key], [
      ...path,
      Array.isArray(written) ? Number(key) : key,
    ]),
  );
}
