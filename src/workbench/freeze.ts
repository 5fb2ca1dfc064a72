import { eventDetail, type EventDetail } from "../admin/views.ts";
import { RouseError } from "../core/errors.ts";
import type { Snapshot } from "../intake/types.ts";
import type { EventRecord } from "../store/types.ts";
import { checkFixtureName, writeFixture } from "./fixture-files.ts";
import { recordFixture } from "./fixture-record.ts";
import type { FixtureExpectation } from "./fixture.ts";
import type { LandingDeps } from "./landing.ts";
import { planChange, type TextChange } from "./planned-change.ts";

/** How an event is frozen as a test. */
export interface FreezeOptions {
  /** The file's name. Default: the mapping's. */
  name?: string | undefined;
  /** Further fields to mask; false masks nothing. */
  mask: readonly string[] | false;
  /** Fields whose values stay. */
  keep: readonly string[];
}

/** What was written. If masking would change what the mappings do, nothing was: `changedBy` has the fields. */
export interface FrozenEvent {
  written: string | null;
  masked: string[];
  changedBy: string[] | null;
  /** Why the event is not accepted; null if it is. */
  reason: string | null;
  expect: FixtureExpectation;
}

/** A gateway may run where its files cannot be written. */
function toWriteError(error: unknown, testsDir: string): unknown {
  const { code } = error as NodeJS.ErrnoException;
  if (code !== "EACCES" && code !== "EROFS" && code !== "EPERM") return error;
  return new RouseError({
    code: "usage",
    message: `hooks.testsDir: the gateway may not write in ${testsDir} (${code}); make it writable, or run \`rouse fixtures add\` where your files are`,
  });
}

/**
 * Writes a recorded event with what the snapshot's mappings make of it into `hooks.testsDir`, with private values masked.
 * @throws RouseError `not_found` if the body is no longer kept, `usage` if no mapping decides, a field is not in the request, or the
 * file cannot be written.
 */
export async function freezeEvent(
  event: EventDetail,
  snapshot: Snapshot,
  { name, mask, keep }: FreezeOptions,
): Promise<FrozenEvent> {
  const checked = name === undefined ? undefined : checkFixtureName(name);
  const recorded = await recordFixture(event, snapshot, mask === false ? false : { mask, keep });
  const { file, masks, reason, changedBy } = recorded;
  const { expect } = file;
  const masked = [...new Set(masks.flatMap(({ fields }) => fields))];
  if (changedBy) return { written: null, masked, changedBy, reason, expect };
  const { testsDir } = snapshot.config.hooks;
  const place = {
    testsDir,
    path: file.request.path,
    name: checked,
    base: expect.mapping ?? expect.outcome,
  };
  const written = await writeFixture(file, place).catch((error: unknown) => {
    throw toWriteError(error, testsDir);
  });
  return { written, masked, changedBy: null, reason, expect };
}

/** An event that is to be kept as a test. */
export interface FreezeRequest extends FreezeOptions {
  event: string;
  /** The test expects what the mappings do with this change in place; undefined: what they do today. */
  change?: TextChange | undefined;
}

export interface FreezeDeps extends Pick<LandingDeps, "withCandidate" | "places"> {
  snapshot(): Snapshot;
  getEvent(id: string): Promise<EventRecord | undefined>;
}

/** Keeps recorded events as tests of `hooks.testsDir`. */
export interface Freezer {
  /**
   * Writes a recorded event into a file of its own, as a test. Values that look private are masked.
   * @throws RouseError as `freezeEvent`; `not_found` if there is no such event, or `config_invalid` if the config has problems with
   * the change.
   */
  freeze(request: FreezeRequest): Promise<FrozenEvent>;
}

/** Creates what keeps events as tests. */
export function createFreezer({ getEvent, places, snapshot, withCandidate }: FreezeDeps): Freezer {
  return {
    async freeze({ event: id, change: wanted, ...options }) {
      const event = await getEvent(id);
      if (!event)
        throw new RouseError({ code: "not_found", message: "there is no event with this id" });
      const detail = eventDetail(event, new Map());
      if (!wanted) return freezeEvent(detail, snapshot(), options);
      const { change } = planChange(wanted, snapshot(), places());
      return withCandidate(new Map([[change.file, change.after]]), (found) => {
        if (found.ok) return freezeEvent(detail, found.snapshot, options);
        throw new RouseError({
          code: "config_invalid",
          message: "the config has problems with this change",
          issues: found.issues,
        });
      });
    },
  };
}
