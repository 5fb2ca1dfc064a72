import { basename } from "node:path";
import { testInput } from "../records/test-hook.ts";
import { RouseError } from "../../core/errors.ts";
import { readRecordedInput } from "../../intake/replay.ts";
import type { Snapshot } from "../../intake/types.ts";
import type { ConditionTrace, MappingTrace } from "../../mapping/types.ts";
import type { EventRecord } from "../../store/types.ts";
import { withoutIndent } from "../edits/mapping-text.ts";
import type { FixedMapping } from "./proposal-text.ts";
import type { Samples } from "./proposal-samples.ts";
import type { MappingEdit, MendedPlan } from "./proposal-types.ts";
import { renderFilePatch } from "../edits/unified-diff.ts";
import type { FileChange } from "../edits/user-files.ts";

const countHeld = ({ conditions }: MappingTrace): number =>
  conditions.filter(({ result }) => result === true).length;

/**
 * Finds the mapping of the user's files that is nearest to taking an event: of those that do not match the one with the most
 * conditions that hold.
 * @throws RouseError `not_found` if the event's body is gone, or `usage` if there is no such mapping.
 */
export async function findNearestMapping(event: EventRecord, snapshot: Snapshot): Promise<string> {
  const recorded = readRecordedInput(event, snapshot);
  if (!recorded.ok)
    throw new RouseError({ code: "not_found", message: `${event.id}: ${recorded.reason}` });
  const { traces } = await testInput(recorded.input, snapshot);
  const near = traces.filter(
    ({ verdict, origin }) => verdict === "no" && !origin.startsWith("preset:"),
  );
  const [nearest] = near.toSorted((a, b) => countHeld(b) - countHeld(a));
  if (nearest) return nearest.mapping;
  throw new RouseError({
    code: "usage",
    message: `no mapping of your files is near to taking ${event.id}: name the one that is to be mended, or propose a new one`,
  });
}

/** The conditions of a mapping that do not hold, each with how it came out for the events. */
export async function traceConditions(
  { id }: FixedMapping,
  { samples }: Samples,
  snapshot: Snapshot,
): Promise<Map<string, ConditionTrace[]>> {
  const failed = new Map<string, ConditionTrace[]>();
  for (const { input } of samples) {
    const { traces } = await testInput(input, snapshot);
    const { conditions = [] } = traces.find(({ mapping }) => mapping === id) ?? {};
    for (const condition of conditions) {
      if (condition.result === true) continue;
      failed.set(condition.condition, [...(failed.get(condition.condition) ?? []), condition]);
    }
  }
  return failed;
}

/** Says why a mapping does not take the events. */
export async function planMending(
  fixed: FixedMapping,
  samples: Samples,
  snapshot: Snapshot,
): Promise<MendedPlan> {
  const failed = await traceConditions(fixed, samples, snapshot);
  const reasons = [...failed].map(([condition, [first]]) => ({
    condition,
    reason: first?.reason ?? "",
  }));
  return { mapping: fixed.id, reasons };
}

/** Renders what a proposal changes of the mapping that it mends. */
export const renderEdit = (
  { id, text }: FixedMapping,
  after: string,
  change: FileChange,
): MappingEdit => ({
  mapping: id,
  before: withoutIndent(text),
  after,
  diff: renderFilePatch(basename(change.file), change),
});
