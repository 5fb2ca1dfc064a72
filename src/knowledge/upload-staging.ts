import { createHash, randomUUID } from "node:crypto";
import { createWriteStream } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { RouseError } from "../core/errors.ts";

export interface StagedFile {
  file: string;
  sha256: string;
  bytes: number;
}

/** The beginning of the names of uploads. */
const UPLOAD_PREFIX = "upload-";

/** Returns the folder in which uploads arrive: on the same disk as their last place. */
export const stagingFolder = (dir: string): string => join(dir, "tmp");

/**
 * Writes a stream into a file of its own in `<dir>/tmp`, hashed on the way and never whole in memory. It is on disk for
 * good when this resolves.
 * @throws RouseError `body_too_large` past `mostBytes`; nothing is left behind.
 */
export async function stageFile(
  dir: string,
  source: Readable,
  mostBytes: number,
): Promise<StagedFile> {
  const folder = stagingFolder(dir);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  // A source that was destroyed meanwhile emits no further events.
  if (source.destroyed) throw source.errored ?? new Error("the source was closed");
  const file = join(folder, `${UPLOAD_PREFIX}${randomUUID()}`);
  const hash = createHash("sha256");
  let bytes = 0;
  const count = async function* (chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const chunk of chunks) {
      bytes += chunk.length;
      if (bytes > mostBytes)
        throw new RouseError({
          code: "body_too_large",
          message: `the file has more than ${mostBytes} bytes`,
        });
      hash.update(chunk);
      yield chunk;
    }
  };
  try {
    await pipeline(
      source,
      count,
      createWriteStream(file, { mode: 0o600, flags: "wx", flush: true }),
    );
  } catch (error) {
    await rm(file, { force: true });
    throw error;
  }
  return { file, sha256: hash.digest("hex"), bytes };
}

/** The same for bytes that are in memory already. */
export function stageBytes(dir: string, bytes: Uint8Array, mostBytes: number): Promise<StagedFile> {
  return stageFile(
    dir,
    Readable.from([Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)], {
      objectMode: false,
    }),
    mostBytes,
  );
}
