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

export interface SourceOptions extends CatalogOptions {
  hooks: z.output<typeof hooksSchema>;
  /** The config's folder: relative paths of secrets start there. */
  baseDir: string;
  /** For `${ENV}` in the `auth` of mapping files. */
  env: Record<string, string | undefined>;
  /** Accept an `auth` whose `${ENV}` or `{ file }` cannot be resolved. */
  withoutSecrets?: boolean;
  /** True if a plugin could not be loaded. Its presets are unknown then, and not refused. */
  pluginsMissing?: boolean;
  /** Names of presets that plugins would bring which are not loaded. Default: none. */
  shippedPresets?: readonly string[];
}

/** Takes the place of an `auth` whose secret is not there. Its path still has a credential of its own. */
const STAND_IN = { token: "stand-in-for-an-absent-secret" };

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

/** Collects the mappings of a config from the places where they are written, with their problems. */
class SourceCollector {
  readonly sources: WrittenSource[] = [];
  readonly issues: Issue[];
  /** The files that they were read from. */
  readonly files: string[] = [];
  /** The files of secrets that they name. */
  readonly secretFiles: string[] = [];
  readonly #options: SourceOptions;
  readonly #catalog: Catalog;

  constructor(options: SourceOptions) {
    this.#options = options;
    this.#catalog = readMappings(options);
    this.issues = [...this.#catalog.issues];
  }

  addConfig(): void {
    const { hooks, mappingsDir } = this.#options;
    for (const [index, config] of hooks.mappings.entries()) {
      const at = `hooks.mappings[${index}]`;
      this.sources.push({
        config,
        at,
        origin: "config",
        shared: {},
        sharedAt: at,
        folder: mappingsDir,
      });
    }
  }

  /**
   * Adds the files of `hooks.mappingsDir` that are live by themselves. A preset that is not enabled is checked, and not
   * live. `pause` gives the event loop a turn now and then.
   */
  async addFiles(pause: () => Promise<void> | undefined): Promise<void> {
    const enabled = new Set(this.#options.hooks.presets.map(getPresetName));
    for (const entry of this.#catalog.files) {
      await pause();
      if (enabled.has(entry.name)) continue;
      if (!entry.isPreset) this.files.push(entry.file);
      const file = this.#read(entry, !entry.isPreset);
      if (file && !entry.isPreset) this.sources.push(...toSources(file, entry.label, entry.folder));
    }
  }

  addPresets(): void {
    const used = new Set<string>();
    for (const [index, written] of this.#options.hooks.presets.entries()) {
      const use: PresetUse = typeof written === "string" ? { use: written } : written;
      const at = `hooks.presets[${index}]`;
      const entry = this.#findPreset(use.use, at);
      if (!entry) continue;
      if (entry.file !== undefined) this.files.push(entry.file);
      const file = this.#read(entry, true);
      if (file && file.id !== entry.name)
        this.#add(
          `${entry.label}: id`,
          `must be "${entry.name}", the name that \`hooks.presets\` enables it by`,
        );
      const again = used.has(use.use);
      if (file) this.sources.push(...presetSources(file, use, { at, entry, again }, this.issues));
      used.add(use.use);
    }
  }

  #add(path: string, message: string): void {
    this.issues.push({ path, message });
  }

  /** The preset that an entry of `hooks.presets` names; undefined, with an issue, if there is none or more than one. */
  #findPreset(name: string, at: string): PresetEntry | undefined {
    const { presets } = this.#catalog;
    const { pluginsMissing, shippedPresets = [] } = this.#options;
    const entries = presets.get(name) ?? [];
    if (entries.length === 0) {
      const hint = didYouMean(name, [...presets.keys(), ...shippedPresets]);
      if (hint !== "" || !pluginsMissing) this.#add(at, `there is no preset of this name.${hint}`);
    } else if (entries.length > 1) {
      const message = ambiguous(name, entries);
      // It may be reported where one of them is written.
      if (!this.issues.some((issue) => issue.message === message)) this.#add(at, message);
    }
    return entries.length === 1 ? entries[0] : undefined;
  }

  /** The checked document of an entry. References are put into its `auth` if it is live; else the `auth` is left out. */
  #read({ label, file, read }: PresetEntry, isLive: boolean): MappingFile | undefined {
    const parsed = read();
    if (!parsed.ok) {
      const { ok: _ok, ...problem } = parsed;
      const isPlaced = problem.line !== undefined && file !== undefined;
      this.issues.push({ path: label, ...problem, ...(isPlaced && { file }) });
      return undefined;
    }
    for (const { path, message } of parsed.duplicates) this.#add(`${label}: ${path}`, message);
    const value = isLive
      ? this.#resolveAuth(parsed.value, label)
      : { ...(parsed.value as object), auth: undefined };
    const checked = mappingFileSchema.safeParse(value);
    const issues = checked.success
      ? findPrototypeKeys(parsed.value)
      : configIssues(checked.error, mappingFileSchema);
    for (const { path, message } of issues) this.#add(`${label}: ${path}`, message);
    return checked.data;
  }

  /** Puts in what the `auth` of a mapping file refers to: the one place of the file where a secret may stand. */
  #resolveAuth(value: unknown, label: string): unknown {
    if (typeof value !== "object" || value === null || !("auth" in value)) return value;
    const resolved = resolveReferences(value.auth, this.#options);
    this.secretFiles.push(...resolved.files);
    if (this.#options.withoutSecrets && resolved.issues.length > 0)
      return { ...value, auth: STAND_IN };
    for (const issue of resolved.issues)
      this.issues.push({ ...issue, path: `${label}: auth.${issue.path}` });
    return { ...value, auth: resolved.value };
  }
}

/**
 * All mappings in the order in which they are tried: the config's own, the files of `mappingsDir` by name, presets. A file
 * that `hooks.presets` names is a preset, with the options that stand there.
 */
export async function collectSources(
  options: SourceOptions,
  pause: () => Promise<void> | undefined,
): Promise<
  Pick<SourceCollector, "issues" | "files" | "secretFiles"> & { sources: MappingSource[] }
> {
  const collector = new SourceCollector(options);
  collector.addConfig();
  await collector.addFiles(pause);
  collector.addPresets();
  const { sources, issues, files, secretFiles } = collector;
  return { sources: nameMappings(sources), issues, files, secretFiles };
}
