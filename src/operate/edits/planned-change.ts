import { basename } from "node:path";
import { editText } from "../../config/edit.ts";
import { RouseError } from "../../core/errors.ts";
import { MAPPING_FILE } from "../../config/issues.ts";
import type { Snapshot } from "../../intake/types.ts";
import {
  addMapping,
  listWrittenMappings,
  readMappingText,
  replaceMapping,
  withoutIndent,
  type MappingHome,
} from "./mapping-text.ts";
import { refuseConflict, renderFilePatch } from "./unified-diff.ts";
import { mappingFile, readNow, type FileChange } from "./user-files.ts";

/** A change of the mappings. Nothing else of a config can be changed this way. */
export type MappingChange =
  /** Replaces the text of a mapping. `from`: the text that it was written from; it is refused if the file has another by now. */
  | { kind: "replace"; mapping: string; text: string; from?: string | undefined }
  /** Adds a mapping to the config, or to a file of `mappingsDir`. */
  | { kind: "add"; text: string; file?: string | undefined }
  /** Writes the whole text of a file of `mappingsDir`. */
  | { kind: "file"; file: string; text: string }
  /** Takes `shadow` away from a mapping. */
  | { kind: "enable"; mapping: string };

/** A change that is the text of one mapping as it is being written. */
export type TextChange = Extract<MappingChange, { kind: "replace" | "add" }>;

export interface PlannedChange {
  change: FileChange;
  home: MappingHome;
}

const missing = (message: string): never => {
  throw new RouseError({ code: "not_found", message });
};

const refuse = (message: string): never => {
  throw new RouseError({ code: "usage", message });
};

/**
 * Finds the file and the position in its list of a live mapping.
 * @throws RouseError `not_found`, or `usage` if it stands in no file of the user.
 */
export function findMapping(
  id: string,
  { mappings, config, configFile }: Snapshot,
): { file: string; home: MappingHome; index: number } {
  const info =
    mappings.mappings.find((mapping) => mapping.id === id) ??
    missing(`there is no mapping "${id}"`);
  const inConfig = /^hooks\.mappings\[(\d+)\]$/.exec(info.at);
  if (inConfig && configFile !== undefined)
    return { file: configFile, home: "config", index: Number(inConfig[1]) };
  const [, name, inner = ""] = MAPPING_FILE.exec(info.at) ?? [];
  const index = /^mappings\[(\d+)\]$/.exec(inner)?.[1];
  if (name === undefined || index === undefined)
    return refuse(
      `"${id}" stands in ${info.origin}, which is not a mapping file of yours: copy it into one with another id`,
    );
  return {
    file: mappingFile(config.hooks.mappingsDir, name),
    home: "mappings",
    index: Number(index),
  };
}

type Replacement = Extract<MappingChange, { kind: "replace" }>;

function planReplacement(
  { mapping: id, text, from }: Replacement,
  snapshot: Snapshot,
): PlannedChange {
  const { file, home, index } = findMapping(id, snapshot);
  const before = readNow(file) ?? missing(`${file} is gone`);
  const replace = (one: string): string =>
    replaceMapping(before, home, index, readMappingText(one, file));
  const after = replace(text);
  const written = withoutIndent(listWrittenMappings(before, home)[index]?.text ?? "{}");
  if (from !== undefined && from !== written && after !== before) {
    const [name, shown] = [basename(file), replace(from)];
    const render = (to: string): string => renderFilePatch(name, { before: shown, after: to });
    refuseConflict(
      `${name} was changed while you were writing; nothing was written. Look at both changes, and save again`,
      file,
      { theirs: render(before), own: render(after) },
    );
  }
  return { change: { file, before, after }, home };
}

function planEnabling(id: string, snapshot: Snapshot): PlannedChange {
  const info = snapshot.mappings.mappings.find((mapping) => mapping.id === id);
  if (info && !info.shadow) refuse(`"${id}" is not in shadow`);
  if (info?.origin.startsWith("preset:"))
    refuse(`"${id}" is of a preset: take \`shadow\` away where hooks.presets enables it`);
  const { file, home, index } = findMapping(id, snapshot);
  const before = readNow(file) ?? missing(`${file} is gone`);
  const written =
    listWrittenMappings(before, home)[index] ?? missing(`${file} has no mapping "${id}" any more`);
  const after =
    before.slice(0, written.start) +
    editText(written.text, [{ path: ["shadow"], value: undefined }]) +
    before.slice(written.end);
  return { change: { file, before, after }, home };
}

/** The path of a file of `mappingsDir` by its name. */
function findFile(name: string, { config }: Snapshot): string {
  return /^[\w-]+\.json5?$/.test(name)
    ? mappingFile(config.hooks.mappingsDir, name)
    : refuse(`${name}: name a file of hooks.mappingsDir, such as "acme.json5"`);
}

function planFile(name: string, after: string, snapshot: Snapshot): PlannedChange {
  const file = findFile(name, snapshot);
  return { change: { file, before: readNow(file), after }, home: "mappings" };
}

function planAddition(text: string, name: string | undefined, snapshot: Snapshot): PlannedChange {
  const { configFile } = snapshot;
  const file =
    name === undefined
      ? (configFile ?? refuse("there is no config file: name a file of hooks.mappingsDir"))
      : findFile(name, snapshot);
  const home = name === undefined ? "config" : "mappings";
  const before = readNow(file);
  const id = basename(file).replace(/\.json5?$/, "");
  const start = before ?? JSON.stringify({ id, version: 1, mappings: [] }, null, 2);
  const after = addMapping(start, home, readMappingText(text, file));
  return { change: { file, before, after }, home };
}

/**
 * Finds what a change does to which file.
 * @throws RouseError `not_found`, `usage` or `config_invalid` if the change cannot be made, or `conflict` if it was written from
 * another text than the file has by now.
 */
export function planChange(wanted: MappingChange, snapshot: Snapshot): PlannedChange {
  switch (wanted.kind) {
    case "replace":
      return planReplacement(wanted, snapshot);
    case "enable":
      return planEnabling(wanted.mapping, snapshot);
    case "add":
      return planAddition(wanted.text, wanted.file, snapshot);
    case "file":
      return planFile(wanted.file, wanted.text, snapshot);
  }
}
