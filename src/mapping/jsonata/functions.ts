import {
  getSpelling,
  getSpellingByValue,
  hasSpellings,
  parseJson,
  writeJson,
} from "../../core/json.ts";
import { isImpossibleDay } from "../../core/clock.ts";
import { toWellFormed } from "../../core/text.ts";
import { isEmptyValue, ownMember, renderValue } from "../template-context.ts";
import {
  GuardError,
  isJsonataFunction,
  MAX_SEQUENCE,
  MAX_TEXT,
  tooLong,
  tooMany,
  normalise,
  getRenderedSize,
} from "./values.ts";
import {
  type Focus,
  type Implementation,
  AFTER_EACH_STEP,
  type Definition,
  type Frame,
} from "./internals.ts";
import type jsonata from "jsonata";

/**
 * Writes the members of an object as `name=value, name=value`; undefined without an object, or if no member is left.
 * Left out are empty values, members that `common` has with the same value, and names that begin with `__`, by which
 * programs mark what is theirs alone.
 */
export function formatPairs(object: unknown, common: unknown): string | undefined {
  if (typeof object !== "object" || object === null || Array.isArray(object)) return undefined;
  const pairs = Object.entries(object)
    .filter(([name]) => !name.startsWith("__"))
    .filter(([name, value]) => !isEmptyValue(value) && value !== ownMember(common, name))
    .map(([name, value]) => `${name}=${renderValue(value)}`);
  return pairs.length > 0 ? pairs.join(", ") : undefined;
}

/**
 * Currencies whose smallest unit is not a hundredth (ISO 4217), by how many decimals they have. `Intl` has the decimals of
 * everyday prices instead, which are fewer: none for HUF, IDR or COP.
 */
const CURRENCIES: readonly [decimals: number, codes: string][] = [
  [0, "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"],
  [3, "BHD IQD JOD KWD LYD OMR TND"],
  [4, "CLF UYW"],
];
const DECIMALS = new Map(
  CURRENCIES.flatMap(([decimals, codes]) => codes.split(" ").map((code) => [code, decimals])),
);
const MAX_DECIMALS = 18;

const isMissing = (value: unknown): boolean =>
  value === undefined || value === null || value === "";

/** The decimals of a currency: those of `exceptions`, else those of ISO 4217. */
function getDecimals(code: string, exceptions: Record<string, unknown>): number {
  const decimals = Object.hasOwn(exceptions, code) ? exceptions[code] : (DECIMALS.get(code) ?? 2);
  if (Number.isInteger(decimals) && Number(decimals) >= 0 && Number(decimals) <= MAX_DECIMALS)
    return Number(decimals);
  throw new GuardError(
    `gives $formatMoney decimals that are not a whole number from 0 to ${MAX_DECIMALS}`,
  );
}

/**
 * Writes an amount of a currency's smallest unit, such as 2200 cents, as `22.00 EUR`; undefined without an amount or a
 * currency. Works on the digits, so that no amount is rounded.
 * @param exceptions decimals by upper-case code, for senders that differ from ISO 4217
 */
export function formatMoney(
  minorUnits: unknown,
  currency: unknown,
  exceptions: unknown,
): string | undefined {
  if (isMissing(minorUnits) || isMissing(currency)) return undefined;
  const amount = Number.isSafeInteger(minorUnits) ? String(minorUnits) : minorUnits;
  const [, sign, digits] = (typeof amount === "string" && /^(-?)(\d+)$/.exec(amount)) || [];
  if (digits === undefined)
    throw new GuardError("gives $formatMoney an amount that is not a whole number");
  if (typeof currency !== "string")
    throw new GuardError("gives $formatMoney a currency that is not text");
  const code = currency.toUpperCase();
  const decimals = getDecimals(code, (exceptions ?? {}) as Record<string, unknown>);
  const padded = digits.padStart(decimals + 1, "0");
  const whole = padded.slice(0, padded.length - decimals);
  return `${sign}${whole}${decimals > 0 ? `.${padded.slice(-decimals)}` : ""} ${code}`;
}

/** Functions of JSONata whose time grows with the square of a list: the same results in linear time. */

type Comparator = (left: unknown, right: unknown) => unknown;

