import { isCredentialName } from "../../core/http/credential-name.ts";
import { didYouMean } from "../../config/suggest.ts";
import { refuse } from "../records/operation.ts";
import type { FixtureRequest } from "./fixture.ts";

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
  /** True if it is the name of a field, which is private only if it looks so. */
  isName?: boolean;
}

/** A mail address in a text. */
const MAIL = /[\w.+%-]{1,64}@[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,24}/gi;
/** A number as JSON writes it. */
const NUMBER = /^(-?)\d(\d*(?:\.\d+)?)$/;
const PHONE = /(?<![\w+])\+\d[\d ()./-]{5,18}\d(?!\w)/g;
const TOKEN =
  /(?:gh[opsur]_|github_pat_|glpat-|xox[abposr]-|[prs]k[-_](?:live|test|ant|proj)?[-_]?|whsec_|AKIA|eyJ)/;
const SECRET = new RegExp(
  `(?<![A-Za-z0-9])${TOKEN.source}[\\w.+/=-]{12,}|-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*-----END [A-Z ]*PRIVATE KEY-----`,
  "g",
);
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

/** Text of the same length and layout, which ends with a count. Undefined if the count has no place in it. */
function shapeLike(value: string, count: number): string | undefined {
  const digits = [...String(count)];
  const chars = [...value].toReversed().map((char) => {
    if (!/[\p{L}\p{N}]/u.test(char)) return char;
    return digits.pop() ?? (/\p{N}/u.test(char) ? "0" : /\p{Lu}/u.test(char) ? "X" : "x");
  });
  return digits.length > 0 ? undefined : chars.toReversed().join("");
}

const WHOLE_MAIL = new RegExp(`^${MAIL.source}$`, "i");
const TOKEN_START = new RegExp(`^${TOKEN.source}`);

function makeStandIn(value: string, count: number): string | undefined {
  if (WHOLE_MAIL.test(value))
    return `${`user${count}`.padEnd(value.length - "@example.com".length, "x")}@example.com`;
  const [, sign, digits] = NUMBER.exec(value) ?? [];
  const prefix = digits === undefined ? (TOKEN_START.exec(value)?.[0] ?? "") : `${sign}9`;
  const shaped = shapeLike(digits ?? value.slice(prefix.length), count);
  return shaped === undefined ? undefined : prefix + shaped;
}

