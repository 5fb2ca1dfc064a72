import { isCredentialName } from "../../core/credential-name.ts";
import { parsePath, readPath } from "../../mapping/template-context.ts";
import { addToShape, createShape, toHookShape, type FieldShape } from "../shapes/shape.ts";

/** A first mapping for a sender, from events that it has sent: to be read and changed, not to be kept as it is. Plain JSON. */
interface DraftedMapping {
  id: string;
  match: { path: string; payload?: Record<string, unknown>; headers?: Record<string, unknown> };
  name: string;
  sessionKey?: string;
  messageTemplate: string[];
  [field: string]: unknown;
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

/** Whether templates can render a field by its name: a text, number or boolean that holds no credential. */
export function isRendered({ name, types }: FieldShape): boolean {
  const isPlain = parsePath(name) !== undefined && !isCredentialName(name);
  return isPlain && (types.text ?? 0) + (types.number ?? 0) + (types.boolean ?? 0) > 0;
}

/** Counts the fields of payloads. */
export function countFields(path: string, payloads: readonly unknown[]): FieldShape[] {
  const shape = createShape(path);
  for (const payload of payloads) addToShape(shape, payload, 0);
  return toHookShape(shape).fields;
}

const getLevel = ({ name }: FieldShape): number => name.split(".").length;

export const toTitle = (name: string): string => name.charAt(0).toUpperCase() + name.slice(1);

/** The values by which a field tells kinds of events apart; undefined if it does not. */
function getKinds({ types, values }: FieldShape): unknown {
  const isText = Object.keys(types).length === 1 && types.text !== undefined;
  if (!isText || !values || values.length === 0) return undefined;
  return values.length === 1 ? values[0] : values;
}

/**
 * Drafts a mapping: a match on the field that tells the kind of event and a session key on the first id, which all
 * events have, and a message of the shortest fields. A line whose field an event does not have is left out of its message. `payloads` are the events' bodies.
 */
export function draftMapping(
  name: string,
  path: string,
  payloads: readonly unknown[],
): DraftedMapping {
  const isShort = (field: FieldShape): boolean =>
    payloads.every(
      (payload) => String(readPath(parsePath(field.name) ?? [], payload)).length <= MAX_LENGTH,
    );
  // What is near the root comes first.
  const fields = countFields(path, payloads)
    .filter((field) => getLevel(field) <= MAX_LEVELS && isRendered(field))
    .toSorted((a, b) => getLevel(a) - getLevel(b));
  const common = fields.filter(({ share }) => share === 1);
  const kind = KINDS.flatMap((wanted) =>
    common.filter(
      (field) => field.name.split(".").at(-1) === wanted && getKinds(field) !== undefined,
    ),
  )[0];
  const id = common.find((field) => IDS.test(field.name));
  const lines = [...common, ...fields.filter(({ share }) => share < 1)]
    .filter((field) => field !== kind && isShort(field))
    .slice(0, MAX_FIELDS)
    .map((field) => `${field.name}: {{${toExpression(field.name)}}}`);
  const title = toTitle(name);
  const kindExpression = kind && `{{${toExpression(kind.name)}}}`;
  return {
    id: `${name}.event`,
    match: { path, payload: kind ? { [kind.name]: getKinds(kind) } : {} },
    name: kindExpression === undefined ? title : `${title}: ${kindExpression}`,
    ...(id ? { sessionKey: `hook:${name}:{{${toExpression(id.name)}}}` } : {}),
    messageTemplate: [
      kindExpression === undefined ? `${title} sent an event.` : `${title} sent ${kindExpression}.`,
      ...lines,
    ],
  };
}
