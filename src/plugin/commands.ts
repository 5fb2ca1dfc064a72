import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { Variables } from "../config/environment.ts";
import type { Config } from "../config/schema/index.ts";
import { RouseError, type Issue } from "../core/errors.ts";
import type { PluginPreset } from "../mapping/source.ts";
import type { Plugin } from "./api.ts";
import { checkPlugin, checkSection, explain } from "./check.ts";
import { importUserModule } from "./resolve.ts";
import { builtinSources, folderSources, namedSources, readCatalog, type PluginSource } from "./sources.ts";

/** A plugin that brings commands. */
export type CommandPlugin = Plugin & Required<Pick<Plugin, "commands">>;

const hasCommands = (plugin: Plugin): plugin is CommandPlugin => plugin.commands !== undefined;

async function importPlugin(source: PluginSource, baseDir: string, issues: Issue[]): Promise<Plugin[]> {
  const module =
    source.builtin === undefined
      ? (await importUserModule(source.file)).module
      : { ok: true as const, exports: (await import(pathToFileURL(source.file).href)) as Record<string, unknown> };
  if (!module.ok) {
    issues.push({ path: source.path, message: `the plugin cannot be loaded: ${explain(module.error, baseDir)}` });
    return [];
  }
  const checked = checkPlugin(module.exports, source.path);
  if (checked.ok) return [checked.value];
  issues.push(...checked.issues);
  return [];
}

/** The plugins that a config's folder has and that its `plugins` names. */
function userSources({ config, baseDir }: { config: Config; baseDir: string }, builtinDir: string): PluginSource[] {
  // In a clone the folder beside the config is that of Rouse's own.
  const beside = resolve(baseDir, "plugins") === resolve(builtinDir) ? [] : folderSources(baseDir);
  return [...beside, ...namedSources(config.plugins, baseDir, [])];
}

/** The presets of the users' plugins. A plugin that cannot be loaded brings none; `rouse config validate` says why. */
export async function loadPluginPresets(builtinDir: string, user: { config: Config; baseDir: string }): Promise<PluginPreset[]> {
  const found = userSources(user, builtinDir).map(async (source) =>
    (await importPlugin(source, user.baseDir, [])).flatMap(({ id, section = "channels", presets = [] }) => {
      const own = (user.config[section] as Record<string, { enabled?: unknown } | undefined>)[id];
      return own?.enabled === false ? [] : presets.map((document) => ({ plugin: id, origin: source.origin, document }));
    }),
  );
  return (await Promise.all(found)).flat();
}

/**
 * The plugins whose commands `rouse webhooks` offers: Rouse's own that are no channels, and the users'. One that cannot be
 * loaded, or has the id of one before, is left out; `rouse config validate` says why.
 */
export async function loadCommandPlugins(builtinDir: string, user?: { config: Config; baseDir: string }): Promise<CommandPlugin[]> {
  const channels = new Set(readCatalog(builtinDir).map(({ id }) => id));
  const issues: Issue[] = [];
  const sources = [
    ...builtinSources(builtinDir).filter(({ builtin }) => !channels.has(builtin as string)),
    ...(user ? userSources(user, builtinDir) : []),
  ];
  const plugins = new Map<string, Plugin>();
  for (const source of sources)
    for (const plugin of await importPlugin(source, user?.baseDir ?? builtinDir, issues))
      if (!plugins.has(plugin.id)) plugins.set(plugin.id, plugin);
  return [...plugins.values()].filter(hasCommands);
}

/**
 * A plugin's section of the config, checked; undefined where there is none.
 * @throws RouseError `config_invalid` with what is wrong in it.
 */
export function sectionFor(plugin: Plugin, { config, variables }: { config: Config; variables: Variables }): unknown {
  const name = plugin.section ?? "channels";
  const section = (config[name] as Record<string, unknown>)[plugin.id];
  if (section === undefined) return undefined;
  const { enabled: _enabled, ...settings } = section as Record<string, unknown>;
  const checked = checkSection(plugin, settings, `${name}.${plugin.id}`, variables);
  if (checked.ok) return checked.value;
  throw new RouseError({ code: "config_invalid", message: `${name}.${plugin.id} has problems:`, issues: checked.issues });
}
