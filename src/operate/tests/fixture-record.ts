import type { EventDetail } from "../records/views.ts";
import { WITHOUT_MAPPINGS } from "../../intake/authenticate.ts";
import type { Snapshot } from "../../intake/types.ts";
import { bodyGone } from "../../vocabulary/body-gone.ts";
import { refuse } from "../records/operation.ts";
import { encodeBody, type Fixture, type FixtureExpectation } from "./fixture.ts";
import { evaluateFixture, readFixtureInput } from "./fixture-run.ts";
import { applyMasks, type Mask } from "./masks.ts";

type Recorded = Pick<Fixture, "request" | "receivedAt" | "credential">;

/** A fixture that is not written yet. */
export type RecordedFixture = Awaited<ReturnType<typeof recordFixture>>;

/** The part of an outcome that masks must not change: all but the texts, which hold the masked values. */
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

/**
 * Reads a recorded event as a fixture has it.
 * @returns the request, and its parts that may hold values to mask.
 * @throws RouseError `not_found` if the body is no longer kept, `usage` if no mapping decides.
 */
export async function readEvent(
  { path, credential, receivedAt, request }: EventDetail,
  snapshot: Snapshot,
): Promise<{ recorded: Recorded; parts: Record<string, unknown> }> {
  const { method, headers, query, contentType, body, encoding } = request;
  if (WITHOUT_MAPPINGS.has(path))
    refuse(
      `no mapping decides about /${path}: its body names the work, so there is nothing to test`,
    );
  if (body === null) throw bodyGone();
  const bytes = Buffer.from(body, encoding);
  const type = contentType ?? undefined;
  const sent = method === "GET" ? {} : encodeBody(bytes, type);
  const recorded: Recorded = {
    request: { method: method as "POST" | "GET", path, query, headers, contentType: type, ...sent },
    receivedAt: Date.parse(receivedAt),
    credential,
  };
  const read = await readFixtureInput(recorded, snapshot);
  const payload = read.ok ? read.input.payload : bytes.toString("utf8");
  return { recorded, parts: { payload, headers, query, path } };
}

/** Makes a fixture of a recorded request: masks it, and asks the mappings what they make of the rest. */
export async function recordFixture(
  recorded: Recorded,
  masks: readonly Mask[],
  snapshot: Snapshot,
) {
  const request = applyMasks(recorded.request, masks);
  const credential = recorded.credential?.startsWith("path:")
    ? `path:${request.path}`
    : recorded.credential;
  const before = summarize((await evaluateFixture(recorded, snapshot)).actual);
  const { actual, reason } = await evaluateFixture({ ...recorded, request, credential }, snapshot);
  const receivedAt = new Date(recorded.receivedAt).toISOString();
  return {
    file: { request, receivedAt, credential, expect: actual },
    /** The reason why the event is not accepted; null if it is. */
    reason,
    /** If masking changes what the mappings do: the fields that change it. */
    changedBy:
      before === summarize(actual) ? null : await findCulprits(recorded, masks, before, snapshot),
  };
}
