import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { mkdir } from "node:fs/promises";
import { basename, extname, isAbsolute, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { z } from "zod";
import type { Config } from "../config/schema/index.ts";
import { hooksKeys } from "../config/schema/hooks.ts";
import { didYouMean } from "../config/suggest.ts";
import type { Issue } from "../core/errors.ts";
import { safeError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { createChannels, type KnownChannel } from "../delivery/channels.ts";
import type { Channels } from "../delivery/types.ts";
import type { Channel, Plugin, PluginContext, Service } from "./api.ts";
import { importUserModule } from "./resolve.ts";

export interface HostOptions {
  config: Config;
  /** The config's folder: `plugins/` beside it, and where package names are resolved from. */
  baseDir: string;
  /** Rouse's own plugins. */
  builtinDir: string;
  stateDir: string;
  fetch: typeof fetch;
  clock: { now(): number };
  log: Logger;
  signal: AbortSignal;
  print(text: string): void;
}

export interface LoadedPlugins {
  channels: Channels;
  plugins: { id: string; origin: string; channel: boolean; configured: boolean }[];
  services: { id: string; service: Service }[];
  issues: Issue[];
  /** Files whose change means a new snapshot. */
  files: string[];
}

interface Source {
  origin: string;
  path: string;
  file: string;
  builtin: boolean;
}

const INDEX = ["index.ts", "index.js", "index.mts", "index.mjs"];
const pluginSchema = z.looseObject({
  id: z.string().regex(/^[a-z0-9][a-z0-9-]*$/, "use lower-case letters, digits and `-`"),
  aliases: z.array(z.string()).optional(),
  section: z.enum(["channels", "hooks"]).optional(),
});

function entryOf(path: string): string | undefined {
  if (!existsSync(path)) return undefined;
  if (statSync(path).isFile()) return path;
  return INDEX.map((name) => join(path, name)).find((file) => existsSync(file));
}

/** Plugins in a folder: sub-folders with an index file, and single files. */
function inFolder(folder: string, origin: string): Source[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder).toSorted().flatMap((name): Source[] => {
    const path = join(folder, name);
    if (name.startsWith(".") || name.endsWith(".d.ts") || (statSync(path).isFile() && !/\.[cm]?[jt]s$/.test(name))) return [];
    const file = entryOf(path);
    return file === undefined ? [] : [{ origin: `${origin}/${name}`, path: `plugins/${name}`, file, builtin: false }];
  });
}

function catalogOf(builtinDir: string): KnownChannel[] {
  const file = [join(builtinDir, "catalog.json"), join(builtinDir, "..", "..", "plugins", "catalog.json")].find((path) => existsSync(path));
  return file === undefined ? [] : (JSON.parse(readFileSync(file, "utf8")) as KnownChannel[]);
}

/** The plugins that this config needs. Rouse's own are loaded only where a section names them. */
function sourcesOf(options: HostOptions, issues: Issue[]): Source[] {
  const { config, baseDir, builtinDir } = options;
  const sections = [...Object.keys(config.channels), ...Object.keys(config.hooks)];
  const sources: Source[] = [];
  for (const { id } of catalogOf(builtinDir)) {
    const file = entryOf(join(builtinDir, id));
    if (file !== undefined && (sections.includes(id) || Object.keys(config.channels).length === 0)) sources.push({ origin: "rouse", path: `channels.${id}`, file, builtin: true });
  }
  const beside = resolve(baseDir, "plugins");
  if (beside !== resolve(builtinDir)) sources.push(...inFolder(beside, "plugins"));
  const require = createRequire(join(baseDir, "rouse.json"));
  for (const [index, name] of config.plugins.entries()) {
    const path = `plugins[${index}]`;
    let file = name.startsWith(".") || isAbsolute(name) ? entryOf(resolve(baseDir, name)) : undefined;
    try {
      file ??= require.resolve(name);
      sources.push({ origin: name, path, file, builtin: false });
    } catch {
      issues.push({ path, message: "there is no such file or package; give a path that starts with `./`, or install the package" });
    }
  }
  return sources;
}

async function importPlugin(source: Source, issues: Issue[]): Promise<Plugin | undefined> {
  try {
    const url = pathToFileURL(source.file);
    const { mtimeMs, size } = statSync(source.file);
    const loaded = source.builtin ? ((await import(url.href)) as Record<string, unknown>) : await importUserModule(url, `${mtimeMs}-${size}`);
    const nested = loaded["default"] as Record<string, unknown> | undefined;
    // A CommonJS module's default export lies one level deeper.
    const value = nested && typeof nested === "object" && "default" in nested && !("id" in nested) ? nested["default"] : nested;
    const checked = pluginSchema.safeParse(value);
    if (checked.success) return value as Plugin;
    const first = checked.error.issues[0];
    issues.push({ path: source.path, message: `its default export must come from definePlugin: ${first?.path.join(".") ?? ""} ${first?.message ?? ""}` });
  } catch (error) {
    const { name, code } = safeError(error);
    issues.push({ path: source.path, message: `the plugin "${basename(source.file, extname(source.file))}" could not be loaded (${code ?? name})` });
  }
  return undefined;
}

interface Staged {
  channels: Map<string, Channel>;
  services: LoadedPlugins["services"];
}

/** Loads and starts nothing: makes what the plugins offer, each whole or not at all, and says what is wrong. */
export async function loadPlugins(options: HostOptions): Promise<LoadedPlugins> {
  const { config, builtinDir } = options;
  const issues: Issue[] = [];
  const staged: Staged = { channels: new Map(), services: [] };
  const known = catalogOf(builtinDir);
  const plugins: LoadedPlugins["plugins"] = [];
  const ids = new Set<string>();
  const sources = sourcesOf(options, issues);
  const sections = new Set<string>();
  for (const source of sources) {
    const plugin = await importPlugin(source, issues);
    if (!plugin) continue;
    if (ids.has(plugin.id)) {
      issues.push({ path: source.path, message: `another plugin has the id "${plugin.id}"` });
      continue;
    }
    ids.add(plugin.id);
    if (plugin.section === "hooks") sections.add(plugin.id);
    if (plugin.channel && !known.some((entry) => entry.id === plugin.id)) known.push({ id: plugin.id, aliases: plugin.aliases ?? [] });
    const configured = offer(plugin, staged, options, issues);
    plugins.push({ id: plugin.id, origin: source.origin, channel: plugin.channel !== undefined, configured });
  }
  for (const id of Object.keys(config.channels)) {
    if (!ids.has(id)) issues.push({ path: `channels.${id}`, message: `no channel plugin has this id.${didYouMean(id, [...known.map((entry) => entry.id)])}` });
  }
  const own = new Set(Object.keys(hooksKeys));
  for (const key of Object.keys(config.hooks)) {
    if (!own.has(key) && !sections.has(key)) issues.push({ path: `hooks.${key}`, message: `is not known.${didYouMean(key, [...own, ...sections])}` });
  }
  return { channels: createChannels(known, staged.channels), plugins, services: staged.services, issues, files: sources.filter((source) => !source.builtin).map((source) => source.file) };
}

/** Checks a plugin's section and makes what it offers. True where it is configured. */
function offer(plugin: Plugin, staged: Staged, options: HostOptions, issues: Issue[]): boolean {
  const { config } = options;
  const base = plugin.section === "hooks" ? "hooks" : "channels";
  const section = (config[base] as Record<string, unknown>)[plugin.id];
  const others = Object.keys(config.channels).length > 0;
  if (section === undefined && !(plugin.always && !others)) return false;
  const path = `${base}.${plugin.id}`;
  let own: unknown = section;
  if (plugin.config) {
    const checked = plugin.config.safeParse(section);
    if (!checked.success) {
      for (const issue of checked.error.issues) issues.push({ path: [path, ...issue.path].join("."), message: issue.message });
      return false;
    }
    own = checked.data;
  }
  if (typeof own === "object" && own !== null && (own as { enabled?: unknown }).enabled === false) return false;
  try {
    const context = contextOf(plugin, own, options);
    const channel = plugin.channel?.(context);
    const service = plugin.service?.(context);
    if (channel) staged.channels.set(plugin.id, channel);
    if (service) staged.services.push({ id: plugin.id, service });
    return true;
  } catch (error) {
    const { code, name } = safeError(error);
    issues.push({ path, message: `the plugin failed to set up (${code ?? name})` });
    return false;
  }
}

function contextOf(plugin: Plugin, config: unknown, options: HostOptions): PluginContext<never> {
  const log = options.log.child({ plugin: plugin.id });
  const context: PluginContext<unknown> = {
    config,
    fetch: options.fetch,
    clock: options.clock,
    log: { debug: (message) => log.debug(message), info: (message) => log.info(message), warn: (message) => log.warn(message), error: (message) => log.error(message) },
    signal: options.signal,
    async stateDir() {
      const folder = join(options.stateDir, "plugins", plugin.id);
      await mkdir(folder, { recursive: true, mode: 0o700 });
      return folder;
    },
    print: options.print,
  };
  return context as PluginContext<never>;
}
