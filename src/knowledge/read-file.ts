import { randomUUID } from "node:crypto";
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import type { KnowledgeConfig } from "../config/schema/knowledge.ts";
import { parseChunkLine } from "./catalog/lines.ts";
import type { ExtractorProcess } from "./extract/extractor.ts";
import type { DocumentPassage, FileText, FileToRead } from "./types.ts";

/** The most text of a file that a model is given, in UTF-16 units: more than fits into any window. */
export const MAX_FILE_TEXT = 4_000_000;

/** Joins chunks of one document in their order. A chunk may begin with the end of the chunk before it. */
export function joinChunks(
  chunks: readonly Pick<DocumentPassage, "text" | "start" | "end">[],
): string {
  let end = 0;
  return chunks
    .map((chunk) => {
      const { text, start } = chunk;
      // The rows of a table have its header before them, which is not in the document at this place.
      const repeated =
        text.length === chunk.end - start ? Math.max(0, Math.min(text.length, end - start)) : 0;
      end = Math.max(end, chunk.end);
      return repeated > 0 ? text.slice(repeated) : `\n\n${text}`;
    })
    .join("")
    .trim();
}

/** Reads the text of a file in a process of its own. The file is deleted. */
export async function readFileText(
  { file, sha256, filename }: FileToRead,
  {
    extractor,
    config,
    tmp,
    signal,
  }: { extractor: ExtractorProcess; config: KnowledgeConfig; tmp: string; signal: AbortSignal },
): Promise<FileText> {
  const out = join(tmp, `chunks-${randomUUID()}`);
  const textChars = Math.min(config.textMb * 1e6, MAX_FILE_TEXT);
  const limits = { pages: config.pages, textChars, unzipRatio: config.unzipRatio };
  try {
    const options = { signal, onProgress: () => undefined };
    const result = await extractor.run(
      { file, sha256, filename, title: null, out, limits },
      options,
    );
    if ("stopped" in result)
      return {
        ok: false,
        error: { code: "timeout", message: "the reading of the file was stopped" },
      };
    if (!result.ok) return result;
    const lines = (await readFile(out, "utf8")).split("\n").filter((line) => line !== "");
    return { ok: true, text: joinChunks(lines.map(parseChunkLine)) };
  } finally {
    await Promise.all([rm(out, { force: true }), rm(file, { force: true })]);
  }
}