/** Returns a text that is equal for equal values. Keys of objects have no order, and a function equals itself alone. */
function identity(
  value: unknown,
  left: { chars: number; functions: Map<unknown, number> },
): string {
  if (isJsonataFunction(value)) {
    const number = left.functions.get(value) ?? left.functions.size;
    left.functions.set(value, number);
    return `function ${number}`;
  }
  if (typeof value !== "object" || value === null) {
    const text = `${typeof value} ${String(value)}`;
    if ((left.chars -= text.length) < 0) tooLong();
    return text;
  }
  if (--left.chars < 0) tooLong();
  if (Array.isArray(value))
    return `[${(value as unknown[]).map((member) => JSON.stringify(identity(member, left))).join()}]`;
  const members = Object.keys(value).toSorted();
  return `{${members.map((key) => JSON.stringify([key, identity((value as Record<string, unknown>)[key], left)])).join()}}`;
}

/** `$distinct`. JSONata's own compares each member with each. */
export const distinct = (): Implementation =>
  function distinctMembers(this: Focus, list: unknown): unknown {
    if (!Array.isArray(list) || list.length <= 1) return list;
    const seen = new Set<unknown>();
    const left = { chars: MAX_TEXT, functions: new Map<unknown, number>() };
    const kept = "sequence" in list ? this.createSequence() : [];
    for (const member of list as unknown[]) {
      const isObject = typeof member === "object" && member !== null;
      const key = isObject
        ? identity(member, left)
        : typeof member === "string"
          ? ` ${member}`
          : member;
      if (!seen.has(key)) kept.push(member);
      seen.add(key);
    }
    return kept;
  };

async function merge(
  left: readonly unknown[],
  right: readonly unknown[],
  isAfter: Comparator,
): Promise<unknown[]> {
  const merged: unknown[] = [];
  let l = 0;
  let r = 0;
  while (l < left.length && r < right.length)
    merged.push((await isAfter(left[l], right[r])) ? right[r++] : left[l++]);
  return [...merged, ...left.slice(l), ...right.slice(r)];
}

async function mergeSort(list: readonly unknown[], isAfter: Comparator): Promise<unknown[]> {
  if (list.length <= 1) return [...list];
  const middle = Math.floor(list.length / 2);
  return merge(
    await mergeSort(list.slice(0, middle), isAfter),
    await mergeSort(list.slice(middle), isAfter),
    isAfter,
  );
}

/** `$sort`: stable. JSONata's own copies the rest of the list for each member. */
export function sort(list: unknown, isAfter?: unknown): unknown {
  if (list === undefined || (list as unknown[]).length <= 1) return list;
  if (isAfter !== undefined)
    return Array.isArray(list) ? mergeSort(list as unknown[], isAfter as Comparator) : list;
  const hasOnly = (type: string): boolean =>
    Array.isArray(list) && list.every((member) => typeof member === type && !Number.isNaN(member));
  if (!hasOnly("number") && !hasOnly("string"))
    throw Object.assign(new Error("not sortable"), { code: "D3070", index: 1 });
  return (list as string[]).toSorted((a, b) => (a > b ? 1 : a < b ? -1 : 0));
}

/** `$spread`, given JSONata's own for what is not a list. It copies what it has so far for each member of one. */
export const spread = (own: Implementation): Implementation =>
  function spreadAll(this: Focus, value: unknown): unknown {
    if (!Array.isArray(value)) return own.call(this, value);
    const parts = (value as unknown[])
      .map((member) => spreadAll.call(this, member))
      .filter((part) => part !== undefined);
    // As JSONata has it: nothing at all is a sequence, anything else is a list.
    if (parts.length === 0) return this.createSequence();
    const all = parts.flat();
    return all.length > MAX_SEQUENCE ? tooMany() : all;
  };

/** Bound to the time of the event, in milliseconds since the epoch. No variable in an expression can have this name. */
export const EVENT_TIME = "time of the event";

const TEXT_FUNCTIONS =
  "string substring substringBefore substringAfter lowercase uppercase length trim pad match contains replace split join formatNumber formatBase formatInteger parseInteger number base64encode base64decode encodeUrlComponent encodeUrl decodeUrlComponent decodeUrl toMillis fromMillis clone now parseJson formatMoney formatPairs".split(
    " ",
  );
const OTHER_FUNCTIONS =
  "sum count max min average floor ceil round abs sqrt power boolean not map zip filter single reduce sift keys lookup append exists spread merge reverse each error assert type sort distinct millis".split(
    " ",
  );
/** Functions that an expression may call. */
export const FUNCTIONS: ReadonlySet<string> = new Set([...TEXT_FUNCTIONS, ...OTHER_FUNCTIONS]);

/** Characters of a picture such as `#,##0.00`, and of a text that is read by one: their time grows with the square and more. */
const MAX_PICTURE = 1_000;
const MAX_PICTURED = 200;
/** The last millisecond of JavaScript's calendar. */
const MAX_MILLIS = 8.64e15;

