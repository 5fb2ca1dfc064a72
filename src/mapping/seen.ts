import { nearest } from "../config/suggest.ts";
import { cutText, plural } from "../core/text.ts";

/** A type of JSON in plain words. */
export type SeenType = "text" | "number" | "true or false" | "null" | "list" | "object";

/** The value that a condition saw at its field. For operators only: it quotes the event. */
export interface Seen {
  type: SeenType | "missing";
  /** The value as JSON, cut at 200 characters. Absent if the field is missing. */
  value?: string;
  /** Characters of a text, elements of a list, or fields of an object. */
  length?: number;
  /** Of a missing field: the paths that are there and look most like it, at most three. */
  near?: string[];
}

const MAX_SHOWN = 200;
/** Fields of a body that are compared with the name of a missing one. */
const MAX_PATHS = 2_000;
const MAX_DEPTH = 12;

export function typeOf(value: unknown): SeenType {
  if (value === null) return "null";
  if (Array.isArray(value)) return "list";
  if (typeof value === "string") return "text";
  if (typeof value === "number") return "number";
  return typeof value === "boolean" ? "true or false" : "object";
}

function lengthOf(value: unknown): number | undefined {
  if (typeof value === "string" || Array.isArray(value)) return value.length;
  return typeof value === "object" && value !== null ? Object.keys(value).length : undefined;
}

/** A value as JSON on one line, cut; a longer one is not written out before it is cut. */
export function renderJson(value: unknown, limit = MAX_SHOWN): string {
  if (typeof value === "string") {
    const { text, cut } = cutText(value, limit);
    return `${JSON.stringify(text)}${cut > 0 ? "…" : ""}`;
  }
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  // Each member takes two characters at least, so that no more of them can be shown.
  const short = Array.isArray(value)
    ? value.slice(0, limit)
    : Object.fromEntries(Object.entries(value).slice(0, limit));
  const { text, cut } = cutText(
    JSON.stringify(short, (_key, inner: unknown) =>
      typeof inner === "string" ? inner.slice(0, limit) : inner,
    ),
    limit,
  );
  return cut > 0 ? `${text}…` : text;
}

/** A value in words: `the text "240"`, `the number 5`, `a list of 3`. */
export function describeValue(value: unknown): string {
  const type = typeOf(value);
  if (type === "text") {
    const length = (value as string).length;
    return `the text ${renderJson(value, 80)}${length > 80 ? ` (${length} characters)` : ""}`;
  }
  if (type === "number") return `the number ${String(value)}`;
  if (type === "list") return `a list of ${(value as unknown[]).length}`;
  if (type === "object")
    return `an object with ${plural(Object.keys(value as object).length, "field")}`;
  return String(value);
}

/** The plain paths of a value's fields, parents before their children. Lists add no step, as in conditions. */
export function fieldPaths(value: unknown): string[] {
  const paths = new Set<string>();
  let level: { at: unknown; path: string }[] = [{ at: value, path: "" }];
  for (let depth = 0; depth < MAX_DEPTH && level.length > 0; depth++) {
    const next: typeof level = [];
    for (const { at, path } of level) {
      if (paths.size >= MAX_PATHS) return [...paths];
      if (Array.isArray(at))
        next.push(...at.slice(0, 20).map((inner: unknown) => ({ at: inner, path })));
      else if (typeof at === "object" && at !== null)
        for (const [name, inner] of Object.entries(at).slice(0, MAX_PATHS)) {
          const full = path === "" ? name : `${path}.${name}`;
          paths.add(full);
          next.push({ at: inner, path: full });
        }
    }
    level = next;
  }
  return [...paths];
}

/** Describes the value at a field. `among` gives the fields that are there; it is asked only if this one is missing. */
export function see(value: unknown, field: string, among: () => Iterable<string>): Seen {
  if (value === undefined) {
    const near = nearest(field, among(), 3);
    return { type: "missing", ...(near.length > 0 ? { near } : {}) };
  }
  const length = lengthOf(value);
  return {
    type: typeOf(value),
    value: renderJson(value),
    ...(length === undefined ? {} : { length }),
  };
}
