import { getUsedProviders, readProviders, type ShippedProvider } from "../config/providers.ts";
import type { Config } from "../config/schema/index.ts";
import type { Issue } from "../core/errors.ts";
import { createChannels, type KnownChannel, type Channels } from "../delivery/channels.ts";
import { makeCapabilities, parseAccounts, type MakeOptions } from "./accounts.ts";
import type { Channel } from "../contract/channel.ts";
import { checkPlugin } from "./check.ts";
import { CAPABILITIES } from "./check-capabilities.ts";
import type { Plugin } from "../contract/define.ts";
import { importPlugin } from "./import.ts";
import {
  builtinPlugins,
  isChannel,
  readCatalog,
  userPlugins,
  type PluginLocation,
} from "./locations.ts";
import { addCapabilities, addStatic, claim, noOffers } from "./offers.ts";
import type { Offers } from "../contract/offers.ts";
import {
  findSection,
  findUnknownSections,
  getSections,
  isHookSetting,
  isOff,
  isStaticUsed,
  noneConfigured,
  type FoundSection,
  type Section,
  type Sections,
  isNeeded,
} from "./sections.ts";

/** `signal` ends with the snapshot. */
export interface HostOptions extends Omit<MakeOptions, "kind"> {
  config: Config;
  /** Rouse's own plugins. */
  builtinDir: string;
  /** Plugins that are there without a file. */
  inline?: readonly Plugin[];
  /** The environment. Plugins see nothing of it but what the config takes from it. */
  env: Record<string, string | undefined>;
}

export interface LoadedPlugins {
  channels: Channels;
  offers: Offers;
  /** Every plugin that is there, in use or not. */
  plugins: { id: string; origin: string; channel: boolean; configured: boolean }[];
  /** True if a plugin could not be loaded, so that not all ids and presets are known. */
  incomplete: boolean;
  /** Members of `hooks` that belong to plugins. */
  hookSections: string[];
  issues: Issue[];
  warnings: Issue[];
  /** The users' files whose change means a new snapshot. */
  files: string[];
  /** The offers of Rouse's own plugins, used or not. */
  shipped: { providers: readonly ShippedProvider[]; presets: readonly string[] };
}

/** Everything that is gathered while plugins are loaded; nothing of it is in use before all are. */
interface Staging extends Omit<LoadedPlugins, "channels" | "shipped"> {
  known: KnownChannel[];
  channels: { id: string; channel: Channel; byDefault: boolean }[];
  sections: Sections;
  /** The types of model providers that the config names, or whose key is in the environment. */
  usedProviders: ReadonlySet<string>;
  /** The origin of each id. */
  ids: Map<string, string>;
  /** Which plugin brings what only one may bring. */
  claimed: Map<string, string>;
}

/** The origin of a plugin, which may be a file. */
type Origin = Pick<PluginLocation, "origin" | "path" | "builtin">;

const hasChannel = ({ channel, setup, section }: Plugin): boolean =>
  channel !== undefined || (setup !== undefined && section === "channels");

/** Names a plugin, unless its id or section is another's. */
function registerPlugin(plugin: Plugin, source: Origin, staging: Staging): boolean {
  const { id, aliases = [], section } = plugin;
  const other = staging.ids.get(id);
  const problem =
    other !== undefined
      ? `another plugin (${other}) has the id "${id}" already: give this one another id`
      : section === "hooks" && isHookSetting(id)
        ? `hooks.${id} is a setting of Rouse itself: give the plugin another id`
        : undefined;
  if (problem !== undefined) {
    staging.issues.push({ path: source.path, message: problem });
    return false;
  }
  staging.ids.set(id, source.origin);
  if (section === "hooks") staging.hookSections.push(id);
  if (hasChannel(plugin) && !staging.known.some((entry) => entry.id === id))
    staging.known.push({ id, aliases });
  return true;
}

/** The settings of a plugin, `{}` for one that needs none, or undefined if it is not to be used. */
function readSettings(
  plugin: Plugin,
  { path, value }: FoundSection,
  staging: Staging,
): Section | undefined {
  if (value === undefined)
    return plugin.enabledByDefault && noneConfigured(staging.sections) ? {} : undefined;
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    staging.issues.push({
      path,
      message: "must be an object with the plugin's settings; `{ enabled: false }` turns it off",
    });
    return undefined;
  }
  if (isOff(value)) return undefined;
  const { enabled, ...settings } = value as Section;
  if (enabled === undefined || enabled === true) return settings;
  staging.issues.push({ path: `${path}.enabled`, message: "must be true or false" });
  return undefined;
}

/** True if a plugin does something only with a section, or by its commands. */
const needsSection = (plugin: Plugin): boolean =>
  (plugin.setup ?? plugin.commands) !== undefined ||
  CAPABILITIES.some((kind) => plugin[kind] !== undefined);

/** Warns of a user's plugin that the config does not use. */
function warnUnused(
  plugin: Plugin,
  { builtin, path: at }: Origin,
  { path, value }: FoundSection,
  staging: Staging,
): void {
  if (builtin !== undefined || value !== undefined || plugin.enabledByDefault) return;
  const remedy = needsSection(plugin)
    ? `add \`${path}\` to the config, at least \`{}\``
    : "name one of its presets in `hooks.presets`";
  staging.warnings.push({ path: at, message: `the plugin is not used: ${remedy}` });
}