function picture(...pictures: unknown[]): void {
  for (const given of pictures)
    if (getRenderedSize(given) > MAX_PICTURE)
      throw new GuardError(`uses a picture of more than ${MAX_PICTURE} characters`);
}

function pictured(text: unknown, format: unknown): void {
  picture(format);
  if (format !== undefined && getRenderedSize(text) > MAX_PICTURED)
    throw new GuardError(`reads a text of more than ${MAX_PICTURED} characters by a picture`);
}

/** Checks before a function is called, besides the length of what a text function is given. */
const BEFORE: Record<string, (args: readonly unknown[]) => void> = {
  append: ([first, second]) => {
    const count = (side: unknown): number => (Array.isArray(side) ? side.length : 1);
    if (first !== undefined && second !== undefined && count(first) + count(second) > MAX_SEQUENCE)
      tooMany();
  },
  string: ([value, pretty]) => {
    if (pretty) getRenderedSize(value, 2);
  },
  join: ([list, separator]) => {
    if (Array.isArray(list) && list.length * getRenderedSize(separator ?? "") > MAX_TEXT) tooLong();
  },
  pad: ([text, width, fill]) => {
    if (text !== undefined && Math.abs(Number(width)) * getRenderedSize(fill ?? " ") > MAX_TEXT)
      tooLong();
  },
  replace: ([text, pattern, replacement, limit]) => {
    if (typeof text !== "string" || typeof pattern !== "string" || pattern === "") return;
    const size = getRenderedSize(replacement);
    if (text.length * size <= MAX_TEXT) return;
    const most = Number(limit ?? Infinity);
    let made = 0;
    for (
      let at = text.indexOf(pattern), count = 0;
      at >= 0 && count < most;
      at = text.indexOf(pattern, at + pattern.length), count++
    )
      if ((made += size) > MAX_TEXT) tooLong();
  },
  formatNumber: ([, format, options]) => picture(format, options),
  formatInteger: ([, format]) => picture(format),
  fromMillis: ([millis, format, zone]) => {
    if (Math.abs(Number(millis ?? 0)) > MAX_MILLIS)
      throw new GuardError("gives $fromMillis a time that no calendar has");
    picture(format, zone);
  },
  now: ([format, zone]) => picture(format, zone),
  toMillis: ([text, format]) => pictured(text, format),
  parseInteger: ([text, format]) => pictured(text, format),
};

/** Calls a function with U+FFFD in the place of halves of surrogate pairs: JSONata's own fails on them. */
const onWellFormed = (own: Implementation): Implementation =>
  function encodeWellFormed(...args) {
    return own.apply(this, toWellFormed(args));
  };

/** `$string`: writes fractions, objects and lists as they are written in the body. */
const string = (own: Implementation): Implementation =>
  function asText(value, pretty, ...rest) {
    const input = this.environment.base.lookup("$");
    const spelling =
      typeof value === "number" && !Number.isInteger(value)
        ? getSpellingByValue(value, input)
        : undefined;
    if (spelling !== undefined) return spelling;
    return hasSpellings(input) &&
      typeof value === "object" &&
      value !== null &&
      !isJsonataFunction(value)
      ? writeJson(normalise(value), { read: input, indent: pretty === true ? 2 : 0 })
      : own.call(this, value, pretty, ...rest);
  };

const ZONE = /^(?:([+-]?)(\d\d?)(?::?(\d\d))?|Z|UTC)$/;

/** `$fromMillis`, given JSONata's own, which adds five minutes for `+05:30`, and writes `NaN` for the name of a zone. */
const inZone = (own: Implementation): Implementation =>
  function formatTime(millis, format, zone) {
    if (typeof zone !== "string") return own.call(this, millis, format, zone);
    const [found, sign, hours = 0, minutes = 0] = ZONE.exec(zone) ?? [];
    if (found === undefined)
      throw new GuardError('uses a time zone that is no offset such as "+0200"');
    const offset = Number(hours) * 100 + Number(minutes);
    // JSONata rounds the hours down, also those below zero.
    const below = Number(minutes) > 0 ? 100 - offset : -offset;
    return own.call(this, millis, format, String(sign === "-" ? below : offset));
  };

