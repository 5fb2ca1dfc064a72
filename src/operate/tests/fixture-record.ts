import type { EventDetail } from "../records/views.ts";
import { WITHOUT_MAPPINGS } from "../../intake/authenticate.ts";
import type { Snapshot } from "../../intake/types.ts";
import { bodyGone } from "../../vocabulary/body-gone.ts";
import { RouseError } from "../../core/errors.ts";
import {
  encodeBody,
  type Fixture,
  type FixtureExpectation,
  type FixtureFile,
  type FixtureRequest,
} from "./fixture.ts";
import { evaluateFixture, readFixtureInput } from "./fixture-run.ts";
import { applyMasks, findMasks, getMaskable, type Mask, type MaskOptions } from "./masks.ts";

type Recorded = Pick<Fixture, "request" | "receivedAt" | "credential">;

/** A fixture that is not written yet. */
export interface RecordedFixture {
  file: FixtureFile & { request: FixtureRequest; expect: FixtureExpectation };
  masks: Mask[];
  /** Why the event is not accepted; null if it is. */
  reason: string | null;
  /** If masking changes what the mappings do: the fields that change it. */
  changedBy: string[] | null;
}

/** What a person would call another outcome: all but the texts, which hold the masked values. */
function summarize({ outcome, mapping, actions = [], missing }: FixtureExpectation): string {
  const decided = actions.map(
    ({ mapping: by, fields: { action, agent, model, deliver, channel, boundary } = {} }) => [
      by,
      action,
      agent,
      model,
      deliver,
      channel,
      boundary,
    ],
  );
  return JSON.stringify([outcome, mapping, decided, missing]);
}

/** Finds the fields whose masks change what the mappings do. */
async function findCulprits(
  recorded: Recorded,
  masks: readonly Mask[],
  before: string,
  snapshot: Snapshot,
): Promise<string[]> {
  const isSame = async (some: readonly Mask[]): Promise<boolean> => {
    const { actual } = await evaluateFixture(
      { ...recorded, request: applyMasks(recorded.request, some) },
      snapshot,
    );
    return summarize(actual) === before;
  };
  /** Halves again and again, since a body may have thousands of values. Masks that change something only together stay together. */
  const find = async (some: readonly Mask[]): Promise<readonly Mask[]> => {
    if (await isSame(some)) return [];
    if (some.length === 1) return some;
    const half = Math.ceil(some.length / 2);
    const parts = [...(await find(some.slice(0, half))), ...(await find(some.slice(half)))];
    return parts.length > 0 ? parts : some;
  };
  return (await find(masks)).flatMap(({ fields }) => fields);
}

function readEvent({ path, credential, receivedAt, request }: EventDetail): Recorded {
  const { method, headers, query, contentType, body, encoding } = request;
  if (WITHOUT_MAPPINGS.has(path))
    throw new RouseError({
      code: "usage",
      message: `no mapping decides about /${path}: its body names the work, so there is nothing to test`,
    });
  if (body === null) throw bodyGone();
  const type = contentType === null ? {} : { contentType };
  const sent =
    method === "GET" ? {} : encodeBody(Buffer.from(body, encoding), contentType ?? undefined);
  return {
    request: { method: method as "POST" | "GET", path, query, headers, ...type, ...sent },
    receivedAt: Date.parse(receivedAt),
    credential,
  };
}

/** A recorded request with stand-ins for what must not be shared. */
interface MaskedEvent {
  /** The request as it came in. */
  recorded: Recorded;
  request: Fixture["request"];
  masks: Mask[];
}

/**
 * Masks what must not be shared of a recorded event.
 * @param more what else is masked by the same stand-ins, such as the run of the event.
 * @throws RouseError `not_found` if the body is no longer kept, `usage` if no mapping decides or a field is not in the request.
 */
export async function maskEvent(
  event: EventDetail,
  snapshot: Snapshot,
  options: MaskOptions | false,
  more: Record<string, unknown> = {},
): Promise<MaskedEvent> {
  const recorded = readEvent(event);
  const input = await readFixtureInput(recorded, snapshot);
  const masks =
    options === false
      ? []
      : findMasks(
          { ...getMaskable(recorded.request, input.ok ? input.input.payload : undefined), ...more },
          options,
        );
  return { recorded, masks, request: applyMasks(recorded.request, masks) };
}

/**
 * Makes a fixture of a recorded event: masks what must not be shared, and asks today's mappings what they make of the rest.
 * @param options `false` masks nothing.
 * @param more what else is masked, as by `maskEvent`.
 * @throws RouseError `not_found` if the body is no longer kept, `usage` if no mapping decides or a field is not in the request.
 */
export async function recordFixture(
  event: EventDetail,
  snapshot: Snapshot,
  options: MaskOptions | false,
  more: Record<string, unknown> = {},
): Promise<RecordedFixture> {
  const { recorded, masks, request } = await maskEvent(event, snapshot, options, more);
  const credential = recorded.credential?.startsWith("path:")
    ? `path:${request.path}`
    : recorded.credential;
  const before = await evaluateFixture(recorded, snapshot);
  const { actual, reason } = await evaluateFixture({ ...recorded, request, credential }, snapshot);
  const isChanged = summarize(before.actual) !== summarize(actual);
  return {
    file: { request, receivedAt: event.receivedAt, credential, expect: actual },
    masks,
    reason,
    changedBy: isChanged
      ? await findCulprits(recorded, masks, summarize(before.actual), snapshot)
      : null,
  };
}
