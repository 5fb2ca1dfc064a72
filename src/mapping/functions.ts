/** Text that a function may take or make, and members that a list may have. */
export const MAX_TEXT = 1_000_000;
export const MAX_SEQUENCE = 20_000;

/** An expression met one of its bounds. The message goes behind "the expression". */
export class GuardError extends Error {}

export function tooLong(): never {
  throw new GuardError("makes a text of more than a million characters");
}
const tooMany = (): never => {
  throw new GuardError(`makes a list of more than ${MAX_SEQUENCE} members`);
};

type Text = string | undefined;
/** What JSONata makes of a regular expression: called with a text it gives the first match, which knows the next. */
interface Match {
  match: string;
  start: number;
  end: number;
  groups?: string[];
  next?: () => Match | undefined;
}
type Matcher = (text: string) => Match | undefined | Promise<Match | undefined>;
type Pattern = string | Matcher;

const checked = (text: string): string => (text.length > MAX_TEXT ? tooLong() : text);
const onText =
  <T>(make: (text: string, ...rest: never[]) => T) =>
  (text: Text, ...rest: unknown[]): T | undefined =>
    text === undefined ? undefined : make(checked(text), ...(rest as never[]));

/** Every match of a pattern in a text, at most as many as a list may have members. */
async function matchesOf(text: string, pattern: Pattern): Promise<Match[]> {
  const found: Match[] = [];
  if (typeof pattern === "string") {
    if (pattern === "") throw new GuardError("searches for an empty text");
    for (let at = text.indexOf(pattern); at >= 0; at = text.indexOf(pattern, at + pattern.length)) {
      if (found.push({ match: pattern, start: at, end: at + pattern.length, groups: [] }) > MAX_SEQUENCE) tooMany();
    }
    return found;
  }
  for (let match = await pattern(text); match; match = match.next?.()) {
    if (match.end === match.start) throw new GuardError("uses a regular expression that matches an empty text");
    if (found.push(match) > MAX_SEQUENCE) tooMany();
  }
  return found;
}

async function split(text: Text, separator: Pattern, limit?: number): Promise<string[] | undefined> {
  if (text === undefined) return undefined;
  checked(text);
  let pieces: string[] = [];
  if (separator === "") pieces = text.length > MAX_SEQUENCE ? tooMany() : text.split("");
  else {
    let at = 0;
    for (const match of await matchesOf(text, separator)) {
      pieces.push(text.slice(at, match.start));
      at = match.end;
    }
    pieces.push(text.slice(at));
  }
  return limit === undefined ? pieces : pieces.slice(0, Math.max(0, Math.floor(limit)));
}

/** `$0` the match, `$1` a group, `$$` a dollar sign. */
function expand(replacement: string, match: Match): string {
  return replacement.replace(/\$(\$|\d+)/g, (all, what: string) => {
    if (what === "$") return "$";
    const group = Number(what);
    return group === 0 ? match.match : (match.groups?.[group - 1] ?? (group > (match.groups?.length ?? 0) ? "" : all));
  });
}

async function replace(text: Text, pattern: Pattern, replacement: string | ((match: Match) => unknown), limit?: number): Promise<Text> {
  if (text === undefined) return undefined;
  const matches = (await matchesOf(checked(text), pattern)).slice(0, limit === undefined ? undefined : Math.max(0, Math.floor(limit)));
  let result = "";
  let at = 0;
  for (const match of matches) {
    const made =
      typeof replacement === "function" ? await replacement(match) : typeof pattern === "string" ? replacement : expand(replacement, match);
    if (typeof made !== "string") throw new GuardError("replaces by something that is no text");
    result += text.slice(at, match.start) + made;
    if (result.length > MAX_TEXT) tooLong();
    at = match.end;
  }
  return checked(result + text.slice(at));
}

function pad(text: Text, width: number, sign?: string): Text {
  if (text === undefined) return undefined;
  if (Math.abs(width) > MAX_TEXT) tooLong();
  const fill = Array.from(checked(sign === undefined || sign === "" ? " " : sign));
  const missing = Math.floor(Math.abs(width)) - Array.from(checked(text)).length;
  if (missing <= 0) return text;
  const padding = Array.from({ length: missing }, (_, index) => fill[index % fill.length]).join("");
  return width < 0 ? padding + text : text + padding;
}

