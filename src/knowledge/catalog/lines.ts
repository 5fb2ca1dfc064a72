import { closeSync, openSync, readSync } from "node:fs";
import type { Chunk } from "../chunk.ts";
import type { IndexForm } from "../tokenize.ts";

/** A line of the file that a child writes: a chunk and what it is found by. */
export type ChunkLine = Chunk & IndexForm;

/** Words and n-grams are most of a line and have nothing that JSON would escape: they stand behind it, each after a tab. */
export const renderChunkLine = ({ words, grams, ...rest }: ChunkLine): string =>
  `${JSON.stringify(rest)}\t${words}\t${grams}\n`;

export function parseChunkLine(line: string): ChunkLine {
  const [rest = "", words = "", grams = ""] = line.split("\t");
  return { ...(JSON.parse(rest) as Omit<ChunkLine, "words" | "grams">), words, grams };
}

/** A part of the work on a document, after which others have their turn. */
export const CHUNKS_A_PART = 200;
const READ = 256 * 1024;
const LINE_BREAK = 10;

/** The next lines of a file, from a byte on; `rest` is false at its end. */
export function readChunkLines(
  file: string,
  offset: number,
  most: number,
): { lines: string[]; offset: number; rest: boolean } {
  const handle = openSync(file, "r");
  const lines: string[] = [];
  let waiting: Buffer[] = [];
  let at = offset;
  try {
    const buffer = Buffer.allocUnsafe(READ);
    for (let position = offset; ;) {
      const read = readSync(handle, buffer, 0, READ, position);
      if (read === 0) return { lines, offset: at, rest: false };
      position += read;
      let from = 0;
      for (
        let end: number;
        (end = buffer.subarray(0, read).indexOf(LINE_BREAK, from)) >= 0;
        from = end + 1
      ) {
        const line = Buffer.concat([...waiting, buffer.subarray(from, end)]);
        waiting = [];
        at += line.length + 1;
        lines.push(line.toString("utf8"));
        if (lines.length === most) return { lines, offset: at, rest: true };
      }
      waiting.push(Buffer.from(buffer.subarray(from, read)));
    }
  } finally {
    closeSync(handle);
  }
}
