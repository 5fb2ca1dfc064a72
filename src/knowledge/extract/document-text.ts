import { randomUUID } from "node:crypto";
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import type { FileText } from "../types.ts";
import { stagingFolder, type StagedFile } from "../upload-staging.ts";
import type { ExtractCall, ExtractorProcess } from "./extractor.ts";

/** A document on disk, and how much of it is wanted. */
export interface TextRequest
  extends Pick<StagedFile, "file" | "sha256">, Pick<ExtractCall, "filename" | "limits" | "text"> {}

/** Reads the text of a document in a process of its own. The process leaves nothing behind in `dir`, the state folder. */
export async function readDocumentText(
  { run }: Pick<ExtractorProcess, "run">,
  dir: string,
  request: TextRequest,
  signal: AbortSignal,
): Promise<FileText> {
  const out = join(stagingFolder(dir), `chunks-${randomUUID()}`);
  try {
    const call = { ...request, title: null, out };
    const result = await run(call, { signal, onProgress: () => undefined });
    if (result.ok) return { ok: true, text: await readFile(out, "utf8") };
    if ("error" in result) return result;
    return { ok: false, error: { code: "timeout", message: "the reading was stopped" } };
  } finally {
    await rm(out, { force: true });
  }
}
