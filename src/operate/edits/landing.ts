import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import JSON5 from "json5";
import { RouseError, type Issue } from "../../core/errors.ts";
import { CONFIRMATIONS, renderOpenConfirmations, type Confirmation } from "./confirmation-names.ts";
import {
  compareEvents,
  requireSnapshot,
  runTests,
  type ComparisonDeps,
  type TestSummary,
} from "./landing-checks.ts";
import {
  refuseStale,
  renderPatch,
  writeChange,
  type Landed,
  type WriteDeps,
} from "./landing-write.ts";
import { listWrittenMappings, type MappingHome } from "./mapping-text.ts";
import { planChange, type MappingChange, type PlannedChange } from "./planned-change.ts";
import { findWriteProblem, toTexts, type FileChange } from "./user-files.ts";
import type { WhatIfReport } from "../what-if/what-if.ts";

/** What a change of the user's files needs of the gateway that uses them, or of the command line if none runs. */
export interface LandingDeps extends WriteDeps {
  /** Examines a change in a process of its own, so that hooks do not wait for it. Absent, or undefined: it is done in this process. */
  examine?: (wanted: MappingChange, options: CheckOptions) => Promise<ExaminedChange | undefined>;
}

/** What is left out of a check. */
export interface CheckOptions {
  /** False: no events are compared. */
  whatIf: boolean;
}

/** What a change would do, before it is landed. */
export interface LandingCheck {
  file: string;
  /** Identifies the file that the change is for, and what it becomes. */
  base: string;
  /** The change, for `git apply`; empty if the files have it already. */
  diff: string;
  problems: Issue[];
  warnings: Issue[];
  /** What has to be confirmed by name. */
  confirm: Confirmation[];
  /** The same in words, by the names. */
  confirmTexts: Partial<Record<Confirmation, string>>;
  /** What the tests of `hooks.testsDir` say with the change; null if the config has problems with it. */
  tests: TestSummary | null;
  /** What would change for the last 1,000 events; null if it is left out, there is no store, or one of the configs has problems. */
  whatIf: WhatIfReport | null;
  /** Why the file cannot be written here; null if it can. */
  obstacle: string | null;
}

/** A change as it was planned, and what it would do wherever its file is. */
export interface ExaminedChange {
  change: FileChange;
  found: Omit<LandingCheck, "obstacle">;
}

/** How a change was agreed to. */
interface LandingOptions {
  /** The base of the check that was shown. Undefined: the files as they are now. */
  base?: string | undefined;
  /** Who makes it, such as `console 127.0.0.1`, for the log. */
  by?: string | undefined;
  /** What is confirmed by name. */
  confirm?: readonly Confirmation[] | undefined;
}

/** What follows from the text of a change alone. */
type ConfirmedField = Exclude<Confirmation, "failing-tests">;

type Fields = Record<string, unknown>;

const isTemplate = (value: unknown): boolean => typeof value === "string" && value.includes("{{");

/** The values of a mapping that need a confirmation; undefined if it has none. In shadow, callers are let in and code is run, and no more. */
function pickConfirmed({
  shadow,
  auth,
  allowUnsafeExternalContent,
  transform,
  channel,
  to,
}: Fields): Record<ConfirmedField, unknown> {
  const recipient = shadow === true ? [] : [channel, to].filter(isTemplate);
  return {
    auth,
    allowUnsafeExternalContent:
      allowUnsafeExternalContent === true && shadow !== true ? true : undefined,
    "transform.module": (transform as Fields | undefined)?.["module"],
    recipient: recipient.length > 0 ? recipient : undefined,
  };
}

function readParts(text: string | null, home: MappingHome): Fields[] {
  if (text === null) return [];
  const mappings = listWrittenMappings(text, home).map(({ value }, index) => ({
    ...value,
    id: value["id"] ?? index,
  }));
  const document = home === "mappings" ? JSON5.parse<Fields | null>(text) : undefined;
  return [
    ...mappings,
    ...(document?.["auth"] === undefined ? [] : [{ id: null, auth: document["auth"] }]),
  ];
}

/** Finds fields that a change of a file sets, or sets to something else, and that must be confirmed. */
function findFields(
  { before, after }: Pick<FileChange, "before" | "after">,
  home: MappingHome,
): ConfirmedField[] {
  const known = new Map(readParts(before, home).map((part) => [part["id"], pickConfirmed(part)]));
  const changed = readParts(after, home).map((part) => ({
    fields: pickConfirmed(part),
    old: known.get(part["id"]),
  }));
  return (Object.keys(pickConfirmed({})) as ConfirmedField[]).filter((name) =>
    changed.some(
      ({ fields, old }) =>
        fields[name] !== undefined && !isDeepStrictEqual(fields[name], old?.[name]),
    ),
  );
}

/**
 * Finds what a change of a file must be confirmed for.
 * @param tests what the tests say with the change; null if the config has problems with it.
 */
function findConfirmations(
  change: Pick<FileChange, "before" | "after">,
  home: MappingHome,
  tests: TestSummary | null,
): Confirmation[] {
  const fails = tests !== null && tests.failed.length + tests.issues.length > 0;
  return [...findFields(change, home), ...(fails ? ["failing-tests" as const] : [])];
}

