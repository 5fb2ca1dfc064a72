import { basename } from "node:path";
import { RouseError } from "../core/errors.ts";
import { MAPPING_FILE } from "../config/issues.ts";
import type { Snapshot } from "../intake/types.ts";
import {
  findDraft,
  getNewDraftFile,
  livePath,
  planDraft,
  withDraftText,
  type Draft,
  type FileChange,
  type MappingPlaces,
} from "./drafts.ts";
import {
  addMapping,
  listWrittenMappings,
  readMappingText,
  replaceMapping,
  withoutIndent,
  type MappingHome,
} from "./mapping-text.ts";
import { renderFilePatch } from "./unified-diff.ts";
import { listVersions, readNow } from "./versions.ts";

/** A change of the live mappings. Nothing else of a config can be changed this way. */
export type MappingChange =
  /** Replaces the text of a live mapping. `from`: the text that it was written from; it is refused if the file has another by now. */
  | { kind: "replace"; mapping: string; text: string; from?: string | undefined }
  /** Adds a mapping to the config, or to a file of `mappingsDir`. */
  | { kind: "add"; text: string; file?: string | undefined }
  /** Makes a draft live; `into`: in this file. */
  | { kind: "draft"; name: string; into?: string | undefined }
  /** Replaces the whole text of a draft, which stays a draft. `from` is as above; `new`: the draft is not there yet. */
  | {
      kind: "draft-text";
      name: string;
      text: string;
      from?: string | undefined;
      new?: boolean | undefined;
    }
  /** Takes back the last change that was landed. */
  | { kind: "undo" };

/** A change that is only compared: also the whole text of a file of `mappingsDir`. */
export type ProposedChange = MappingChange | { kind: "file"; file: string; text: string };

/** A change that is a text as it is being written: of one mapping, or of a draft. */
export type TextChange = Extract<MappingChange, { kind: "replace" | "add" | "draft-text" }>;

export interface PlannedChange {
  change: FileChange;
  /** False for the text of a draft, which changes nothing that is live. */
  isLive: boolean;
  home: MappingHome;
  /** What is done, for the list of versions. */
  what: string;
  /** The ids of live mappings that are replaced. */
  replaces: string[];
  /** Goes away when the change has landed. */
  draft?: Draft;
  /** The kept version that is taken back. */
  version?: string;
  /** The draft whose landing is taken back. */
  broughtBack?: Pick<Draft, "file" | "text">;
}

const missing = (message: string): never => {
  throw new RouseError({ code: "not_found", message });
};

const refuse = (message: string): never => {
  throw new RouseError({ code: "usage", message });
};

interface Places extends MappingPlaces {
  stateDir: string;
}

/**
 * Finds the file and the position in its list of a live mapping.
 * @throws RouseError `not_found`, or `usage` if it stands in no file of the user.
 */
export function findMapping(
  id: string,
  { mappings }: Snapshot,
  { mappingsDir, configFile }: MappingPlaces,
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
  return { file: livePath(mappingsDir, name), home: "mappings", index: Number(index) };
}

/**
 * Refuses a text that was written from another one than the file has by now. The details have both changes.
 * @throws RouseError `conflict`
 */
function refuseOvertaken(
  file: string,
  { shown, now, wanted }: { shown: string; now: string; wanted: string },
): never {
  const name = basename(file);
  const render = (after: string): string => renderFilePatch(name, { before: shown, after });
  throw new RouseError({
    code: "conflict",
    message: `${name} was changed while you were writing; nothing was written. Look at both changes, and save again`,
    issues: [
      { path: "", file, message: "has changed like this:", detail: render(now) },
      { path: "", file, message: "was to be changed like this:", detail: render(wanted) },
    ],
  });
}

type Replacement = Extract<MappingChange, { kind: "replace" }>;

function planReplacement(
  { mapping: id, text, from }: Replacement,
  snapshot: Snapshot,
  places: Places,
): PlannedChange {
  const { file, home, index } = findMapping(id, snapshot, places);
  const before = readNow(file) ?? missing(`${file} is gone`);
  const replace = (one: string): string =>
    replaceMapping(before, home, index, readMappingText(one, file));
  const after = replace(text);
  const written = withoutIndent(listWrittenMappings(before, home)[index]?.text ?? "{}");
  if (from !== undefined && from !== written && after !== before)
    refuseOvertaken(file, { shown: replace(from), now: before, wanted: after });
  return {
    change: { file, before, after },
    isLive: true,
    home,
    what: `change of ${id}`,
    replaces: [id],
  };
}

