import { existsSync, readdirSync } from "node:fs";
import { configIssues } from "../config/issues.ts";
import { readJson5 } from "../config/json5.ts";
import type { z } from "zod";
import { hooksKeys, type hooksSchema } from "../config/schema/hooks.ts";
import { mappingFileSchema, PRESET_NAME, type MappingFile } from "../config/schema/mapping.ts";
import type { PresetUse } from "../config/schema/preset.ts";
import { resolveReferences } from "../config/secrets.ts";
import { didYouMean } from "../config/suggest.ts";
import type { Issue } from "../core/errors.ts";
import { fileInside } from "../core/files.ts";
import { presetNames, presetSources } from "./presets.ts";
import type { Source, WrittenSource } from "./source.ts";

type Env = Record<string, string | undefined>;

interface References {
  env: Env;
  baseDir: string;
}

/** Puts in what the `auth` of a mapping file refers to: the one place of the file where a secret may stand. */
function resolveAuth(value: unknown, label: string, references: References, issues: Issue[]): unknown {
  if (typeof value !== "object" || value === null || !("auth" in value)) return value;
  const resolved = resolveReferences(value.auth, references);
  for (const issue of resolved.issues) issues.push({ ...issue, path: `${label}: auth.${issue.path}` });
  return { ...value, auth: resolved.value };
}

function readFileOf(file: string, label: string, references: References, issues: Issue[]): MappingFile | undefined {
  const parsed = readJson5(file);
  if (!parsed.ok) {
    const { ok: _ok, ...problem } = parsed;
    issues.push({ path: label, ...problem, ...(problem.line === undefined ? {} : { file }) });
    return undefined;
  }
  for (const issue of parsed.duplicates) issues.push({ path: `${label}: ${issue.path}`, message: issue.message });
  const checked = mappingFileSchema.safeParse(resolveAuth(parsed.value, label, references, issues));
  if (checked.success) return checked.data;
  for (const issue of configIssues(checked.error, mappingFileSchema))
    issues.push({ path: `${label}: ${issue.path}`, message: issue.message });
  return undefined;
}

function sourcesOf(file: MappingFile, label: string, folder: string): WrittenSource[] {
  const shared: Source["shared"] = {};
  if (file.auth) shared.auth = file.auth;
  if (file.maxBodyBytes !== undefined) shared.maxBodyBytes = file.maxBodyBytes;
  return file.mappings.map((config, index) => ({
    config,
    at: `${label}: mappings[${index}]`,
    origin: label,
    shared,
    sharedAt: `${label}: auth`,
    folder,
  }));
}

/**
 * Gives mappings without an id one: the first path, or `any` without a path, and `#2`, `#3`, … behind it where that is
 * taken. Ids that are given go first, and a mapping of another path changes none.
 */
function nameMappings(sources: readonly WrittenSource[]): Source[] {
  const taken = new Set(sources.flatMap(({ config }) => config.id ?? []));
  const freeId = (name: string): string => {
    let id = name;
    for (let number = 2; taken.has(id); number++) id = `${name}#${number}`;
    taken.add(id);
    return id;
  };
  return sources.map((source) => {
    const { config } = source;
    const [path = "any"] = [config.match.path ?? []].flat();
    return { ...source, config: { ...config, id: config.id ?? freeId(path) } };
  });
}

/** All mappings in the order in which they are tried: the config's own, the files of `mappingsDir` by name, presets. */
export function collectSources(options: {
  hooks: z.output<typeof hooksSchema>;
  /** The config's folder: relative paths of secrets start there. */
  baseDir: string;
  /** Absolute folders. */
  mappingsDir: string;
  presetsDir: string;
  env: Env;
}): { sources: Source[]; issues: Issue[]; files: string[] } {
  const { hooks, baseDir, mappingsDir, presetsDir, env } = options;
  const { mappings, presets } = hooks;
  /** The section of the plugin that a preset is named like. */
  const section = (preset: string): Record<string, unknown> | undefined =>
    preset in hooksKeys ? undefined : (hooks as Record<string, Record<string, unknown> | undefined>)[preset];
  const issues: Issue[] = [];
  const files: string[] = [];
  const sources: WrittenSource[] = mappings.map((config, index) => ({
    config,
    at: `hooks.mappings[${index}]`,
    origin: "config",
    shared: {},
    sharedAt: `hooks.mappings[${index}]`,
    folder: mappingsDir,
  }));
  const names =
    existsSync(mappingsDir) && mappingsDir !== presetsDir
      ? readdirSync(mappingsDir)
          // Schemas that `validate` names lie beside the mappings.
          .filter((name) => /(?<!\.schema)\.json5?$/.test(name))
          .toSorted()
      : [];
  for (const name of names) {
    const label = `mappings/${name}`;
    const found = fileInside(mappingsDir, name);
    if (!found.ok) {
      issues.push({ path: label, message: found.message });
      continue;
    }
    files.push(found.file);
    const file = readFileOf(found.file, label, { env, baseDir }, issues);
    if (file) sources.push(...sourcesOf(file, label, mappingsDir));
  }
  const used = new Set<string>();
  for (const [index, entry] of presets.entries()) {
    const use: PresetUse = typeof entry === "string" ? { use: entry } : entry;
    const at = `hooks.presets[${index}]`;
    const found = PRESET_NAME.test(use.use) ? fileInside(presetsDir, `${use.use}.json`) : undefined;
    if (!found?.ok) {
      issues.push({ path: at, message: `there is no preset of this name.${didYouMean(use.use, presetNames(presetsDir))}` });
      continue;
    }
    files.push(found.file);
    const file = readFileOf(found.file, `preset ${use.use}`, { env, baseDir }, issues);
    const own = section(use.use);
    const where = { at, folder: presetsDir, again: used.has(use.use), ...(own ? { section: own } : {}) };
    if (file) sources.push(...presetSources(file, use, where, issues));
    used.add(use.use);
  }
  return { sources: nameMappings(sources), issues, files };
}
