import type { EventDetail } from "../admin/views.ts";
import { RouseError } from "../core/errors.ts";
import type { Snapshot } from "../intake/types.ts";
import { recordFixture } from "./fixture-record.ts";
import { checkName, writeFixture } from "./fixture-write.ts";
import type { FixtureExpectation } from "./fixture.ts";

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
 * Writes a recorded event with what today's mappings make of it into `hooks.testsDir`, with private values masked.
 * @throws RouseError `not_found` if the body is no longer kept, `usage` if no mapping decides, a field is not in the request, or the
 * file cannot be written.
 */
export async function freezeEvent(event: EventDetail, snapshot: Snapshot, { name, mask, keep }: FreezeOptions): Promise<FrozenEvent> {
  const checked = name === undefined ? undefined : checkName(name);
  const recorded = await recordFixture(event, snapshot, mask === false ? false : { mask, keep });
  const { file, masks, reason, changedBy } = recorded;
  const { expect } = file;
  const masked = [...new Set(masks.flatMap(({ fields }) => fields))];
  if (changedBy) return { written: null, masked, changedBy, reason, expect };
  const { testsDir } = snapshot.config.hooks;
  const place = { testsDir, path: file.request.path, name: checked, base: expect.mapping ?? expect.outcome };
  const written = await writeFixture(file, place).catch((error: unknown) => {
    throw toWriteError(error, testsDir);
  });
  return { written, masked, changedBy: null, reason, expect };
}
