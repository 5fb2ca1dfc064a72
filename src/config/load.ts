import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { dirname, isAbsolute, join, resolve } from "node:path";
import type { Issue } from "../core/errors.ts";
import { checkConfig, configWarnings } from "./checks.ts";
import type { Variables } from "./environment.ts";
import { renderPath } from "./issues.ts";
import { readFields, readJson5, type ParsedJson5 } from "./json5.ts";
import { locateIssues } from "./places.ts";
import type { Config } from "./schema/index.ts";
import { resolveReferences } from "./secrets.ts";
import { followsFrom, parseUsable } from "./usable.ts";

export interface LoadOptions {
  /** The path of the config file, which must exist. */
  file?: string;
  /** The config, instead of a file. Relative paths start at `cwd`. */
  config?: object;
  /** The state folder. Overrides the environment and the config. */
  stateDir?: string;
  cwd: string;
  env: Record<string, string | undefined>;
  /** Accepts a config whose `${NAME}` or `{ file }` cannot be resolved, for checks that need no secret. */
  withoutSecrets?: boolean;
}

export interface LoadedConfig {
  config: Config;
  file?: string;
  /** The config's folder: relative paths start here. */
  baseDir: string;
  stateDir: string;
  /** SHA-256 of the files. */
  hash: string;
  /** The files of the config. */
  files: string[];
  /** For plugins' sections, which the plugins' own schemas check. */
  variables: Variables;
  warnings: Issue[];
  /** Returns whether a later problem is only a consequence of fields that were invalid or could not be resolved. */
  isFollowUp(issue: Issue): boolean;
}

export type LoadResult =
  | ({ ok: true } & LoadedConfig)
  /** `rest` is the config without the invalid fields. Further problems can be found in it. */
  | { ok: false; issues: Issue[]; file?: string; rest?: LoadedConfig };

const NAMES = ["rouse.json5", "rouse.json"];

/** Finds the config file: the named one, else `ROUSE_CONFIG`, else `rouse.json5` or `rouse.json` in the working folder. */
export function findConfig({ file, cwd, env }: LoadOptions): string | undefined {
  const named = file ?? (env["ROUSE_CONFIG"] || undefined);
  if (named !== undefined) return resolve(cwd, named);
  return NAMES.map((name) => join(cwd, name)).find((path) => existsSync(path));
}

/** Returns the paths of all fields of a config. */
function getFieldPaths(value: unknown, path: readonly PropertyKey[] = []): Set<string> {
  if (typeof value !== "object" || value === null) return new Set([renderPath(path)]);
  const inner = Object.entries(value).flatMap(([key, entry]) => [
    ...getFieldPaths(entry, [...path, Array.isArray(value) ? Number(key) : key]),
  ]);
  return new Set([renderPath(path), ...inner]);
}

/** Resolves a path relative to the config's folder. */
function absolutePaths(config: Config, baseDir: string, { cwd, env, stateDir: named }: LoadOptions): string {
  const stateDir = named === undefined ? resolve(baseDir, env["ROUSE_STATE_DIR"] || (config.stateDir ?? ".rouse")) : resolve(cwd, named);
  config.stateDir = stateDir;
  config.hooks.mappingsDir = resolve(baseDir, config.hooks.mappingsDir);
  config.hooks.transformsDir = resolve(baseDir, config.hooks.transformsDir);
  const { transformPermissions } = config.hooks;
  for (const field of ["read", "write"] as const)
    transformPermissions[field] = transformPermissions[field].map((path) => resolve(baseDir, path));
  const { url } = config.store;
  if (url?.startsWith("sqlite:") && !isAbsolute(url.slice(7))) config.store.url = `sqlite:${resolve(baseDir, url.slice(7))}`;
  return stateDir;
}

/** Loads and checks the config. Returns all problems together, each with its path and position. Starts nothing. */
export async function loadConfig(options: LoadOptions): Promise<LoadResult> {
  const { env } = options;
  const file = options.config === undefined ? findConfig(options) : undefined;
  const isWritten = file !== undefined || options.config !== undefined;
  const parsed: ParsedJson5 = file === undefined ? { ok: true, value: options.config ?? {}, duplicates: [] } : readJson5(file);
  const named = file === undefined ? {} : { file };
  if (!parsed.ok) {
    const { ok: _ok, message, ...place } = parsed;
    return { ok: false, issues: [{ path: "", message: `the config file ${message}`, ...named, ...place }], ...named };
  }
  const baseDir = file === undefined ? options.cwd : dirname(file);
  const resolved = resolveReferences(parsed.value, { env, baseDir });
  const { variables } = resolved;
  const { config, issues: refused, removed } = parseUsable(resolved.value, variables);
  const wrong = refused.map(({ path, message }) => ({ path: renderPath(path), message }));
  const open = resolved.issues.map(({ path }) => path);
  // Unresolved references are reported already.
  const issues = [
    ...parsed.duplicates,
    ...(options.withoutSecrets ? [] : resolved.issues),
    ...wrong.filter((issue) => !open.includes(issue.path)),
  ];
  const located = (): Issue[] => locateIssues(issues, { file });
  if (!config) return { ok: false, issues: located(), ...named };
  const fields = open.length + wrong.length === 0 ? undefined : file === undefined ? getFieldPaths(parsed.value) : readFields(file);
  const isFollowUp = followsFrom([...open, ...wrong.map(({ path }) => path), ...removed], (path) => fields?.has(path) === true);
  config.hooks.enabled ??= !isWritten;
  issues.push(...checkConfig(config, isWritten).filter((issue) => !isFollowUp(issue)));
  const stateDir = absolutePaths(config, baseDir, options);
  const loaded: LoadedConfig = {
    config,
    baseDir,
    stateDir,
    hash: createHash("sha256").update(JSON.stringify(config)).digest("hex"),
    files: [...(file === undefined ? [] : [file]), ...resolved.files],
    variables,
    warnings: configWarnings(config),
    isFollowUp,
    ...named,
  };
  return issues.length === 0 ? { ok: true, ...loaded } : { ok: false, issues: located(), ...named, rest: loaded };
}
