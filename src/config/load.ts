import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { dirname, isAbsolute, join, resolve } from "node:path";
import type { Issue } from "../core/errors.ts";
import { checkConfig, configWarnings } from "./checks.ts";
import { parseWithVariables, type Variables } from "./environment.ts";
import { configIssues, renderPath } from "./issues.ts";
import { readJson5, type Parsed } from "./json5.ts";
import { configSchema, type Config } from "./schema/index.ts";
import { resolveReferences } from "./secrets.ts";

export interface LoadOptions {
  /** A path that was named: it must be there. */
  file?: string;
  cwd: string;
  env: Record<string, string | undefined>;
}

export type LoadResult =
  | {
      ok: true;
      config: Config;
      file?: string;
      /** The config's folder: relative paths start here. */
      baseDir: string;
      stateDir: string;
      /** SHA-256 of what was read. */
      hash: string;
      /** Files that the config consists of. */
      files: string[];
      /** For plugins' sections, which the plugins' own schemas check. */
      variables: Variables;
      warnings: Issue[];
    }
  | { ok: false; issues: Issue[]; file?: string };

const NAMES = ["rouse.json5", "rouse.json"];

/** The config file: the named one, else `ROUSE_CONFIG`, else `rouse.json5` or `rouse.json` in the working folder. */
export function findConfig({ file, cwd, env }: LoadOptions): string | undefined {
  const named = file ?? (env["ROUSE_CONFIG"] || undefined);
  if (named !== undefined) return resolve(cwd, named);
  return NAMES.map((name) => join(cwd, name)).find((path) => existsSync(path));
}

/** Relative paths are relative to the config's folder. */
function absolutePaths(config: Config, baseDir: string, env: LoadOptions["env"]): string {
  const stateDir = resolve(baseDir, env["ROUSE_STATE_DIR"] || (config.stateDir ?? ".rouse"));
  config.stateDir = stateDir;
  config.hooks.mappingsDir = resolve(baseDir, config.hooks.mappingsDir);
  config.hooks.transformsDir = resolve(baseDir, config.hooks.transformsDir);
  const { url } = config.store;
  if (url?.startsWith("sqlite:") && !isAbsolute(url.slice(7))) config.store.url = `sqlite:${resolve(baseDir, url.slice(7))}`;
  return stateDir;
}

/** Loads and checks the config. All problems come back at once, each with its path; nothing is started. */
export async function loadConfig(options: LoadOptions): Promise<LoadResult> {
  const file = findConfig(options);
  const parsed: Parsed = file === undefined ? { ok: true, value: {}, duplicates: [] } : readJson5(file);
  const named = file === undefined ? {} : { file };
  if (!parsed.ok) return { ok: false, issues: [{ path: "", message: `the config file ${parsed.message}` }], ...named };
  const baseDir = file === undefined ? options.cwd : dirname(file);
  const resolved = resolveReferences(parsed.value, { env: options.env, baseDir });
  const { variables } = resolved;
  const found = [...parsed.duplicates, ...resolved.issues];
  const checked = parseWithVariables(configSchema, resolved.value, (path) => variables.get(renderPath(path)));
  if (!checked.success) {
    // What could not be put in is told already.
    const isOpen = ({ path }: Issue): boolean => resolved.issues.some((issue) => issue.path === path);
    const wrong = configIssues(checked.error, configSchema).filter((issue) => !isOpen(issue));
    return { ok: false, issues: [...found, ...wrong], ...named };
  }
  const config = checked.data;
  config.hooks.enabled ??= file === undefined;
  const issues = [...found, ...checkConfig(config, file !== undefined)];
  if (issues.length > 0) return { ok: false, issues, ...named };
  const stateDir = absolutePaths(config, baseDir, options.env);
  const hash = createHash("sha256").update(JSON.stringify(config)).digest("hex");
  return {
    ok: true,
    config,
    baseDir,
    stateDir,
    hash,
    files: [...(file === undefined ? [] : [file]), ...resolved.files],
    variables,
    warnings: configWarnings(config),
    ...named,
  };
}
