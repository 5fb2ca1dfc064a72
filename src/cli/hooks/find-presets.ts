import type { LoadedConfig } from "../../config/load.ts";
import type { MappingFile } from "../../config/schema/mapping.ts";
import type { SchemeSources } from "../../intake/signatures/load.ts";
import { readMappings, type Catalog } from "../../mapping/catalog.ts";
import { PRESETS_DIR, SCHEMES_DIR } from "../../mapping/presets.ts";
import { findPath, presetSetup } from "../../mapping/samples.ts";
import type { PresetEntry } from "../../mapping/source.ts";
import type { PathRules } from "../../mapping/types.ts";
import { loadPluginOffers } from "../../plugin/commands.ts";
import { BUILTIN_PLUGINS } from "../../plugin/locations.ts";
import type { CliIo } from "../io.ts";

/** Presets by name. */
export type Presets = ReadonlyMap<string, PresetEntry>;

/** Returns what a preset says of its sender; empty if it says nothing. */
export function getSetup(presets: Presets, name: string): NonNullable<MappingFile["setup"]> {
  const entry = presets.get(name);
  return (entry && presetSetup(entry)) ?? {};
}

/** Loads the presets that ship and, with a config, the user's and those of the user's plugins. */
export async function loadPresets(
  user?: LoadedConfig,
): Promise<Catalog & { schemes: SchemeSources; options: Parameters<typeof readMappings>[0] }> {
  const { presets: pluginPresets, schemes } = await loadPluginOffers(BUILTIN_PLUGINS, user);
  const mappingsDir = user?.config.hooks.mappingsDir ?? PRESETS_DIR;
  const options = { presetsDir: PRESETS_DIR, mappingsDir, pluginPresets };
  return { ...readMappings(options), schemes: { dir: SCHEMES_DIR, plugins: schemes }, options };
}

/** Loads the presets that ship: those of the package's folder, and those of Rouse's own plugins. */
export async function loadShippedPresets(): Promise<Presets> {
  const { presets } = await loadPresets();
  const found = [...presets].flatMap(([name, entries]) =>
    entries.slice(0, 1).map((entry) => [name, entry] as const),
  );
  return new Map(found.toSorted(([a], [b]) => a.localeCompare(b)));
}

/** A path of hooks, and what requests to it need. */
export interface Target {
  /** The path below `hooks.path`. */
  name: string;
  rules: PathRules | undefined;
  /** The name of the preset whose mappings are on the path, else the path's. */
  preset: string;
  /** The preset of this name, if there is one. */
  entry: PresetEntry | undefined;
  schemes: SchemeSources;
}

/** Finds what requests to a path need. */
export async function findTarget(name: string, user: LoadedConfig, io: CliIo): Promise<Target> {
  const { presets, schemes, options } = await loadPresets(user);
  const { hooks } = user.config;
  const places = { ...options, hooks, baseDir: user.baseDir, env: io.env };
  const { rules, preset = name } = await findPath(name, places);
  return { name, rules, preset, entry: presets.get(preset)?.[0], schemes };
}
