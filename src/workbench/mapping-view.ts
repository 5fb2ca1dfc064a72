import { basename } from "node:path";
import JSON5 from "json5";
import { mappingFileJsonSchema, type JsonSchema } from "../config/json-schema.ts";
import { FUNCTIONS } from "../mapping/functions.ts";
import { place } from "../admin/test-hook.ts";
import { RouseError } from "../core/errors.ts";
import type { Snapshot } from "../intake/types.ts";
import type { MappingInfo } from "../mapping/types.ts";
import { draftsDir, planDraft, readDrafts } from "./drafts.ts";
import { listWrittenMappings } from "./mapping-text.ts";
import { findMapping } from "./planned-change.ts";
import { readNow } from "./versions.ts";

/** A live mapping, with the place where it is written. */
export type PlacedMapping = MappingInfo & {
  /** `rouse.json5:9`; for a preset where the config enables it. */
  place: string;
  /** Whether it stands in a file of the user, so that it can be changed. */
  own: boolean;
};

/** A draft as lists show it. */
export interface DraftView {
  name: string;
  file: string;
  /** The ids of its mappings. */
  mappings: string[];
  /** The ids of live mappings that it would replace. */
  replaces: string[];
  text: string;
  /** Why it cannot be made live; null if it can. */
  problem: string | null;
}

/** The text of one mapping as it can be edited. For operators only. */
export interface MappingText extends PlacedMapping {
  /** The file's path; null if it stands in no file of the user. */
  file: string | null;
  /** As it is written in the file, without the indent of its place. A preset is written with its options in place. */
  text: string;
}

const getPlaces = ({ config, configFile }: Snapshot) => ({ mappingsDir: config.hooks.mappingsDir, configFile });

const isOwn = ({ origin }: MappingInfo): boolean => !origin.startsWith("preset:");

/** Lists the live mappings in the order in which they are tried. */
export function listPlacedMappings(snapshot: Snapshot): PlacedMapping[] {
  return place(snapshot.mappings.mappings, snapshot).map((mapping) => ({ ...mapping, own: isOwn(mapping) }));
}

/** Lists the drafts, by name. */
export function listDrafts(snapshot: Snapshot): DraftView[] {
  const places = getPlaces(snapshot);
  return readDrafts(places.mappingsDir).map((draft): DraftView => {
    const { name, text, problem } = draft;
    const view = { name, file: `${basename(draftsDir(places.mappingsDir))}/${basename(draft.file)}`, text };
    try {
      const { replaces } = planDraft(draft, places);
      const mappings = problem === undefined ? listWrittenMappings(text, "mappings").flatMap(({ id }) => id ?? []) : [];
      return { ...view, mappings, replaces, problem: problem ?? null };
    } catch (error) {
      if (!(error instanceof RouseError)) throw error;
      return { ...view, mappings: [], replaces: [], problem: error.message };
    }
  });
}

/** Takes away the indent that the lines of a mapping have in its file. */
function withoutIndent(text: string): string {
  const lines = text.split(/\r?\n/);
  const indent = /^[ \t]*/.exec(lines.at(-1) ?? "")?.[0] ?? "";
  const moved = lines.map((line, index) => (index > 0 && line.startsWith(indent) ? line.slice(indent.length) : line)).join("\n");
  // A text that goes on over a line break would change with its indent.
  return JSON.stringify(JSON5.parse(moved)) === JSON.stringify(JSON5.parse(text)) ? moved : text;
}

/** What a mapping of a preset says, without the secrets that its options bring. */
function renderPreset(id: string, { mappings }: Snapshot): string {
  const { auth: _auth, ...config } = mappings.configs.find(({ info }) => info.id === id)?.config ?? {};
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
  const { file, home, index } = findMapping(id, snapshot, getPlaces(snapshot));
  const written = listWrittenMappings(readNow(file) ?? "", home)[index];
  if (!written) throw new RouseError({ code: "conflict", message: `${basename(file)} has changed: wait until the gateway has read it` });
  return { ...mapping, file, text: withoutIndent(written.text) };
}

/** What an editor of mappings completes and explains: the schema of one mapping, and the functions of expressions. */
export function describeMapping(): { mapping: JsonSchema; $defs: Record<string, JsonSchema>; functions: string[] } {
  const { properties: { mappings } = {}, $defs = {} } = mappingFileJsonSchema();
  return { mapping: mappings?.items ?? {}, $defs, functions: [...FUNCTIONS].toSorted() };
}
