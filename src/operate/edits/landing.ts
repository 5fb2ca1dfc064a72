import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import JSON5 from "json5";
import { RouseError } from "../../core/errors.ts";
import { CONFIRMATIONS, renderOpenConfirmations, type Confirmation } from "./confirmation-names.ts";
import {
  compareEvents,
  requireSnapshot,
  runTests,
  type ComparisonDeps,
  type TestSummary,
} from "./landing-checks.ts";
import { renderPatch, writeChange, type Landed, type WriteDeps } from "./landing-write.ts";
import { listWrittenMappings, type MappingHome } from "./mapping-text.ts";
import { planChange, type MappingChange, type PlannedChange } from "./planned-change.ts";
import { findWriteProblem, refuseStale, toTexts, type FileChange } from "./user-files.ts";
import { pick } from "../records/views.ts";

/** The context of a change of the user's files: the gateway that uses them, or the command line if none runs. */
export interface LandingDeps extends WriteDeps {
  /** Examines a change in a process of its own, so that hooks do not wait for it. Absent, or undefined: it is done in this process. */
  examine?: (wanted: MappingChange, options: CheckOptions) => Promise<ExaminedChange | undefined>;
}

/** Parts that are left out of a check. */
export interface CheckOptions {
  /** False: no events are compared. */
  whatIf: boolean;
}

/** A change as it was planned, and what it would do wherever its file is. */
export type ExaminedChange = Awaited<ReturnType<typeof examineChange>>;

/** The effect of a change, before it is landed. `obstacle`: the reason that the file cannot be written here; null if it can. */
export type LandingCheck = ExaminedChange["found"] & { obstacle: string | null };

/** The consent to a change. */
interface LandingOptions {
  /** The base of the check that was shown. Undefined: the files as they are now. */
  base?: string | undefined;
  /** The person or program that makes it, such as `console 127.0.0.1`, for the log. */
  by?: string | undefined;
  /** The names that are confirmed. */
  confirm?: readonly Confirmation[] | undefined;
}

/** The names that follow from the text of a change alone. */
type ConfirmedField = Exclude<Confirmation, "failing-tests">;

type Fields = Record<string, unknown>;

const isTemplate = (value: unknown): boolean => typeof value === "string" && value.includes("{{");

/** The values of a mapping that need a confirmation; undefined if it has none. In shadow, callers are let in and code is run, and no more. */
function pickConfirmed(mapping: Fields): Record<ConfirmedField, unknown> {
  const { shadow, auth, allowUnsafeExternalContent, transform, channel, to } = mapping;
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

/** Says what the config does with a change in place. If it has problems with it, there is neither a test nor a comparison. */
const tryChange = (change: FileChange, deps: ComparisonDeps) =>
  deps.withCandidate(toTexts(change), async (candidate) => {
    const snapshot = candidate.ok ? candidate.snapshot : undefined;
    return {
      problems: candidate.ok ? [] : candidate.issues,
      warnings: [...(snapshot?.warnings ?? [])],
      /** The results of the tests of `hooks.testsDir` with the change. */
      tests: snapshot ? await runTests(snapshot) : null,
      /** The changes for the last 1,000 events; null also if it is left out, or there is no store. */
      whatIf: snapshot ? await compareEvents(snapshot, deps) : null,
    };
  });

/**
 * Says what a change would do: its diff, its problems, its tests, and what it changes for the last events. Writes nothing.
 * @throws RouseError `not_found`, `usage` or `config_invalid` if the change cannot be made at all, or `conflict` if it was written
 * from another text than the file has by now.
 */
export async function examineChange(
  wanted: MappingChange,
  { whatIf }: CheckOptions,
  given: ComparisonDeps,
) {
  const deps = whatIf ? given : { ...given, withStore: async () => null };
  const { change, home } = planChange(wanted, deps.snapshot());
  const tried = await tryChange(change, deps);
  const confirm = findConfirmations(change, home, tried.tests);
  const confirmTexts: Partial<Record<Confirmation, string>> = pick(CONFIRMATIONS, ...confirm);
  const found = {
    file: change.file,
    /** Identifies the file that the change is for, and what it becomes. */
    base: identify(change),
    /** The change, for `git apply`; empty if the files have it already. */
    diff: renderPatch(change, deps),
    ...tried,
    /** The names that have to be confirmed. */
    confirm,
    /** The same in words, by the names. */
    confirmTexts,
  };
  return { change, found };
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
  deps: LandingDeps,
): Promise<Landed> {
  const { base, confirm = [] } = options;
  const planned = planChange(wanted, deps.snapshot());
  const { change } = planned;
  if (base !== undefined && base !== identify(change)) refuseStale(change.file);
  if (change.before === change.after)
    return { landed: true, file: change.file, inUse: deps.reload !== undefined };
  const expected = await buildConfirmed(planned, confirm, deps);
  const reason = await findReason(change, deps);
  if (reason !== undefined)
    return { landed: false, file: change.file, reason, patch: renderPatch(change, deps) };
  return writeChange(change, expected, deps);
}

/** Changes mappings in the files in which they stand. */
export type Landing = ReturnType<typeof createLanding>;

/** Creates what changes mappings. Changes are made one after the other. */
export function createLanding(deps: LandingDeps) {
  let last: Promise<unknown> = Promise.resolve();
  return {
    /**
     * Says what a change would do: its diff, its problems, and what has to be confirmed. Writes nothing.
     * @throws RouseError `not_found`, `usage` or `config_invalid` if the change cannot be made at all.
     */
    async check(
      wanted: MappingChange,
      options: CheckOptions = { whatIf: true },
    ): Promise<LandingCheck> {
      const { change, found } =
        (await deps.examine?.(wanted, options)) ?? (await examineChange(wanted, options, deps));
      return { ...found, obstacle: (await findReason(change, deps)) ?? null };
    },
    /**
     * Makes a change: checks it again as a whole snapshot, writes the file in one step, and waits until the gateway that runs
     * uses exactly what was checked; else the file goes back. If the file cannot be written, the change comes as a patch.
     * @throws RouseError `conflict` if the file has changed since it was shown, `not_confirmed`, `config_invalid` with the
     * problems of the change, or `not_landed` if the gateway did not use the file.
     */
    land(wanted: MappingChange, options: LandingOptions): Promise<Landed> {
      const next = last.then(() => land(wanted, options, deps));
      last = next.catch(() => undefined);
      return next;
    },
  };
}
