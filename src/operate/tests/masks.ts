import { isCredentialName } from "../../core/http/credential-name.ts";
import type { QueryValues } from "../../core/http/payload.ts";
import { RouseError } from "../../core/errors.ts";
import { didYouMean } from "../../config/suggest.ts";
import { decodeBody, encodeBody, type FixtureRequest } from "./fixture.ts";

/** A value of a request or of its run that is replaced wherever it stands, always by the same stand-in. */
export interface Mask {
  value: string;
  standIn: string;
  /** The fields for which it is masked: `payload.customer.email`, with `[]` for a place in a list. */
  fields: string[];
}

export interface MaskOptions {
  /** Fields to mask besides those that are found. */
  mask?: readonly string[];
  /** Fields whose values stay. A value that stays in one field stays everywhere. */
  keep?: readonly string[];
}

/** A text or a number of a request or of its run. */
interface Leaf {
  field: string;
  key: string;
  parent: string;
  value: string;
  /** Whether it is the name of a field, which is private only if it looks so. */
  isName?: boolean;
}

/** A mail address in a text. */
const MAIL = /[\w.+%-]{1,64}@[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,24}/gi;
/** A number as JSON writes it. */
const NUMBER = /^(-?)\d(\d*(?:\.\d+)?)$/;
const PHONE = /(?<![\w+])\+\d[\d ()./-]{5,18}\d(?!\w)/g;
const SECRET =
  /(?<![A-Za-z0-9])(?:gh[opsur]_|github_pat_|glpat-|xox[abposr]-|[prs]k[-_](?:live|test|ant|proj)?[-_]?|whsec_|AKIA|eyJ)[\w.+/=-]{12,}|-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*-----END [A-Z ]*PRIVATE KEY-----/g;
const PHONE_KEY = /phone|mobile|msisdn|^(?:tel|fax|cell)$/i;
const NAME_KEY =
  /^(?:(?:first|last|full|middle|given|family|display|real|sur|user|nick|profile)[-_ ]?name|login)$/i;
const PERSON =
  /^(?:actor|assignee|attendee|author|committer|contact|creator|customer|employee|from|invitee|member|owner|patient|person|profile|pusher|recipient|reporter|requester|sender|user|billing\w*|shipping\w*)s?$/i;
/** Shorter values are replaced only where they are the whole value: `Al` is part of many words. */
const MIN_INSIDE = 3;

/** Tools answer with JSON in a text: what its keys say of its values counts too. */
function parseText(text: string): object | undefined {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text) as object;
  } catch {
    return undefined;
  }
}

/** Lists texts and numbers with the fields in which they stand. */
function listLeaves(value: unknown, at: Omit<Leaf, "value">): Leaf[] {
  const parsed = typeof value === "string" ? parseText(value) : undefined;
  if (parsed) return [{ ...at, value: String(value) }, ...listLeaves(parsed, at)];
  if (typeof value === "string" || typeof value === "number")
    return [{ ...at, value: String(value) }];
  if (Array.isArray(value))
    return value.flatMap((member) => listLeaves(member, { ...at, field: `${at.field}[]` }));
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, member]) => {
    const field = `${at.field}.${key}`;
    return [
      { field, key: "", parent: "", value: key, isName: true },
      ...listLeaves(member, { field, key, parent: at.key }),
    ];
  });
}

/** Without a sign a mail address would be looked for behind each letter of a long text. */
const findPatterns = (text: string): string[] =>
  [text.includes("@") ? MAIL : [], PHONE, SECRET]
    .flat()
    .flatMap((pattern) => text.match(pattern) ?? []);

function findSecretParts({ key, parent, value }: Leaf): string[] {
  const digits = value.replace(/\D/g, "").length;
  if (isCredentialName(key) && value.length >= 6) return [value];
  if (PHONE_KEY.test(key) && digits >= 5) return [value];
  if (NAME_KEY.test(key) || (/^name$/i.test(key) && PERSON.test(parent)))
    return value === "" ? [] : [value];
  return findPatterns(value);
}

