import { findMasks, type MaskOptions } from "./masks.ts";
import type { WrittenRun } from "./recorded-run.ts";
import { getMaskableRun, maskRun, prepareReply } from "./run-record.ts";
import { eventDetail, type EventDetail } from "../records/views.ts";
import { RouseError } from "../../core/errors.ts";
import type { Snapshot } from "../../intake/types.ts";
import type { EventRecord } from "../../store/types.ts";
import { checkFixtureName, writeFixture } from "./fixture-files.ts";
import { readEvent, recordFixture } from "./fixture-record.ts";
import type { FixtureFile } from "./fixture.ts";
import { requireSnapshot } from "../edits/landing-checks.ts";
import type { LandingDeps } from "../edits/landing.ts";
import { planChange, type TextChange } from "../edits/planned-change.ts";
import { toTexts } from "../edits/user-files.ts";

/** The options of a test that is made of an event. */
interface FreezeOptions {
  /** The file's name. Default: the mapping's. */
  name?: string | undefined;
  /** Further fields to mask; false masks nothing. */
  mask: readonly string[] | false;
  /** Fields whose values stay. */
  keep: readonly string[];
}

/** The result. If masking would change what the mappings do, nothing was written: `changedBy` has the fields. */
export type FrozenTest = Awaited<ReturnType<typeof freezeTest>>;

/** The source of a test: an event, a run that has its own prompt, or a run with the event whose request asks for it. */
export type Freezable =
  | { event: EventDetail; recorded?: RecordedAgentRun | undefined }
  | { event?: undefined; recorded: RecordedAgentRun };

/** A run of an agent as it was recorded, with its mapping. */
interface RecordedAgentRun {
  run: WrittenRun;
  createdAt: string;
  mapping: string | null;
}

/** A gateway may run where its files cannot be written. */
function toWriteError(error: unknown, testsDir: string): unknown {
  const { code } = error as NodeJS.ErrnoException;
  if (code !== "EACCES" && code !== "EROFS" && code !== "EPERM") return error;
  return new RouseError({
    code: "usage",
    message: `hooks.testsDir: the gateway may not write in ${testsDir} (${code}); make it writable, or run \`rouse test add\` where your files are`,
  });
}

/** Makes a test of its source: masks what must not be shared, and asks the mappings what they make of the rest. */
async function recordTest(
  { event, recorded }: Freezable,
  snapshot: Snapshot,
  masking: MaskOptions | false,
) {
  const read = event && (await readEvent(event, snapshot));
  const parts = { ...read?.parts, ...(recorded && getMaskableRun(recorded.run)) };
  const masks = masking === false ? [] : findMasks(parts, masking);
  const made = read && (await recordFixture(read.recorded, masks, snapshot));
  const run = recorded && maskRun(recorded.run, masks);
  const { expect: decided, ...rest }: FixtureFile = made?.file ?? {
    receivedAt: (recorded as RecordedAgentRun).createdAt,
    expect: {},
  };
  const expect = { ...decided, ...(run && { reply: prepareReply(run) }) };
  const file: FixtureFile = { ...rest, ...(run && { run }), expect };
  const { reason = null, changedBy = null } = made ?? {};
  const masked = [...new Set(masks.flatMap(({ fields }) => fields))];
  return { file, found: { masked, changedBy, reason, expect, ...(run && { run }) } };
}

/**
 * Writes a recorded event with what the snapshot's mappings make of it, or a recorded run, into `hooks.testsDir`, with private
 * values masked.
 * @throws RouseError `not_found` if the body is no longer kept, `usage` if no mapping decides, a field is not in the request, or the
 * file cannot be written.
 */
export async function freezeTest(
  source: Freezable,
  snapshot: Snapshot,
  { name, mask, keep }: FreezeOptions,
) {
  const checked = name === undefined ? undefined : checkFixtureName(name);
  const masking = mask === false ? false : { mask, keep };
  const { file, found } = await recordTest(source, snapshot, masking);
  if (found.changedBy) return { ...found, written: null };
  const { testsDir } = snapshot.config.hooks;
  const { request, run, expect } = file;
  const path = request?.path ?? `runs/${run?.agent ?? "main"}`;
  const base = source.recorded?.mapping ?? expect.mapping ?? expect.outcome ?? "run";
  const written = await writeFixture(file, { testsDir, path, name: checked, base }).catch(
    (error: unknown) => {
      throw toWriteError(error, testsDir);
    },
  );
  return { ...found, written };
}

/** An event that is to be kept as a test. */
export interface FreezeRequest extends FreezeOptions {
  event: string;
  /** The test expects what the mappings do with this change in place; undefined: what they do today. */
  change?: TextChange | undefined;
}

interface FreezeDeps extends Pick<LandingDeps, "withCandidate" | "snapshot"> {
  /** @throws RouseError `not_found` */
  requireEvent(id: string): Promise<EventRecord>;
}

/**
 * Keeps a recorded event as a test of `hooks.testsDir`, in a file of its own.
 * @throws RouseError as `freezeTest`; `not_found` if there is no such event, or `config_invalid` if the config has problems with the
 * change.
 */
export async function freezeEvent(
  { event: id, change: wanted, ...options }: FreezeRequest,
  { requireEvent, snapshot, withCandidate }: FreezeDeps,
): Promise<FrozenTest> {
  const event = await requireEvent(id);
  const source = { event: eventDetail(event, new Map()) };
  if (!wanted) return freezeTest(source, snapshot(), options);
  const { change } = planChange(wanted, snapshot());
  return withCandidate(toTexts(change), (candidate) => {
    const changed = requireSnapshot(candidate, "the config has problems with this change");
    return freezeTest(source, changed, options);
  });
}
