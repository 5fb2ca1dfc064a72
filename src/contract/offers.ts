/** The offers of loaded plugins, in the form that the rest of the gateway takes. */
import type { PresetDocument } from "../config/schema/mapping.ts";
import type { Scheme } from "../config/schema/signature.ts";
import type { ContextProvider, Extractor, ModelProvider, Routes, Source, Tool } from "./kinds.ts";

/** The origin of Rouse's own presets and plugins. */
export const OWN_ORIGIN = "rouse";

/** A preset that a plugin brings. */
export interface PluginPreset {
  /** The plugin's id. */
  plugin: string;
  /** The origin of the plugin. */
  origin: string;
  document: PresetDocument;
  /** The plugin's section of the config. */
  settings?: object;
}

/** Something that a plugin offers, with the plugin's id or, of several accounts, that of the account. */
export interface Offered<T> {
  plugin: string;
  value: T;
}

/** The offers of the loaded plugins besides channels and commands. */
export interface Offers {
  sources: Offered<Source>[];
  tools: Offered<readonly Tool[]>[];
  context: Offered<ContextProvider>[];
  routes: Offered<Routes>[];
  presets: PluginPreset[];
  providers: Offered<ModelProvider>[];
  extractors: Offered<Extractor>[];
  /** By the name that `auth.scheme` has. */
  schemes: Map<string, Offered<Scheme>>;
  /** Absolute files by `<id>/<name>`, as `transform.module` names them. */
  transforms: Map<string, string>;
}
