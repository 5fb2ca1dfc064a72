import { copySpellings, getSpelling, isRecord, renderNumber, writeJson } from "../core/json.ts";
import type { QueryValues } from "../core/http/payload.ts";
import type { DebugNotes } from "./debug.ts";
import type { CodeError } from "../vocabulary/debug-notes.ts";

/** The message quotes no value. */
export type Evaluated = { ok: true; value: unknown } | { ok: false; message: string };
/**
 * The same with why it failed, for the operator alone: that may quote values. `isTooLong`: with a shorter input it may not
 * fail.
 */
export type Explained = Evaluated & { error?: CodeError; isTooLong?: true };

/**
 * The key of the notes for the operator, beside what templates and expressions see: no name and no JSON leads to a
 * symbol.
 */
export const NOTES = Symbol("notes");

/**
 * The results of expressions for one event, by their text: the same expression gives the same again. A promise while it
 * is evaluated.
 */
export type KnownResults = Map<string, Explained | Promise<Explained>>;

/** The key of the event's results, in the same way. */
export const RESULTS = Symbol("results");

/** The names that templates and expressions see. */
export interface TemplateContext {
  [NOTES]?: DebugNotes;
  [RESULTS]?: KnownResults;
  payload: unknown;
  headers: Record<string, string>;
  query: QueryValues;
  path: string;
  /** Milliseconds since the epoch. */
  now: number;
  item?: unknown;
  index?: number;
  /**
   * The batch of a mapping that collects: the payloads, oldest first, how many, the first and the last. `payload` is
   * the last.
   */
  events?: readonly unknown[];
  count?: number;
  first?: unknown;
  last?: unknown;
}

/** Names at the root of a template; all others are fields of the payload. */
export const TEMPLATE_ROOTS: ReadonlySet<string> = new Set([
  "payload",
  "headers",
  "query",
  "path",
  "now",
  "item",
  "index",
  "events",
  "count",
  "first",
  "last",
]);
const HIDDEN = new Set(["__proto__", "constructor", "prototype"]);

/** A member of a value by its own name; inherited ones are missing. */
export function ownMember(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null || HIDDEN.has(name)) return undefined;
  return Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined;
}

/** A name at the root: those of the scope first, then the payload's own fields. */
function lookupRoot(scope: TemplateContext, name: string): unknown {
  if (TEMPLATE_ROOTS.has(name)) {
    const value = ownMember(scope, name);
    if (value !== undefined) return value;
  }
  return ownMember(scope.payload, name);
}

/** The scope of events that were collected; the newest gives all that only one can. */
export function withEvents(scope: TemplateContext, events: readonly unknown[]): TemplateContext {
  return { ...scope, events, count: events.length, first: events[0], last: events.at(-1) };
}

/** The results that hold for a scope. Expressions that see an item, or events of a batch, may give something else for each. */
export const getKnownResults = ({
  [RESULTS]: results,
  index,
  count,
}: TemplateContext): KnownResults | undefined =>
  index === undefined && count === undefined ? results : undefined;

const inputs = new WeakMap<TemplateContext, Record<string, unknown>>();

/** The scope as the one object that JSONata reads: the payload's fields with the root names laid over them. Made once a scope. */
export function jsonataInput(scope: TemplateContext): Record<string, unknown> {
  const known = inputs.get(scope);
  if (known) return known;
  const input: Record<string, unknown> = {};
  const { payload } = scope;
  if (isRecord(payload))
    for (const name of Object.keys(payload)) if (!HIDDEN.has(name)) input[name] = payload[name];
  if (typeof payload === "object" && payload !== null) copySpellings(payload, input);
  for (const name of TEMPLATE_ROOTS) {
    const value = ownMember(scope, name);
    if (value !== undefined) input[name] = value;
  }
  inputs.set(scope, input);
  return input;
}

/** A plain path: names and list positions, such as `a.b[0].x-y`, and `` `data[email]` `` for a name with other characters. */
export type Path = readonly (string | number)[];

/** A name, or one with any characters in backticks, as in JSONata. */
const NAME = "(?:[A-Za-z_][A-Za-z0-9_-]*|`[^`]+`)";
const PLAIN = new RegExp(`^${NAME}(?:\\[-?\\d{1,9}\\])*(?:\\.${NAME}(?:\\[-?\\d{1,9}\\])*)*$`);
const STEP = new RegExp(`(${NAME})|\\[(-?\\d{1,9})\\]`, "g");
/** Words that JSONata reads as operators or values. */
const WORDS = new Set(["and", "or", "in", "true", "false", "null"]);

/** Reads a plain path; undefined if the text is anything else. */
export function parsePath(text: string): Path | undefined {
  const trimmed = text.trim();
  if (!PLAIN.test(trimmed)) return undefined;
  const steps: (string | number)[] = [];
  for (const [, name, position] of trimmed.matchAll(STEP)) {
    if (name === undefined) steps.push(Number(position));
    else if (WORDS.has(name)) return undefined;
    else steps.push(name.replaceAll("`", ""));
  }
  return steps;
}