/** The path of a file of `mappingsDir` by its name. */
function findFile(name: string, { mappingsDir }: Places): string {
  return /^[\w-]+\.json5?$/.test(name)
    ? livePath(mappingsDir, name)
    : refuse(`${name}: name a file of hooks.mappingsDir, such as "acme.json5"`);
}

function planFile(name: string, after: string, places: Places): PlannedChange {
  const file = findFile(name, places);
  return {
    change: { file, before: readNow(file), after },
    isLive: true,
    home: "mappings",
    what: `text of ${name}`,
    replaces: [],
  };
}

function planAddition(text: string, name: string | undefined, places: Places): PlannedChange {
  const { configFile } = places;
  const file =
    name === undefined
      ? (configFile ?? refuse("there is no config file: name a file of hooks.mappingsDir"))
      : findFile(name, places);
  const home = name === undefined ? "config" : "mappings";
  const before = readNow(file);
  const id = basename(file).replace(/\.json5?$/, "");
  const start = before ?? JSON.stringify({ id, version: 1, mappings: [] }, null, 2);
  const after = addMapping(start, home, readMappingText(text, file));
  const added = listWrittenMappings(after, home).at(-1)?.id ?? "a mapping";
  return {
    change: { file, before, after },
    isLive: true,
    home,
    what: `${added} added`,
    replaces: [],
  };
}

function planAcceptance(draft: Draft, into: string | undefined, places: Places): PlannedChange {
  const { file, before, after, replaces } = planDraft(draft, places, into);
  const home = file === places.configFile ? "config" : "mappings";
  return {
    change: { file, before, after },
    isLive: true,
    home,
    what: `draft ${draft.name} accepted`,
    replaces,
    draft,
  };
}

type DraftText = Extract<MappingChange, { kind: "draft-text" }>;

/** The file and the text of the draft that a text is for; null if it is a new one. A new draft may have comments. */
const findWritten = (
  { name, new: isNew }: DraftText,
  { mappingsDir }: Places,
): { file: string; text: string | null } =>
  isNew === true
    ? { file: `${getNewDraftFile(name, mappingsDir)}5`, text: null }
    : findDraft(name, mappingsDir);

function planDraftText(wanted: DraftText, places: Places): PlannedChange {
  const { name, text, from } = wanted;
  const { file, text: before } = findWritten(wanted, places);
  if (before !== null && from !== undefined && from !== before && text !== before)
    refuseOvertaken(file, { shown: from, now: before, wanted: text });
  return {
    change: { file, before, after: text },
    isLive: false,
    home: "mappings",
    what: `text of the draft ${name}`,
    replaces: [],
  };
}

async function planUndo({ stateDir, configFile }: Places): Promise<PlannedChange> {
  const versions = await listVersions(stateDir);
  // A crash between the version and its change leaves a version of a change that was never made.
  const made = versions.filter(
    ({ file, before, after }) => before === after || readNow(file) !== before,
  );
  const version =
    made[0] ?? missing("no change is kept that could be taken back (`rouse config undo --list`)");
  const { file, before, after, what, id, draft } = version;
  const home = file === configFile ? "config" : "mappings";
  return {
    change: { file, before: after, after: before },
    isLive: true,
    home,
    what: `undo: ${what}`,
    replaces: [],
    version: id,
    ...(draft && { broughtBack: draft }),
  };
}

/**
 * Finds what a change does to which file. Undo starts from the text that was landed, whatever the file has now.
 * @throws RouseError `not_found`, `usage` or `config_invalid` if the change cannot be made.
 */
export async function planChange(
  wanted: ProposedChange,
  snapshot: Snapshot | undefined,
  places: Places,
): Promise<PlannedChange> {
  switch (wanted.kind) {
    case "replace":
      return planReplacement(
        wanted,
        snapshot ?? refuse("the config has problems: mend them first"),
        places,
      );
    case "add":
      return planAddition(wanted.text, wanted.file, places);
    case "file":
      return planFile(wanted.file, wanted.text, places);
    case "draft":
      return planAcceptance(findDraft(wanted.name, places.mappingsDir), wanted.into, places);
    case "draft-text":
      return planDraftText(wanted, places);
    case "undo":
      return planUndo(places);
  }
}

/**
 * Finds what a change is compared and evaluated by: of the text of a draft, what it does once the draft is accepted.
 * @throws RouseError as `planChange` does.
 */
export async function planTried(
  wanted: ProposedChange,
  snapshot: Snapshot | undefined,
  places: Places,
): Promise<PlannedChange> {
  if (wanted.kind !== "draft-text") return planChange(wanted, snapshot, places);
  const { name, text } = wanted;
  return planAcceptance(
    withDraftText({ name, file: findWritten(wanted, places).file }, text),
    undefined,
    places,
  );
}
