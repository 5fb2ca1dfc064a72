import { existsSync, readdirSync, readFileSync, realpathSync, statSync } from "node:fs";
import { createRequire, findPackageJSON } from "node:module";
import { dirname, isAbsolute, join, relative, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { Issue } from "../core/errors.ts";
import type { KnownChannel } from "../delivery/channels.ts";

/** A channel in Rouse's own list. `always`: there without a section while no other channel is configured. */
export interface CatalogEntry extends KnownChannel {
  always?: boolean;
  setup?: ChannelSetup;
}

/** What `rouse init` has to ask for a channel. */
export interface ChannelSetup {
  name: string;
  /** Where the credentials come from. */
  where: string;
  /** `env`: a secret, and the variable that usually holds it. `value`: what is usual. */
  fields: { name: string; ask: string; env?: string; value?: string }[];
  /** What an entry of `allowFrom` looks like. */
  owner: string;
}

/** Where a plugin comes from. */
export interface PluginSource {
  /** `rouse`, or the user's path or package name, for lists. */
  origin: string;
  /** Path of issues about the plugin itself. */
  path: string;
  file: string;
  /** The id, where the folder's name gives it: Rouse's own are known by it before they are loaded. */
  builtin: string | undefined;
}

const INDEX = ["index.ts", "index.js", "index.mts", "index.mjs"];
const SINGLE = /(?<!\.d)\.[cm]?[jt]s$/;

function entryOf(path: string): string | undefined {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found?.isFile()) return path;
  return found && INDEX.map((name) => join(path, name)).find((file) => existsSync(file));
}

/** The channels that Rouse knows by name. In the built package the list lies beside the folder of built files. */
export function readCatalog(builtinDir: string): CatalogEntry[] {
  const file = [join(builtinDir, "catalog.json"), join(builtinDir, "..", "..", "plugins", "catalog.json")].find((path) => existsSync(path));
  return file === undefined ? [] : (JSON.parse(readFileSync(file, "utf8")) as CatalogEntry[]);
}

function namesIn(folder: string): string[] {
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) return [];
  return readdirSync(folder)
    .filter((name) => !name.startsWith(".") && name !== "node_modules")
    .toSorted();
}

/** Rouse's own plugins: one folder each, named by its id. */
export function builtinSources(builtinDir: string): PluginSource[] {
  return namesIn(builtinDir).flatMap((id) => {
    const file = INDEX.map((name) => join(builtinDir, id, name)).find((path) => existsSync(path));
    return file === undefined ? [] : [{ origin: "rouse", path: `channels.${id}`, file, builtin: id }];
  });
}

/** The user's plugins beside the config: folders with an index file, and single files. */
export function folderSources(baseDir: string): PluginSource[] {
  const folder = join(baseDir, "plugins");
  return namesIn(folder).flatMap((name) => {
    const path = join(folder, name);
    const file = entryOf(path);
    const wanted = file !== undefined && (file !== path || SINGLE.test(name));
    return wanted ? [{ origin: `plugins/${name}`, path: `plugins/${name}`, file, builtin: undefined }] : [];
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
    const { exports, main } = JSON.parse(readFileSync(manifest, "utf8")) as { exports?: unknown; main?: unknown };
    const entry = importTarget(exports) ?? (typeof main === "string" ? main : "index.js");
    return entryOf(resolve(dirname(manifest), entry));
  } catch {
    return undefined;
  }
}

/** What `exports` gives to an `import` of the package itself. */
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

/** The plugins that `plugins` in the config names: paths from the config's folder, else packages. */
export function namedSources(names: readonly string[], baseDir: string, issues: Issue[]): PluginSource[] {
  return names.flatMap((name, index) => {
    const path = `plugins[${index}]`;
    const isPath = /^\.{1,2}(?:[/\\]|$)/.test(name) || isAbsolute(name);
    const file = isPath
      ? entryOf(resolve(baseDir, name))
      : (packageEntry(name, baseDir) ?? (SINGLE.test(name) || name.includes("/") ? entryOf(resolve(baseDir, name)) : undefined));
    if (file !== undefined)
      return [{ origin: isPath ? relative(baseDir, file) || name : name, path, file: realpathSync(file), builtin: undefined }];
    const message = isPath
      ? "there is no such file, and no folder with an index.ts or index.js"
      : "there is no such package beside the config: install it there, or write a path that starts with `./`";
    issues.push({ path, message });
    return [];
  });
}
