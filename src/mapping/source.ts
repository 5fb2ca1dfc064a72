import type { Limits } from "../config/schema/limits.ts";
import type { MappingConfig, MappingFile } from "../config/schema/mapping.ts";

/** A mapping that has an id, its own or one by its path. */
export type NamedMapping = MappingConfig & { id: string };

/** A mapping and where it was written. */
export interface Source {
  config: NamedMapping;
  at: string;
  origin: string;
  /** What its file says for all of its mappings. */
  shared: Pick<MappingFile, "auth" | "maxBodyBytes">;
  /** Where that stands: `hooks.presets[0]`. */
  sharedAt: string;
  /** The preset whose sender signs, if its options bring neither a secret nor the decision to do without. */
  unsigned?: string;
  /** The events that are wanted of a preset; undefined: all. */
  events?: readonly string[];
  /** Limits that all mappings of a preset share, and whose they are. */
  budget?: { scope: string; limits: Limits };
  /** The folder that files it names lie in. */
  folder: string;
}

/** A mapping as it was written, perhaps without an id. */
export type WrittenSource = Omit<Source, "config"> & { config: MappingConfig };