/** Makes stand-ins that are all different, and none of which is a value of the request. */
function createStandIns(taken: ReadonlySet<string>): (value: string) => string {
  const used = new Set(taken);
  const counts = new Map<string, number>();
  return (value) => {
    // Of a short shape there are few stand-ins: then they are longer.
    for (let like = value; ; like = NUMBER.test(like) ? like.replace(/^-?/, "$&0") : `${like}x`) {
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

/** True if a field is one that the user named, or lies in it. `payload.` may be left out, and so may the places in lists. */
function isNamed(field: string, named: string): boolean {
  const [plain, name] = [withoutPlaces(field), withoutPlaces(named)];
  return [name, `payload.${name}`].some((path) => plain === path || plain.startsWith(`${path}.`));
}

function checkNames(names: readonly string[], leaves: readonly Leaf[]): void {
  const fields = [...new Set(leaves.map(({ field }) => field))];
  for (const name of names) {
    if (fields.some((field) => isNamed(field, name))) continue;
    const short = fields.map((field) => field.replace(/^payload\./, ""));
    refuse(`${name}: the request has no such field.${didYouMean(name, [...short, ...fields])}`);
  }
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

type Replace = (text: string) => string;

/** The ways in which a value can be written in a text: as it is, in JSON, in an address, in a form. */
const SPELLINGS: readonly Replace[] = [
  (value) => value,
  (value) => JSON.stringify(value).slice(1, -1),
  (value) => encodeURIComponent(value.toWellFormed()),
  (value) => encodeURIComponent(value.toWellFormed()).replaceAll("%20", "+"),
];

/** No letter or digit goes before, but that of an escape: `\nada`, `%20ada`. */
const WORD_START = String.raw`(?:(?<![\p{L}\p{N}])|(?<=\\(?:u[0-9A-Fa-f]{4}|[bfnrt])|%[0-9A-Fa-f]{2}))`;
const WORD_END = String.raw`(?![\p{L}\p{N}])`;

type Replaced = Pick<Mask, "value" | "standIn">;

/** Replaces values that are a whole text, and inside of texts those that are whole words, the longest first. */
function createReplace(masks: readonly Replaced[]): Replace {
  const standIns = new Map(
    masks.flatMap(({ value, standIn }) =>
      SPELLINGS.map((spell) => [spell(value), spell(standIn)] as const),
    ),
  );
  const inside = [...standIns.keys()].filter(
    (value) => value.length >= MIN_INSIDE && /[\p{L}\p{N}]/u.test(value),
  );
  if (inside.length === 0) return (text) => standIns.get(text) ?? text;
  // The engine looks for the alternatives by their common beginnings: a body may have many thousands of values.
  const words = inside.toSorted((a, b) => b.length - a.length).map((value) => RegExp.escape(value));
  const pattern = new RegExp(`${WORD_START}(?:${words.join("|")})${WORD_END}`, "gu");
  return (text) =>
    standIns.get(text) ?? text.replace(pattern, (found) => standIns.get(found) ?? found);
}

/** Indents of JSON in a text that is written again as it was. */
const INDENTS = [0, 2, 4, "\t"] as const;

/** Any JSON with stand-ins in place of values. A text that is JSON stays JSON in the same layout. */
export function maskValue<T>(value: T, masks: readonly Mask[]): T {
  const inText = createReplace(masks);
  // Names of fields are replaced if they look private: `id` as a nickname is no reason to rename fields.
  const inName = createReplace(
    masks.filter((mask) => findPatterns(mask.value).includes(mask.value)),
  );
  const numbers = new Map(
    masks.flatMap(({ value: one, standIn }) => (NUMBER.test(one) ? [[one, standIn]] : [])),
  );
  const mask = (one: unknown): unknown => {
    if (typeof one === "string") return maskText(one);
    if (typeof one === "number") return Number(numbers.get(String(one)) ?? one);
    if (Array.isArray(one)) return one.map(mask);
    if (typeof one !== "object" || one === null) return one;
    return Object.fromEntries(
      Object.entries(one).map(([key, member]) => [inName(key), mask(member)]),
    );
  };
  const maskText = (text: string): string => {
    const parsed = parseText(text);
    const indent = parsed && INDENTS.find((one) => JSON.stringify(parsed, null, one) === text);
    return indent === undefined ? inText(text) : JSON.stringify(mask(parsed), null, indent);
  };
  return mask(value) as T;
}

/** Replaces values in bytes that are no UTF-8. All other bytes stay. */
function maskBytes(base64: string, masks: readonly Mask[]): string {
  const toBytes = (text: string): string => Buffer.from(text).toString("latin1");
  const spelled = masks.flatMap(({ value, standIn }) => [
    { value, standIn },
    { value: toBytes(value), standIn: toBytes(standIn) },
  ]);
  const masked = createReplace(spelled)(Buffer.from(base64, "base64").toString("latin1"));
  return Buffer.from(masked, "latin1").toString("base64");
}

/** The request with stand-ins in place of values. */
export function applyMasks(request: FixtureRequest, masks: readonly Mask[]): FixtureRequest {
  const { query, headers, json, text, base64, path } = request;
  // Values that are private elsewhere may by chance be the name of the path.
  const ofPath = masks.filter(({ fields }) => fields.includes("path"));
  return {
    ...request,
    ...maskValue({ query, headers, ...(text === undefined ? { json } : { text }) }, masks),
    ...(base64 !== undefined && { base64: maskBytes(base64, masks) }),
    path: createReplace(ofPath)(path),
  };
}
