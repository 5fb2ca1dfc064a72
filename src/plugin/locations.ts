import { existsSync, readdirSync, readFileSync, realpathSync, statSync } from "node:fs";
import { createRequire, findPackageJSON } from "node:module";
import { dirname, isAbsolute, join, relative, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { Issue } from "../core/errors.ts";
import type { KnownChannel } from "../delivery/channels.ts";
import { readShippedList } from "../config/providers.ts";
import type { Config } from "../config/schema/index.ts";
import { OWN_ORIGIN } from "../contract/offers.ts";
import type { SetupQuestions } from "../contract/define.ts";
import { findPinProblem } from "./integrity.ts";

/** Two folders up: the clone, or the folder `dist` of the built package. */
const HERE = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
/** The folder of the clone or of the installed package. */
export const PACKAGE_ROOT = import.meta.url.endsWith(".js") ? join(HERE, "..") : HERE;
/** Rouse's own plugins. */
export const BUILTIN_PLUGINS = join(HERE, "plugins");

/** The catalog's entry for one of Rouse's own plugins before it is loaded. Generated from the plugins. */
export interface CatalogEntry extends KnownChannel {
  /** The place of its section. Default: `channels`, and it is a channel. */
  section?: "hooks" | "plugins";
  enabledByDefault?: boolean;
  setupQuestions?: SetupQuestions;
  /** The names of its commands. */
  commands?: readonly string[];
  /** The ids of its presets. */
  presets?: readonly string[];
  /** The types of its model providers. */
  providers?: readonly string[];
  /** The file name extensions of its extractors. */
  extensions?: readonly string[];
}

export const isChannel = ({ section }: CatalogEntry): boolean => section === undefined;

/** The origin of a plugin. */
export interface PluginLocation {
  /** `rouse`, or the user's path or package name, for lists. */
  origin: string;
  /** Path of issues about the plugin itself. */
  path: string;
  file: string;
  /** The id, where the folder's name gives it: Rouse's own are known by it before they are loaded. */
  builtin?: string;
}

const INDEX = ["index.ts", "index.js", "index.mts", "index.mjs"];
const SINGLE = /(?<!\.d)\.[cm]?[jt]s$/;

function findEntry(path: string): string | undefined {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found?.isFile()) return path;
  return found && INDEX.map((name) => join(path, name)).find((file) => existsSync(file));
}

/** Reads what is known of Rouse's own plugins. */
export const readCatalog = (builtinDir: string): CatalogEntry[] =>
  readShippedList(builtinDir, "catalog.json") as CatalogEntry[];

function namesIn(folder: string): string[] {
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) return [];
  return readdirSync(folder)
    .filter((name) => !name.startsWith(".") && name !== "node_modules")
    .toSorted();
}

/** Rouse's own plugins: one folder each, named by its id. */
export function builtinPlugins(builtinDir: string): PluginLocation[] {
  return namesIn(builtinDir).flatMap((id) => {
    const file = INDEX.map((name) => join(builtinDir, id, name)).find((path) => existsSync(path));
    return file === undefined
      ? []
      : [{ origin: OWN_ORIGIN, path: `channels.${id}`, file, builtin: id }];
  });
}

/** The user's plugins beside the config: folders with an index file, and single files. */
function folderPlugins(baseDir: string): PluginLocation[] {
  const folder = join(baseDir, "plugins");
  return namesIn(folder).flatMap((name) => {
    const path = join(folder, name);
    const file = findEntry(path);
    const wanted = file !== undefined && (file !== path || SINGLE.test(name));
    return wanted ? [{ origin: `plugins/${name}`, path: `plugins/${name}`, file }] : [];
  });
}

/** The file that a package's `exports`, `main` or index names. */
function packageEntry(name: string, baseDir: string): string | undefined {
  const base = join(baseDir, "rouse.json");
  try {
    return createRequire(base).resolve(name);
  } catch {
    // A package for `import` alone: its main export is read by hand.
  }
  try {
    const manifest = findPackageJSON(name, pathToFileURL(base));
    if (manifest === undefined) return undefined;
    const { exports, main } = JSON.parse(readFileSync(manifest, "utf8")) as {
      exports?: unknown;
      main?: unknown;
    };
    const entry = importTarget(exports) ?? (typeof main === "string" ? main : "index.js");
    return findEntry(resolve(dirname(manifest), entry));
  } catch {
    return undefined;
  }
}

/** Resolves `exports` for an `import` of the package itself. */
function importTarget(exports: unknown): string | undefined {
  if (typeof exports === "string") return exports;
  if (typeof exports !== "object" || exports === null) return undefined;
  const found = exports as Record<string, unknown>;
  for (const condition of [".", "node", "import", "default"]) {
    const target = importTarget(found[condition]);
    if (target !== undefined) return target;
  }
  return undefined;
}

/**
 * The plugins that `plugins` in the config names: paths from the config's folder, else packages. A package that is not as
 * the config pins it is not loaded.
 */
function namedPlugins(
  plugins: Config["plugins"],
  baseDir: string,
  issues: Issue[] = [],
): PluginLocation[] {
  const [entries, at] = Array.isArray(plugins)
    ? [plugins, "plugins"]
    : [plugins.load, "plugins.load"];
  return entries.flatMap((entry, index) => {
    const path = `${at}[${index}]`;
    const name = typeof entry === "string" ? entry : entry.package;
    const problem = typeof entry === "string" ? undefined : findPinProblem(entry, baseDir);
    if (problem !== undefined) {
      issues.push({ path, message: problem });
      return [];
    }
    const isPath = /^\.{1,2}(?:[/\\]|$)/.test(name) || isAbsolute(name);
    const file = isPath
      ? findEntry(resolve(baseDir, name))
      : (packageEntry(name, baseDir) ??
        (SINGLE.test(name) || name.includes("/") ? findEntry(resolve(baseDir, name)) : undefined));
    if (file !== undefined)
      return [
        {
          origin: isPath ? relative(baseDir, file) || name : name,
          path,
          file: realpathSync(file),
        },
      ];
    const message = isPath
      ? "there is no such file, and no folder with an index.ts or index.js"
      : "there is no such package beside the config: install it there, or write a path that starts with `./`";
    issues.push({ path, message });
    return [];
  });
}

/** The user's plugins: those in the config's folder, and those that its `plugins` names. */
export function userPlugins(
  { config, baseDir }: { config: Config; baseDir: string },
  builtinDir: string,
  issues?: Issue[],
): PluginLocation[] {
  // In a clone the folder beside the config is that of Rouse's own.
  const isOwn = resolve(baseDir, "plugins") === resolve(builtinDir);
  return [
    ...(isOwn ? [] : folderPlugins(baseDir)),
    ...namedPlugins(config.plugins, baseDir, issues),
  ];
}
