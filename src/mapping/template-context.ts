import type { DebugNotes } from "./debug.ts";

/** Where the notes for the operator go, beside what templates and expressions see: no name and no JSON leads to a symbol. */
export const NOTES = Symbol("notes");

/** What templates and expressions see. */
export interface TemplateContext {
  [NOTES]?: DebugNotes;
  payload: unknown;
  headers: Record<string, string>;
  query: Record<string, string>;
  path: string;
  /** Milliseconds since the epoch. */
  now: number;
  item?: unknown;
  index?: number;
  /** Where a mapping collects: the payloads, oldest first, how many, the first and the last. `payload` is the last. */
  events?: readonly unknown[];
  count?: number;
  first?: unknown;
  last?: unknown;
}

const ROOT = new Set(["payload", "headers", "query", "path", "now", "item", "index", "events", "count", "first", "last"]);
const HIDDEN = new Set(["__proto__", "constructor", "prototype"]);

/** A member of a value by its own name; inherited ones are missing. */
export function ownMember(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null || HIDDEN.has(name)) return undefined;
  return Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined;
}

/** A name at the root: those of the scope first, then the payload's own fields. */
export function lookupRoot(scope: TemplateContext, name: string): unknown {
  if (ROOT.has(name)) {
    const value = ownMember(scope, name);
    if (value !== undefined) return value;
  }
  return ownMember(scope.payload, name);
}

/** The scope of events that were collected; the newest gives all that only one can. */
export function withEvents(scope: TemplateContext, events: readonly unknown[]): TemplateContext {
  return { ...scope, events, count: events.length, first: events[0], last: events.at(-1) };
}

const inputs = new WeakMap<TemplateContext, Record<string, unknown>>();

/** The scope as the one object that JSONata reads: the payload's fields with the root names laid over them. Made once a scope. */
export function jsonataInput(scope: TemplateContext): Record<string, unknown> {
  const known = inputs.get(scope);
  if (known) return known;
  const input: Record<string, unknown> = {};
  if (typeof scope.payload === "object" && scope.payload !== null && !Array.isArray(scope.payload)) {
    for (const name of Object.keys(scope.payload)) if (!HIDDEN.has(name)) input[name] = (scope.payload as Record<string, unknown>)[name];
  }
  for (const name of ROOT) {
    const value = ownMember(scope, name);
    if (value !== undefined) input[name] = value;
  }
  inputs.set(scope, input);
  return input;
}
