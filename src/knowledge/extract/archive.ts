import type * as Fflate from "fflate";
import { ExtractionError, broken, encrypted, optional, type ExtractLimits } from "./types.ts";

interface Entry {
  name: string;
  method: number;
  compressed: number;
  at: number;
}

const END = 0x06054b50;
const CENTRAL = 0x02014b50;
const LOCAL = 0x04034b50;
const STORED = 0;
const DEFLATED = 8;
const MAX_ENTRIES = 20_000;
/** Small documents with much repetition in them unpack to more than the ratio, which is harmless. */
const ALWAYS_ALLOWED = 10 * 2 ** 20;
const PIECE = 64 * 1024;

function findDirectory(bytes: Buffer): { at: number; count: number } {
  for (let at = bytes.length - 22; at >= Math.max(0, bytes.length - 65_557); at--)
    if (bytes.readUInt32LE(at) === END)
      return { at: bytes.readUInt32LE(at + 16), count: bytes.readUInt16LE(at + 10) };
  throw broken("the archive has no end; it may have been cut off");
}

function readEntries(bytes: Buffer): Entry[] {
  const { at: first, count } = findDirectory(bytes);
  if (count > MAX_ENTRIES)
    throw new ExtractionError("too_large", `the archive has more than ${MAX_ENTRIES} entries`);
  const entries: Entry[] = [];
  let at = first;
  for (let i = 0; i < count; i++) {
    if (at + 46 > bytes.length || bytes.readUInt32LE(at) !== CENTRAL)
      throw broken("the archive's directory is broken");
    if ((bytes.readUInt16LE(at + 8) & 1) !== 0) throw encrypted();
    const nameLength = bytes.readUInt16LE(at + 28);
    entries.push({
      name: bytes.toString("utf8", at + 46, at + 46 + nameLength),
      method: bytes.readUInt16LE(at + 10),
      compressed: bytes.readUInt32LE(at + 20),
      at: bytes.readUInt32LE(at + 42),
    });
    at += 46 + nameLength + bytes.readUInt16LE(at + 30) + bytes.readUInt16LE(at + 32);
  }
  return entries;
}

function packed(bytes: Buffer, entry: Entry): Buffer {
  if (entry.at + 30 > bytes.length || bytes.readUInt32LE(entry.at) !== LOCAL)
    throw broken("an entry of the archive is missing");
  const from =
    entry.at + 30 + bytes.readUInt16LE(entry.at + 26) + bytes.readUInt16LE(entry.at + 28);
  return bytes.subarray(from, from + entry.compressed);
}

/** Unpacks an entry piece by piece; `count` gets the length of each piece before the next one, and may throw. The size that the entry declares is not used. */
function unpack(
  fflate: typeof Fflate,
  bytes: Buffer,
  entry: Entry,
  count: (length: number) => void,
  keep: boolean,
): Buffer | undefined {
  const data = packed(bytes, entry);
  if (entry.method === STORED) {
    count(data.length);
    return keep ? data : undefined;
  }
  if (entry.method !== DEFLATED)
    throw new ExtractionError(
      "unsupported_type",
      "the archive is packed in a way that cannot be read",
    );
  const pieces: Uint8Array[] = [];
  const inflate = new fflate.Inflate((piece) => {
    count(piece.length);
    if (keep) pieces.push(piece);
  });
  for (let from = 0; from < data.length; from += PIECE)
    inflate.push(data.subarray(from, from + PIECE), from + PIECE >= data.length);
  return keep ? Buffer.concat(pieces) : undefined;
}

/**
 * Unpacks the entries of a zip file that are `wanted`, after it has counted what all of them unpack to.
 * @throws ExtractionError `too_large` past the ratio, `encrypted_document`, `broken_document`.
 */
export async function unzip(
  bytes: Buffer,
  limits: ExtractLimits,
  wanted: (name: string) => boolean,
): Promise<Map<string, Buffer>> {
  const fflate = await optional("fflate", () => import("fflate"));
  const most = Math.max(ALWAYS_ALLOWED, bytes.length * limits.unzipRatio);
  let total = 0;
  const count = (length: number): void => {
    total += length;
    if (total > most)
      throw new ExtractionError(
        "too_large",
        `the document unpacks to more than ${limits.unzipRatio} times its size`,
      );
  };
  const found = new Map<string, Buffer>();
  for (const entry of readEntries(bytes)) {
    if (entry.name.endsWith("/")) continue;
    const content = unpack(fflate, bytes, entry, count, wanted(entry.name));
    if (content) found.set(entry.name, content);
  }
  return found;
}

export interface XmlHandlers {
  open?(name: string, attributes: Record<string, string>): void;
  text?(text: string): void;
  close?(name: string): void;
}

/**
 * Reads XML as events, with the names' prefixes kept. No external entity is ever fetched.
 * @throws ExtractionError `broken_document` where it is not well-formed.
 */
export async function readXml(source: Buffer | string, handlers: XmlHandlers): Promise<void> {
  const { SaxesParser } = await optional("saxes", () => import("saxes"));
  const parser = new SaxesParser();
  parser.on("opentag", ({ name, attributes }) => handlers.open?.(name, attributes));
  parser.on("text", (text) => handlers.text?.(text));
  parser.on("cdata", (text) => handlers.text?.(text));
  parser.on("closetag", ({ name }) => handlers.close?.(name));
  parser.on("error", () => {
    throw broken("the XML inside the document is not well-formed");
  });
  const decode = (bytes: Buffer): string =>
    new TextDecoder(bytes[0] === 0xff || bytes[0] === 0xfe ? "utf-16" : "utf-8").decode(bytes);
  parser.write(typeof source === "string" ? source : decode(source)).close();
}