/** Text of the same length and the same kinds of characters, which ends with a count. Undefined if it is too short for that. */
function shapeLike(value: string, count: number): string | undefined {
  const chars = [...value].map((char) =>
    /\p{N}/u.test(char) ? "0" : /\p{Lu}/u.test(char) ? "X" : /\p{L}/u.test(char) ? "x" : char,
  );
  let rest = count;
  for (let index = chars.length - 1; index >= 0 && rest > 0; index--) {
    const char = chars[index] as string;
    const base = char === "0" ? 10 : 26;
    if (!"0xX".includes(char)) continue;
    chars[index] =
      base === 10 ? String(rest % 10) : String.fromCharCode((char === "x" ? 97 : 65) + (rest % 26));
    rest = Math.floor(rest / base);
  }
  return rest > 0 ? undefined : chars.join("");
}

const PREFIX =
  /^(?:gh[opsur]_|github_pat_|glpat-|xox[abposr]-|[prs]k[-_](?:live_|test_|ant-|proj-)?|whsec_|AKIA|eyJ)/;
const WHOLE_MAIL = new RegExp(`^${MAIL.source}$`, "i");

function makeStandIn(value: string, count: number): string | undefined {
  if (WHOLE_MAIL.test(value))
    return `${`user${count}`.padEnd(value.length - "@example.com".length, "x")}@example.com`;
  const [, sign, digits] = NUMBER.exec(value) ?? [];
  const prefix = digits === undefined ? (PREFIX.exec(value)?.[0] ?? "") : `${sign}9`;
  const shaped = shapeLike(digits ?? value.slice(prefix.length), count);
  return shaped === undefined ? undefined : prefix + shaped;
}

/** Makes stand-ins that are all different, and none of which is a value of the request. */
function createStandIns(taken: ReadonlySet<string>): (value: string) => string {
  const used = new Set(taken);
  const counts = new Map<string, number>();
  return (value) => {
    // Of a short shape there are few stand-ins: then they are longer.
    for (let like = value; ; like = NUMBER.test(like) ? `0${like}` : `${like}x`) {
      const shape = makeStandIn(like, 0) ?? "";
      let count = counts.get(shape) ?? 0;
      let made: string | undefined;
      do made = makeStandIn(like, ++count);
      while (made !== undefined && used.has(made));
      counts.set(shape, count);
      if (made === undefined) continue;
      used.add(made);
      return made;
    }
  };
}

const withoutPlaces = (field: string): string => field.replaceAll(/\[\d*\]/g, "");

/** Whether a field is one that the user named, or lies in it. `payload.` may be left out, and so may the places in lists. */
function isNamed(field: string, named: string): boolean {
  const [plain, name] = [withoutPlaces(field), withoutPlaces(named)];
  return [name, `payload.${name}`].some((path) => plain === path || plain.startsWith(`${path}.`));
}

function checkNames(names: readonly string[], leaves: readonly Leaf[]): void {
  const fields = [...new Set(leaves.map(({ field }) => field))];
  for (const name of names) {
    if (fields.some((field) => isNamed(field, name))) continue;
    const short = fields.map((field) => field.replace(/^payload\./, ""));
    throw new RouseError({
      code: "usage",
      message: `${name}: the request has no such field.${didYouMean(name, [...short, ...fields])}`,
    });
  }
}

/**
 * The parts of a request in which masks are looked for.
 * @param payload undefined if the body cannot be read.
 */
export function getMaskable(request: FixtureRequest, payload: unknown): Record<string, unknown> {
  const { headers, query, path } = request;
  return {
    payload: payload === undefined ? decodeBody(request).toString("utf8") : payload,
    headers,
    query,
    path,
  };
}

/**
 * Finds what must not stand in a fixture: values that look like secrets, mail addresses, phone numbers, and names under the
 * keys that usually hold them.
 * @param parts what is looked through, by the names with which fields begin.
 * @throws RouseError `usage` if a field of the options is in none of the parts.
 */
