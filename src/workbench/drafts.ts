import { existsSync, readdirSync, readFileSync, realpathSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { basename, isAbsolute, join, resolve } from "node:path";
import { mappingFileSchema, PRESET_NAME } from "../config/schema/mapping.ts";
import { configIssues } from "../config/issues.ts";
import { readJson5 } from "../config/json5.ts";
import { RouseError, type Issue } from "../core/errors.ts";
import type { FileTexts } from "../core/files.ts";
import {
  editMappings,
  listWrittenMappings,
  readMappingText,
  type MappingHome,
} from "./mapping-text.ts";

/** A mapping file in the folder `drafts` of `hooks.mappingsDir`. It is never live. */
export interface Draft {
  /** The file's name without its ending. */
  name: string;
  file: string;
  /** Empty if the file cannot be read. */
  text: string;
  /** Why the file is no valid mapping file; undefined if it is one. */
  problem?: string;
}

/** Where the live mappings of a user stand. */
export interface MappingPlaces {
  mappingsDir: string;
  /** The config file; undefined if there is none. */
  configFile?: string | undefined;
}

/** A change of one file: what it has, and what it is to have. Null: the file is not there. */
export interface FileChange {
  file: string;
  before: string | null;
  after: string | null;
}

/** What a draft makes of the live files. */
export interface DraftPlan extends FileChange {
  after: string;
  /** The ids of live mappings that it replaces. */
  replaces: string[];
  /** Whether the live file has all of it already. */
  landed: boolean;
}

const FILE = /(?<!\.schema)\.json5?$/;

const refuse = (message: string): never => {
  throw new RouseError({ code: "usage", message });
};

/** The folder of the drafts. */
export const draftsDir = (mappingsDir: string): string => join(mappingsDir, "drafts");

/** A live file's path as the loader names it: without links, if its folder is there. */
export function livePath(mappingsDir: string, name: string): string {
  return join(existsSync(mappingsDir) ? realpathSync(mappingsDir) : mappingsDir, name);
}

const renderProblems = (issues: readonly Issue[]): string =>
  issues.map(({ path, message }) => (path === "" ? message : `${path}: ${message}`)).join("; ");

function findProblem(file: string, text: string): string | undefined {
  const parsed = readJson5(file, new Map([[file, text]]));
  if (!parsed.ok) return parsed.message;
  const checked = mappingFileSchema.safeParse(parsed.value);
  const issues = [
    ...parsed.duplicates,
    ...(checked.success ? [] : configIssues(checked.error, mappingFileSchema)),
  ];
  return issues.length === 0 ? undefined : renderProblems(issues);
}

function readDraft(folder: string, fileName: string): Draft {
  const [file, name] = [join(folder, fileName), fileName.replace(FILE, "")];
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    return {
      name,
      file,
      text: "",
      problem: `cannot be read (${(error as NodeJS.ErrnoException).code ?? "error"})`,
    };
  }
  return withDraftText({ name, file }, text);
}

/** A draft with another text. */
export function withDraftText({ name, file }: Pick<Draft, "name" | "file">, text: string): Draft {
  const problem = PRESET_NAME.test(name)
    ? findProblem(file, text)
    : 'its name may have lower-case letters, digits and "-" only';
  return { name, file, text, ...(problem === undefined ? {} : { problem }) };
}

/** Reads the drafts of a folder of mappings, by name. A draft with a problem is among them. */
export function readDrafts(mappingsDir: string): Draft[] {
  const folder = draftsDir(mappingsDir);
  if (!existsSync(folder)) return [];
  const names = readdirSync(folder).filter((name) => FILE.test(name));
  const drafts = names.toSorted().map((name) => readDraft(folder, name));
  const twice = (draft: Draft): boolean =>
    drafts.some((other) => other !== draft && other.name === draft.name);
  return drafts.map((draft) =>
    twice(draft)
      ? {
          ...draft,
          problem: `there are two drafts of the name "${draft.name}": remove one of the files`,
        }
      : draft,
  );
}

