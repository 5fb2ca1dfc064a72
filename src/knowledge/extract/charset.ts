import { ExtractionError, optional } from "./types.ts";

const SAMPLE = 256 * 1024;
/** The confidence of chardet in a character set of which the bytes are possible, and for which nothing else speaks. */
const NO_EVIDENCE = 10;

/** Decodes bytes; undefined for an unknown character set. Of "cut" bytes, a character that is not whole at the end is left out. */
function tryDecode(bytes: Uint8Array, charset: string, fatal: boolean | "cut"): string | undefined {
  try {
    const stream = fatal === "cut";
    return new TextDecoder(charset, { fatal: fatal === true }).decode(bytes, { stream });
  } catch {
    return undefined;
  }
}

/** The sequences with which ISO-2022-JP begins Japanese text (RFC 1468). */
const TO_JAPANESE = ["\u001b$@", "\u001b$B"];

/** Scripts of which the letters of one text are; texts of any may have Latin words and digits too. */
const SCRIPTS = [
  /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}]/gu,
  /[\p{sc=Hangul}\p{sc=Han}]/gu,
  ...[
    "Latin",
    "Cyrillic",
    "Greek",
    "Arabic",
    "Hebrew",
    "Thai",
    "Devanagari",
    "Georgian",
    "Armenian",
    "Bengali",
    "Tamil",
  ].map((script) => new RegExp(`\\p{sc=${script}}`, "gu")),
];
const COMMON = /[\t\n\r\u0020-\u007e\u00a0-\u00bf\u2010-\u203a\u3000-\u303f\uff00-\uffef]/g;
const CJK_MARKS = /[\u3001\u3002\uff0c\uff1f\uff01\uff1a]/g;
/** Matches signs that no text has: control characters other than white space, and code points without a character. */
const NO_TEXT = /[\p{Cn}\p{Co}\p{Cs}\ufffd]|(?![\t\n\f\r])\p{Cc}/gu;

const count = (text: string, pattern: RegExp): number => text.match(pattern)?.length ?? 0;

/** Returns whether the characters of a text are of one script, with marks and Latin words between. */
function isOfOneScript(text: string): boolean {
  const common = count(text, COMMON);
  return SCRIPTS.some((script) => count(text, script) + common >= text.length * 0.95);
}

const SPACES = /[\t\n\r ]/g;
/** Spaces whose bytes are read in the wrong order. */
const SWAPPED_SPACES = /[\u0900\u0a00\u0d00\u2000]/g;
const MIN_SPACES = 0.05;

type Utf16 = "utf-16le" | "utf-16be";

/** The part of printable ASCII from which on bytes are a text in one byte a character. */
const MOSTLY_ASCII = 0.7;

/**
 * Finds out that text is UTF-16 although it has no byte order mark. Scripts with spaces have a zero byte in each; without one,
 * the punctuation of Chinese and Japanese has to be there, because any two bytes are some character of those.
 */
function guessUtf16(bytes: Uint8Array): Utf16 | undefined {
  const sample = bytes.subarray(0, Math.min(bytes.length, 8192) & ~1);
  if (sample.length < 4) return undefined;
  const hasZero = sample.includes(0);
  const ascii = sample.reduce((sum, byte) => sum + (byte >= 0x20 && byte < 0x7f ? 1 : 0), 0);
  if (!hasZero && ascii > sample.length * MOSTLY_ASCII) return undefined;
  for (const charset of ["utf-16le", "utf-16be"] as const) {
    // A pair of surrogates may be cut in two at the end of the sample.
    const text = (
      tryDecode(sample, charset, true) ?? tryDecode(sample.subarray(0, -2), charset, true)
    )?.replace(/^\ufeff/, "");
    if (text === undefined || count(text, NO_TEXT) > 0) continue;
    const spaces = hasZero ? count(text, SPACES) : 0;
    // A text of several scripts: read the other way round, its spaces are other characters.
    if (spaces > 0 && spaces >= text.length * MIN_SPACES && count(text, SWAPPED_SPACES) === 0)
      return charset;
    if (!isOfOneScript(text)) continue;
    const hasSpaces = hasZero && count(text, /[\t\n\r\u0020-\u007e]/g) > 0;
    if (hasSpaces || count(text, CJK_MARKS) * 100 >= text.length) return charset;
  }
  return undefined;
}

/** Finds out that text is UTF-16: by its byte order mark, or by what it says. */
export function detectUtf16(bytes: Uint8Array): Utf16 | undefined {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return "utf-16le";
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return "utf-16be";
  return guessUtf16(bytes);
}

/** The part of characters that no text has from which on a text counts as not decoded. */
const MAX_GARBAGE = 0.02;

const isGarbage = (text: string): boolean => count(text, NO_TEXT) > text.length * MAX_GARBAGE;

/** The part of the characters beyond ASCII that may be broken in UTF-8. */
const MAX_BROKEN = 0.25;

/** @throws ExtractionError if the guess of a character set gave no text, which no search would find. */
function checked(text: string): string {
  if (isGarbage(text.slice(0, SAMPLE)))
    throw new ExtractionError(
      "broken_document",
      "the encoding of the text is not known; save it as UTF-8",
    );
  return text;
}

/**
 * Decodes text: as UTF-8 where it is that, as UTF-16 with its byte order mark or without, by what it says of itself, else by a guess.
 * @throws ExtractionError `broken_document` if the guess gives no text
 */
export async function decodeDocument(bytes: Buffer, declared?: string): Promise<string> {
  // All its bytes are ASCII, so it would be valid UTF-8.
  const japanese = TO_JAPANESE.some((escape) => bytes.includes(escape))
    ? tryDecode(bytes, "iso-2022-jp", true)
    : undefined;
  if (japanese !== undefined) return japanese;
  const utf8 = bytes.includes(0) ? undefined : tryDecode(bytes, "utf-8", true);
  if (utf8 !== undefined) return utf8;
  const wide = detectUtf16(bytes);
  if (wide !== undefined) return new TextDecoder(wide).decode(bytes);
  const said =
    declared === undefined || /^utf-?8$/i.test(declared)
      ? undefined
      : tryDecode(bytes, declared, false);
  if (said !== undefined) return checked(said);
  const { default: chardet } = await optional("chardet", () => import("chardet"));
  const sample = bytes.subarray(0, SAMPLE);
  const loose = new TextDecoder().decode(sample, { stream: true });
  // Some of its characters were cut in two: in another character set, hardly any would be whole.
  if (count(loose, /\ufffd/g) < count(loose, /[^\0-\u007f]/g) * MAX_BROKEN)
    return new TextDecoder().decode(bytes);
  const guesses = chardet.analyse(sample);
  // The first guess may give signs that no text has, or letters of several scripts.
  const fits = guesses.find(({ name, confidence }) => {
    const text = tryDecode(sample, name, "cut") ?? "\ufffd";
    return confidence > NO_EVIDENCE && !isGarbage(text) && isOfOneScript(text);
  });
  return checked(
    tryDecode(bytes, (fits ?? guesses[0])?.name ?? "", false) ??
      new TextDecoder("windows-1252").decode(bytes),
  );
}