/** Functions that are not left to JSONata's own implementation alone, which each is given. */
const INSTEAD: Record<string, (own: Implementation, fromMillis: Implementation) => Implementation> =
  {
    // JSONata's own take a byte for a character, and change every text that is not ASCII.
    base64encode: () => (text) =>
      text === undefined ? undefined : Buffer.from(text as string, "utf8").toString("base64"),
    base64decode: () => (text) =>
      text === undefined ? undefined : Buffer.from(text as string, "base64").toString("utf8"),
    encodeUrl: onWellFormed,
    encodeUrlComponent: onWellFormed,
    string,
    distinct,
    sort: () => sort,
    spread,
    split: (own) =>
      async function split(...args) {
        const pieces = await own.apply(this, args);
        return Array.isArray(pieces) && pieces.length > MAX_SEQUENCE ? tooMany() : pieces;
      },
    millis: () =>
      function millis() {
        return this.environment.lookup(EVENT_TIME);
      },
    fromMillis: (_own, fromMillis) => fromMillis,
    now: (_own, fromMillis) =>
      function now(...args) {
        return fromMillis.call(this, this.environment.lookup(EVENT_TIME), ...args);
      },
    toMillis: (own) =>
      function toMillis(text, format) {
        this.environment.timestamp = new Date(this.environment.lookup(EVENT_TIME) as number);
        const isIso = typeof text === "string" && format === undefined;
        // Without a zone the time is UTC, as it is with a picture, and not the one of this machine.
        const isLocal = isIso && /T[\d:.]+$/.test(text);
        const millis = own.call(this, isLocal ? `${text}Z` : text, format);
        return Number.isNaN(millis) || (isIso && isImpossibleDay(text)) ? undefined : millis;
      },
  };

function parseJsonText(text: unknown): unknown {
  if (text === undefined) return undefined;
  let value: unknown;
  try {
    value = parseJson(text as string);
  } catch {
    throw new GuardError("gives $parseJson a text that is not JSON");
  }
  return normalise(value, "gives $parseJson JSON that is too large or nested too deeply");
}

const checkLength = (result: unknown): unknown =>
  typeof result === "string" && result.length > MAX_TEXT ? tooLong() : result;

/**
 * Puts bounds around a function of JSONata. It keeps its signature, its number of parameters and its source: JSONata asks
 * for the second where the function is an argument, and reads the third where it is applied to a part of its arguments.
 */
function bounded(
  name: string,
  { implementation: own, signature }: Definition,
  fromMillis: Implementation,
): Definition {
  const run = INSTEAD[name]?.(own, fromMillis) ?? own;
  const before = BEFORE[name];
  const isOnText = TEXT_FUNCTIONS.includes(name);
  const implementation: Implementation = function (...args) {
    this.environment.base.options.limit.check();
    if (isOnText) for (const arg of args) getRenderedSize(arg);
    before?.(args);
    const result = run.apply(this, args);
    return result instanceof Promise ? result.then(checkLength) : checkLength(result);
  };
  Object.defineProperty(implementation, "length", { value: own.length });
  implementation.toString = () => own.toString();
  return { _jsonata_function: true, implementation, signature };
}

/** The name of a function that writes a field of an object as text. No variable in an expression can have it. */
export const FIELD_AS_TEXT = "text of a field";

/** Writes the value of a field as text, a number as it is written there, and all else by `$string`. */
const fieldAsText = (asText: Implementation): Definition => ({
  _jsonata_function: true,
  signature: undefined,
  implementation(value, holder, name) {
    const spelling = typeof value === "number" ? getSpelling(holder, String(name)) : undefined;
    return spelling ?? asText.call(this, value);
  },
});

/** Reads JSONata's functions out of the frame of an evaluation: it has no other way to them. */
function readFunctions(library: typeof jsonata): Map<string, Definition> {
  const found = new Map<string, Definition>();
  const expression = library("null");
  expression.registerFunction("parseJson", parseJsonText, "<s-:x>");
  expression.registerFunction("formatMoney", formatMoney, "<xxo?:s>");
  expression.registerFunction("formatPairs", formatPairs, "<xx?:s>");
  expression.assign(AFTER_EACH_STEP, (_step: unknown, _input: unknown, frame: Frame) => {
    for (const name of FUNCTIONS) found.set(name, frame.lookup(name) as Definition);
  });
  // An evaluation of one step ends before the first await.
  void expression.evaluate(null);
  return found;
}

let functions: ReadonlyMap<string, Definition> | undefined;

/** Returns the functions that expressions may call, by name: JSONata's own with bounds, and functions of our own. */
export function getFunctions(library: typeof jsonata): ReadonlyMap<string, unknown> {
  if (functions) return functions;
  const found = readFunctions(library);
  const fromMillis = inZone((found.get("fromMillis") as Definition).implementation);
  const bind = (name: string): Definition =>
    bounded(name, found.get(name) as Definition, fromMillis);
  functions = new Map([
    ...[...found.keys()].map((name) => [name, bind(name)] as const),
    [FIELD_AS_TEXT, fieldAsText(bind("string").implementation)],
  ]);
  return functions;
}