/**
 * Finds a draft by its name.
 * @throws RouseError `not_found`
 */
export function findDraft(name: string, mappingsDir: string): Draft {
  const drafts = readDrafts(mappingsDir);
  const draft = drafts.find((one) => one.name === name);
  if (draft) return draft;
  const known =
    drafts.length === 0
      ? `${draftsDir(mappingsDir)} has none`
      : `there are ${drafts.map((one) => one.name).join(", ")}`;
  throw new RouseError({ code: "not_found", message: `there is no draft "${name}"; ${known}` });
}

/**
 * Returns the file of a draft that is to be written.
 * @throws RouseError `usage` if the name is not one for a draft, or taken by a draft or a live file.
 */
export function getNewDraftFile(name: string, mappingsDir: string): string {
  if (!PRESET_NAME.test(name)) refuse(`"${name}": use lower-case letters, digits and "-"`);
  const folder = draftsDir(mappingsDir);
  const taken = [mappingsDir, folder]
    .flatMap((dir) => [join(dir, `${name}.json`), join(dir, `${name}.json5`)])
    .find((one) => existsSync(one));
  if (taken !== undefined) refuse(`${taken} is there already; name another, or edit it`);
  return join(folder, `${name}.json`);
}

/**
 * Makes sure that a new draft adds mappings, and replaces none that is live.
 * @throws RouseError `usage`
 */
export function refuseReplacing(draft: Draft, places: MappingPlaces): void {
  const { replaces, file } = planDraft(draft, places);
  if (replaces.length === 0) return;
  refuse(
    `there is a live mapping "${replaces.join('", "')}" in ${basename(file)}, which the draft "${draft.name}" would replace: choose another name`,
  );
}

const readIfThere = (file: string): string | null =>
  existsSync(file) ? readFileSync(file, "utf8") : null;

/** A file that live mappings stand in. */
interface LiveFile {
  file: string;
  home: MappingHome;
  text: string;
}

/** Reads the files that live mappings stand in; one that is not valid JSON5 has none. */
function readLiveFiles({ mappingsDir, configFile }: MappingPlaces): LiveFile[] {
  const names = existsSync(mappingsDir)
    ? readdirSync(mappingsDir).filter((name) => FILE.test(name))
    : [];
  const files: [string, MappingHome][] = [
    ...(configFile === undefined ? [] : [[configFile, "config"] as [string, MappingHome]]),
    ...names
      .toSorted()
      .map((name): [string, MappingHome] => [livePath(mappingsDir, name), "mappings"]),
  ];
  return files.flatMap(([file, home]) => {
    const text = readIfThere(file);
    return text !== null && readJson5(file).ok ? [{ file, home, text }] : [];
  });
}

/** Puts the mappings of a draft into a live file: in place of those with the same id, else behind the last. */
function mergeInto({ file, home, text }: LiveFile, draft: Draft): DraftPlan {
  const { auth, maxBodyBytes } = readDocument(draft);
  if (auth !== undefined || maxBodyBytes !== undefined)
    refuse(
      `the draft "${draft.name}" has \`${auth === undefined ? "maxBodyBytes" : "auth"}\` for its whole file, which cannot go into ${basename(file)}: write it into the draft's mappings`,
    );
  const live = listWrittenMappings(text, home);
  const places = new Map(live.map((mapping, index) => [mapping.id, { ...mapping, index }]));
  const [replaces, replaced, added]: [string[], Map<number, string>, string[]] = [
    [],
    new Map(),
    [],
  ];
  for (const { id, value, text: written } of listWrittenMappings(draft.text, "mappings")) {
    const mapping = readMappingText(written, file);
    const place = id === undefined ? undefined : places.get(id);
    if (!place) added.push(mapping);
    else {
      replaces.push(id as string);
      if (!isDeepStrictEqual(place.value, value)) replaced.set(place.index, mapping);
    }
  }
  const after = editMappings(text, home, { replaced, added });
  return { file, before: text, after, replaces, landed: after === text };
}

