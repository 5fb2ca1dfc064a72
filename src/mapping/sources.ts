import { configIssues } from "../config/issues.ts";
import { findPrototypeKeys } from "../config/json5.ts";
import type { z } from "zod";
import type { hooksSchema } from "../config/schema/hooks.ts";
import { mappingFileSchema, type MappingFile } from "../config/schema/mapping.ts";
import { getPresetName, type PresetUse } from "../config/schema/preset.ts";
import { resolveReferences } from "../config/secrets.ts";
import { didYouMean } from "../config/suggest.ts";
import type { Issue } from "../core/errors.ts";
import { ambiguous, readMappings, type Catalog, type CatalogOptions } from "./catalog.ts";
import { presetSources } from "./presets.ts";
import type { PresetEntry, MappingSource, WrittenSource } from "./source.ts";

type Env = Record<string, string | undefined>;

/** Gives the event loop a turn now and then. */
type Pause = () => Promise<void> | undefined;

interface References {
  env: Env;
  baseDir: string;
  withoutSecrets: boolean;
}

/** Takes the place of an `auth` whose secret is not there. Its path still has a credential of its own. */
const STAND_IN = { token: "stand-in-for-an-absent-secret" };

/** The sources of all mappings, with their problems. */
interface Collected {
  sources: WrittenSource[];
  issues: Issue[];
  /** The files that they were read from. */
  files: string[];
  /** The files of secrets that they name. */
  secretFiles: string[];
  /** True if a plugin could not be loaded, so that not all presets are known. */
  mayMiss: boolean;
  shippedPresets: readonly string[];
}

/** Puts in what the `auth` of a mapping file refers to: the one place of the file where a secret may stand. */
function resolveAuth(
  value: unknown,
  label: string,
  references: References,
  { issues, secretFiles }: Pick<Collected, "issues" | "secretFiles">,
): unknown {
  if (typeof value !== "object" || value === null || !("auth" in value)) return value;
  const resolved = resolveReferences(value.auth, references);
  secretFiles.push(...resolved.files);
  if (references.withoutSecrets && resolved.issues.length > 0) return { ...value, auth: STAND_IN };
  for (const issue of resolved.issues)
    issues.push({ ...issue, path: `${label}: auth.${issue.path}` });
  return { ...value, auth: resolved.value };
}

/** The checked document of an entry. `references` are put into its `auth`; without them the `auth` is left out. */
function readDocument(
  { label, file, read }: PresetEntry,
  references: References | undefined,
  to: Pick<Collected, "issues" | "secretFiles">,
): MappingFile | undefined {
  const { issues } = to;
  const parsed = read();
  if (!parsed.ok) {
    const { ok: _ok, ...problem } = parsed;
    issues.push({
      path: label,
      ...problem,
      ...(problem.line === undefined || file === undefined ? {} : { file }),
    });
    return undefined;
  }
  for (const issue of parsed.duplicates)
    issues.push({ path: `${label}: ${issue.path}`, message: issue.message });
  const value = references
    ? resolveAuth(parsed.value, label, references, to)
    : { ...(parsed.value as object), auth: undefined };
  const checked = mappingFileSchema.safeParse(value);
  if (checked.success) {
    for (const { path, message } of findPrototypeKeys(parsed.value))
      issues.push({ path: `${label}: ${path}`, message });
    return checked.data;
  }
  for (const issue of configIssues(checked.error, mappingFileSchema))
    issues.push({ path: `${label}: ${issue.path}`, message: issue.message });
  return undefined;
}

