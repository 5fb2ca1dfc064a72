import { splitChunks, type Chunk } from "../../src/knowledge/chunk.ts";
import { readDocument } from "../../src/knowledge/extract/read.ts";

/** A document as it is read, without the process and the index. */
export interface Read {
  mimeType: string;
  title: string | null;
  passages: Chunk[];
  /** The lines of all passages that are not empty. */
  lines: string[];
}

/** Reads a document into its passages. */
export async function readPassages(filename: string, content: string | Uint8Array): Promise<Read> {
  const { mimeType, title, blocks } = await readDocument({
    bytes: Buffer.from(content),
    filename,
    limits: { pages: 10, textChars: 1e6, unzipRatio: 100 },
    depth: 0,
    programs: "",
    progress: () => undefined,
  });
  const passages = [...splitChunks(blocks)];
  const lines = passages.flatMap(({ text }) => text.split("\n")).filter((line) => line !== "");
  return { mimeType, title, passages, lines };
}
