import type { SchemaParts } from "../config/json-schema.ts";
import { hooksKeys } from "../config/schema/hooks.ts";
import type { Config } from "../config/schema/index.ts";
import { getPresetName } from "../config/schema/preset.ts";
import { didYouMean } from "../config/suggest.ts";
import type { Issue } from "../core/errors.ts";
import type { Plugin } from "../contract/define.ts";
import { importPlugin } from "./import.ts";
import { builtinPlugins, type CatalogEntry } from "./locations.ts";

export type Section = Record<string, unknown>;
type Kind = NonNullable<Plugin["section"]>;
/** The sections of plugins by where they are and by the plugin's id. */
export type Sections = Record<Kind, Section>;

export function getSections({ channels, hooks, plugins }: Config): Sections {
  return { channels, hooks, plugins: Array.isArray(plugins) ? {} : plugins.settings };
}

export interface FoundSection {
  kind: Kind;
  /** Its path in the config. */
  path: string;
  /** As it is in the config; undefined if it is not there. */
  value: unknown;
}

const sectionKind = ({ section, channel }: Plugin): Kind =>
  section ?? (channel ? "channels" : "plugins");

/** Finds the section of a plugin. */
export function findSection(plugin: Plugin, sections: Sections): FoundSection {
  const { id } = plugin;
  const kind = sectionKind(plugin);
  const path = kind === "plugins" ? `plugins.settings.${id}` : `${kind}.${id}`;
  return { kind, path, value: sections[kind][id] };
}

/** Loads the schemas of the sections of Rouse's own plugins, or of the one with the id `only`. */
export async function builtinSections(
  builtinDir: string,
  only?: string,
): Promise<SchemaParts["sections"]> {
  const locations = builtinPlugins(builtinDir).filter(
    ({ builtin }) => builtin === (only ?? builtin),
  );
  const found = await Promise.all(
    locations.map(async (location) => {
      const checked = await importPlugin(location, builtinDir);
      if (!checked.ok || !checked.value.config) return [];
      const { id, config: schema } = checked.value;
      return [{ id, section: sectionKind(checked.value), schema }];
    }),
  );
  return found.flat();
}

/** True if a section turns its plugin off. */
export const isOff = (section: unknown): boolean =>
  (section as { enabled?: unknown } | undefined | null)?.enabled === false;

export const noneConfigured = ({ channels }: Sections): boolean =>
  Object.values(channels).every(isOff);

/** True if a section of `hooks` is one of Rouse's own settings. */
export const isHookSetting = (id: string): boolean => id in hooksKeys;

/** True if the config needs one of Rouse's own plugins: only these are loaded. */
export function isNeeded(
  id: string,
  entry: CatalogEntry | undefined,
  { config, print }: { config: Config; print?: unknown },
  { sections, usedProviders }: { sections: Sections; usedProviders: ReadonlySet<string> },
): boolean {
  const { channels, hooks, plugins } = sections;
  if (
    channels[id] !== undefined ||
    plugins[id] !== undefined ||
    (!isHookSetting(id) && hooks[id] !== undefined)
  )
    return true;
  const { presets = [], providers = [], enabledByDefault } = entry ?? {};
  if (config.hooks.presets.some((use) => presets.includes(getPresetName(use)))) return true;
  if (providers.some((type) => usedProviders.has(type))) return true;
  return enabledByDefault === true && print !== undefined && noneConfigured(sections);
}

/** True if the config uses, or may use, an offer of a plugin that needs no section. */
export function isStaticUsed(
  { presets = [], schemes, transforms, providers, extractors }: Plugin,
  { hooks }: Config,
): boolean {
  const enabled = hooks.presets.map(getPresetName);
  return (
    (schemes ?? transforms ?? providers ?? extractors) !== undefined ||
    presets.some(({ id }) => enabled.includes(id))
  );
}

/** The names that sections may have. */
export interface SectionNames {
  /** The ids of plugins that are there. */
  ids: ReadonlyMap<string, string>;
  /** Channels that are known, with their other names. */
  known: readonly { id: string; aliases?: readonly string[] }[];
  hookSections: readonly string[];
  /** True if a plugin could not be loaded: its section may be any of the unknown ones. */
  incomplete: boolean;
}

/** Finds sections that belong to no plugin. */
export function findUnknownSections(
  sections: Sections,
  { ids, known, hookSections, incomplete }: SectionNames,
): Issue[] {
  const names = [...known.map(({ id }) => id), ...ids.keys()];
  const unknown = (id: string, path: string): Issue[] => {
    if (ids.has(id)) return [];
    const alias = known.find((entry) => entry.aliases?.includes(id));
    const hint = alias ? ` Did you mean "${alias.id}"?` : didYouMean(id, names);
    const missing = known.some((entry) => entry.id === id);
    if (incomplete && (missing || hint === "")) return [];
    const message = missing
      ? "its plugin is not installed: name it in `plugins`, or take this section out"
      : `no plugin has this id.${hint}`;
    return [{ path, message }];
  };
  const hookKeys = [...Object.keys(hooksKeys), ...hookSections];
  const hookIssues = Object.keys(sections.hooks).flatMap((key): Issue[] => {
    if (hookKeys.includes(key)) return [];
    const hint = didYouMean(key, hookKeys);
    if (incomplete && hint === "") return [];
    return [{ path: `hooks.${key}`, message: `is not known.${hint}` }];
  });
  return [
    ...Object.keys(sections.channels).flatMap((id) => unknown(id, `channels.${id}`)),
    ...Object.keys(sections.plugins).flatMap((id) => unknown(id, `plugins.settings.${id}`)),
    ...hookIssues,
  ];
}
