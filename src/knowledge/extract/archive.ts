import { ExtractionError, broken, encrypted, optional, type ExtractLimits } from "./types.ts";

/** The files of an archive, by their names. */
export type ArchiveParts = ReadonlyMap<string, Buffer>;

const MAX_ENTRIES = 20_000;
/** Small documents with much repetition in them unpack to more than the ratio, which is harmless. */
const ALWAYS_ALLOWED = 10 * 2 ** 20;
/** The place of the flags of the first entry, of which the lowest bit says that it is encrypted. */
const FLAGS = 6;

/** The name of an entry, in which some programs write backslashes. */
const toPartName = (name: string): string => name.replaceAll("\\", "/");

/**
 * Unpacks the entries of a zip file that are `wanted`, after it has counted what all of them say that they unpack to. None of
 * them is unpacked to more than it says.
 * @throws ExtractionError `too_large` past the ratio, `encrypted_document`, `broken_document`.
 */
export async function unzip(
  bytes: Buffer,
  limits: Pick<ExtractLimits, "unzipRatio">,
  wanted: (name: string) => boolean,
): Promise<ArchiveParts> {
  const { unzipSync } = await optional("fflate", () => import("fflate"));
  if (bytes.length > FLAGS && (bytes.readUInt8(FLAGS) & 1) !== 0) throw encrypted();
  const most = Math.max(ALWAYS_ALLOWED, bytes.length * limits.unzipRatio);
  let count = 0;
  let total = 0;
  const filter = ({ name, originalSize }: { name: string; originalSize: number }): boolean => {
    total += originalSize;
    if (++count > MAX_ENTRIES)
      throw new ExtractionError("too_large", `the archive has more than ${MAX_ENTRIES} entries`);
    if (total > most)
      throw new ExtractionError(
        "too_large",
        `the document unpacks to more than ${limits.unzipRatio} times its size`,
      );
    const part = toPartName(name);
    return !part.endsWith("/") && wanted(part);
  };
  try {
    const found = Object.entries(unzipSync(bytes, { filter }));
    return new Map(
      found.map(([name, content]) => [
        toPartName(name),
        Buffer.from(content.buffer, content.byteOffset, content.length),
      ]),
    );
  } catch (error) {
    if (error instanceof ExtractionError) throw error;
    throw broken("the archive cannot be unpacked; it may have been cut off");
  }
}
