import { optional } from "./types.ts";

const SAMPLE = 256 * 1024;

function tryDecode(bytes: Uint8Array, charset: string, fatal: boolean): string | undefined {
  try {
    return new TextDecoder(charset, { fatal }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** Text from bytes: by its byte order mark, as UTF-8 where it is that, by what it says of itself, else by a guess. */
export async function decodeDocument(bytes: Buffer, declared?: string): Promise<string> {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return new TextDecoder("utf-16le").decode(bytes);
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return new TextDecoder("utf-16be").decode(bytes);
  const utf8 = tryDecode(bytes, "utf-8", true);
  if (utf8 !== undefined) return utf8;
  const said = declared === undefined || /^utf-?8$/i.test(declared) ? undefined : tryDecode(bytes, declared, false);
  if (said !== undefined) return said;
  const { default: chardet } = await optional("chardet", () => import("chardet"));
  const guess = chardet.detect(bytes.subarray(0, SAMPLE));
  return (guess === null ? undefined : tryDecode(bytes, guess, false)) ?? new TextDecoder("windows-1252").decode(bytes);
}
