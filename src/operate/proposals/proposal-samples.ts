import type { EventDetail } from "../records/views.ts";
import { RouseError } from "../../core/errors.ts";
import type { Snapshot } from "../../intake/types.ts";
import type { MappingInput } from "../../mapping/types.ts";
import { countFields } from "./draft-mapping.ts";
import { maskEvent } from "../tests/fixture-record.ts";
import { readFixtureInput } from "../tests/fixture-run.ts";
import type { Fixture } from "../tests/fixture.ts";
import { applyMasks, type Mask } from "../tests/masks.ts";
import type { FieldShape } from "../shapes/shape.ts";

/** The most events that a proposal is made from. */
export const MAX_EVENTS = 20;

/** A recorded event with stand-ins for what must not be shared: all that a model sees of it, and all that it is run on. */
export interface ProposalSample {
  event: EventDetail;
  masked: Pick<Fixture, "request" | "receivedAt" | "credential">;
  input: MappingInput;
}

/** What a proposal is made from. */
export interface Samples {
  path: string;
  samples: ProposalSample[];
  /** The fields of the masked bodies. */
  fields: FieldShape[];
  /** The masked fields of requests. */
  masked: string[];
  standIns: ReadonlySet<string>;
  /** Events whose body cannot be read. */
  leftOut: { eventId: string; reason: string }[];
}

const refuse = (message: string): never => {
  throw new RouseError({ code: "usage", message });
};

/**
 * Masks an event. What the mapping that is mended compares with stays: it would not match otherwise.
 * @param match the conditions of that mapping.
 */
async function maskSample(
  event: EventDetail,
  snapshot: Snapshot,
  match: unknown,
): Promise<{ masked: ProposalSample["masked"]; masks: Mask[] }> {
  const { recorded, masks: found } = await maskEvent(event, snapshot, {});
  const written = JSON.stringify(match ?? {});
  const masks = found.filter(({ value }) => !written.includes(JSON.stringify(value)));
  return { masks, masked: { ...recorded, request: applyMasks(recorded.request, masks) } };
}

/**
 * Reads events, masks them as fixtures are masked, and counts their fields.
 * @param match the conditions of the mapping that is mended, whose values stay.
 * @throws RouseError `usage` if they are of several hooks, or if the body of none can be read.
 */
export async function readSamples(
  events: readonly EventDetail[],
  snapshot: Snapshot,
  match?: unknown,
): Promise<Samples> {
  const paths = [...new Set(events.map(({ path }) => path))];
  const [path = ""] = paths;
  if (paths.length > 1)
    refuse(`the events came to several hooks (${paths.join(", ")}): propose one mapping for each`);
  const samples: ProposalSample[] = [];
  const leftOut: Samples["leftOut"] = [];
  const masks = new Map<string, readonly string[]>();
  for (const event of events) {
    const { masked, masks: found } = await maskSample(event, snapshot, match);
    const read = await readFixtureInput(masked, snapshot);
    const payload = read.ok ? read.input.payload : undefined;
    if (read.ok && typeof payload === "object" && payload !== null)
      samples.push({ event, masked, input: read.input });
    else
      leftOut.push({ eventId: event.id, reason: read.ok ? "its body has no fields" : read.reason });
    for (const { standIn, fields } of found) masks.set(standIn, fields);
  }
  if (samples.length === 0)
    refuse(
      `no event can be drafted from: ${leftOut.map(({ eventId, reason }) => `${eventId}: ${reason}`).join("; ")}`,
    );
  return {
    path,
    samples,
    fields: countFields(
      path,
      samples.map(({ input }) => input.payload),
    ),
    masked: [...new Set([...masks.values()].flat())],
    standIns: new Set(masks.keys()),
    leftOut,
  };
}
