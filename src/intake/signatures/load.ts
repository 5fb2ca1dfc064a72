import { readFileSync } from "node:fs";
import { join } from "node:path";
import { configIssues } from "../../config/issues.ts";
import { schemeSchema, type Scheme } from "../../config/schema/signature.ts";
import { didYouMean } from "../../config/suggest.ts";
import type { Issue } from "../../core/errors.ts";
import { fileInside, listJson } from "../../core/files.ts";

const NAME = /^[a-z0-9][a-z0-9-]*$/;

/** The sources of schemes: the folder of the schemes that ship, and plugins. */
export interface SchemeSources {
  dir: string;
  /** By name. Default: none. */
  plugins?: ReadonlyMap<string, { plugin: string; value: Scheme }>;
}

export type LoadedScheme =
  | { ok: true; scheme: Scheme; file: string | undefined }
  | { ok: false; issues: Issue[] };

/** Reads a scheme by its name. `at` is the path in the config that names it. */
export function loadScheme(
  { dir, plugins }: SchemeSources,
  name: string,
  at: string,
): LoadedScheme {
  const own = plugins?.get(name);
  if (own) return { ok: true, scheme: own.value, file: undefined };
  const found = NAME.test(name) ? fileInside(dir, `${name}.json`) : undefined;
  const names = [...listJson(dir), ...(plugins?.keys() ?? [])];
  if (!found?.ok)
    return {
      ok: false,
      issues: [{ path: at, message: `there is no scheme of this name.${didYouMean(name, names)}` }],
    };
  try {
    const checked = schemeSchema.safeParse(JSON.parse(readFileSync(found.file, "utf8")));
    if (checked.success) return { ok: true, scheme: checked.data, file: found.file };
    const issues = configIssues(checked.error, schemeSchema).map((issue) => ({
      ...issue,
      path: `${join("schemes", `${name}.json`)}: ${issue.path}`,
    }));
    return { ok: false, issues };
  } catch {
    return {
      ok: false,
      issues: [{ path: at, message: `the file of the scheme "${name}" is not valid JSON` }],
    };
  }
}

/** The schemes of plugins that have the name of one that ships. */
export function findSchemeClashes({ dir, plugins = new Map() }: SchemeSources): Issue[] {
  return listJson(dir).flatMap((name) => {
    const own = plugins.get(name);
    if (!own) return [];
    return [
      {
        path: `schemes/${name}.json`,
        message: `Rouse and the plugin "${own.plugin}" both bring the signature scheme "${name}": rename the plugin's`,
      },
    ];
  });
}
