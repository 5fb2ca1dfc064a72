/**
 * JSON that stays as it was written. A JavaScript number has 53 bits: `154284075601887489` would become
 * `154284075601887490`, and `19.90` would become `19.9`. A number that it cannot hold is read as the text of its digits. Of one that
 * it holds but prints in another way, the spelling is kept beside the value, and so is the order of keys such as `"10"` and `"9"`.
 */

/** True if a value is an object and no list. */
export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** JSON that is nested deeper than this is refused: later steps walk it recursively. */
export const MAX_DEPTH = 200;
/** Files of the config may be nested so deep: a fixture has a whole body within its own members. */
export const MAX_FILE_DEPTH = 250;

/** Facts that one walk through a parsed value finds. */
interface Walked {
  /** The members of all its objects. */
  members: number;
  /** An object may have its keys in another order than they were written in. */
  isReordered: boolean;
}

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null;
/** JavaScript puts keys that are whole numbers before all others. */
const isIndex = (key: string): boolean => /^\d/.test(key);

/** Returns whether a value is nested deeper than `left` levels; if it is not, it was walked through to its end. */
function walk(value: object, left: number, found: Walked): boolean {
  if (left === 0) return true;
  if (Array.isArray(value)) {
    for (const member of value) if (isObject(member) && walk(member, left - 1, found)) return true;
    return false;
  }
  let isFirst = true;
  for (const key in value) {
    found.members++;
    if (isFirst) found.isReordered ||= isIndex(key);
    isFirst = false;
    const member = (value as Record<string, unknown>)[key];
    if (isObject(member) && walk(member, left - 1, found)) return true;
  }
  return false;
}

/** Returns whether a value is nested deeper than `left` levels. */
export const isTooDeep = (value: unknown, left = MAX_DEPTH): boolean =>
  isObject(value) && walk(value, left, { members: 0, isReordered: false });

/** The spelling of numbers, by the object or list that holds them and their key there. */
const spellings = new WeakMap<object, Map<string, string>>();
/** The keys of objects as they were written, where JavaScript has them in another order. */
const keyOrders = new WeakMap<object, readonly string[]>();

/** The facts that `parseJson` keeps of a text whose value alone would be printed otherwise. */
interface Reading {
  /** The spelling of numbers by their value. Null: in several ways. */
  byValue: ReadonlyMap<number, string | null>;
  /** The text of a number is among its values. */
  hasLong: boolean;
  /** The places of keys that their object has had before, counted from 1. */
  repeats: readonly number[];
}
const readings = new WeakMap<object, Reading>();

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

/** Returns the end of the text in quotes that begins at a place of JSON. */
function findTextEnd(json: string, start: number): number {
  for (let end = json.indexOf('"', start + 1); ; end = json.indexOf('"', end + 1)) {
    let first = end;
    while (json[first - 1] === "\\") first--;
    if ((end - first) % 2 === 0) return end + 1;
  }
}

const SPACE = /[\s,:]*/y;
const WORD = /[^\s,\]}]+/y;

/** Reads valid JSON piece by piece, and keeps how it was written. */
function readPieces(json: string): unknown {
  const byValue = new Map<number, string | null>();
  const numbers = new Map<number, string>();
  const repeats: number[] = [];
  let hasLong = false;
  let at = 0;
  const skip = (part: RegExp): void => {
    part.lastIndex = at;
    part.test(json);
    at = part.lastIndex;
  };
  const takeToken = (): string => {
    const start = at;
    if (json[at] === '"') at = findTextEnd(json, at);
    else skip(WORD);
    return json.slice(start, at);
  };
  /** Reads the members of a list or an object up to its end. */
  const readMembers = (readMember: () => void): void => {
    for (at++, skip(SPACE); json[at] !== "}" && json[at] !== "]"; skip(SPACE)) readMember();
    at++;
  };
  const readNumber = (token: string, own: Map<string, string>, key: string): number | string => {
    const value = Number(token);
    const before = numbers.get(value);
    if (isUnusual(token, value)) own.set(key, token);
    if (before === undefined) {
      numbers.set(value, token);
      if (own.get(key) === token) byValue.set(value, token);
    } else if (before !== token) byValue.set(value, null);
    if (isHeld(token)) return value;
    hasLong = true;
    return token;
  };
  const readObject = (): object => {
    const keys = new Set<string>();
    const own = new Map<string, string>();
    const members: [key: string, value: unknown][] = [];
    readMembers(() => {
      const start = at + 1;
      const key = JSON.parse(takeToken()) as string;
      if (keys.has(key)) repeats.push(start);
      keys.add(key);
      own.delete(key);
      members.push([key, readValue(own, key)]);
    });
    // A key `__proto__` is one as any other here, and sets no prototype.
    const object = Object.fromEntries(members);
    if (own.size > 0) spellings.set(object, own);
    if ([...keys].some(isIndex)) keyOrders.set(object, [...keys]);
    return object;
  };
  const readList = (): unknown[] => {
    const list: unknown[] = [];
    const own = new Map<string, string>();
    readMembers(() => list.push(readValue(own, String(list.length))));
    if (own.size > 0) spellings.set(list, own);
    return list;
  };
  const readValue = (own: Map<string, string>, key: string): unknown => {
    skip(SPACE);
    if (json[at] === "{") return readObject();
    if (json[at] === "[") return readList();
    const token = takeToken();
    return /^[-\d]/.test(token) ? readNumber(token, own, key) : JSON.parse(token);
  };
  const read = readValue(new Map(), "") as object;
  readings.set(read, { byValue, hasLong, repeats });
  return read;
}

