import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { Variables } from "../config/environment.ts";
import { hooksKeys } from "../config/schema/hooks.ts";
import type { Config } from "../config/schema/index.ts";
import { didYouMean } from "../config/suggest.ts";
import type { Issue } from "../core/errors.ts";
import { createChannels, type KnownChannel } from "../delivery/channels.ts";
import type { Channels } from "../delivery/types.ts";
import { getPresetName } from "../config/schema/preset.ts";
import type { PluginPreset } from "../mapping/source.ts";
import { accountsOf, type Account } from "./accounts.ts";
import type { Channel, Plugin, PluginContext, Service } from "./api.ts";
import { checkChannel, checkPlugin, checkSection, checkService, explain, type Checked } from "./check.ts";
import { createContext, type Surroundings } from "./context.ts";
import { importUserModule, type UserModule } from "./resolve.ts";
import { builtinSources, folderSources, namedSources, readCatalog, type CatalogEntry, type PluginSource } from "./sources.ts";

export interface HostOptions extends Surroundings {
  config: Config;
  /** Fields of the config that one variable of the environment gives. */
  variables: Variables;
  /** Rouse's own plugins. */
  builtinDir: string;
  /** Plugins that are there without a file. */
  inline?: readonly Plugin[];
  /** The environment. Plugins see nothing of it but what the config takes from it. */
  env: Record<string, string | undefined>;
  /** Ends with the snapshot. */
  signal: AbortSignal;
}

export interface LoadedPlugins {
  channels: Channels;
  /** Every plugin that is there, in use or not. */
  plugins: { id: string; origin: string; channel: boolean; configured: boolean }[];
  services: { id: string; service: Service }[];
  presets: PluginPreset[];
  /** Whether a plugin could not be loaded, so that not all ids and presets are known. */
  incomplete: boolean;
  /** Members of `hooks` that belong to plugins. */
  hookSections: string[];
  issues: Issue[];
  warnings: Issue[];
  /** The users' files whose change means a new snapshot. */
  files: string[];
}

/** What is gathered while plugins are loaded; nothing of it is in use before all are. */
interface Staging extends Omit<LoadedPlugins, "channels"> {
  known: KnownChannel[];
  channels: { id: string; channel: Channel; always: boolean }[];
  /** Where each id comes from. */
  ids: Map<string, string>;
}

type Section = Record<string, unknown>;
/** Where a plugin comes from, whether or not that is a file. */
type Origin = Pick<PluginSource, "origin" | "path" | "builtin">;

const isOff = (section: unknown): boolean => (section as { enabled?: unknown } | undefined | null)?.enabled === false;

/** Rouse's own plugins that this config needs: only these are loaded. */
function needed(source: PluginSource, catalog: readonly CatalogEntry[], { config, print }: HostOptions): boolean {
  const id = source.builtin as string;
  const channel = config.channels[id];
  if (channel !== undefined) return true;
  if (!(id in hooksKeys) && (config.hooks as Section)[id] !== undefined) return true;
  return print !== undefined && catalog.some((entry) => entry.id === id && entry.always === true) && noneConfigured(config);
}

function noneConfigured(config: Config): boolean {
  return Object.values(config.channels).every(isOff);
}

async function importPlugin(source: PluginSource, options: HostOptions, staging: Staging): Promise<Plugin | undefined> {
  const module = await importSource(source, staging);
  const checked = module.ok ? checkPlugin(module.exports, source.path) : undefined;
  if (checked?.ok) return checked.value;
  staging.incomplete = true;
  if (checked) staging.issues.push(...checked.issues);
  else if (!module.ok)
    staging.issues.push({ path: source.path, message: `the plugin cannot be loaded: ${explain(module.error, options.baseDir)}` });
  return undefined;
}

async function importSource(source: PluginSource, staging: Staging): Promise<UserModule> {
  if (source.builtin === undefined) {
    const { module, files } = await importUserModule(source.file);
    staging.files.push(...files);
    return module;
  }
  try {
    return { ok: true, exports: (await import(pathToFileURL(source.file).href)) as Record<string, unknown> };
  } catch (error) {
    return { ok: false, error };
  }
}

/** Names a plugin, unless its id or section is another's. */
function announce(plugin: Plugin, source: Origin, staging: Staging): boolean {
  const { id, aliases = [], section } = plugin;
  const other = staging.ids.get(id);
  if (other !== undefined) {
    staging.issues.push({ path: source.path, message: `another plugin (${other}) has the id "${id}" already: give this one another id` });
    return false;
  }
  if (section === "hooks" && id in hooksKeys) {
    staging.issues.push({ path: source.path, message: `hooks.${id} is a setting of Rouse itself: give the plugin another id` });
    return false;
  }
  staging.ids.set(id, source.origin);
  if (section === "hooks") staging.hookSections.push(id);
  if (plugin.channel && !staging.known.some((entry) => entry.id === id)) staging.known.push({ id, aliases });
  return true;
}