/** Takes over what a plugin offers, or nothing of it. True if it is in use. */
async function take(
  plugin: Plugin,
  source: Origin,
  options: HostOptions,
  staging: Staging,
): Promise<boolean> {
  const section = findSection(plugin, staging.sections);
  // The presets of Rouse's own plugins can be used without the plugin.
  if (isOff(section.value) && source.builtin === undefined) return false;
  const settings = readSettings(plugin, section, staging);
  const isUsed = isStaticUsed(plugin, options.config);
  staging.issues.push(...claim(plugin, source.path, staging.claimed));
  if (settings === undefined) {
    addStatic(plugin, source.origin, section.value, staging.offers);
    if (!isUsed) warnUnused(plugin, source, section, staging);
    return isUsed;
  }
  // Work that the plugin began before it failed ends with this.
  const own = new AbortController();
  const signal = AbortSignal.any([options.signal, own.signal]);
  const { accounts, issues } = parseAccounts(plugin.id, section, settings);
  const made = await Promise.all(
    accounts.map(async (account) => ({
      ...account,
      made: await makeCapabilities(plugin, account, {
        ...options,
        signal,
        kind: section.kind,
      }),
    })),
  );
  issues.push(...made.flatMap((account) => (account.made.ok ? [] : account.made.issues)));
  if (issues.length > 0) {
    own.abort();
    staging.issues.push(...issues);
    return false;
  }
  addStatic(plugin, source.origin, section.value, staging.offers);
  for (const { id, alias, made: capabilities } of made) {
    if (!capabilities.ok) continue;
    const { channel } = capabilities.value;
    if (alias !== undefined) staging.known.push({ id, aliases: [alias] });
    if (channel)
      staging.channels.push({ id, channel, byDefault: plugin.enabledByDefault === true });
    addCapabilities(id, capabilities.value, staging.offers);
  }
  return true;
}

/** The plugins that are there without a file. Who hands a plugin over wants it: its section need not be in the config. */
function checkInline({ inline = [] }: HostOptions, staging: Staging): [Plugin, Origin][] {
  return inline.flatMap((given, index): [Plugin, Origin][] => {
    const path = `createGateway.plugins[${index}]`;
    const checked = checkPlugin({ default: given }, path);
    if (!checked.ok) {
      staging.incomplete = true;
      staging.issues.push(...checked.issues);
      return [];
    }
    const { kind, value } = findSection(checked.value, staging.sections);
    if (needsSection(checked.value) && value === undefined)
      staging.sections[kind][checked.value.id] = {};
    return [[checked.value, { origin: "inline", path }]];
  });
}

/** The channels in the order in which they may be the last resort: one that is enabled by default comes after all others. */
function orderChannels(staging: Staging): Map<string, Channel> {
  const asked = staging.channels.filter(
    ({ channel, byDefault }) => channel.fallback === true && !byDefault,
  );
  for (const { id } of asked.slice(1)) {
    staging.issues.push({
      path: `channels.${id}`,
      message: `it and channels.${asked[0]?.id} both declare themselves the fallback of \`channel: "last"\`: only one may`,
    });
  }
  const ordered = staging.channels.toSorted((a, b) => Number(a.byDefault) - Number(b.byDefault));
  return new Map(ordered.map(({ id, channel }) => [id, channel]));
}

/**
 * Loads the plugins that a config needs: Rouse's own, those in `plugins` beside the config, those that `plugins` names,
 * and those that are there without a file. Makes what they offer, each whole or not at all, and starts nothing. All problems come back as issues.
 */
export async function loadPlugins(options: HostOptions): Promise<LoadedPlugins> {
  const { config, builtinDir } = options;
  const catalog = readCatalog(builtinDir);
  const providers = readProviders(builtinDir);
  const staging: Staging = {
    known: catalog.filter(isChannel),
    channels: [],
    offers: noOffers(),
    sections: getSections(config),
    usedProviders: getUsedProviders(providers, config, options.env),
    ids: new Map(),
    claimed: new Map(),
    incomplete: false,
    plugins: [],
    hookSections: [],
    issues: [],
    warnings: [],
    files: [],
  };
  const locations = [
    ...builtinPlugins(builtinDir),
    ...userPlugins(options, builtinDir, staging.issues),
  ];
  const adopt = async (plugin: Plugin, source: Origin): Promise<void> => {
    if (!registerPlugin(plugin, source, staging)) return;
    const configured = await take(plugin, source, options, staging);
    const { id } = plugin;
    staging.plugins.push({ id, origin: source.origin, channel: hasChannel(plugin), configured });
  };
  const inline = checkInline(options, staging);
  for (const location of locations) {
    const { builtin: id, origin } = location;
    const entry = catalog.find((one) => one.id === id);
    if (id !== undefined && !isNeeded(id, entry, options, staging)) {
      staging.ids.set(id, origin);
      const channel = entry !== undefined && isChannel(entry);
      staging.plugins.push({ id, origin, channel, configured: false });
      continue;
    }
    const imported = await importPlugin(location, options.baseDir);
    staging.files.push(...imported.files);
    if (imported.ok) await adopt(imported.value, location);
    else {
      staging.incomplete = true;
      staging.issues.push(...imported.issues);
    }
  }
  for (const [plugin, origin] of inline) await adopt(plugin, origin);
  staging.issues.push(...findUnknownSections(staging.sections, staging));
  const {
    known,
    channels,
    sections: _sections,
    usedProviders: _used,
    ids: _ids,
    claimed: _claimed,
    files,
    ...loaded
  } = staging;
  const byDefault = new Set(channels.filter((channel) => channel.byDefault).map(({ id }) => id));
  return {
    ...loaded,
    channels: createChannels(known, orderChannels(staging), byDefault),
    files: [...new Set(files)],
    shipped: { providers, presets: catalog.flatMap(({ presets = [] }) => presets) },
  };
}
