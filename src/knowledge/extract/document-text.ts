import { randomUUID } from "node:crypto";
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { stagingFolder, type StagedFile } from "../upload-staging.ts";
import type { ExtractorProcess } from "./extractor.ts";
import type { ExtractLimits } from "./types.ts";

/** A document on disk, and how much of it is wanted. */
export interface TextRequest extends Pick<StagedFile, "file" | "sha256"> {
  filename: string;
  limits: Pick<ExtractLimits, "pages" | "unzipRatio">;
  /** UTF-16 units; a longer text is cut with a note. */
  maxChars: number;
}

/** The text of a document, or why there is none. */
export type DocumentText = { ok: true; text: string } | { ok: false; reason: string };

/** Reads the text of a document in a process of its own. The process leaves nothing behind in `dir`, the state folder. */
export async function readDocumentText(
  { run }: Pick<ExtractorProcess, "run">,
  dir: string,
  { maxChars, limits, ...document }: TextRequest,
  signal: AbortSignal,
): Promise<DocumentText> {
  const out = join(stagingFolder(dir), `chunks-${randomUUID()}`);
  const call = {
    ...document,
    title: null,
    out,
    limits: { ...limits, textChars: maxChars },
    plainChars: maxChars,
  };
  try {
    const result = await run(call, { signal, onProgress: () => undefined });
    if (result.ok) return { ok: true, text: await readFile(out, "utf8") };
    return {
      ok: false,
      reason: "error" in result ? result.error.message : "the reading was stopped",
    };
  } finally {
    await rm(out, { force: true });
  }
}