/** The section of a plugin, `{}` for one that needs none, or undefined where it is not to be used. */
function sectionOf(plugin: Plugin, path: string, config: Config, staging: Staging): Section | undefined {
  const base = plugin.section === "hooks" ? config.hooks : config.channels;
  const section = (base as Section)[plugin.id];
  if (section === undefined) return plugin.always && noneConfigured(config) ? {} : undefined;
  if (typeof section !== "object" || section === null || Array.isArray(section)) {
    staging.issues.push({ path, message: "must be an object with the plugin's settings; `{ enabled: false }` turns it off" });
    return undefined;
  }
  if (isOff(section)) return undefined;
  const { enabled, ...settings } = section as Section;
  if (enabled === undefined || enabled === true) return settings;
  staging.issues.push({ path: `${path}.enabled`, message: "must be true or false" });
  return undefined;
}

const needsSection = ({ channel, service, commands }: Plugin): boolean => (channel ?? service ?? commands) !== undefined;

/** Offers a plugin's presets, unless its section turns it off. True if the config enables one of them. */
function takePresets({ id, presets = [] }: Plugin, section: unknown, { origin }: Origin, { hooks }: Config, staging: Staging): boolean {
  if (isOff(section)) return false;
  staging.presets.push(...presets.map((document) => ({ plugin: id, origin, document })));
  const enabled = hooks.presets.map(getPresetName);
  return presets.some((preset) => enabled.includes(preset.id));
}

/** Takes over what a plugin offers, or nothing of it. True where it is in use. */
function take(plugin: Plugin, source: Origin, options: HostOptions, staging: Staging): boolean {
  const path = `${plugin.section ?? "channels"}.${plugin.id}`;
  const section = sectionOf(plugin, path, options.config, staging);
  const asked = (plugin.section === "hooks" ? (options.config.hooks as Section) : options.config.channels)[plugin.id];
  const isPresetUsed = takePresets(plugin, asked, source, options.config, staging);
  if (section === undefined) {
    const remedy = needsSection(plugin) ? `add \`${path}\` to the config, at least \`{}\`` : "name one of its presets in `hooks.presets`";
    if (source.builtin === undefined && asked === undefined && !plugin.always && !isPresetUsed)
      staging.warnings.push({ path: source.path, message: `the plugin is not used: ${remedy}` });
    return isPresetUsed;
  }
  // What the plugin began before it failed ends with this.
  const own = new AbortController();
  const signal = AbortSignal.any([options.signal, own.signal]);
  const { accounts, issues } = accountsOf(plugin, section, path);
  const offers = accounts.map((account) => ({ ...account, offered: offer(plugin, account, signal, options) }));
  issues.push(...offers.flatMap(({ offered }) => (offered.ok ? [] : offered.issues)));
  if (issues.length > 0) {
    own.abort();
    staging.issues.push(...issues);
    return false;
  }
  for (const { id, alias, offered } of offers) {
    const { channel, service } = offered.ok ? offered.value : {};
    if (alias !== undefined) staging.known.push({ id, aliases: [alias] });
    if (channel) staging.channels.push({ id, channel, always: plugin.always === true });
    if (service) staging.services.push({ id, service });
  }
  return true;
}

/** Makes what a plugin offers, all of it checked. */
function offer(
  plugin: Plugin,
  { id, section, path }: Account,
  signal: AbortSignal,
  options: HostOptions,
): Checked<{ channel?: Channel; service?: Service }> {
  try {
    const checked = checkSection(plugin, section, path, options.variables);
    if (!checked.ok) return checked;
    const context = createContext(id, checked.value, signal, options) as PluginContext<never>;
    const channel = plugin.channel && checkChannel(plugin.channel(context), path, checked.value);
    if (channel && !channel.ok) return channel;
    const service = plugin.service && checkService(plugin.service(context), path);
    if (service && !service.ok) return service;
    return { ok: true, value: { ...(channel && { channel: channel.value }), ...(service && { service: service.value }) } };
  } catch (error) {
    return { ok: false, issues: [{ path, message: `the plugin could not be set up: ${explain(error, options.baseDir)}` }] };
  }
}

