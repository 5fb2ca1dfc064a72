import { existsSync, readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import JSON5 from "json5";
import { configIssues } from "../config/issues.ts";
import { mappingFileSchema, PRESET_NAME, type MappingConfig, type MappingFile } from "../config/schema/mapping.ts";
import { didYouMean } from "../config/suggest.ts";
import type { Issue } from "../core/errors.ts";
import { fileInside } from "../core/files.ts";

/** A mapping as it was written, and where. */
export interface Source {
  config: MappingConfig;
  at: string;
  origin: string;
  /** What its file says for all of its mappings. */
  shared: Pick<MappingFile, "auth" | "maxBodyBytes">;
  /** The folder that files it names lie in. */
  folder: string;
}

function readFileOf(file: string, label: string, issues: Issue[]): MappingFile | undefined {
  let raw: unknown;
  try {
    raw = JSON5.parse(readFileSync(file, "utf8"));
  } catch (error) {
    const { lineNumber, columnNumber } = error as { lineNumber?: number; columnNumber?: number };
    issues.push({
      path: label,
      message: `is not valid JSON5${lineNumber === undefined ? "" : ` at line ${lineNumber}, column ${columnNumber}`}`,
    });
    return undefined;
  }
  const checked = mappingFileSchema.safeParse(raw);
  if (checked.success) return checked.data;
  for (const issue of configIssues(checked.error, mappingFileSchema))
    issues.push({ path: `${label}: ${issue.path}`, message: issue.message });
  return undefined;
}

function sourcesOf(file: MappingFile, label: string, origin: string, folder: string): Source[] {
  const shared: Source["shared"] = {};
  if (file.auth) shared.auth = file.auth;
  if (file.maxBodyBytes !== undefined) shared.maxBodyBytes = file.maxBodyBytes;
  return file.mappings.map((config, index) => ({ config, at: `${label}: mappings[${index}]`, origin, shared, folder }));
}

/** Where the presets that ship with Rouse lie: `mappings/` at the root of the clone or of the package. */
export const PRESETS_DIR = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "../../mappings" : "../../../mappings", import.meta.url),
);

/** The names of the presets that ship with Rouse. */
export function presetNames(presetsDir: string): string[] {
  if (!existsSync(presetsDir)) return [];
  return readdirSync(presetsDir)
    .filter((name) => name.endsWith(".json"))
    .map((name) => name.slice(0, -5))
    .toSorted();
}

/** All mappings in the order in which they are tried: the config's own, the files of `mappingsDir` by name, presets. */
export function collectSources(options: {
  mappings: readonly MappingConfig[];
  presets: readonly string[];
  mappingsDir: string;
  presetsDir: string;
}): { sources: Source[]; issues: Issue[]; files: string[] } {
  const { mappings, presets, mappingsDir, presetsDir } = options;
  const issues: Issue[] = [];
  const files: string[] = [];
  const sources: Source[] = mappings.map((config, index) => ({
    config,
    at: `hooks.mappings[${index}]`,
    origin: "config",
    shared: {},
    folder: mappingsDir,
  }));
  const names =
    existsSync(mappingsDir) && mappingsDir !== presetsDir
      ? readdirSync(mappingsDir)
          // Schemas that `validate` names lie beside the mappings.
          .filter((name) => /(?<!\.schema)\.json5?$/.test(name))
          .toSorted()
      : [];
  for (const name of names) {
    const label = `mappings/${name}`;
    const found = fileInside(mappingsDir, name);
    if (!found.ok) {
      issues.push({ path: label, message: found.message });
      continue;
    }
    files.push(found.file);
    const file = readFileOf(found.file, label, issues);
    if (file) sources.push(...sourcesOf(file, label, label, mappingsDir));
  }
  for (const [index, name] of presets.entries()) {
    const found = PRESET_NAME.test(name) ? fileInside(presetsDir, `${name}.json`) : undefined;
    if (!found?.ok) {
      issues.push({
        path: `hooks.presets[${index}]`,
        message: `there is no preset of this name.${didYouMean(name, presetNames(presetsDir))}`,
      });
      continue;
    }
    files.push(found.file);
    const file = readFileOf(found.file, `preset ${name}`, issues);
    if (file) sources.push(...sourcesOf(file, `preset ${name}`, `preset:${name}`, presetsDir));
  }
  return { sources, issues, files };
}
