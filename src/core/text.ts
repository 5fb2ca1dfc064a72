/**
 * A piece of text and where it comes from. Outside text is what a caller, a sender or a tool said;
 * it reaches the model only inside the external-content boundary. The rest is the operator's own words.
 */
export interface TextPart {
  text: string;
  outside: boolean;
  /**
   * Whose words stand without a boundary: the owner's, or those of a sender for whom the operator has taken it away. With
   * `outside`, the name that a sender on a channel goes by.
   */
  by?: "owner" | "sender";
  /** With `outside`: whose text it is, if that is not whoever the input is from. Outside text itself. */
  origin?: string;
}

/** The text of the parts, without marks. */
export function plainText(parts: readonly TextPart[]): string {
  return parts.length === 1 ? (parts[0]?.text ?? "") : parts.map((part) => part.text).join("");
}

/** The text of the parts for people to read: what is of others than the rest has its origin in front. */
export const labelledText = (parts: readonly TextPart[]): string =>
  parts.map(({ text, origin }) => (origin === undefined ? text : `[${origin}] ${text}`)).join("");

/** Joins adjacent parts of the same origin and drops empty ones. */
export function joinParts(parts: readonly TextPart[]): TextPart[] {
  const joined: TextPart[] = [];
  for (const part of parts) {
    const last = joined.at(-1);
    if (part.text === "") continue;
    if (last && last.outside === part.outside && last.by === part.by && last.origin === part.origin)
      last.text += part.text;
    else joined.push({ ...part });
  }
  return joined;
}

/** The text of parts, with what came from outside between ⟦ and ⟧. */
export const markOutside = (parts: readonly TextPart[]): string =>
  joinParts(parts)
    .map(({ text, outside }) => (outside ? `⟦${text}⟧` : text))
    .join("");

/** Cuts at `limit` UTF-16 units without splitting a surrogate pair; `cut` is how many units went. */
export function cutText(text: string, limit: number): { text: string; cut: number } {
  if (text.length <= limit) return { text, cut: 0 };
  const code = text.charCodeAt(limit - 1);
  const end = code >= 0xd800 && code <= 0xdbff ? limit - 1 : limit;
  return { text: text.slice(0, end), cut: text.length - end };
}

const isPlainObject = (value: unknown): value is object =>
  typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;

/**
 * Copies a value with U+FFFD in the place of each half of a surrogate pair, which UTF-8 cannot have. Only texts, lists and
 * plain objects are copied: bytes and objects of classes stay.
 */
export function toWellFormed<T>(value: T): T {
  const copy = (from: unknown): unknown => {
    if (typeof from === "string") return from.toWellFormed();
    if (Array.isArray(from)) return from.map(copy);
    if (!isPlainObject(from)) return from;
    return Object.fromEntries(
      Object.entries(from).map(([key, member]) => [key.toWellFormed(), copy(member)]),
    );
  };
  return copy(value) as T;
}

// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g;

/** One line: line breaks and control characters become spaces, runs of white space one, ends trimmed. */
export function oneLine(text: string): string {
  return text.replace(CONTROL, " ").replace(/ {2,}/g, " ").trim();
}

/** Replaces outside text that is no longer kept. */
export const FORGOTTEN = "[no longer kept]";

/** Removes the outside parts. */
export function redactOutside(parts: readonly TextPart[]): TextPart[] {
  return parts.map((part) => (part.outside ? { text: FORGOTTEN, outside: true } : part));
}

/** A length of time for people: `1.4 s`, `90 s`, `3 min`, `2 h`. */
export function renderSpan(seconds: number): string {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800
    ? `${Math.round(seconds / 3600)} h`
    : `${Math.round(seconds / 86_400)} d`;
}

/** `1 event`, `2,000 events`. */
export const plural = (count: number, one: string, many = `${one}s`): string =>
  `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
