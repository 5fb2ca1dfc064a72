import type { LoadedConfig } from "../../config/load.ts";
import type { MappingFile } from "../../config/schema/mapping.ts";
import { readMappings, type Catalog } from "../../mapping/catalog.ts";
import { PRESETS_DIR } from "../../mapping/presets.ts";
import { presetSetup } from "../../mapping/samples.ts";
import type { PresetEntry } from "../../mapping/source.ts";
import { loadPluginOffers } from "../../plugin/commands.ts";
import { BUILTIN_PLUGINS } from "../../plugin/locations.ts";

/** Presets by name. */
export type Presets = ReadonlyMap<string, PresetEntry>;

/** Returns what a preset says of its sender; empty if it says nothing. */
export function getSetup(presets: Presets, name: string): NonNullable<MappingFile["setup"]> {
  const entry = presets.get(name);
  return (entry && presetSetup(entry)) ?? {};
}

/** Loads the presets that ship and, with a config, the user's and those of the user's plugins. */
export async function loadPresets(user?: LoadedConfig): Promise<Catalog> {
  const { presets: pluginPresets } = await loadPluginOffers(BUILTIN_PLUGINS, user);
  const mappingsDir = user?.config.hooks.mappingsDir ?? PRESETS_DIR;
  return readMappings({ presetsDir: PRESETS_DIR, mappingsDir, pluginPresets });
}

/** Loads the presets that ship: those of the package's folder, and those of Rouse's own plugins. */
export async function loadShippedPresets(): Promise<Presets> {
  const { presets } = await loadPresets();
  const found = [...presets].flatMap(([name, entries]) =>
    entries.slice(0, 1).map((entry) => [name, entry] as const),
  );
  return new Map(found.toSorted(([a], [b]) => a.localeCompare(b)));
}
