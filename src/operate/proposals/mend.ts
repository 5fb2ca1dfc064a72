import { RouseError } from "../../core/errors.ts";
import { readRecordedInput } from "../../intake/replay.ts";
import type { Snapshot } from "../../intake/types.ts";
import type { ConditionTrace, MappingTrace } from "../../mapping/types.ts";
import type { EventRecord } from "../../store/types.ts";
import { testInput } from "../records/test-hook.ts";
import type { FixedMapping } from "./job.ts";
import type { Samples } from "./samples.ts";

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
  const [found] = near.toSorted((a, b) => countHeld(b) - countHeld(a));
  if (found) return found.mapping;
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
    for (const condition of conditions)
      if (condition.result !== true)
        failed.set(condition.condition, [...(failed.get(condition.condition) ?? []), condition]);
  }
  return failed;
}
