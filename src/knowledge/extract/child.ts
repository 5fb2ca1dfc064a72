/**
 * The main file of an extraction child: reads one document after the other and writes its chunks, with their words, into
 * a file. A document that takes all memory or never ends costs this process only.
 */
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { flushCompileCache } from "node:module";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { SEPARATOR, splitChunks, type TextBlock } from "../chunk.ts";
import { killGroup } from "../../core/process-group.ts";
import { cutText } from "../../core/text.ts";
import { DocumentTokenizer } from "../words/tokenize.ts";
import type { ExtractCall, ExtractReply, IndexedChunk } from "./extractor.ts";
import { broken, ExtractionError } from "./types.ts";
import { readDocument } from "./read.ts";

const LOOK_MS = 20;
/** Chunks of one file, which go into the index in one step. */
const CHUNKS_A_FILE = 200;
const PROGRESS_MS = 200;

const maxMemory = Number(process.argv[2]) * 2 ** 20;
process.on("unhandledRejection", () => undefined);
process.on("disconnect", () => killGroup(process.pid));
// A thread of its own: it looks while a parser keeps this one busy.
const watch = `setInterval(() => process.memoryUsage.rss() > ${maxMemory} && process.kill(-process.pid, "SIGKILL"), ${LOOK_MS})`;
new Worker(watch, { eval: true, execArgv: [], stdin: false }).unref();

/** Returns whether so much is in memory that the next document would be blamed for this one. */
const isTired = (): boolean => process.memoryUsage.rss() > maxMemory / 3;

/** @throws ExtractionError `too_large` past the limit. */
function* counted(blocks: Iterable<TextBlock>, most: number): Generator<TextBlock> {
  let letters = 0;
  for (const block of blocks) {
    // The marks between the cells of a row are not the document's.
    letters += block.kind === "row" ? block.text.replaceAll(" | ", ",").length : block.text.length;
    if (letters > most)
      throw new ExtractionError(
        "too_large",
        `the document has more than ${most} characters of text`,
      );
    yield block;
  }
}

interface Written {
  chunks: number;
  languages: string[];
}

/** Writes the chunks into files of a folder. */
function writeChunks(folder: string, blocks: Iterable<TextBlock>, title: string): Written {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  let files = 0;
  let count = 0;
  let waiting: IndexedChunk[] = [];
  const flush = (): void => {
    writeFileSync(join(folder, String(files++)), JSON.stringify(waiting), { mode: 0o600 });
    waiting = [];
  };
  const tokenizer = new DocumentTokenizer();
  const languages = new Set<string>();
  for (const chunk of splitChunks(blocks)) {
    const form = tokenizer.toIndexForm(`${title}\n${chunk.headings.join("\n")}\n${chunk.text}`);
    if (form.words === "") continue;
    for (const language of form.languages) languages.add(language);
    count++;
    if (waiting.push({ ...chunk, ...form }) === CHUNKS_A_FILE) flush();
  }
  if (waiting.length > 0) flush();
  return { chunks: count, languages: [...languages] };
}

/** Writes the text of the blocks, at most `most` UTF-16 units and a note; each block counts as a chunk. */
function writeText(file: string, blocks: Iterable<TextBlock>, most: number): Written {
  let text = "";
  let count = 0;
  for (const block of blocks) {
    if (block.text.trim() === "") continue;
    text += `${count === 0 ? "" : block.kind === "row" ? "\n" : SEPARATOR}${block.text}`;
    count++;
    if (text.length > most) break;
  }
  const cut = cutText(text, most);
  const written =
    cut.cut > 0 ? `${cut.text}[cut: the text has more than ${most} characters]` : text;
  writeFileSync(file, written, { mode: 0o600 });
  return { chunks: count, languages: [] };
}

function toFailure(error: unknown): ExtractionError {
  if (error instanceof ExtractionError) return error;
  return (error as NodeJS.ErrnoException).code === "ENOENT"
    ? broken("the file is no longer on disk; upload it again")
    : new ExtractionError("internal", "the document could not be read");
}

async function answer(call: ExtractCall): Promise<ExtractReply> {
  const { file, sha256, filename, out, limits, plugins } = call;
  let reportedAt = 0;
  const progress = (part: number): void => {
    if (performance.now() - reportedAt < PROGRESS_MS) return;
    reportedAt = performance.now();
    process.send?.({ kind: "progress", part } satisfies ExtractReply);
  };
  try {
    const bytes = readFileSync(file);
    if (createHash("sha256").update(bytes).digest("hex") !== sha256)
      throw broken("the file on disk is not the one that was uploaded; upload it again");
    const { mimeType, title, pages, blocks } = await readDocument(
      { bytes, filename, limits, progress, depth: 0, programs: process.env["PATH"] ?? "" },
      plugins,
    );
    const { chunks, languages } =
      call.text === undefined
        ? writeChunks(out, counted(blocks, limits.textChars), call.title ?? title ?? "")
        : writeText(
            out,
            call.text === "whole" ? counted(blocks, limits.textChars) : blocks,
            limits.textChars,
          );
    if (chunks === 0)
      throw new ExtractionError(
        "no_text_found",
        "no text was found; a scanned document needs text recognition first",
      );
    return { kind: "done", tired: isTired(), mimeType, title, pages, chunks, languages };
  } catch (error) {
    const { code, message, package: missing } = toFailure(error);
    const reason = { code, message, ...(missing !== undefined && { package: missing }) };
    return { kind: "failed", tired: isTired(), error: reason };
  }
}

process.on("message", (call: ExtractCall) => {
  void answer(call).then((reply) => {
    process.send?.(reply);
    // It ends by a signal, when nothing is written any more.
    flushCompileCache();
  });
});
process.send?.({ kind: "started" } satisfies ExtractReply);