/** Matches a number that prints as it is written, if it has no more characters than `DIGITS`. */
const PLAIN_NUMBER = /(?:0|-?[1-9]\d*|-?\d+\.(?!0{5})\d*[1-9])(?![\d.eE])/y;
const [QUOTE, MINUS, ZERO, NINE, COLON] = [0x22, 0x2d, 0x30, 0x39, 0x3a];

/** Returns whether all numbers of valid JSON print as they are written, and its objects have `members` keys in all. */
function isPlain(json: string, members: number): boolean {
  let keys = 0;
  for (let at = 0; at < json.length; at++) {
    const sign = json.charCodeAt(at);
    if (sign === QUOTE) {
      at = findTextEnd(json, at);
      if (json.charCodeAt(at) === COLON) keys++;
    } else if (sign === MINUS || (sign >= ZERO && sign <= NINE)) {
      PLAIN_NUMBER.lastIndex = at;
      if (!PLAIN_NUMBER.test(json) || PLAIN_NUMBER.lastIndex - at > DIGITS) return false;
      at = PLAIN_NUMBER.lastIndex;
    }
  }
  return keys === members;
}

/**
 * Parses JSON. Numbers that a JavaScript number cannot hold are the text of their digits; `writeJson` and `renderNumber`
 * know how all other numbers were written, and in what order keys were. Of a key that an object has twice the last value counts
 * (`getRepeats`). A byte order mark at the begin is no part of the text.
 * @throws SyntaxError if the text is not JSON, RangeError if it is nested deeper than `maxDepth`
 */
export function parseJson(text: string, maxDepth = Infinity): unknown {
  const json = text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
  const value: unknown = JSON.parse(json);
  if (!isObject(value))
    // A number alone has nothing that could keep its spelling.
    return typeof value === "number" && json.trim() !== String(value) ? json.trim() : value;
  const found: Walked = { members: 0, isReordered: false };
  if (walk(value, maxDepth, found)) throw new RangeError("the JSON is nested too deep");
  return !found.isReordered && isPlain(json, found.members) ? value : readPieces(json);
}

/** Returns where keys begin in the text of a value of `parseJson` that their object has had before, counted from 1. */
export const getRepeats = (read: unknown): readonly number[] =>
  (isObject(read) && readings.get(read)?.repeats) || [];

/** Returns the spelling of a value at a key of a holder with these spellings, unless the value has changed. */
function findSpelling(
  own: ReadonlyMap<string, string> | undefined,
  key: string,
  value: unknown,
): string | undefined {
  const spelling = own?.get(key);
  if (spelling === undefined) return undefined;
  return value === spelling || value === Number(spelling) ? spelling : undefined;
}

/** Returns how the number at a key of an object or list was written; undefined if that is how it prints. */
export const getSpelling = (holder: unknown, key: string): string | undefined =>
  isObject(holder)
    ? findSpelling(spellings.get(holder), key, (holder as Record<string, unknown>)[key])
    : undefined;

/** Adds a member of an object or list to a list, in which it prints in the same way. */
export function addMember(list: unknown[], holder: unknown, key: string): void {
  const spelling = getSpelling(holder, key);
  if (spelling !== undefined) {
    const own = spellings.get(list) ?? new Map<string, string>();
    spellings.set(list, own.set(String(list.length), spelling));
  }
  list.push((holder as Record<string, unknown>)[key]);
}

