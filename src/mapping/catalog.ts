import { existsSync, readdirSync, realpathSync } from "node:fs";
import { dirname, basename, join } from "node:path";
import { readJson5 } from "../config/json5.ts";
import { PRESET_NAME } from "../config/schema/mapping.ts";
import type { Issue } from "../core/errors.ts";
import { fileInside, listJson, type FileTexts } from "../core/files.ts";
import type { PresetEntry } from "./source.ts";
import { OWN_ORIGIN, type PluginPreset } from "../contract/offers.ts";

/** A file of `hooks.mappingsDir`. One with `preset: true` is live only if `hooks.presets` names it, any other always. */
export interface MappingsEntry extends PresetEntry {
  file: string;
  isPreset: boolean;
}

export interface Catalog {
  /** The files of `hooks.mappingsDir`, by name. */
  files: MappingsEntry[];
  /** Every document by the name that enables it. A name with several is ambiguous. */
  presets: Map<string, PresetEntry[]>;
  issues: Issue[];
}

const isMarked = ({ value }: { value: unknown }): boolean =>
  (value as { preset?: unknown } | null)?.preset === true;

/** Reads the files of `hooks.mappingsDir`, each once. */
function readFolder(folder: string, texts: FileTexts, issues: Issue[]): MappingsEntry[] {
  const exists = existsSync(folder);
  const real = exists ? realpathSync(folder) : folder;
  const replaced = new Map(
    [...texts]
      .filter(([file]) => dirname(file) === real)
      .map(([file, text]) => [basename(file), text]),
  );
  const written = exists ? readdirSync(folder) : [];
  // Schemas that `validate` names lie beside the mappings, and hidden files of editors.
  const names = [...new Set([...written, ...replaced.keys()])].filter((name) =>
    /^[^.].*(?<!\.schema)\.json5?$/.test(name),
  );
  return names.toSorted().flatMap((fileName): MappingsEntry[] => {
    if (replaced.get(fileName) === null) return [];
    const label = `mappings/${fileName}`;
    const found = replaced.has(fileName)
      ? { ok: true as const, file: join(real, fileName) }
      : fileInside(folder, fileName);
    if (!found.ok) {
      issues.push({ path: label, message: found.message });
      return [];
    }
    const { file } = found;
    const parsed = readJson5(file, texts);
    const name = fileName.replace(/\.json5?$/, "");
    const isPreset = parsed.ok && isMarked(parsed);
    return [
      { name, origin: label, label, place: file, folder, file, isPreset, read: () => parsed },
    ];
  });
}

function shippedPresets(folder: string, texts: FileTexts): PresetEntry[] {
  return listJson(folder).flatMap((name): PresetEntry[] => {
    const found = fileInside(folder, `${name}.json`);
    if (!found.ok) return [];
    const { file } = found;
    return [
      {
        name,
        origin: OWN_ORIGIN,
        label: `preset ${name}`,
        place: file,
        folder,
        file,
        read: () => readJson5(file, texts),
      },
    ];
  });
}

function toEntries(presets: readonly PluginPreset[], folder: string): PresetEntry[] {
  return presets.map(({ plugin, origin, document, settings }) => {
    const { id: name } = document;
    const isOwn = origin === OWN_ORIGIN;
    const label = `preset ${name}${isOwn ? "" : ` of the plugin ${plugin}`}`;
    const read: PresetEntry["read"] = () => ({ ok: true, value: document, duplicates: [] });
    return {
      name,
      origin: isOwn ? OWN_ORIGIN : `plugin ${plugin}`,
      label,
      place: `the plugin "${plugin}" (${origin})`,
      folder,
      read,
      ...(settings && { settings }),
    };
  });
}

/** Says that a name means several presets, and where all of them are. */
export function ambiguous(name: string, entries: readonly PresetEntry[]): string {
  const places = entries.map(({ place }) => place).join(" and ");
  return `the name "${name}" means ${entries.length} presets, ${places}: rename all but one, in its \`id\` too`;
}

export interface CatalogOptions {
  /** Absolute folders. */
  presetsDir: string;
  mappingsDir: string;
  /** The presets of plugins. Default: none. */
  pluginPresets?: readonly PluginPreset[];
  /** Texts that stand in for files of `mappingsDir` and of `presetsDir`. Default: none. */
  texts?: FileTexts | undefined;
}

/** Finds all presets: those that ship, those of plugins, and the files of `hooks.mappingsDir`. */
export function readMappings({
  presetsDir,
  mappingsDir,
  pluginPresets = [],
  texts = new Map(),
}: CatalogOptions): Catalog {
  const issues: Issue[] = [];
  const files = mappingsDir === presetsDir ? [] : readFolder(mappingsDir, texts, issues);
  const presets = new Map<string, PresetEntry[]>();
  const ofPlugins = toEntries(pluginPresets, mappingsDir);
  const namable = files.filter(({ name, isPreset }) => isPreset || PRESET_NAME.test(name));
  for (const entry of [...shippedPresets(presetsDir, texts), ...ofPlugins, ...namable]) {
    const others = presets.get(entry.name);
    if (others) others.push(entry);
    else presets.set(entry.name, [entry]);
  }
  for (const { name, label, isPreset } of files) {
    const named = presets.get(name) ?? [];
    if (!isPreset) continue;
    if (!PRESET_NAME.test(name))
      issues.push({
        path: label,
        message: "a preset's file is named by lower-case letters, digits and `-`",
      });
    else if (named.length > 1) issues.push({ path: label, message: ambiguous(name, named) });
  }
  for (const entry of ofPlugins) {
    const others = (presets.get(entry.name) ?? []).filter(
      (other) => !files.some((file) => file === other),
    );
    // One that clashes with a marked file is reported there.
    if (others.length > 1 && others.at(-1) === entry)
      issues.push({ path: entry.label, message: ambiguous(entry.name, others) });
  }
  return { files, presets, issues };
}
