import type { ParsedJson5 } from "../config/json5.ts";
import type { LimitsConfig } from "../config/schema/limits.ts";
import type { MappingConfig, MappingFile } from "../config/schema/mapping.ts";

/** A mapping that has an id, its own or one by its path. */
export type NamedMapping = MappingConfig & { id: string };

/** A mapping and where it was written. */
export interface MappingSource {
  config: NamedMapping;
  at: string;
  origin: string;
  /** The settings that its file has for all of its mappings. */
  shared: Pick<MappingFile, "auth" | "maxBodyBytes">;
  /** The path of the shared settings in the config: `hooks.presets[0]`. */
  sharedAt: string;
  /** The preset whose sender signs, if its options bring neither a secret nor the decision to do without. */
  unsigned?: PresetEntry;
  /** The fields that the options of a preset set, and where those stand. */
  options?: { at: string; fields: readonly string[] };
  /** The events that are wanted of a preset; undefined: all. */
  events?: readonly string[];
  /** Limits that all mappings of a preset share, and whose they are. */
  budget?: { scope: string; limits: LimitsConfig };
  /** The folder that files it names lie in. */
  folder: string;
}

/** A mapping as it was written, perhaps without an id. */
export type WrittenSource = Omit<MappingSource, "config"> & { config: MappingConfig };

/** A preset that `hooks.presets` can name. */
export interface PresetEntry {
  name: string;
  /** The origin, for lists: `rouse`, `mappings/mine.json`, or `plugin acme`. */
  origin: string;
  /** The beginning of the paths of problems in it. */
  label: string;
  /** The name of its document in messages: its path, or its plugin. */
  place: string;
  /** The folder that files it names lie in. */
  folder: string;
  /** The section of the plugin that brings it. */
  settings?: object;
  /** Its file, if it has one of its own. */
  file?: string;
  read(): ParsedJson5;
}
