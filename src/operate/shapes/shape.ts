import { isCredentialName } from "../../core/http/credential-name.ts";
import type { Ms } from "../../store/types.ts";
import { iso } from "../records/views.ts";

export type FieldType = "text" | "number" | "boolean" | "null" | "object" | "list";
type TypeCounts = Partial<Record<FieldType, number>>;

interface Field {
  /** In how many bodies it had which type. */
  types: TypeCounts;
  events: number;
  /** The number of bodies that had the object around it when it was last seen. */
  around: number;
  firstSeen: Ms;
  lastSeen: Ms;
  /** Null: too many, too long, or not to be shown. */
  values: Set<unknown> | null;
}

/** The fields of the bodies of one path, as they are counted. */
export interface Shape {
  path: string;
  /** The bodies that were counted. */
  events: number;
  fields: Map<string, Field>;
  /** True if bodies had more fields or levels than are counted. */
  isCut: boolean;
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
  isCut: false,
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
export function toType(value: unknown): FieldType {
  if (value === null) return "null";
  if (Array.isArray(value)) return "list";
  return typeof value === "string" ? "text" : (typeof value as "number" | "boolean" | "object");
}

/** The name of the object or list around a field; undefined for a field of the body itself. */
export function getAround(name: string): string | undefined {
  if (name.endsWith("[]")) return name.slice(0, -2);
  const end = name.replace(/`[^`]*`$/, "").lastIndexOf(".");
  return end < 0 ? undefined : name.slice(0, end);
}

/** Counts the bodies that had the object around a field. */
export function countAround({ events, fields }: Shape, name: string): number {
  const around = getAround(name);
  return around === undefined ? events : (fields.get(around)?.types.object ?? 0);
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
  isCut: boolean;
}

function walkValue(walk: Walk, value: unknown, name: string, level: number): void {
  if (++walk.nodes > MAX_NODES || level > MAX_LEVELS) {
    walk.isCut = true;
    return;
  }
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
  const walk: Walk = { found: new Map(), nodes: 0, isCut: false };
  walkValue(walk, payload, "", 0);
  shape.events++;
  for (const [name, { types, values }] of walk.found) {
    let field = shape.fields.get(name);
    if (!field && shape.fields.size >= MAX_FIELDS) {
      walk.isCut = true;
      continue;
    }
    field ??= {
      types: {},
      events: 0,
      around: 0,
      firstSeen: receivedAt,
      lastSeen: receivedAt,
      values: new Set(),
    };
    shape.fields.set(name, field);
    field.events++;
    for (const type of types) field.types[type] = (field.types[type] ?? 0) + 1;
    field.firstSeen = Math.min(field.firstSeen, receivedAt);
    field.lastSeen = Math.max(field.lastSeen, receivedAt);
    // The object around a field was found, and counted, before it.
    field.around = countAround(shape, name);
    for (const value of values) addValue(field, name, value);
  }
  shape.isCut ||= walk.isCut;
}

/** The record of a shape: names and types, and no value. */
export interface KeptShape {
  events: number;
  isCut: boolean;
  /** A list and no object, since a field may be named `__proto__`. */
  fields: [name: string, field: Field & { values: null }][];
}

export const toKeptShape = ({ events, isCut, fields }: Shape): KeptShape => ({
  events,
  isCut,
  fields: [...fields].map(([name, field]) => [name, { ...field, values: null }]),
});

export const fromKeptShape = (path: string, { fields, ...kept }: KeptShape): Shape => ({
  ...kept,
  path,
  fields: new Map(fields),
});

/** The fields of a hook's bodies, as they are shown. */
export type HookShape = ReturnType<typeof toHookShape>;
export type FieldShape = HookShape["fields"][number];

/** Shows the fields of recorded bodies, and then those that only bodies before them had, which `earlier` has. */
export function toHookShape({ path, events, fields }: Shape, earlier?: Shape) {
  const known = earlier?.fields ?? new Map<string, Field>();
  const gone = [...known].filter(([name]) => !fields.has(name));
  const toShape = (share: number, [name, field]: [string, Field]) => ({
    /** `labels[].name`: lists are `[]`, and keys that look like ids are `*`. */
    name,
    types: field.types,
    /** The part of the bodies that have it, from 0 to 1. It is 0 if only bodies before those that were counted had it. */
    share,
    /** All values that it had, if they are few and short and do not look like secrets. */
    ...(field.values && field.values.size > 0 && { values: [...field.values] }),
    firstSeen: iso(Math.min(field.firstSeen, known.get(name)?.firstSeen ?? field.firstSeen)),
    lastSeen: iso(field.lastSeen),
  });
  const shown = [...fields].map((one) =>
    toShape(Math.round((one[1].events / events) * 1000) / 1000, one),
  );
  /** `events`: the number of bodies that were counted. */
  return { path, events, fields: [...shown, ...gone.map((one) => toShape(0, one))] };
}
