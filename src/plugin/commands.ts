import type { Variables } from "../config/environment.ts";
import type { Config } from "../config/schema/index.ts";
import { RouseError } from "../core/errors.ts";
import { OWN_ORIGIN } from "../contract/offers.ts";
import { checkSection } from "./check.ts";
import type { Plugin } from "../contract/define.ts";
import { importPlugin } from "./import.ts";
import { builtinPlugins, readCatalog, userPlugins } from "./locations.ts";
import { addStatic, noOffers } from "./offers.ts";
import type { Offers } from "../contract/offers.ts";
import { findSection, getSections, type Section } from "./sections.ts";

/** A plugin that brings commands. */
export type CommandPlugin = Plugin & Required<Pick<Plugin, "commands">>;

/** A config and its folder. */
interface User {
  config: Config;
  baseDir: string;
}

/** The user's plugins, and those of Rouse's own that bring presets or commands. Those that cannot be loaded are left out. */
async function importBringing(
  what: "presets" | "commands",
  builtinDir: string,
  user: User | undefined,
): Promise<{ plugin: Plugin; origin: string }[]> {
  const bringing = readCatalog(builtinDir).flatMap((entry) => (entry[what] ? [entry.id] : []));
  const locations = [
    ...builtinPlugins(builtinDir).filter(({ builtin = "" }) => bringing.includes(builtin)),
    ...(user ? userPlugins(user, builtinDir) : []),
  ];
  const baseDir = user?.baseDir ?? builtinDir;
  const found = await Promise.all(
    locations.map(async (location) => {
      const imported = await importPlugin(location, baseDir);
      return imported.ok ? [{ plugin: imported.value, origin: location.origin }] : [];
    }),
  );
  return found.flat();
}

/** Loads the offers of plugins that need no section, as presets and schemes: Rouse's own and, with a config, the user's. */
export async function loadPluginOffers(builtinDir: string, user?: User): Promise<Offers> {
  const offers = noOffers();
  for (const { plugin, origin } of await importBringing("presets", builtinDir, user)) {
    const section = user && findSection(plugin, getSections(user.config)).value;
    const isOwn = origin === OWN_ORIGIN;
    if (isOwn || (section as Section | undefined)?.["enabled"] !== false)
      addStatic(plugin, origin, section, offers);
  }
  return offers;
}

/**
 * The plugins whose commands `rouse webhooks` offers: Rouse's own, and the user's. A plugin that has the id of one before
 * is left out; `rouse config validate` says so.
 */
export async function loadCommandPlugins(
  builtinDir: string,
  user?: User,
): Promise<CommandPlugin[]> {
  const plugins = new Map<string, Plugin>();
  for (const { plugin } of await importBringing("commands", builtinDir, user))
    if (!plugins.has(plugin.id)) plugins.set(plugin.id, plugin);
  return [...plugins.values()].filter((plugin): plugin is CommandPlugin => !!plugin.commands);
}

/**
 * Checks a plugin's section of the config; undefined if there is none.
 * @throws RouseError `config_invalid` with what is wrong in it.
 */
export function sectionFor(
  plugin: Plugin,
  { config, variables }: { config: Config; variables: Variables },
): unknown {
  const { path, value } = findSection(plugin, getSections(config));
  if (value === undefined) return undefined;
  const { enabled: _enabled, ...settings } = value as Section;
  const checked = checkSection(plugin, settings, path, variables);
  if (checked.ok) return checked.value;
  throw new RouseError({
    code: "config_invalid",
    message: `${path} has problems:`,
    issues: checked.issues,
  });
}
