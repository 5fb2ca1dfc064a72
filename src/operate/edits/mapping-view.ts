import { basename } from "node:path";
import JSON5 from "json5";
import { mappingFileJsonSchema, type JsonSchema } from "../../config/json-schema.ts";
import { FUNCTIONS } from "../../mapping/jsonata/functions.ts";
import { place } from "../records/test-hook.ts";
import { RouseError } from "../../core/errors.ts";
import type { Snapshot } from "../../intake/types.ts";
import type { MappingInfo } from "../../mapping/types.ts";
import { listWrittenMappings, withoutIndent } from "./mapping-text.ts";
import { findMapping } from "./planned-change.ts";
import { readNow } from "./user-files.ts";

/** A live mapping, with the place where it is written. */
export type PlacedMapping = MappingInfo & {
  /** `rouse.json5:9`; for a preset where the config enables it. */
  place: string;
  /** Whether it stands in a file of the user, so that it can be changed. */
  own: boolean;
};

/** The text of one mapping as it can be edited. For operators only. */
export interface MappingText extends PlacedMapping {
  /** The file's path; null if it stands in no file of the user. */
  file: string | null;
  /** As it is written in the file, without the indent of its place. A preset is written with its options in place. */
  text: string;
}

const isOwn = ({ origin }: MappingInfo): boolean => !origin.startsWith("preset:");

/** Lists the live mappings in the order in which they are tried. */
export function listPlacedMappings(snapshot: Snapshot): PlacedMapping[] {
  return place(snapshot.mappings.mappings, snapshot).map((mapping) => ({
    ...mapping,
    own: isOwn(mapping),
  }));
}

/** What a mapping of a preset says, without the secrets that its options bring. */
function renderPreset(id: string, { mappings }: Snapshot): string {
  const { auth: _auth, ...config } =
    mappings.configs.find(({ info }) => info.id === id)?.config ?? {};
  return JSON5.stringify(config, null, 2);
}

/**
 * Shows a live mapping with its text.
 * @throws RouseError `not_found`
 */
export function showMapping(id: string, snapshot: Snapshot): MappingText {
  const mapping = listPlacedMappings(snapshot).find((one) => one.id === id);
  if (!mapping) throw new RouseError({ code: "not_found", message: `there is no mapping "${id}"` });
  if (!mapping.own) return { ...mapping, file: null, text: renderPreset(id, snapshot) };
  const { file, home, index } = findMapping(id, snapshot);
  const written = listWrittenMappings(readNow(file) ?? "", home)[index];
  if (!written)
    throw new RouseError({
      code: "conflict",
      message: `${basename(file)} has changed: wait until the gateway has read it`,
    });
  return { ...mapping, file, text: withoutIndent(written.text) };
}

/** What an editor of mappings completes and explains. */
export interface MappingWords {
  mapping: JsonSchema;
  $defs: Record<string, JsonSchema>;
  /** The functions of expressions. */
  functions: string[];
}

/** Describes mappings for editors. */
export function describeMapping(): MappingWords {
  const { $defs = {}, ...file } = mappingFileJsonSchema();
  return {
    mapping: file.properties?.["mappings"]?.items ?? {},
    $defs,
    functions: [...FUNCTIONS].toSorted(),
  };
}
