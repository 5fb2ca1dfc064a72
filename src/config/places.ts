import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Issue } from "../core/errors.ts";
import type { FileTexts } from "../core/files.ts";
import { MAPPING_FILE } from "./issues.ts";
import { readFields, readJson5, type Fields } from "./json5.ts";

/** The files that a problem of the config can be in. */
export interface ConfigPlaces {
  /** The config file. Undefined if there is none. */
  file?: string | undefined;
  mappingsDir?: string | undefined;
  /** Texts that stand in for files. */
  texts?: FileTexts | undefined;
}

/** `preset acme: mappings[0].id`: what the config may change is how it uses the preset. */
const PRESET = /^preset ([^: ]+)[^:]*(?::|$)/;

function presetPath(file: string, name: string, texts: FileTexts | undefined): string {
  const parsed = readJson5(file, texts);
  const { presets } =
    ((parsed.ok ? parsed.value : {}) as { hooks?: { presets?: unknown } }).hooks ?? {};
  const index = Array.isArray(presets)
    ? presets.findIndex((entry) => entry === name || (entry as { use?: unknown })?.use === name)
    : -1;
  return index < 0 ? "hooks.presets" : `hooks.presets[${index}]`;
}

/** Adds file, line and column to problems of the config, and leaves out repeats. Each file is read once. */
export function locateIssues(
  issues: readonly Issue[],
  { file, mappingsDir, texts }: ConfigPlaces,
): Issue[] {
  const read = new Map<string, Fields>();
  const inFile = (issue: Issue, name: string, path: string): Issue => {
    const fields = read.get(name) ?? readFields(name, texts);
    read.set(name, fields);
    return { ...issue, file: name, ...fields.place(path) };
  };
  // A preset's option that is wrong is found once for each of its mappings.
  const different = [
    ...new Map(issues.map((issue) => [`${issue.path}\n${issue.message}`, issue])).values(),
  ];
  return different.map((issue): Issue => {
    if (issue.file !== undefined) return issue;
    const [label, name, inner = ""] = MAPPING_FILE.exec(issue.path) ?? [];
    if (label !== undefined && mappingsDir !== undefined)
      return inFile(issue, join(mappingsDir, name ?? ""), inner);
    if (file === undefined) return issue;
    const preset = PRESET.exec(issue.path)?.[1];
    if (preset !== undefined) return inFile(issue, file, presetPath(file, preset, texts));
    // A plugin beside the config is known by its path.
    const beside = join(dirname(file), issue.path);
    if (issue.path.includes("/") && existsSync(beside)) return { ...issue, file: beside };
    return inFile(issue, file, issue.path);
  });
}