function readDocument(draft: Draft): Record<string, unknown> {
  const parsed = readJson5(draft.file, new Map([[draft.file, draft.text]]));
  return parsed.ok && typeof parsed.value === "object" && parsed.value !== null
    ? (parsed.value as Record<string, unknown>)
    : {};
}

/** The live file that `--into` names: the config, or a file of `mappingsDir`. */
function findNamed(
  into: string,
  live: readonly LiveFile[],
  { mappingsDir }: MappingPlaces,
): LiveFile {
  const wanted = [into, isAbsolute(into) ? into : resolve(mappingsDir, into)];
  const found = live.find(({ file }) => wanted.includes(file) || basename(file) === into);
  if (found) return found;
  return refuse(
    `${into} is no live mapping file: there are ${live.map(({ file }) => basename(file)).join(", ") || "none"}`,
  );
}

/**
 * Says which live file a draft changes when it lands, and how. A draft whose mappings have ids of live mappings replaces
 * these where they stand. Any other becomes a file of its own name in `mappingsDir`, or goes into the file `into`.
 * @throws RouseError `usage` if it cannot land as it is: its name is taken, or its mappings stand in several files.
 */
export function planDraft(draft: Draft, places: MappingPlaces, into?: string): DraftPlan {
  const file = livePath(places.mappingsDir, basename(draft.file));
  const live = readLiveFiles(places);
  const same = live.find((one) => one.file === file);
  if (same && same.text === draft.text)
    return { file, before: draft.text, after: draft.text, replaces: [], landed: true };
  if (draft.problem !== undefined)
    return { file, before: readIfThere(file), after: draft.text, replaces: [], landed: false };
  const ids = listWrittenMappings(draft.text, "mappings").flatMap(({ id }) => id ?? []);
  const holders = live.filter((one) =>
    listWrittenMappings(one.text, one.home).some(({ id }) => id !== undefined && ids.includes(id)),
  );
  if (holders.length > 1)
    refuse(
      `the draft "${draft.name}" replaces mappings of ${holders.map((one) => basename(one.file)).join(" and ")}: make one of each`,
    );
  const target = into === undefined ? holders[0] : findNamed(into, live, places);
  if (target && holders[0] && target !== holders[0])
    refuse(
      `a mapping of the draft "${draft.name}" replaces one in ${basename(holders[0].file)}, so it cannot go into ${into}`,
    );
  if (target) return mergeInto(target, draft);
  const namesake = live.find(
    (one) => one.home === "mappings" && basename(one.file).replace(FILE, "") === draft.name,
  );
  if (namesake)
    refuse(
      `there is a live file ${basename(namesake.file)} with the name of the draft "${draft.name}", and other mappings in it: rename the draft, or name a file with --into`,
    );
  return { file, before: readIfThere(file), after: draft.text, replaces: [], landed: false };
}

/**
 * The texts of a config in which a draft is live, for `buildSnapshot`.
 * @throws RouseError `usage` as `planDraft` does.
 */
export function draftTexts(draft: Draft, mappingsDir: string, configFile?: string): FileTexts {
  const { file, after } = planDraft(draft, { mappingsDir, configFile });
  return new Map([[file, after]]);
}

/** Whether a mapping of a snapshot that was built with a draft is the draft's. `at`: its place in the config. */
export function isOfDraft(
  { id, at }: { id: string; at: string },
  draft: Draft,
  { file, replaces }: DraftPlan,
): boolean {
  if (replaces.includes(id)) return true;
  if (basename(file) === basename(draft.file)) return at.startsWith(`mappings/${basename(file)}: `);
  return (
    draft.problem === undefined &&
    listWrittenMappings(draft.text, "mappings").some((mapping) => mapping.id === id)
  );
}
