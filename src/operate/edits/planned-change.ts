import { basename } from "node:path";
import { editText } from "../../config/edit.ts";
import { RouseError, type Failure } from "../../core/errors.ts";
import { MAPPING_FILE } from "../../config/issues.ts";
import { unknownId } from "../../vocabulary/unknown-id.ts";
import { found, refuse } from "../records/operation.ts";
import type { Snapshot } from "../../intake/types.ts";
import {
  addMapping,
  listWrittenMappings,
  readMappingText,
  replaceMapping,
  withoutIndent,
  type MappingHome,
} from "./mapping-text.ts";
import { mappingFile, readNow, refuseStale, type FileChange } from "./user-files.ts";

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

/**
 * Finds the file and the position in its list of a live mapping.
 * @throws RouseError `not_found`, or `usage` if it stands in no file of the user.
 */
export function findMapping(
  id: string,
  { mappings, config, configFile }: Snapshot,
): { file: string; home: MappingHome; index: number } {
  const info = found(
    mappings.mappings.find((mapping) => mapping.id === id),
    unknownId("mapping", id),
  );
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

type ReadMapping = ReturnType<typeof readMapping>;

/**
 * Reads a live mapping as it stands in its file, `before`.
 * @throws RouseError as `findMapping`, `not_found` if the file is gone, or `conflict` if it does not have the mapping any more.
 */
export function readMapping(id: string, snapshot: Snapshot) {
  const place = findMapping(id, snapshot);
  const gone: Failure = { code: "not_found", message: `${place.file} is gone` };
  const before = found(readNow(place.file) ?? undefined, gone);
  const written = listWrittenMappings(before, place.home)[place.index];
  if (written) return { ...place, before, written };
  const message = `${basename(place.file)} has changed, and has no mapping "${id}" any more: wait until the gateway has read it`;
  throw new RouseError({ code: "conflict", message });
}

/** Puts a text in the place of a mapping, unless the file has another text by now than the one that it was written from. */
function replaceText(
  { text, from }: Extract<MappingChange, { kind: "replace" }>,
  { file, home, index, before, written }: ReadMapping,
): string {
  const after = replaceMapping(before, home, index, readMappingText(text, file));
  const isAsShown = from === undefined || from === withoutIndent(written.text);
  return isAsShown || after === before ? after : refuseStale(file);
}

/** @throws RouseError `usage` if a mapping is not in shadow, or not by a file of the user. */
function checkInShadow(id: string, { mappings }: Snapshot): void {
  const info = mappings.mappings.find((mapping) => mapping.id === id);
  if (info && !info.shadow) refuse(`"${id}" is not in shadow`);
  if (info?.origin.startsWith("preset:"))
    refuse(`"${id}" is of a preset: take \`shadow\` away where hooks.presets enables it`);
}

/** Takes `shadow` away from a mapping. */
function enable({ before, written: { start, end, text } }: ReadMapping): string {
  const live = editText(text, [{ path: ["shadow"], value: undefined }]);
  return before.slice(0, start) + live + before.slice(end);
}

/** Finds the file of a new mapping: one of `mappingsDir` by its name, or the config. */
function findFile(
  name: string | undefined,
  { config, configFile }: Snapshot,
): { file: string; home: MappingHome } {
  if (name !== undefined && /^[\w-]+\.json5?$/.test(name))
    return { file: mappingFile(config.hooks.mappingsDir, name), home: "mappings" };
  if (name !== undefined)
    return refuse(`${name}: name a file of hooks.mappingsDir, such as "acme.json5"`);
  if (configFile !== undefined) return { file: configFile, home: "config" };
  return refuse("there is no config file: name a file of hooks.mappingsDir");
}

/**
 * Finds what a change does to which file.
 * @throws RouseError `not_found`, `usage` or `config_invalid` if the change cannot be made, or `conflict` if it was written from
 * another text than the file has by now.
 */
export function planChange(wanted: MappingChange, snapshot: Snapshot): PlannedChange {
  if (wanted.kind === "enable") checkInShadow(wanted.mapping, snapshot);
  if (wanted.kind === "replace" || wanted.kind === "enable") {
    const mapping = readMapping(wanted.mapping, snapshot);
    const { file, home, before } = mapping;
    const after = wanted.kind === "replace" ? replaceText(wanted, mapping) : enable(mapping);
    return { change: { file, before, after }, home };
  }
  const { file, home } = findFile(wanted.file, snapshot);
  const before = readNow(file);
  if (wanted.kind === "file") return { change: { file, before, after: wanted.text }, home };
  const id = basename(file).replace(/\.json5?$/, "");
  const start = before ?? JSON.stringify({ id, version: 1, mappings: [] }, null, 2);
  const after = addMapping(start, home, readMappingText(wanted.text, file));
  return { change: { file, before, after }, home };
}