export function findMasks(
  parts: Record<string, unknown>,
  { mask = [], keep = [] }: MaskOptions,
): Mask[] {
  const leaves = Object.entries(parts).flatMap(([name, value]) =>
    listLeaves(value, { field: name, key: "", parent: "" }),
  );
  checkNames([...mask, ...keep], leaves);
  const kept = new Set(
    leaves
      .filter(({ field, isName }) => !isName && keep.some((name) => isNamed(field, name)))
      .flatMap((leaf) => [leaf.value, ...findSecretParts(leaf)]),
  );
  const found = new Map<string, Set<string>>();
  for (const leaf of leaves) {
    const isChosen = !leaf.isName && mask.some((name) => isNamed(leaf.field, name));
    for (const value of isChosen ? [leaf.value] : findSecretParts(leaf)) {
      if (kept.has(value) || value === "") continue;
      found.set(value, (found.get(value) ?? new Set()).add(leaf.field));
    }
  }
  const standInFor = createStandIns(new Set(leaves.map(({ value }) => value)));
  return [...found].map(([value, fields]) => ({
    value,
    standIn: standInFor(value),
    fields: [...fields],
  }));
}

const WORD = /[\p{L}\p{N}]+/gu;
/** A letter of an escape is none of the word behind it: `\nada`, `%20ada`. */
const WORD_OR_ESCAPE = /\\(?:u[0-9a-f]{4}|[bfnrt])|%[0-9a-f]{2}|[\p{L}\p{N}]+/giu;
const WORD_END = /[\p{L}\p{N}]$/u;
const ESCAPE_END = /(?:\\(?:u[0-9a-f]{4}|[bfnrt])|%[0-9a-f]{2})$/i;
const WORD_START = /^[\p{L}\p{N}]/u;

/** Values of one length that are looked for where their first word is found, so many characters after their begin. */
interface Sought {
  length: number;
  lead: number;
}

/** What is looked for by the first word, the longest first: a body may have many thousands of values. */
function indexValues(values: Iterable<string>): Map<string, Sought[]> {
  const byWord = new Map<string, Map<string, Sought>>();
  for (const value of values) {
    const [first] = value.matchAll(WORD);
    const { length } = value;
    if (!first || length < MIN_INSIDE) continue;
    const sought = { length, lead: first.index };
    byWord.set(
      first[0],
      (byWord.get(first[0]) ?? new Map<string, Sought>()).set(JSON.stringify(sought), sought),
    );
  }
  return new Map(
    [...byWord].map(([word, all]) => [
      word,
      [...all.values()].toSorted((a, b) => b.length - a.length),
    ]),
  );
}

/** Whether a place of a text is neither in a word nor ends in one. */
function isWhole(text: string, start: number, end: number, tokens: RegExp): boolean {
  const before = text.slice(Math.max(0, start - 6), start);
  const isInWord = WORD_END.test(before) && !(tokens === WORD_OR_ESCAPE && ESCAPE_END.test(before));
  return !isInWord && !WORD_START.test(text.slice(end, end + 2));
}

function replaceWords(
  text: string,
  byValue: ReadonlyMap<string, string>,
  byWord: ReadonlyMap<string, Sought[]>,
  tokens: RegExp,
): string {
  const parts: string[] = [];
  let done = 0;
  for (const { 0: word, index } of text.matchAll(tokens))
    for (const { length, lead } of byWord.get(word) ?? []) {
      const start = index - lead;
      const standIn = start < done ? undefined : byValue.get(text.slice(start, start + length));
      if (standIn === undefined || !isWhole(text, start, start + length, tokens)) continue;
      parts.push(text.slice(done, start), standIn);
      done = start + length;
      break;
    }
  return parts.join("") + text.slice(done);
}

/** Replaces values inside a text, the longest first, where no letter or digit goes before or follows on. */
function createReplace(pairs: readonly (readonly [string, string])[]): Replace {
  const byValue = new Map(pairs);
  const byWord = indexValues(byValue.keys());
  return (text) => {
    const whole = byValue.get(text);
    if (whole !== undefined || byWord.size === 0) return whole ?? text;
    const replaced = replaceWords(text, byValue, byWord, WORD);
    return /[\\%]/.test(replaced)
      ? replaceWords(replaced, byValue, byWord, WORD_OR_ESCAPE)
      : replaced;
  };
}

