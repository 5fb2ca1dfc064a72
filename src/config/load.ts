import type { z } from "zod";
import type { Issue } from "../core/errors.ts";
import { isTooDeep, MAX_FILE_DEPTH } from "../core/json.ts";
import { isPresent, readText, type FileTexts } from "../core/files.ts";
import { parseWithVariables, type Variables } from "./environment.ts";
import { parentPath, renderPath, schemaIssues, type SchemaIssue } from "./issues.ts";
import { configSchema, type Config } from "./schema/index.ts";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { basename, dirname, isAbsolute, join, resolve } from "node:path";
import { checkConfig, configWarnings } from "./checks.ts";
import { findPrototypeKeys, readJson5, type ParsedJson5 } from "./json5.ts";
import { locateIssues } from "./places.ts";
import { resolveReferences } from "./secrets.ts";
import { secretFile } from "./state.ts";

type Path = readonly PropertyKey[];

/** Stand-ins for an entry that other fields may name: left out, each of these fields would be a problem too. */
const STAND_INS: readonly [RegExp, (index: string) => unknown][] = [
  [/^agents\.list\[(\d+)\]$/, (index) => ({ id: `agent-${index}` })],
  [/^models\.providers\.([^.]+)$/, () => ({ type: "-" })],
  [/^mcp\.servers\.([^.]+)$/, () => ({ command: "true" })],
  [/^hooks\.mappings\[(\d+)\]$/, () => ({ messageTemplate: "-" })],
];
const MAX_ROUNDS = 10;

const isObject = (value: unknown): value is Record<PropertyKey, unknown> =>
  typeof value === "object" && value !== null;

/** Returns the value at a path. */
export function valueAt(root: unknown, path: Path): unknown {
  return path.reduce<unknown>((at, key) => (isObject(at) ? at[key] : undefined), root);
}

/** Takes out the field at a path, or the nearest one around it that can go. Returns what went; undefined if that is all. */
function takeOut(root: unknown, path: Path): Path | undefined {
  for (let at = path; at.length > 0; at = at.slice(0, -1)) {
    const parent = valueAt(root, at.slice(0, -1));
    const last = at.at(-1) as PropertyKey;
    if (!isObject(parent) || !Object.hasOwn(parent, last)) continue;
    const text = renderPath(at);
    const [pattern, standIn] = STAND_INS.find(([candidate]) => candidate.test(text)) ?? [];
    if (standIn) parent[last] = standIn(pattern?.exec(text)?.[1] ?? "");
    // The places of a list's other entries must not change.
    else if (Array.isArray(parent)) continue;
    else delete parent[last];
    return at;
  }
  return undefined;
}

/** A config without the fields that its schema refuses. */
export interface UsableConfig {
  /** Undefined if too little is left to be checked further. */
  config: Config | undefined;
  issues: SchemaIssue[];
  /** The entries that were taken out. */
  removed: string[];
}

/** Checks a config. Removes invalid fields, so that the remaining fields can be checked as well. */
export function parseUsable(value: unknown, variables: Variables): UsableConfig {
  const parse = (raw: unknown): z.ZodSafeParseResult<Config> =>
    parseWithVariables(configSchema, raw, (path) => variables.get(renderPath(path)));
  const first = parse(value);
  if (first.success) return { config: first.data, issues: [], removed: [] };
  const issues = schemaIssues(first.error, [configSchema]);
  const rest = structuredClone(value);
  const removed: string[] = [];
  let { error } = first as { error: z.ZodError | undefined };
  for (let round = 0; error && round < MAX_ROUNDS; round++) {
    for (const { path } of schemaIssues(error, [configSchema])) {
      const gone = takeOut(rest, path);
      if (!gone) return { config: undefined, issues, removed };
      removed.push(renderPath(gone));
    }
    const next = parse(rest);
    if (next.success) return { config: next.data, issues, removed };
    error = next.error;
  }
  return { config: undefined, issues, removed };
}

/**
 * Finds the problems that are there only because fields were wrong before: those of the same fields, of what they are
 * part of, and of fields that are missing beside them.
 * @param isWritten whether the file has a field.
 */
export function followsFrom(
  paths: readonly string[],
  isWritten: (path: string) => boolean,
): (issue: Issue) => boolean {
  const wrong = new Set(paths);
  const parents = new Set(paths.map(parentPath));
  return ({ path }) => {
    for (let at = path; at !== ""; at = parentPath(at)) if (wrong.has(at)) return true;
    return parents.has(path) || (parents.has(parentPath(path)) && !isWritten(path));
  };
}

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
  /** Texts that stand in for files, by their absolute paths. */
  texts?: FileTexts;
}