/** The plugins that are there without a file. Who hands a plugin over wants it: its section need not be in the config. */
function inlinePlugins({ inline = [], config }: HostOptions, staging: Staging): [Plugin, Origin][] {
  return inline.flatMap((given, index): [Plugin, Origin][] => {
    const path = `createGateway.plugins[${index}]`;
    const checked = checkPlugin({ default: given }, path);
    if (!checked.ok) {
      staging.incomplete = true;
      staging.issues.push(...checked.issues);
      return [];
    }
    const { id, section = "channels" } = checked.value;
    if (needsSection(checked.value)) (config[section] as Section)[id] ??= {};
    return [[checked.value, { origin: "inline", path, builtin: undefined }]];
  });
}

/** Sections that belong to nobody. Where a plugin could not be loaded, its section may be any of them. */
function checkNames(config: Config, staging: Staging): void {
  const channelIds = [...staging.known.map(({ id }) => id), ...staging.ids.keys()];
  for (const id of Object.keys(config.channels)) {
    if (staging.ids.has(id)) continue;
    const alias = staging.known.find((entry) => entry.aliases?.includes(id));
    const hint = alias ? ` Did you mean "${alias.id}"?` : didYouMean(id, channelIds);
    const missing = staging.known.some((entry) => entry.id === id);
    if (staging.incomplete && (missing || hint === "")) continue;
    const message = missing
      ? "its plugin is not installed: name it in `plugins`, or take this section out"
      : `no plugin has this id.${hint}`;
    staging.issues.push({ path: `channels.${id}`, message });
  }
  const hookKeys = [...Object.keys(hooksKeys), ...staging.hookSections];
  for (const key of Object.keys(config.hooks)) {
    if (hookKeys.includes(key)) continue;
    const hint = didYouMean(key, hookKeys);
    if (!(staging.incomplete && hint === "")) staging.issues.push({ path: `hooks.${key}`, message: `is not known.${hint}` });
  }
}

/** The channels in the order in which they may be the last resort: one that is always there comes after all others. */
function orderChannels(staging: Staging): Map<string, Channel> {
  const asked = staging.channels.filter(({ channel, always }) => channel.fallback === true && !always);
  for (const { id } of asked.slice(1)) {
    staging.issues.push({
      path: `channels.${id}`,
      message: `it and channels.${asked[0]?.id} both declare themselves the fallback of \`channel: "last"\`: only one may`,
    });
  }
  const ordered = staging.channels.toSorted((a, b) => Number(a.always) - Number(b.always));
  return new Map(ordered.map(({ id, channel }) => [id, channel]));
}

/**
 * Loads the plugins that a config needs: Rouse's own, those in `plugins` beside the config, those that `plugins` names,
 * and those that are there without a file. Makes what they offer, each whole or not at all, and starts nothing. All problems come back as issues.
 */
export async function loadPlugins(options: HostOptions): Promise<LoadedPlugins> {
  const { config, baseDir, builtinDir } = options;
  const catalog = readCatalog(builtinDir);
  const staging: Staging = {
    known: [...catalog],
    channels: [],
    ids: new Map(),
    incomplete: false,
    plugins: [],
    services: [],
    presets: [],
    hookSections: [],
    issues: [],
    warnings: [],
    files: [],
  };
  const builtin = builtinSources(builtinDir);
  const beside = resolve(baseDir, "plugins") === resolve(builtinDir) ? [] : folderSources(baseDir);
  const sources = [...builtin, ...beside, ...namedSources(config.plugins, baseDir, staging.issues)];
  const adopt = (plugin: Plugin, source: Origin): void => {
    if (!announce(plugin, source, staging)) return;
    const configured = take(plugin, source, options, staging);
    staging.plugins.push({ id: plugin.id, origin: source.origin, channel: plugin.channel !== undefined, configured });
  };
  const inline = inlinePlugins(options, staging);
  for (const source of sources) {
    if (source.builtin !== undefined && !needed(source, catalog, options)) {
      staging.ids.set(source.builtin, source.origin);
      staging.plugins.push({
        id: source.builtin,
        origin: source.origin,
        channel: catalog.some((entry) => entry.id === source.builtin),
        configured: false,
      });
      continue;
    }
    const plugin = await importPlugin(source, options, staging);
    if (plugin) adopt(plugin, source);
  }
  for (const [plugin, origin] of inline) adopt(plugin, origin);
  checkNames(config, staging);
  const { known, plugins, services, presets, incomplete, hookSections, issues, warnings } = staging;
  const always = new Set(staging.channels.filter((channel) => channel.always).map(({ id }) => id));
  const channels = createChannels(known, orderChannels(staging), always);
  return { channels, plugins, services, presets, incomplete, hookSections, issues, warnings, files: [...new Set(staging.files)] };
}