const identify = ({ before, after }: FileChange): string =>
  createHash("sha256")
    .update(JSON.stringify([before, after]))
    .digest("hex");

const findReason = async ({ file }: FileChange, deps: LandingDeps): Promise<string | undefined> =>
  (await deps.findObstacle()) ?? (await findWriteProblem(file));

type Tried = Pick<LandingCheck, "problems" | "warnings" | "tests" | "whatIf">;

/** Says what the config does with a change in place. */
function tryChange(change: FileChange, deps: ComparisonDeps): Promise<Tried> {
  return deps.withCandidate(toTexts(change), async (candidate) =>
    candidate.ok
      ? {
          problems: [],
          warnings: [...candidate.snapshot.warnings],
          tests: await runTests(candidate.snapshot),
          whatIf: await compareEvents(candidate.snapshot, deps),
        }
      : { problems: candidate.issues, warnings: [], tests: null, whatIf: null },
  );
}

/**
 * Says what a change would do: its diff, its problems, its tests, and what it changes for the last events. Writes nothing.
 * @throws RouseError `not_found`, `usage` or `config_invalid` if the change cannot be made at all, or `conflict` if it was written
 * from another text than the file has by now.
 */
export async function examineChange(
  wanted: MappingChange,
  { whatIf }: CheckOptions,
  given: ComparisonDeps,
): Promise<ExaminedChange> {
  const deps = whatIf ? given : { ...given, withStore: async () => null };
  const { change, home } = planChange(wanted, deps.snapshot());
  const tried = await tryChange(change, deps);
  const confirm = findConfirmations(change, home, tried.tests);
  return {
    change,
    found: {
      file: change.file,
      base: identify(change),
      diff: renderPatch(change, deps),
      ...tried,
      confirm,
      confirmTexts: Object.fromEntries(confirm.map((name) => [name, CONFIRMATIONS[name]])),
    },
  };
}

/** Builds the snapshot of a change, and makes sure of what is confirmed. Returns the snapshot's hash. */
function buildConfirmed(
  { change, home }: PlannedChange,
  confirm: readonly Confirmation[],
  deps: LandingDeps,
): Promise<string> {
  return deps.withCandidate(toTexts(change), async (candidate) => {
    const snapshot = requireSnapshot(candidate, "the change has problems; nothing was written");
    const tests = confirm.includes("failing-tests") ? null : await runTests(snapshot);
    const open = findConfirmations(change, home, tests).filter((name) => !confirm.includes(name));
    if (open.length === 0) return snapshot.hash;
    throw new RouseError({
      code: "not_confirmed",
      message: renderOpenConfirmations(open, confirm),
    });
  });
}

async function land(
  wanted: MappingChange,
  options: LandingOptions,
  shown: ReadonlyMap<string, string | null>,
  deps: LandingDeps,
): Promise<Landed> {
  const { base, confirm = [] } = options;
  const planned = planChange(wanted, deps.snapshot());
  const { change } = planned;
  if (base !== undefined && base !== identify(change)) refuseStale(change, shown.get(base), deps);
  if (change.before === change.after)
    return { landed: true, file: change.file, inUse: deps.reload !== undefined };
  const expected = await buildConfirmed(planned, confirm, deps);
  const reason = await findReason(change, deps);
  if (reason !== undefined)
    return { landed: false, file: change.file, reason, patch: renderPatch(change, deps) };
  return writeChange(change, expected, deps);
}

/** How many texts are remembered for the details of a conflict. */
const MAX_SHOWN = 20;

/** Changes mappings in the files in which they stand. */
export interface Landing {
  /**
   * Says what a change would do: its diff, its problems, and what has to be confirmed. Writes nothing.
   * @throws RouseError `not_found`, `usage` or `config_invalid` if the change cannot be made at all.
   */
  check(wanted: MappingChange, options?: CheckOptions): Promise<LandingCheck>;
  /**
   * Makes a change: checks it again as a whole snapshot, writes the file in one step, and waits until the gateway that runs
   * uses exactly what was checked; else the file goes back. If the file cannot be written, the change comes as a patch.
   * @throws RouseError `conflict` if the file has changed since it was shown, `not_confirmed`, `config_invalid` with the
   * problems of the change, or `not_landed` if the gateway did not use the file.
   */
  land(wanted: MappingChange, options: LandingOptions): Promise<Landed>;
}

/** Creates what changes mappings. Changes are made one after the other. */
export function createLanding(deps: LandingDeps): Landing {
  const shown = new Map<string, string | null>();
  let last: Promise<unknown> = Promise.resolve();
  return {
    async check(wanted, options = { whatIf: true }) {
      const { change, found } =
        (await deps.examine?.(wanted, options)) ?? (await examineChange(wanted, options, deps));
      shown.set(found.base, change.before);
      for (const hash of [...shown.keys()].slice(0, -MAX_SHOWN)) shown.delete(hash);
      return { ...found, obstacle: (await findReason(change, deps)) ?? null };
    },
    land(wanted, options) {
      const next = last.then(() => land(wanted, options, shown, deps));
      last = next.catch(() => undefined);
      return next;
    },
  };
}