function join(list: string[] | undefined, separator = ""): Text {
  if (list === undefined) return undefined;
  let length = 0;
  for (const text of list) if ((length += text.length + separator.length) > MAX_TEXT) tooLong();
  return list.join(separator);
}

/** The length of a value as JSON, at least; stops where it is too long. */
function measure(value: unknown, left: { chars: number }): void {
  left.chars -= typeof value === "string" ? value.length : 1;
  if (left.chars < 0) tooLong();
  if (typeof value !== "object" || value === null) return;
  for (const [key, member] of Object.entries(value)) {
    left.chars -= key.length;
    measure(member, left);
  }
}

function string(value: unknown, pretty?: boolean): Text {
  if (value === undefined) return undefined;
  measure(value, { chars: MAX_TEXT });
  if (typeof value === "string") return value;
  if (typeof value === "function") return "";
  if (typeof value === "number" && !Number.isFinite(value)) throw new GuardError("makes text of a number that is none");
  const rounded = (_key: string, member: unknown): unknown =>
    typeof member === "function" ? "" : typeof member === "number" && !Number.isInteger(member) ? Number(member.toPrecision(15)) : member;
  return JSON.stringify(value, rounded, pretty ? 2 : 0);
}

function substring(text: string, start: number, length?: number): string {
  const signs = Array.from(text);
  const from = start < 0 ? Math.max(0, signs.length + start) : start;
  if (length !== undefined && length <= 0) return "";
  return signs.slice(from, length === undefined ? undefined : from + length).join("");
}

async function contains(text: Text, pattern: Pattern): Promise<boolean | undefined> {
  if (text === undefined) return undefined;
  return typeof pattern === "string" ? checked(text).includes(pattern) : (await pattern(checked(text))) !== undefined;
}

function append(first: unknown, second: unknown): unknown {
  if (first === undefined) return second;
  if (second === undefined) return first;
  const [left, right] = [first, second].map((side): unknown[] => (Array.isArray(side) ? (side as unknown[]) : [side])) as [
    unknown[],
    unknown[],
  ];
  return left.length + right.length > MAX_SEQUENCE ? tooMany() : [...left, ...right];
}

/** Also what the transform operator `| … |` copies with. */
function clone(value: unknown): unknown {
  if (value === undefined) return undefined;
  measure(value, { chars: MAX_TEXT });
  return JSON.parse(JSON.stringify(value)) as unknown;
}

const before = (text: string, mark: string): string => (text.includes(mark) ? text.slice(0, text.indexOf(mark)) : text);
const after = (text: string, mark: string): string => (text.includes(mark) ? text.slice(text.indexOf(mark) + mark.length) : text);

/**
 * Functions that could make much of little, or that take long over what a few doublings made: the same as JSONata's
 * own (https://docs.jsonata.org/string-functions), with bounds. By name: implementation and signature.
 */
export const BOUNDED: Record<string, [(...args: never[]) => unknown, string]> = {
  append: [append, "<xx:a>"],
  clone: [clone, "<(oa)-:o>"],
  base64encode: [onText((text) => Buffer.from(text, "binary").toString("base64")), "<s-:s>"],
  base64decode: [onText((text) => Buffer.from(text, "base64").toString("binary")), "<s-:s>"],
  contains: [contains, "<s-(sf):b>"],
  join: [join, "<a<s>s?:s>"],
  length: [onText((text) => Array.from(text).length), "<s-:n>"],
  lowercase: [onText((text) => text.toLowerCase()), "<s-:s>"],
  pad: [pad, "<s-ns?:s>"],
  replace: [replace, "<s-(sf)(sf)n?:s>"],
  split: [split, "<s-(sf)n?:a<s>>"],
  string: [string, "<x-b?:s>"],
  substring: [onText(substring), "<s-nn?:s>"],
  substringAfter: [onText(after), "<s-s:s>"],
  substringBefore: [onText(before), "<s-s:s>"],
  trim: [onText((text) => text.replace(/[ \t\n\r]+/g, " ").trim()), "<s-:s>"],
  uppercase: [onText((text) => text.toUpperCase()), "<s-:s>"],
};
