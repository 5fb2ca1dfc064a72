/**
 * JSON whose numbers stay as they were written. A JavaScript number has 53 bits: `154284075601887489` would become
 * `154284075601887490`, and `19.90` would become `19.9`. A number that it cannot hold is read as the text of its digits. Of one that
 * it holds but prints in another way, the spelling is kept beside the value.
 */

/** True if a value is an object and no list. */
export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** JSON that is nested deeper than this is refused: later steps walk it recursively. */
export const MAX_DEPTH = 200;
/** Files of the config may be nested so deep: a fixture has a whole body within its own members. */
export const MAX_FILE_DEPTH = 250;

/** Returns whether a value is nested deeper than `left` levels. */
export function isTooDeep(value: unknown, left = MAX_DEPTH): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (left === 0) return true;
  if (Array.isArray(value)) {
    for (const member of value)
      if (typeof member === "object" && member !== null && isTooDeep(member, left - 1)) return true;
    return false;
  }
  const object = value as Record<string, unknown>;
  for (const key in object) {
    const member = object[key];
    if (typeof member === "object" && member !== null && isTooDeep(member, left - 1)) return true;
  }
  return false;
}

/** The spelling of numbers, by the object or list that holds them and their key there. */
const spellings = new WeakMap<object, Map<string, string>>();
/** The spelling of numbers, by their value, for each value that `parseJson` returned. Null: in several ways. */
const spellingsByValue = new WeakMap<object, Map<number, string | null>>();
/** The values that `parseJson` returned in which there is the text of a number. */
const withLongNumbers = new WeakSet<object>();

/**
 * Tells texts in which a number may print otherwise than it is written: of 16 digits, with a zero at the end of its fraction or
 * many at its begin, with an exponent, or -0. It begins with a digit, since it is looked for at every character of every body.
 */
const UNUSUAL = /\d(?:[\d.]{15}|\.\d*0[,\]}\s]|\.0{5}|(?:\.\d*)?[eE][-+]?\d+[,\]}\s])|-0[,\]}\s]/;
const NUMBER = /^-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?$/;
/** The digits that a computed number has. More are noise of binary fractions: 1.1 + 2.2 is 3.3000000000000003. */
const DIGITS = 15;

/** A decimal number: 0.`digits` × 10^`exponent`, without zeros at the ends of `digits`. Zero has no digits. */
interface Decimal {
  negative: boolean;
  digits: string;
  exponent: number;
}

function toDecimal(text: string): Decimal {
  const [, sign, whole = "", fraction = "", power = "0"] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?$/.exec(text) ?? [];
  const all = whole + fraction;
  const significant = all.replace(/^0+/, "");
  const digits = significant.replace(/0+$/, "");
  if (digits === "") return { negative: false, digits, exponent: 0 };
  const exponent = whole.length - (all.length - significant.length) + Number(power);
  return { negative: sign === "-", digits, exponent };
}

function isSame(left: Decimal, right: Decimal): boolean {
  return (
    left.negative === right.negative &&
    left.digits === right.digits &&
    left.exponent === right.exponent
  );
}

/** Returns whether a JavaScript number can hold the number that a text says, to its last digit. */
export function isHeld(text: string): boolean {
  const value = Number(text);
  if (!Number.isFinite(value)) return false;
  if (String(value) === text) return true;
  const decimal = toDecimal(text);
  // Some programs write all 17 digits that a double may need, where fewer say the same.
  return (
    isSame(decimal, toDecimal(String(value))) || isSame(decimal, toDecimal(value.toPrecision(17)))
  );
}

/** Returns whether a value is the text of a number that a JavaScript number cannot hold. */
export function isLongNumber(value: unknown): value is string {
  return typeof value === "string" && value.length > 3 && NUMBER.test(value) && !isHeld(value);
}

/** Compares numbers, each a JavaScript number or the text of one: below 0, 0 or above 0, as `left` is less, equal or greater. */
export function compareNumbers(left: number | string, right: number | string): number {
  if (typeof left === "number" && typeof right === "number") return left - right;
  const [a, b] = [toDecimal(String(left)), toDecimal(String(right))];
  if (isSame(a, b)) return 0;
  if (a.negative !== b.negative) return a.negative ? -1 : 1;
  const sign = a.negative ? -1 : 1;
  if (a.digits === "" || b.digits === "") return a.digits === "" ? -sign : sign;
  if (a.exponent !== b.exponent) return a.exponent < b.exponent ? -sign : sign;
  return a.digits < b.digits ? -sign : sign;
}

/** Returns whether a number would be printed in other characters than it was written in. */
const isUnusual = (source: string, value: number): boolean =>
  String(value) !== source || source.replace(/\D/g, "").length > DIGITS;

