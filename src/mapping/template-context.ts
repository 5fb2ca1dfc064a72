import {
  addMember,
  copySpellings,
  getSpelling,
  isRecord,
  joinSpellings,
  renderNumber,
  writeJson,
} from "../core/json.ts";
import type { QueryValues } from "../core/http/payload.ts";
import { ConsoleBuffer, MAX_CHARS } from "./debug.ts";
import type { CodeError, DebugNote, EventDebug } from "../vocabulary/debug-notes.ts";

/** The message quotes no value. */
export type Evaluated = { ok: true; value: unknown } | { ok: false; message: string };
/**
 * The same with why it failed, for the operator alone: that may quote values. `isTooLong`: with a shorter input it may not
 * fail.
 */
export type Explained = Evaluated & { error?: CodeError; isTooLong?: true };

const MAX_NOTES = 50;

type NewNote = Omit<DebugNote, "mapping" | "console" | "cut"> & {
  console?: Pick<ConsoleBuffer, "lines" | "cut">;
};

/** Gathers the notes of one event while its mappings run, one after the other. */
export class DebugNotes {
  /** The mapping that runs. */
  mapping = "";
  readonly #notes: DebugNote[] = [];
  /** Made when something is printed, which hardly ever happens. */
  #console: ConsoleBuffer | undefined;
  #errorRoom = MAX_CHARS;
  #cut = false;

  /** Adds a note unless it says nothing: no error, and nothing was printed. */
  add({ error, console: printed, ...rest }: NewNote): void {
    const note: DebugNote = { mapping: this.mapping, ...rest };
    if (error) {
      this.#errorRoom -= JSON.stringify(error).length;
      if (this.#errorRoom >= 0) note.error = error;
      else this.#cut = true;
    }
    if (printed && printed.lines.length > 0) {
      const kept = (this.#console ??= new ConsoleBuffer());
      note.console = printed.lines.flatMap((line) => kept.add(line) ?? []);
      if (printed.cut || kept.cut) note.cut = true;
    }
    if (!error && !note.console) return;
    const isEmpty = !note.error && (note.console ?? []).length === 0;
    if (isEmpty || this.#notes.length >= MAX_NOTES) this.#cut = true;
    else this.#notes.push(note);
  }

  /** All notes; undefined if there are none. */
  result(): EventDebug | undefined {
    if (this.#notes.length === 0) return undefined;
    return { notes: this.#notes, ...(this.#cut ? { cut: true } : {}) };
  }
}

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
  if (scope.events) joinSpellings(scope.events, input);
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

/** Adds what was found at a name of a holder to a list: of a list its members. Numbers keep their spelling. */
function addFound(list: unknown[], found: unknown, holder: unknown, name: string): void {
  if (Array.isArray(found))
    for (const index of (found as unknown[]).keys()) addMember(list, found, String(index));
  else if (found !== undefined && ownMember(holder, name) === found) addMember(list, holder, name);
  else if (found !== undefined) list.push(found);
}

/** A named step over a list: what it finds in each member, lists inside lists too. */
function collectByName(list: readonly unknown[], name: string): unknown[] {
  const found: unknown[] = [];
  for (const member of list) addFound(found, byName(member, name), member, name);
  return found;
}

/** A named step over a value; over a list it is taken for each member. */
const byName = (value: unknown, name: string): unknown =>
  Array.isArray(value) ? settle(collectByName(value, name)) : ownMember(value, name);

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
  const one = (context: unknown): unknown => positions.reduce(byPosition, byName(context, name));
  if (!Array.isArray(value)) return one(value);
  const found = (value as unknown[]).map((context) => ({ context, inner: one(context) }));
  const [first, ...others] = found.filter(({ inner }) => inner !== undefined);
  if (isLast && others.length === 0 && Array.isArray(first?.inner)) return first.inner;
  const joined: unknown[] = [];
  for (const { context, inner } of found) addFound(joined, inner, context, name);
  return settle(joined);
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
  if (at === scope.headers && typeof path[1] === "string")
    return readFrom(at, path.with(1, path[1].toLowerCase()), i);
  for (; typeof path[i] === "number"; i++) at = byPosition(at, path[i] as number);
  return readFrom(at, path, i);
}

/** A compiled expression of a template or a mapping. */
export interface Expression {
  readonly source: string;
  /** The path, if it is a plain one. */
  readonly path?: Path;
  /** True if the number that it gives is none of the input. */
  readonly computes?: boolean;
  evaluate(scope: TemplateContext): Evaluated | Promise<Evaluated>;
  /**
   * Returns the result, if it was evaluated for the event before, or is a plain path. Undefined if JSONata would have
   * to run.
   */
  known(scope: TemplateContext): Evaluated | undefined;
}

/** Compiles a plain path; undefined if the text is anything else. */
export function compilePath(source: string): Expression | undefined {
  const path = parsePath(source);
  if (!path) return undefined;
  const read = (scope: TemplateContext): Evaluated => ({ ok: true, value: readScope(path, scope) });
  return { source, path, evaluate: read, known: read };
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
const isOfScope = ([name, ...others]: Path, scope: TemplateContext): boolean =>
  others.length === 0 &&
  TEMPLATE_ROOTS.has(String(name)) &&
  ownMember(scope, String(name)) !== undefined;

/** Returns how the number that a plain path leads to was written; undefined if that is how it prints, or there is none. */
export function readSpelling(path: Path, scope: TemplateContext): string | undefined {
  const last = path.at(-1) as string | number;
  const before = path.slice(0, -1);
  if (isOfScope(path, scope)) return undefined;
  const holder = before.length === 0 ? scope.payload : readScope(before, scope);
  if (!Array.isArray(holder)) return getSpelling(holder, String(last));
  if (typeof last === "string") return getSpelling(collectByName(holder, last), "0");
  return getSpelling(holder, String(last < 0 ? holder.length + last : last));
}

/** Returns whether a value, as a part of a key, tells nothing apart: nothing, blank text, an empty list or object. */
export function isEmptyValue(value: unknown): boolean {
  if (typeof value === "string") return value.trim() === "";
  if (value === undefined || value === null) return true;
  if (typeof value !== "object") return false;
  for (const _member in value) return false;
  return true;
}
