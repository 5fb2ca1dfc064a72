import { copySpellings } from "../../core/json.ts";

/** The longest text that an expression may read or make, and the most members of a list. */
export const MAX_TEXT = 1_000_000;
export const MAX_SEQUENCE = 20_000;
/** Values that a result may hold, and levels that it may be nested. */
export const MAX_RESULT_NODES = 100_000;
const MAX_DEPTH = 200;

/** An expression exceeded a bound. The message continues a sentence that starts with "the expression". */
export class GuardError extends Error {}

/** An expression exceeded a bound by the length of what it reads or makes: a shorter input can pass. */
export class LengthError extends GuardError {}

export function tooLong(): never {
  throw new LengthError("makes a text of more than a million characters");
}

export function tooMany(): never {
  throw new LengthError(`makes a list of more than ${MAX_SEQUENCE} members`);
}

/** Returns whether JSONata treats a value as a function: a built-in one, a lambda, or a regular expression. */
export function isJsonataFunction(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return typeof value === "function";
  const { _jsonata_function: builtIn, _jsonata_lambda: lambda } = value as Record<string, unknown>;
  return builtIn === true || lambda === true;
}

/**
 * Returns a lower bound of the length of a value as JSON, in characters, added to `size`. Fails if that is more than a text
 * may have. `indent`: characters that each level of nesting adds to a line.
 */
export function getRenderedSize(value: unknown, indent = 0, depth = 0, size = 0): number {
  let sum = size + depth * indent + (typeof value === "string" ? value.length : 1);
  if (sum > MAX_TEXT) tooLong();
  if (typeof value !== "object" || value === null || isJsonataFunction(value)) return sum;
  if (Array.isArray(value))
    for (const member of value as unknown[]) sum = getRenderedSize(member, indent, depth + 1, sum);
  else
    for (const key of Object.keys(value))
      sum = getRenderedSize(
        (value as Record<string, unknown>)[key],
        indent,
        depth + 1,
        sum + key.length,
      );
  return sum;
}

/**
 * Copies a value as plain JSON: no shared structure, no functions, no `__proto__`. Fails with `tooLarge` if it holds too
 * many values or is nested too deeply.
 */
export function normalise(value: unknown, tooLarge = "gives a result that is too large"): unknown {
  let nodes = 0;
  let chars = 0;
  const copy = (at: unknown, depth: number): unknown => {
    if (++nodes > MAX_RESULT_NODES || depth > MAX_DEPTH) throw new LengthError(tooLarge);
    if (typeof at === "string") {
      chars += at.length;
      if (chars > MAX_TEXT * 2) tooLong();
      return at;
    }
    if (isJsonataFunction(at)) return undefined;
    if (Array.isArray(at)) {
      const list = (at as unknown[]).map((member) => copy(member, depth + 1));
      copySpellings(at, list);
      return list;
    }
    if (typeof at !== "object" || at === null) return at;
    const object: Record<string, unknown> = {};
    for (const [key, member] of Object.entries(at))
      if (key !== "__proto__") object[key] = copy(member, depth + 1);
    copySpellings(at, object);
    return object;
  };
  return copy(value, 0);
}

/**
 * Creates a scale for the size of values once they are written out: a part that a value holds twice counts twice. Weights
 * are kept, because values are not changed after they were made.
 */
export function createScale(): (value: unknown) => number {
  const known = new WeakMap<object, number>();
  const weigh = (value: unknown): number => {
    if (typeof value === "string")
      return value.length > MAX_TEXT ? tooLong() : 1 + value.length / 10;
    // A lambda holds the frame that it was made in.
    if (typeof value !== "object" || value === null || isJsonataFunction(value)) return 1;
    const before = known.get(value);
    if (before !== undefined) return before;
    let weight = 1;
    if (Array.isArray(value)) for (const member of value as unknown[]) weight += weigh(member);
    else for (const key in value) weight += 1 + weigh((value as Record<string, unknown>)[key]);
    known.set(value, weight);
    return weight;
  };
  return weigh;
}