/** A sequence as JSONata has it: the values that a step found; one is that value, none is missing. */
function settle(values: unknown[]): unknown {
  if (values.length === 0) return undefined;
  return values.length === 1 ? values[0] : values;
}

/** A named step over a value; over a list it is taken for each member, lists inside lists too. */
function byName(value: unknown, name: string): unknown {
  if (!Array.isArray(value)) return ownMember(value, name);
  const found: unknown[] = [];
  for (const member of value as unknown[]) {
    const inner = byName(member, name);
    if (inner === undefined) continue;
    if (Array.isArray(inner)) found.push(...(inner as unknown[]));
    else found.push(inner);
  }
  return settle(found);
}

/** A step by position: of a list its member, of anything else itself at 0 and -1. */
function byPosition(value: unknown, position: number): unknown {
  if (!Array.isArray(value))
    return value !== undefined && (position === 0 || position === -1) ? value : undefined;
  return (value as unknown[]).at(position);
}

/**
 * A step `name[position]…`: positions belong to each value that the name finds, before the results are joined. At the end
 * of a path a list that is the only result stays as it is.
 */
function step(
  value: unknown,
  name: string,
  positions: readonly number[],
  isLast: boolean,
): unknown {
  const one = (context: unknown): unknown => {
    let at = byName(context, name);
    for (const position of positions) at = byPosition(at, position);
    return at;
  };
  if (!Array.isArray(value)) return one(value);
  const found = (value as unknown[]).map(one).filter((inner) => inner !== undefined);
  if (isLast && found.length === 1 && Array.isArray(found[0])) return found[0];
  return settle(found.flat());
}

/** Reads a path from one of its names on. `keepsLists`: what is found across a list is a list, even if it is one value. */
function readFrom(start: unknown, path: Path, from: number, keepsLists = false): unknown {
  let at = start;
  let crossed = false;
  for (let i = from; i < path.length && at !== undefined;) {
    const name = path[i] as string;
    const positions: number[] = [];
    for (i++; typeof path[i] === "number"; i++) positions.push(path[i] as number);
    crossed ||= Array.isArray(at);
    at = step(at, name, positions, i === path.length);
  }
  return keepsLists && crossed && at !== undefined && !Array.isArray(at) ? [at] : at;
}

/** Reads a path in a value. Missing is undefined. */
export function readPath(path: Path, value: unknown): unknown {
  return readFrom(value, path, 0);
}

/** Reads a path for a condition. What it finds across a list is a list, however many values it finds. */
export function readForCondition(path: Path, value: unknown): unknown {
  return readFrom(value, path, 0, true);
}

/** Reads a path whose first name is looked up at the root of a scope. */
export function readScope(path: Path, scope: TemplateContext): unknown {
  let at = lookupRoot(scope, path[0] as string);
  let i = 1;
  for (; typeof path[i] === "number"; i++) at = byPosition(at, path[i] as number);
  return readFrom(at, path, i);
}

/**
 * Renders a value as text: text as it is, numbers and booleans as text, objects and lists as JSON, null and missing as nothing.
 * `payload`: where numbers were read, which print as they were written there.
 */
export function renderValue(value: unknown, payload?: unknown): string {
  if (typeof value === "string") return value;
  if (typeof value === "number") return renderNumber(value, payload);
  if (typeof value === "boolean") return String(value);
  return value === undefined || value === null ? "" : writeJson(value, { read: payload });
}

/** Returns whether a path leads to a value of the scope itself, such as `count`, and not of the body. */
export const isOfScope = ([name, ...others]: Path, scope: TemplateContext): boolean =>
  others.length === 0 &&
  TEMPLATE_ROOTS.has(String(name)) &&
  ownMember(scope, String(name)) !== undefined;

/** Returns how the number that a plain path leads to was written; undefined if that is how it prints, or there is none. */
export function readSpelling(path: Path, scope: TemplateContext): string | undefined {
  const last = path.at(-1) as string | number;
  const before = path.slice(0, -1);
  if (isOfScope(path, scope)) return undefined;
  const holder = before.length === 0 ? scope.payload : readScope(before, scope);
  const position =
    typeof last === "number" && last < 0 && Array.isArray(holder) ? holder.length + last : last;
  return getSpelling(holder, String(position));
}

/** Returns whether a value, as a part of a key, tells nothing apart: nothing, blank text, an empty list or object. */
export function isEmptyValue(value: unknown): boolean {
  if (typeof value === "string") return value.trim() === "";
  if (value === undefined || value === null) return true;
  if (typeof value !== "object") return false;
  for (const _member in value) return false;
  return true;
}
