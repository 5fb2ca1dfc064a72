import { isCredentialName } from "../../core/http/credential-name.ts";
import type { Snapshot } from "../../intake/types.ts";
import { parsePath, readPath } from "../../mapping/template-context.ts";
import type { MappingInput } from "../../mapping/types.ts";
import { refuse } from "../records/operation.ts";
import type { EventDetail } from "../records/views.ts";
import { addToShape, createShape, toHookShape, type FieldShape } from "../shapes/shape.ts";
import { readEvent } from "../tests/fixture-record.ts";
import { readFixtureInput } from "../tests/fixture-run.ts";
import { applyMasks, findMasks } from "../tests/masks.ts";

/** A recorded event with stand-ins for what must not be shared: all that a model sees of it, and all that it is run on. */
export interface ProposalSample {
  event: EventDetail;
  input: MappingInput;
}

/** The events that a proposal is made from. */
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

/** The parts of a mapping that a proposal writes. What is absent stays as it is. */
export interface MappingParts {
  payload?: Record<string, unknown>;
  headers?: Record<string, unknown>;
  name?: string;
  sessionKey?: string;
  messageTemplate?: string[];
}

/** Counts the fields of payloads. */
function countFields(path: string, samples: readonly ProposalSample[]): FieldShape[] {
  const shape = createShape(path);
  for (const { input } of samples) addToShape(shape, input.payload, 0);
  return toHookShape(shape).fields;
}

/**
 * Reads events, masks them as fixtures are masked, and counts their fields.
 * @throws RouseError `usage` if they are of several hooks, or if the body of none can be read.
 */
export async function readSamples(
  events: readonly EventDetail[],
  snapshot: Snapshot,
): Promise<Samples> {
  const paths = [...new Set(events.map(({ path }) => path))];
  const [path = ""] = paths;
  if (paths.length > 1)
    refuse(`the events came to several hooks (${paths.join(", ")}): propose one mapping for each`);
  const samples: ProposalSample[] = [];
  const leftOut: Samples["leftOut"] = [];
  const masks = new Map<string, readonly string[]>();
  for (const event of events) {
    const { recorded, parts } = await readEvent(event, snapshot);
    const found = findMasks(parts, {});
    const masked = { ...recorded, request: applyMasks(recorded.request, found) };
    const read = await readFixtureInput(masked, snapshot);
    if (read.ok) samples.push({ event, input: read.input });
    else leftOut.push({ eventId: event.id, reason: read.reason });
    for (const { standIn, fields } of found) masks.set(standIn, fields);
  }
  if (samples.length === 0)
    refuse(
      `no event can be drafted from: ${leftOut.map(({ eventId, reason }) => `${eventId}: ${reason}`).join("; ")}`,
    );
  return {
    path,
    samples,
    fields: countFields(path, samples),
    masked: [...new Set([...masks.values()].flat())],
    standIns: new Set(masks.keys()),
    leftOut,
  };
}

const MAX_FIELDS = 12;
const MAX_LEVELS = 5;
const MAX_LENGTH = 2000;
/** Fields that tell kinds of events apart, the most telling first. */
const KINDS = [
  "type",
  "event",
  "event_type",
  "eventType",
  "action",
  "kind",
  "webhookEvent",
  "status",
];
/** Fields that name what the event is about. */
const IDS = /(?:^|\.)(?:id|key|uuid|number|identifier)$/i;
/** Names at the root of a template that come before the fields of the payload. */
const ROOT = /^(?:payload|headers|query|path|now|item|index|events|count|first|last)\b/;

/** A field of the payload as a template reads it. */
export const toExpression = (field: string): string =>
  ROOT.test(field) ? `payload.${field}` : field;

/** A line of a message that shows a field. */
export const renderLine = (path: string): string =>
  `${path.replace(/^payload\./, "")}: {{${path}}}`;

/** True if templates can render a field by its name: a text, number or boolean that holds no credential. */
function isRendered({ name, types }: FieldShape): boolean {
  const isPlain = parsePath(name) !== undefined && !isCredentialName(name);
  return isPlain && (types.text ?? 0) + (types.number ?? 0) + (types.boolean ?? 0) > 0;
}

const getLevel = ({ name }: FieldShape): number => name.split(".").length;

/** The values by which a field tells kinds of events apart; none if it does not. */
const getKinds = ({ types, values = [] }: FieldShape): unknown[] =>
  Object.keys(types).length === 1 && types.text !== undefined ? values : [];

/** The operator's words as a line of a template. */
const toLine = (said: string): string => said.replaceAll("{{", "{ {").replaceAll(/\s+/g, " ");

/** The parts of a draft. */
interface Drafted {
  name: string;
  /** The operator's words: the message begins with them. */
  say?: string | undefined;
  samples: Samples;
}

/**
 * Drafts a mapping: a match on the field that tells the kind of event and a session key on the first id, which all
 * events have, and a message of the shortest fields. A line whose field an event does not have is left out of its message.
 * Of bodies without such fields, such as text, the message has the whole.
 */
export function draftFromShape({
  name,
  say,
  samples: { fields, samples, standIns },
}: Drafted): MappingParts {
  const isShort = (field: FieldShape): boolean =>
    samples.every(
      ({ input }) =>
        String(readPath(parsePath(field.name) ?? [], input.payload)).length <= MAX_LENGTH,
    );
  // Fields near the root come first.
  const rendered = fields
    .filter((field) => getLevel(field) <= MAX_LEVELS && isRendered(field))
    .toSorted((a, b) => getLevel(a) - getLevel(b));
  const common = rendered.filter(({ share }) => share === 1);
  const kind = KINDS.flatMap((wanted) =>
    common.filter((field) => field.name.split(".").at(-1) === wanted && getKinds(field).length > 0),
  )[0];
  const id = common.find((field) => IDS.test(field.name));
  const lines = [...common, ...rendered.filter(({ share }) => share < 1)]
    .filter((field) => field !== kind && isShort(field))
    .slice(0, MAX_FIELDS)
    .map((field) => renderLine(toExpression(field.name)));
  const title = name.charAt(0).toUpperCase() + name.slice(1);
  const expression = kind && `{{${toExpression(kind.name)}}}`;
  const kinds = kind ? getKinds(kind) : [];
  // Real events do not have a stand-in.
  const isReal = kind && !kinds.some((value) => standIns.has(String(value)));
  return {
    payload: isReal ? { [kind.name]: kinds.length === 1 ? kinds[0] : kinds } : {},
    name: expression === undefined ? title : `${title}: ${expression}`,
    ...(id && { sessionKey: `hook:${name}:{{${toExpression(id.name)}}}` }),
    messageTemplate: [
      say === undefined ? `${title} sent ${expression ?? "an event"}.` : toLine(say),
      ...(lines.length > 0 ? lines : ["{{payload}}"]),
    ],
  };
}
