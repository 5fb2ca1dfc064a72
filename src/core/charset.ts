import type { Failure } from "./errors.ts";

export type DecodedText = { ok: true; text: string } | { ok: false; failure: Failure };

/** The character set of bytes that begin with a byte order mark. */
function getMarked(bytes: Uint8Array): string | undefined {
  if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) return "utf-8";
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return "utf-16le";
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return "utf-16be";
  return undefined;
}

/** Returns whether a character set is one that can be decoded: those of https://encoding.spec.whatwg.org/#names-and-labels. */
export function isCharset(name: string): boolean {
  try {
    new TextDecoder(name);
    return true;
  } catch {
    return false;
  }
}

const unknown = (charset: string): Failure => ({
  code: "unsupported_media_type",
  message: `the charset ${/^[\w.:-]{1,40}$/.test(charset) ? `"${charset}"` : "of the body"} is not known: send UTF-8, or name another charset`,
});

/**
 * Decodes text: by its byte order mark, which is no part of it, else by the character set that is named, else as UTF-8. Bytes that
 * are no text in that character set fail: no character is replaced.
 */
export function decodeCharset(bytes: Uint8Array, charset?: string): DecodedText {
  // What is called ASCII and is not is UTF-8 nearly always.
  const named = charset === undefined || /^(?:us-)?ascii$/i.test(charset) ? "utf-8" : charset;
  if (!isCharset(named)) return { ok: false, failure: unknown(named) };
  const actual = getMarked(bytes) ?? named;
  try {
    return { ok: true, text: new TextDecoder(actual, { fatal: true }).decode(bytes) };
  } catch {
    const remedy =
      charset === undefined
        ? "name the charset that it is written in, such as `Content-Type: text/plain; charset=iso-8859-1`"
        : "name the charset that it is written in";
    return {
      ok: false,
      failure: { code: "invalid_body", message: `the body is not valid ${actual}: ${remedy}` },
    };
  }
}
