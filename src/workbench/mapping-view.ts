import { basename } from "node:path";
import JSON5 from "json5";
import { mappingFileJsonSchema, type JsonSchema } from "../config/json-schema.ts";
import { FUNCTIONS } from "../mapping/functions.ts";
import { place } from "../admin/test-hook.ts";
import { RouseError } from "../core/errors.ts";
import type { Snapshot } from "../intake/types.ts";
import type { MappingInfo } from "../mapping/types.ts";
import { draftsDir, planDraft, readDrafts } from "./drafts.ts";
import { listWrittenMappings, withoutIndent } from "./mapping-text.ts";
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
  /** The paths that its mappings name. */
  paths: string[];
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

const getPlaces = ({ config, configFile }: Snapshot) => ({
  mappingsDir: config.hooks.mappingsDir,
  configFile,
});

const isOwn = ({ origin }: MappingInfo): boolean => !origin.startsWith("preset:");

/** Lists the live mappings in the order in which they are tried. */
export function listPlacedMappings(snapshot: Snapshot): PlacedMapping[] {
  return place(snapshot.mappings.mappings, snapshot).map((mapping) => ({
    ...mapping,
    own: isOwn(mapping),
  }));
}

const listPaths = ({ match }: Record<string, unknown>): string[] =>
  [(match as { path?: unknown } | undefined)?.path]
    .flat()
    .filter((path) => typeof path === "string");

/** Lists the drafts, by name. */
export function listDrafts(snapshot: Snapshot): DraftView[] {
  const places = getPlaces(snapshot);
  return readDrafts(places.mappingsDir).map((draft): DraftView => {
    const { name, text, problem } = draft;
    const view = {
      name,
      file: `${basename(draftsDir(places.mappingsDir))}/${basename(draft.file)}`,
      text,
    };
    try {
      const { replaces } = planDraft(draft, places);
      const written = problem === undefined ? listWrittenMappings(text, "mappings") : [];
      const mappings = written.flatMap(({ id }) => id ?? []);
      return {
        ...view,
        mappings,
        paths: [...new Set(written.flatMap(({ value }) => listPaths(value)))],
        replaces,
        problem: problem ?? null,
      };
    } catch (error) {
      if (!(error instanceof RouseError)) throw error;
      return { ...view, mappings: [], paths: [], replaces: [], problem: error.message };
    }
  });
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
  const { file, home, index } = findMapping(id, snapshot, getPlaces(snapshot));
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
  /** Of a whole mapping file. */
  file: JsonSchema;
  $defs: Record<string, JsonSchema>;
  /** The functions of expressions. */
  functions: string[];
}

/** Describes mappings for editors. */
export function describeMapping(): MappingWords {
  const { $defs = {}, ...file } = mappingFileJsonSchema();
  return {
    mapping: file.properties?.["mappings"]?.items ?? {},
    file,
    $defs,
    functions: [...FUNCTIONS].toSorted(),
  };
}
