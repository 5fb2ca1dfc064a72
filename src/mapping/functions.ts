import type jsonata from "jsonata";
import { AFTER_EACH_STEP, type Definition, type Frame, type Implementation } from "./jsonata-internals.ts";
import { distinct, sort, spread } from "./lists.ts";
import { formatMoney } from "./money.ts";
import { formatPairs } from "./pairs.ts";
import { GuardError, MAX_SEQUENCE, MAX_TEXT, normalise, getRenderedSize, tooLong, tooMany } from "./values.ts";

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

function picture(...pictures: unknown[]): void {
  for (const given of pictures)
    if (getRenderedSize(given) > MAX_PICTURE) throw new GuardError(`uses a picture of more than ${MAX_PICTURE} characters`);
}

function pictured(text: unknown, format: unknown): void {
  picture(format);
  if (format !== undefined && getRenderedSize(text) > MAX_PICTURED)
    throw new GuardError(`reads a text of more than ${MAX_PICTURED} characters by a picture`);
}

/** What is checked before a function is called, besides the length of what a text function is given. */
const BEFORE: Record<string, (args: readonly unknown[]) => void> = {
  append: ([first, second]) => {
    const count = (side: unknown): number => (Array.isArray(side) ? side.length : 1);
    if (first !== undefined && second !== undefined && count(first) + count(second) > MAX_SEQUENCE) tooMany();
  },
  string: ([value, pretty]) => {
    if (pretty) getRenderedSize(value, 2);
  },
  join: ([list, separator]) => {
    if (Array.isArray(list) && list.length * getRenderedSize(separator ?? "") > MAX_TEXT) tooLong();
  },
  pad: ([text, width, fill]) => {
    if (text !== undefined && Math.abs(Number(width)) * getRenderedSize(fill ?? " ") > MAX_TEXT) tooLong();
  },
  replace: ([text, pattern, replacement, limit]) => {
    if (typeof text !== "string" || typeof pattern !== "string" || pattern === "") return;
    const size = getRenderedSize(replacement);
    if (text.length * size <= MAX_TEXT) return;
    const most = Number(limit ?? Infinity);
    let made = 0;
    for (let at = text.indexOf(pattern), count = 0; at >= 0 && count < most; at = text.indexOf(pattern, at + pattern.length), count++)
      if ((made += size) > MAX_TEXT) tooLong();
  },
  formatNumber: ([, format, options]) => picture(format, options),
  formatInteger: ([, format]) => picture(format),
  fromMillis: ([, format, zone]) => picture(format, zone),
  now: ([format, zone]) => picture(format, zone),
  toMillis: ([text, format]) => pictured(text, format),
  parseInteger: ([text, format]) => pictured(text, format),
};

/** Functions that are not left to JSONata's own implementation alone, which each is given. */
const INSTEAD: Record<string, (own: Implementation, fromMillis: Implementation) => Implementation> = {
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
  now: (_own, fromMillis) =>
    function now(...args) {
      return fromMillis.call(this, this.environment.lookup(EVENT_TIME), ...args);
    },
  toMillis: (own) =>
    function toMillis(...args) {
      this.environment.timestamp = new Date(this.environment.lookup(EVENT_TIME) as number);
      return own.apply(this, args);
    },
};

function parseJson(text: unknown): unknown {
  if (text === undefined) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text as string);
  } catch {
    throw new GuardError("gives $parseJson a text that is not JSON");
  }
  return normalise(value, "gives $parseJson JSON that is too large or nested too deeply");
}

const checkLength = (result: unknown): unknown => (typeof result === "string" && result.length > MAX_TEXT ? tooLong() : result);

/**
 * Puts bounds around a function of JSONata. It keeps its signature, its number of parameters and its source: JSONata asks
 * for the second where the function is an argument, and reads the third where it is applied to a part of its arguments.
 */
function bounded(name: string, { implementation: own, signature }: Definition, fromMillis: Implementation): Definition {
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

/** Reads JSONata's functions out of the frame of an evaluation: it has no other way to them. */
function readFunctions(library: typeof jsonata): Map<string, Definition> {
  const found = new Map<string, Definition>();
  const expression = library("null");
  expression.registerFunction("parseJson", parseJson, "<s-:x>");
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
  const fromMillis = (found.get("fromMillis") as Definition).implementation;
  functions = new Map([...found].map(([name, definition]) => [name, bounded(name, definition, fromMillis)]));
  return functions;
}