function parseNumbers(text: string): unknown {
  const byValue = new Map<number, string | null>();
  const numbers = new Map<number, string>();
  let hasLong = false;
  const revive = function (
    this: object,
    key: string,
    value: unknown,
    { source }: { source?: string },
  ): unknown {
    if (typeof value !== "number" || source === undefined) return value;
    if (isUnusual(source, value)) {
      const own = spellings.get(this) ?? new Map<string, string>();
      spellings.set(this, own.set(key, source));
    }
    const before = numbers.get(value);
    if (before === undefined) numbers.set(value, source);
    else if (before !== source) byValue.set(value, null);
    if (isHeld(source)) return value;
    hasLong = true;
    return source;
  };
  const parsed: unknown = JSON.parse(text, revive as (key: string, value: unknown) => unknown);
  if (typeof parsed === "object" && parsed !== null) {
    for (const [value, source] of numbers)
      if (!byValue.has(value) && isUnusual(source, value)) byValue.set(value, source);
    spellingsByValue.set(parsed, byValue);
    if (hasLong) withLongNumbers.add(parsed);
  }
  return parsed;
}

/**
 * Parses JSON. Numbers that a JavaScript number cannot hold are the text of their digits; `writeJson` and `renderNumber`
 * know how all other numbers were written. A byte order mark at the begin is no part of the text.
 * @throws SyntaxError if the text is not JSON
 */
export function parseJson(text: string): unknown {
  const json = text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
  if (UNUSUAL.test(json)) return parseNumbers(json);
  const value: unknown = JSON.parse(json);
  // A number alone has nothing that could keep its spelling.
  return typeof value === "number" && json.trim() !== String(value) ? json.trim() : value;
}

/** Returns how the number at a key of an object or list was written; undefined if that is how it prints. */
export function getSpelling(holder: unknown, key: string): string | undefined {
  if (typeof holder !== "object" || holder === null) return undefined;
  const spelling = spellings.get(holder)?.get(key);
  if (spelling === undefined) return undefined;
  const value = (holder as Record<string, unknown>)[key];
  return value === spelling || value === Number(spelling) ? spelling : undefined;
}

/** Lets a copy of an object or list print its numbers as the original does. */
export function copySpellings(from: object, to: object): void {
  const own = spellings.get(from);
  if (own) spellings.set(to, own);
  const byValue = spellingsByValue.get(from);
  if (byValue) spellingsByValue.set(to, byValue);
}

/** Returns whether a value of `parseJson` has a number that would be printed otherwise than it was written. */
export const hasSpellings = (read: unknown): boolean =>
  typeof read === "object" && read !== null && spellingsByValue.has(read);

/** Returns how a number was written in a value of `parseJson`; undefined if that is how it prints, or if it has it in several spellings. */
export function getSpellingByValue(value: number, read: unknown): string | undefined {
  if (typeof read !== "object" || read === null) return undefined;
  return spellingsByValue.get(read)?.get(value) ?? undefined;
}

/**
 * Writes a number: as it was written in `read`, a value of `parseJson`, if that has it in one spelling; else with the digits of
 * a whole number, or at most 15 significant ones.
 */
export function renderNumber(value: number, read?: unknown): string {
  const spelling = getSpellingByValue(value, read);
  if (spelling !== undefined) return spelling;
  return String(Number.isSafeInteger(value) ? value : Number(value.toPrecision(DIGITS)));
}

const { rawJSON } = JSON as unknown as { rawJSON(text: string): object };

/**
 * Writes a value as JSON, its numbers as they were written in the JSON that they come from. `read`: the whole value of
 * `parseJson` that parts of it were taken from, or made with.
 */
export function writeJson(
  value: unknown,
  { read, indent }: { read?: unknown; indent?: number } = {},
): string {
  const replace = function (this: object, key: string, member: unknown): unknown {
    const spelling = getSpelling(this, key);
    if (spelling !== undefined) return rawJSON(spelling);
    return typeof member === "number" && Number.isFinite(member)
      ? rawJSON(renderNumber(member, read))
      : member;
  };
  return JSON.stringify(value, replace, indent);
}

/**
 * Parses JSON for a program that prints it again by itself: of a number that a JavaScript number cannot hold, `JSON.stringify`
 * prints what was written.
 * @throws SyntaxError if the text is not JSON
 */
export function parseJsonToPrint(text: string): unknown {
  const revive = (_key: string, value: unknown, { source }: { source?: string }): unknown =>
    typeof value === "number" && source !== undefined && !isHeld(source) ? rawJSON(source) : value;
  return JSON.parse(text, revive as (key: string, value: unknown) => unknown);
}

function roundMembers(value: unknown, printed: readonly string[], isPrinted = false): unknown {
  if (typeof value !== "object" || value === null) return value;
  const round = (member: unknown, key: string): unknown => {
    if (typeof member !== "string" || getSpelling(value, key) !== member)
      return roundMembers(member, printed, isPrinted || printed.includes(key));
    if (isPrinted) return rawJSON(member);
    return Math.min(Math.max(Number(member), -Number.MAX_VALUE), Number.MAX_VALUE);
  };
  if (Array.isArray(value)) return value.map((member, index) => round(member, String(index)));
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [key, round(member, key)]),
  );
}

/**
 * Returns a value of `parseJson` with a JavaScript number, rounded, in place of each number's text, for readers that expect
 * numbers. Within members of the names `printed`, which are only printed again, `JSON.stringify` prints what was written.
 */
export function roundNumbers(value: unknown, printed: readonly string[] = []): unknown {
  return typeof value === "object" && value !== null && withLongNumbers.has(value)
    ? roundMembers(value, printed)
    : value;
}