function toSources(file: MappingFile, label: string, folder: string): WrittenSource[] {
  const shared: MappingSource["shared"] = {};
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
 * Gives mappings without an id one: the first path, or `any` without a path, and `#2`, `#3`, … behind it if that is
 * taken. Ids that are written are assigned first, and a mapping of another path changes no id.
 */
function nameMappings(sources: readonly WrittenSource[]): MappingSource[] {
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

/** The preset that an entry of `hooks.presets` names; undefined, with an issue, if there is none or more than one. */
function findPreset(
  name: string,
  at: string,
  { presets }: Catalog,
  { issues, mayMiss, shippedPresets }: Collected,
): PresetEntry | undefined {
  const entries = presets.get(name) ?? [];
  const [entry] = entries;
  if (entry === undefined) {
    const hint = didYouMean(name, [...presets.keys(), ...shippedPresets]);
    if (hint !== "" || !mayMiss)
      issues.push({ path: at, message: `there is no preset of this name.${hint}` });
    return undefined;
  }
  if (entries.length === 1) return entry;
  const message = ambiguous(name, entries);
  // It may be reported where one of them is written.
  if (!issues.some((issue) => issue.message === message)) issues.push({ path: at, message });
  return undefined;
}

/** The files of `hooks.mappingsDir` that are live by themselves. A preset that is not enabled is checked, and not live. */
async function collectFiles(
  { files }: Catalog,
  enabled: ReadonlySet<string>,
  references: References,
  to: Collected,
  pause: Pause,
): Promise<void> {
  for (const entry of files) {
    await pause();
    if (enabled.has(entry.name)) continue;
    if (!entry.isPreset) to.files.push(entry.file);
    const file = readDocument(entry, entry.isPreset ? undefined : references, to);
    if (file && !entry.isPreset) to.sources.push(...toSources(file, entry.label, entry.folder));
  }
}

function collectPresets(
  hooks: z.output<typeof hooksSchema>,
  catalog: Catalog,
  references: References,
  to: Collected,
): void {
  const used = new Set<string>();
  for (const [index, written] of hooks.presets.entries()) {
    const use: PresetUse = typeof written === "string" ? { use: written } : written;
    const at = `hooks.presets[${index}]`;
    const entry = findPreset(use.use, at, catalog, to);
    if (!entry) continue;
    if (entry.file !== undefined) to.files.push(entry.file);
    const file = readDocument(entry, references, to);
    if (file && file.id !== entry.name)
      to.issues.push({
        path: `${entry.label}: id`,
        message: `must be "${entry.name}", the name that \`hooks.presets\` enables it by`,
      });
    if (file)
      to.sources.push(
        ...presetSources(file, use, { at, entry, again: used.has(use.use) }, to.issues),
      );
    used.add(use.use);
  }
}

export interface SourceOptions extends CatalogOptions {
  hooks: z.output<typeof hooksSchema>;
  /** The config's folder: relative paths of secrets start there. */
  baseDir: string;
  /** For `${ENV}` in the `auth` of mapping files. */
  env: Env;
  /** Accept an `auth` whose `${ENV}` or `{ file }` cannot be resolved. */
  withoutSecrets?: boolean;
  /** True if a plugin could not be loaded. Its presets are unknown then, and not refused. */
  pluginsMissing?: boolean;
  /** Names of presets that plugins would bring which are not loaded. Default: none. */
  shippedPresets?: readonly string[];
}

/**
 * All mappings in the order in which they are tried: the config's own, the files of `mappingsDir` by name, presets. A file
 * that `hooks.presets` names is a preset, with the options that stand there.
 */
export async function collectSources(
  options: SourceOptions,
  pause: Pause,
): Promise<Pick<Collected, "issues" | "files" | "secretFiles"> & { sources: MappingSource[] }> {
  const {
    hooks,
    baseDir,
    mappingsDir,
    env,
    pluginsMissing = false,
    shippedPresets = [],
    withoutSecrets = false,
  } = options;
  const references = { env, baseDir, withoutSecrets };
  const catalog = readMappings(options);
  const enabled = new Set(hooks.presets.map(getPresetName));
  const sources = hooks.mappings.map((config, index): WrittenSource => ({
    config,
    at: `hooks.mappings[${index}]`,
    origin: "config",
    shared: {},
    sharedAt: `hooks.mappings[${index}]`,
    folder: mappingsDir,
  }));
  const collected: Collected = {
    sources,
    issues: [...catalog.issues],
    files: [],
    secretFiles: [],
    mayMiss: pluginsMissing,
    shippedPresets,
  };
  await collectFiles(catalog, enabled, references, collected, pause);
  collectPresets(hooks, catalog, references, collected);
  const { issues, files, secretFiles } = collected;
  return { sources: nameMappings(sources), issues, files, secretFiles };
}
