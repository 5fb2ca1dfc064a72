import type { Mask, MaskOptions } from "./masks.ts";
import type { WrittenRun } from "./recorded-run.ts";
import { findRunMasks, getMaskableRun, maskRun, prepareReply } from "./run-record.ts";
import { eventDetail, type EventDetail } from "../records/views.ts";
import { RouseError } from "../../core/errors.ts";
import type { Snapshot } from "../../intake/types.ts";
import type { EventRecord } from "../../store/types.ts";
import { checkFixtureName, writeFixture } from "./fixture-files.ts";
import { recordFixture } from "./fixture-record.ts";
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
export interface FrozenTest {
  written: string | null;
  masked: string[];
  changedBy: string[] | null;
  /** The reason that the event is not accepted; null if it is. */
  reason: string | null;
  expect: FixtureFile["expect"];
  /** The recorded run, masked. */
  run?: WrittenRun;
}

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

interface MaskedTest extends Omit<FrozenTest, "written" | "masked" | "expect"> {
  file: FixtureFile;
  masks: Mask[];
  /** The folder below `hooks.testsDir`, and the file's name if the user gives none. */
  path: string;
  base: string;
}

async function maskTest(
  { event, recorded }: Freezable,
  snapshot: Snapshot,
  masking: MaskOptions | false,
): Promise<MaskedTest> {
  const own = recorded?.run;
  if (!event) {
    const { run, createdAt: receivedAt, mapping } = recorded;
    const masks = findRunMasks(run, masking);
    const masked = maskRun(run, masks);
    const file = { receivedAt, run: masked, expect: { reply: prepareReply(masked) } };
    const place = { path: `runs/${run.agent ?? "main"}`, base: mapping ?? "run" };
    return { ...place, file, masks, changedBy: null, reason: null, run: masked };
  }
  const made = await recordFixture(event, snapshot, masking, own && getMaskableRun(own));
  const { file, masks, reason, changedBy } = made;
  const { expect, ...request } = file;
  const common = { masks, reason, changedBy, path: file.request.path };
  const base = recorded?.mapping ?? expect.mapping ?? expect.outcome;
  if (!own) return { ...common, file, base };
  const run = maskRun(own, masks);
  const withReply = { ...request, run, expect: { ...expect, reply: prepareReply(run) } };
  return { ...common, file: withReply, base, run };
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
): Promise<FrozenTest> {
  const checked = name === undefined ? undefined : checkFixtureName(name);
  const made = await maskTest(source, snapshot, mask === false ? false : { mask, keep });
  const { file, masks, reason, changedBy, path, base, run } = made;
  const masked = [...new Set(masks.flatMap(({ fields }) => fields))];
  const found = { masked, changedBy, reason, expect: file.expect, ...(run && { run }) };
  if (changedBy) return { ...found, written: null };
  const { testsDir } = snapshot.config.hooks;
  const place = { testsDir, path, name: checked, base };
  const written = await writeFixture(file, place).catch((error: unknown) => {
    throw toWriteError(error, testsDir);
  });
  return { ...found, written };
}

/** An event that is to be kept as a test. */
interface FreezeRequest extends FreezeOptions {
  event: string;
  /** The test expects what the mappings do with this change in place; undefined: what they do today. */
  change?: TextChange | undefined;
}

interface FreezeDeps extends Pick<LandingDeps, "withCandidate" | "snapshot"> {
  /** @throws RouseError `not_found` */
  requireEvent(id: string): Promise<EventRecord>;
}

/** Keeps recorded events as tests of `hooks.testsDir`. */
export interface Freezer {
  /**
   * Writes a recorded event into a file of its own, as a test. Values that look private are masked.
   * @throws RouseError as `freezeTest`; `not_found` if there is no such event, or `config_invalid` if the config has problems with
   * the change.
   */
  freeze(request: FreezeRequest): Promise<FrozenTest>;
}

/** Creates what keeps events as tests. */
export function createFreezer({ requireEvent, snapshot, withCandidate }: FreezeDeps): Freezer {
  return {
    async freeze({ event: id, change: wanted, ...options }) {
      const event = await requireEvent(id);
      const source = { event: eventDetail(event, new Map()) };
      if (!wanted) return freezeTest(source, snapshot(), options);
      const { change } = planChange(wanted, snapshot());
      return withCandidate(toTexts(change), (candidate) => {
        const changed = requireSnapshot(candidate, "the config has problems with this change");
        return freezeTest(source, changed, options);
      });
    },
  };
}