export interface LoadedConfig {
  config: Config;
  /** The config before references were put in. */
  written: unknown;
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
function absolutePaths(
  config: Config,
  baseDir: string,
  { cwd, env, stateDir: named }: LoadOptions,
): string {
  const stateDir =
    named === undefined
      ? resolve(baseDir, env["ROUSE_STATE_DIR"] || (config.stateDir ?? ".rouse"))
      : resolve(cwd, named);
  config.stateDir = stateDir;
  config.hooks.mappingsDir = resolve(baseDir, config.hooks.mappingsDir);
  config.hooks.testsDir = resolve(baseDir, config.hooks.testsDir);
  config.hooks.transformsDir = resolve(baseDir, config.hooks.transformsDir);
  const { transformPermissions } = config.hooks;
  for (const field of ["read", "write"] as const)
    transformPermissions[field] = transformPermissions[field].map((path) => resolve(baseDir, path));
  const { url } = config.store;
  if (url?.startsWith("sqlite:") && !isAbsolute(url.slice(7)))
    config.store.url = `sqlite:${resolve(baseDir, url.slice(7))}`;
  return stateDir;
}

/** Checks a config that has no file, as the parser checks files. */
const checkGiven = (value: object = {}): ParsedJson5 =>
  isTooDeep(value, MAX_FILE_DEPTH)
    ? { ok: false, message: `is nested deeper than ${MAX_FILE_DEPTH} levels` }
    : { ok: true, value, duplicates: [] };

/** Loads and checks the config. Returns all problems together, each with its path and position. Starts nothing. */
export async function loadConfig(options: LoadOptions): Promise<LoadResult> {
  const { env } = options;
  const file = options.config === undefined ? findConfig(options) : undefined;
  const isWritten = file !== undefined || options.config !== undefined;
  const parsed = file === undefined ? checkGiven(options.config) : readJson5(file, options.texts);
  const named = file === undefined ? {} : { file };
  if (!parsed.ok) {
    const { ok: _ok, message, ...place } = parsed;
    const subject = file === undefined ? "the config" : "the config file";
    return {
      ok: false,
      issues: [{ path: "", message: `${subject} ${message}`, ...named, ...place }],
      ...named,
    };
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
    // An object without free names reports the key as one that is not known.
    ...findPrototypeKeys(parsed.value).filter(
      ({ path }) => !wrong.some((issue) => issue.path === path),
    ),
  ];
  const located = (): Issue[] => locateIssues(issues, { file, texts: options.texts });
  if (!config) return { ok: false, issues: located(), ...named };
  const fields = getFieldPaths(parsed.value);
  const isFollowUp = followsFrom([...open, ...wrong.map(({ path }) => path), ...removed], (path) =>
    fields.has(path),
  );
  config.hooks.enabled ??= !isWritten;
  issues.push(...checkConfig(config, isWritten).filter((issue) => !isFollowUp(issue)));
  const stateDir = absolutePaths(config, baseDir, options);
  const loaded: LoadedConfig = {
    config,
    written: parsed.value,
    baseDir,
    stateDir,
    hash: createHash("sha256").update(JSON.stringify(config)).digest("hex"),
    files: [...(file === undefined ? [] : [file]), ...resolved.files],
    variables,
    warnings: configWarnings(config),
    isFollowUp,
    ...named,
  };
  return issues.length === 0
    ? { ok: true, ...loaded }
    : { ok: false, issues: located(), ...named, rest: loaded };
}

type Written = { hooks?: { token?: { file?: string } } } | undefined;

/**
 * Renders how a shell reads the hook token without printing it: the file that has it, or the variable. Undefined if the config
 * has it as plain text.
 */
export function tokenInShell({
  config,
  written,
  variables,
  baseDir,
  stateDir,
}: LoadedConfig): string | undefined {
  const variable = variables.get("hooks.token") ?? variables.get("hooks.token[0]");
  if (variable !== undefined) return `\${${variable}:?set it to the token of hooks.token}`;
  const [token] = [(written as Written)?.hooks?.token].flat();
  const file =
    config.hooks.token === undefined
      ? secretFile(stateDir, "hook-token")
      : token?.file && resolve(baseDir, token.file);
  return file && `$(cat '${file.replaceAll("'", String.raw`'\''`)}')`;
}

/** The config without the settings of a machine, which may differ between gateways that do the same. */
function withoutMachineSettings({
  stateDir: _stateDir,
  log: _log,
  gateway,
  store,
  hooks,
  ...rest
}: Config): object {
  const { host: _host, port: _port, adminPort: _adminPort, ...shared } = gateway;
  const { url: _url, ...kept } = store;
  const {
    mappingsDir: _mappingsDir,
    transformsDir: _transformsDir,
    testsDir: _testsDir,
    transformPermissions: _permissions,
    ...rules
  } = hooks;
  return { ...rest, gateway: shared, store: kept, hooks: rules };
}

/** A hash that is the same on each machine that has the same settings, mapping files and modules, wherever it has them. */
export function hashForCluster(
  config: Config,
  files: readonly string[],
  texts?: FileTexts,
): string {
  const hash = createHash("sha256").update(JSON.stringify(withoutMachineSettings(config)));
  const contents = files
    .filter((file) => isPresent(file, texts))
    .map((file) => [basename(file), readText(file, texts)] as const);
  const digests = contents.map(
    ([name, content]) => `${name} ${createHash("sha256").update(content).digest("hex")}`,
  );
  for (const line of digests.toSorted()) hash.update(`\n${line}`);
  return hash.digest("hex");
}

/** Changes whenever the config or one of these files does. */
export function hashFiles(configHash: string, files: readonly string[], texts?: FileTexts): string {
  const hash = createHash("sha256").update(configHash);
  for (const file of [...files].toSorted())
    if (isPresent(file, texts)) hash.update(file).update(readText(file, texts));
  return hash.digest("hex");
}
