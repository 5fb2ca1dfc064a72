/** All gates by name. `known.json` lists what they find today; `scripts/known-violations.ts` writes it. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type CodeFile, type Finding, readCode } from "./code.ts";
import * as habits from "./habits.ts";
import * as imports from "./imports.ts";
import * as names from "./names.ts";

export type Gate = (files: readonly CodeFile[]) => Finding[];

export const GATES: Record<string, Gate> = {
  "imports go one way, types included": imports.importsGoOneWay,
  "no file imports itself over others, types included": imports.noFileCycles,
  "no folder of src imports itself over others, types included": imports.noFolderCycles,
  "what takes a hook to its delivery needs no room that can be left out": imports.coreStandsAlone,
  "no folder of src has more than 25 files": imports.foldersAreSmall,
  "no file of src imports more than 15 others": imports.filesKnowFew,
  "http imports no store": imports.httpImportsNoStore,
  "the intake knows no HTTP": imports.intakeKnowsNoHttp,
  "plugins and transforms import what is published, packages and their own folder":
    imports.pluginsImportWhatIsPublished,
  "the console imports its own files, packages, and types of the gateway":
    imports.consoleImportsTypes,
  "an exported name is declared once": names.exportsDoNotCollide,
  "members of types are used": names.membersAreUsed,
  "nothing in src names a plugin or a sender": habits.sourceNamesNoVendor,
  "bodies of requests are read by one reader": habits.bodiesHaveOneReader,
  "the process, its clock and its network stay outside": habits.processStaysOutside,
  "no escape hatches from the type checker": habits.typesAreChecked,
};

/** The findings of a gate, as lists by file: the form of `known.json`. */
export type Violations = Record<string, string[]>;

export function findViolations(gate: Gate, files: readonly CodeFile[]): Violations {
  const byFile = Map.groupBy(gate(files), ({ file }) => file);
  return Object.fromEntries(
    [...byFile]
      .toSorted(([one], [other]) => (one < other ? -1 : 1))
      .map(([file, findings]) => [file, [...new Set(findings.map(({ what }) => what))].toSorted()]),
  );
}

export const countViolations = (violations: Violations = {}): number =>
  Object.values(violations).flat().length;

export const KNOWN_FILE = join(import.meta.dirname, "known.json");
/** The violations that are still there, by gate. */
export const readKnown = (): Record<string, Violations> =>
  JSON.parse(readFileSync(KNOWN_FILE, "utf8")) as Record<string, Violations>;
export const readProject = (): CodeFile[] =>
  readCode(["src", "plugins", "console", "transforms", "scripts", "bench", "test"]);