/** Lets a copy of an object or list print as the original does. */
export function copySpellings(from: object, to: object): void {
  const [own, keys, reading] = [spellings.get(from), keyOrders.get(from), readings.get(from)];
  if (own) spellings.set(to, new Map(own));
  if (keys) keyOrders.set(to, keys);
  if (reading) readings.set(to, reading);
}

/** Lets numbers that are known by their value alone print as they were written in several values of `parseJson`. */
export function joinSpellings(reads: readonly unknown[], to: object): void {
  const byValue = new Map<number, string | null>();
  for (const read of reads)
    for (const [value, spelling] of (isObject(read) && readings.get(read)?.byValue) || [])
      byValue.set(
        value,
        (byValue.has(value) ? byValue.get(value) : spelling) === spelling ? spelling : null,
      );
  if (byValue.size > 0) readings.set(to, { byValue, hasLong: false, repeats: [] });
}

/** Returns whether a value of `parseJson` would be printed otherwise than it was written. */
export const hasSpellings = (read: unknown): boolean => isObject(read) && readings.has(read);

/** Returns how a number was written in a value of `parseJson`; undefined if that is how it prints, or if it has it in several spellings. */
export const getSpellingByValue = (value: number, read: unknown): string | undefined =>
  (isObject(read) && readings.get(read)?.byValue.get(value)) || undefined;

/**
 * Writes a number: as it was written in `read`, a value of `parseJson`, if that has it in one spelling; else with the digits of
 * a whole number, or at most 15 significant ones.
 */
export function renderNumber(value: number, read?: unknown): string {
  const spelling = getSpellingByValue(value, read);
  if (spelling !== undefined) return spelling;
  return String(Number.isSafeInteger(value) ? value : Number(value.toPrecision(DIGITS)));
}

const { rawJSON, isRawJSON } = JSON as unknown as {
  rawJSON(text: string): object;
  isRawJSON(value: unknown): boolean;
};

/** Matches signs that JSON may escape. A call of `JSON.stringify` for each text takes longer. */
const ESCAPED = /[^ !#-[\]-\ud7ff\ue000-\uffff]/;
const quote = (text: string): string => (ESCAPED.test(text) ? JSON.stringify(text) : `"${text}"`);

/** The keys of an object, in the order in which they were written. */
function getKeys(object: object): readonly string[] {
  const written = keyOrders.get(object);
  const keys = Object.keys(object);
  if (!written) return keys;
  const own = new Set(keys);
  return [...new Set([...written.filter((key) => own.has(key)), ...keys])];
}

/**
 * Writes a value as JSON, its numbers and keys as they were written in the JSON that they come from. `read`: the whole value of
 * `parseJson` that parts of it were taken from, or made with.
 */
export function writeJson(
  value: unknown,
  { read, indent = 0 }: { read?: unknown; indent?: number } = {},
): string {
  const toLine = (level: number): string => (indent > 0 ? `\n${" ".repeat(indent * level)}` : "");
  const join = ([open, close]: string, members: readonly string[], level: number): string =>
    members.length === 0
      ? `${open}${close}`
      : `${open}${toLine(level + 1)}${members.join(`,${toLine(level + 1)}`)}${toLine(level)}${close}`;
  const write = (member: unknown, level: number): string | undefined => {
    if (typeof member === "string") return quote(member);
    if (typeof member === "number" && Number.isFinite(member)) return renderNumber(member, read);
    // A date and raw JSON have a text of their own.
    if (!isObject(member) || "toJSON" in member || isRawJSON(member)) return JSON.stringify(member);
    const own = spellings.get(member);
    if (Array.isArray(member)) {
      const list: readonly unknown[] = member;
      const texts = Array.from(
        list,
        (one, at) => findSpelling(own, String(at), one) ?? write(one, level + 1) ?? "null",
      );
      return join("[]", texts, level);
    }
    const members: string[] = [];
    for (const name of getKeys(member)) {
      const one = (member as Record<string, unknown>)[name];
      const text = findSpelling(own, name, one) ?? write(one, level + 1);
      if (text !== undefined) members.push(`${quote(name)}:${indent > 0 ? " " : ""}${text}`);
    }
    return join("{}", members, level);
  };
  return write(value, 0) ?? "null";
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
  return isObject(value) && readings.get(value)?.hasLong ? roundMembers(value, printed) : value;
}
