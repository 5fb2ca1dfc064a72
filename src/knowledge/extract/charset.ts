import { ExtractionError, optional } from "./types.ts";

const SAMPLE = 256 * 1024;

function tryDecode(bytes: Uint8Array, charset: string, fatal: boolean): string | undefined {
  try {
    return new TextDecoder(charset, { fatal }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** What no text has: control characters other than white space, and what is no character. */
const NO_TEXT = /[\p{Cn}\p{Co}\p{Cs}\ufffd]|(?![\t\n\f\r])\p{Cc}/gu;

/** The character set that a byte order mark names. */
export function readMark(bytes: Uint8Array): "utf-16le" | "utf-16be" | undefined {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return "utf-16le";
  return bytes[0] === 0xfe && bytes[1] === 0xff ? "utf-16be" : undefined;
}

/** The part of characters that no text has from which on a text counts as not decoded. */
const MAX_GARBAGE = 0.02;

/** @throws ExtractionError if the guess of a character set gave no text, which no search would find. */
function checked(text: string): string {
  const sample = text.slice(0, SAMPLE);
  if ((sample.match(NO_TEXT)?.length ?? 0) > sample.length * MAX_GARBAGE)
    throw new ExtractionError(
      "broken_document",
      "the encoding of the text is not known; save it as UTF-8",
    );
  return text;
}

/**
 * Text from bytes: by its byte order mark, as UTF-8 where it is that, by what it says of itself, else by a guess.
 * @throws ExtractionError `broken_document` if the guess gives no text
 */
export async function decodeDocument(bytes: Buffer, declared?: string): Promise<string> {
  const mark = readMark(bytes);
  if (mark !== undefined) return new TextDecoder(mark).decode(bytes);
  const utf8 = bytes.includes(0) ? undefined : tryDecode(bytes, "utf-8", true);
  if (utf8 !== undefined) return utf8;
  const said =
    declared === undefined || /^utf-?8$/i.test(declared)
      ? undefined
      : tryDecode(bytes, declared, false);
  if (said !== undefined) return checked(said);
  const { default: chardet } = await optional("chardet", () => import("chardet"));
  const guess = chardet.detect(bytes.subarray(0, SAMPLE));
  return checked(
    (guess === null ? undefined : tryDecode(bytes, guess, false)) ??
      new TextDecoder("windows-1252").decode(bytes),
  );
}
