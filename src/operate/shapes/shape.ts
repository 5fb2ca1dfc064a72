import { isCredentialName } from "../../core/http/credential-name.ts";
import { createPause } from "../../core/pause.ts";
import { readRecordedInput } from "../../intake/replay.ts";
import type { EventRecord, Ms, Store } from "../../store/types.ts";
import { readAll } from "../records/operation.ts";
import { iso } from "../records/views.ts";

type FieldType = "text" | "number" | "boolean" | "null" | "object" | "list";
type TypeCounts = Partial<Record<FieldType, number>>;

interface Field {
  /** In how many bodies it had which type. */
  types: TypeCounts;
  events: number;
  firstSeen: Ms;
  lastSeen: Ms;
  /** Null: too many, too long, or not to be shown. */
  values: Set<unknown> | null;
}

/** The fields of the bodies of one path, as they are counted. */
interface Shape {
  path: string;
  /** The bodies that were counted. */
  events: number;
  fields: Map<string, Field>;
}

const MAX_FIELDS = 3000;
const MAX_LEVELS = 20;
/** Values of one body that are looked at, and members of one list. */
const MAX_NODES = 20_000;
const MAX_MEMBERS = 100;
/** An object with more keys is a table: its keys are data. */
const MAX_KEYS = 100;
const MAX_VALUES = 8;
const MAX_VALUE_LENGTH = 40;

export const createShape = (path: string): Shape => ({
  path,
  events: 0,
  fields: new Map(),
});

const UUID_OR_HEX = /^(?=.*\d)[0-9a-f-]{8,}$/i;

/** Returns whether a key is data, such as an id, a date or an address, and no name. */
function isIdKey(key: string): boolean {
  if (key.length > 64 || /^\d+$/.test(key) || /[@/\s]/.test(key) || UUID_OR_HEX.test(key))
    return true;
  const digits = key.replace(/\D/g, "").length;
  return digits >= 4 && key.length >= 8;
}

function toName(around: string, key: string): string {
  const name = isIdKey(key)
    ? "*"
    : /^[A-Za-z_][\w-]*$/.test(key)
      ? key
      : `\`${key.replaceAll("`", "")}\``;
  return around === "" ? name : `${around}.${name}`;
}

/** Returns the type of a value of a body. */
function toType(value: unknown): FieldType {
  if (value === null) return "null";
  if (Array.isArray(value)) return "list";
  return typeof value === "string" ? "text" : (typeof value as "number" | "boolean" | "object");
}

const SECRET =
  /(?=\S*\d)(?=\S*[A-Za-z])\S{16,}|^(?:sk|pk|rk|gh[opsu]|xox\w|whsec|bearer|eyj)[-_ .]?/i;

function addValue(field: Field, name: string, value: unknown): void {
  if (field.values === null) return;
  const text = typeof value === "string" ? value : "";
  field.values.add(value);
  const isHidden = isCredentialName(name) || text.length > MAX_VALUE_LENGTH || SECRET.test(text);
  if (isHidden || field.values.size > MAX_VALUES) field.values = null;
}

/** The fields of one body, each with its types and values. */
interface Walk {
  found: Map<string, { types: Set<FieldType>; values: Set<unknown> }>;
  nodes: number;
}

function walkValue(walk: Walk, value: unknown, name: string, level: number): void {
  if (++walk.nodes > MAX_NODES || level > MAX_LEVELS) return;
  const type = toType(value);
  if (name !== "") {
    const field = walk.found.get(name) ?? { types: new Set(), values: new Set() };
    walk.found.set(name, field);
    field.types.add(type);
    if (field.values.size <= MAX_VALUES && type !== "object" && type !== "list")
      field.values.add(value);
  }
  if (type === "list")
    for (const member of (value as unknown[]).slice(0, MAX_MEMBERS))
      walkValue(walk, member, `${name}[]`, level + 1);
  if (type !== "object") return;
  const entries = Object.entries(value as object);
  const isTable = entries.length > MAX_KEYS;
  for (const [key, member] of entries)
    walkValue(walk, member, toName(name, isTable ? "0" : key), level + 1);
}

/** Counts a body. Bodies are counted in the order in which they came. */
export function addToShape(shape: Shape, payload: unknown, receivedAt: Ms): void {
  const walk: Walk = { found: new Map(), nodes: 0 };
  walkValue(walk, payload, "", 0);
  shape.events++;
  for (const [name, { types, values }] of walk.found) {
    let field = shape.fields.get(name);
    if (!field && shape.fields.size >= MAX_FIELDS) continue;
    field ??= {
      types: {},
      events: 0,
      firstSeen: receivedAt,
      lastSeen: receivedAt,
      values: new Set(),
    };
    shape.fields.set(name, field);
    field.events++;
    for (const type of types) field.types[type] = (field.types[type] ?? 0) + 1;
    field.firstSeen = Math.min(field.firstSeen, receivedAt);
    field.lastSeen = Math.max(field.lastSeen, receivedAt);
    for (const value of values) addValue(field, name, value);
  }
}

/** The fields of a hook's bodies, as they are shown. */
export type HookShape = ReturnType<typeof toHookShape>;
export type FieldShape = HookShape["fields"][number];

/** Shows the fields of bodies. `events`: the number of bodies that were counted. */
export const toHookShape = ({ path, events, fields }: Shape) => ({
  path,
  events,
  fields: [...fields].map(([name, field]) => ({
    /** `labels[].name`: lists are `[]`, and keys that look like ids are `*`. */
    name,
    types: field.types,
    /** The part of the bodies that have it, from 0 to 1. */
    share: Math.round((field.events / events) * 1000) / 1000,
    /** All values that it had, if they are few and short and do not look like secrets. */
    ...(field.values && field.values.size > 0 && { values: [...field.values] }),
    firstSeen: iso(field.firstSeen),
    lastSeen: iso(field.lastSeen),
  })),
});

/** Events hold their bodies: pages are small. */
const PAGE = 20;
/** A larger body takes long to read, and says little more about its fields. */
const MAX_BODY_BYTES = 256 * 1024;
/** The newest events of a path that are looked at. */
const MAX_EVENTS = 5000;

/** Returns whether an event says something about its sender's bodies: that of a replay was counted before. */
const isCountable = ({ outcome, replayOf, request: { body } }: EventRecord): boolean =>
  outcome !== "duplicate" &&
  replayOf === undefined &&
  body !== null &&
  body.length <= MAX_BODY_BYTES;

/** Shows the fields of the last bodies of a path. */
export async function showShape(
  store: Store,
  path: string,
  last: number,
): Promise<{ shape: HookShape }> {
  const shape = createShape(path);
  const pause = createPause();
  let looked = 0;
  for await (const event of readAll(store, "events", { path }, PAGE)) {
    if (shape.events === last || ++looked > MAX_EVENTS) break;
    const read = isCountable(event) ? readRecordedInput(event, undefined) : undefined;
    if (read?.ok) addToShape(shape, read.input.payload, event.receivedAt);
    // Between two bodies hooks are answered.
    await pause();
  }
  return { shape: toHookShape(shape) };
}