type Replace = (text: string) => string;

interface Replacing {
  inText: Replace;
  /** Names of fields are replaced where they look private: `id` as a nickname is no reason to rename fields. */
  inName: Replace;
  numbers: ReadonlyMap<string, string>;
}

function replaceIn(value: unknown, replacing: Replacing): unknown {
  const { inText, inName, numbers } = replacing;
  if (typeof value === "string") return inText(value);
  if (typeof value === "number") return Number(numbers.get(String(value)) ?? value);
  if (Array.isArray(value)) return value.map((member) => replaceIn(member, replacing));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [inName(key), replaceIn(member, replacing)]),
  );
}

/** How a value can be written in a body that is no JSON. */
const WRITTEN: readonly ((value: string) => string)[] = [
  (value) => value,
  (value) => JSON.stringify(value).slice(1, -1),
  encodeURIComponent,
  (value) => encodeURIComponent(value).replaceAll("%20", "+"),
];

/** Replaces values in the bytes of a body. All other bytes stay. */
function maskBytes(bytes: Buffer, masks: readonly Mask[]): Buffer {
  const toBytes = (text: string): string => Buffer.from(text).toString("latin1");
  const pairs = masks.flatMap(({ value, standIn }) =>
    WRITTEN.map((write) => [toBytes(write(value)), toBytes(write(standIn))] as const),
  );
  return Buffer.from(createReplace(pairs)(bytes.toString("latin1")), "latin1");
}

/** How far JSON may be indented for its text to be written as it was. */
const INDENTS = [undefined, 2, 4, "\t"] as const;

function createReplacing(masks: readonly Mask[]): Replacing {
  const pairs = masks.map(({ value, standIn }) => [value, standIn] as const);
  return {
    inText: createReplace(pairs),
    inName: createReplace(pairs.filter(([value]) => findPatterns(value).includes(value))),
    numbers: new Map(pairs.filter(([value]) => NUMBER.test(value))),
  };
}

/** A text with stand-ins. One that is JSON stays JSON in the same layout. */
function createReplaceText(masks: readonly Mask[], replacing: Replacing): Replace {
  const written = createReplace(
    masks.flatMap(({ value, standIn }) =>
      WRITTEN.map((write) => [write(value), write(standIn)] as const),
    ),
  );
  return (text) => {
    const parsed = parseText(text);
    if (!parsed) return replacing.inText(text);
    const indent = INDENTS.find((one) => JSON.stringify(parsed, null, one) === text);
    if (indent === undefined && JSON.stringify(parsed) !== text) return written(text);
    return JSON.stringify(replaceIn(parsed, replacing), null, indent);
  };
}

/** Any JSON with stand-ins in place of values. */
export function maskValue<T>(value: T, masks: readonly Mask[]): T {
  const replacing = createReplacing(masks);
  return replaceIn(value, { ...replacing, inText: createReplaceText(masks, replacing) }) as T;
}

/** The request with stand-ins in place of values. */
export function applyMasks(request: FixtureRequest, masks: readonly Mask[]): FixtureRequest {
  // What is private elsewhere may by chance be the name of the path.
  const inPath = createReplace(
    masks.flatMap(({ value, standIn, fields }) =>
      fields.includes("path") ? [[value, standIn] as const] : [],
    ),
  );
  const { json, text: _text, base64: _base64, headers, query, path, ...rest } = request;
  const replacing = createReplacing(masks);
  const body =
    json === undefined
      ? encodeBody(maskBytes(decodeBody(request), masks), request.contentType)
      : { json: replaceIn(json, replacing) };
  return {
    ...rest,
    path: inPath(path),
    query: replaceIn(query, replacing) as QueryValues,
    headers: replaceIn(headers, replacing) as Record<string, string>,
    ...body,
  };
}
