import type { Context } from "hono";
import { plural } from "../../core/text.ts";
import type { ConversationPart } from "../../agent/types.ts";
import { MAX_FILE_TEXT, type DocumentError } from "../../knowledge/types.ts";
import { badRequest } from "./problems.ts";
import type { PlatformEnv, PlatformParts } from "./types.ts";

/** A file of a message. */
export interface SentFile {
  file_data?: string | null | undefined;
  filename?: string | null | undefined;
}

const DATA = /^data:([^,;]*)(?:;[^,;]*)*;\s*base64,/i;

const CODES: Partial<Record<DocumentError["code"], string>> = {
  too_large: "file_too_large",
  unsupported_type: "unsupported_content",
  missing_extractor: "unsupported_content",
};

function refuse(param: string, message: string, code = "invalid_file"): never {
  throw badRequest(param, `${param}: ${message}`, code);
}

const TOO_MUCH = `the files of the request have more than ${MAX_FILE_TEXT} characters of text; upload them, and let the agent search them`;

/** Creates the reader of the files of one request. Their formats are those of uploaded documents, and so is the process that reads them. */
export function createFileReader(c: Context<PlatformEnv>, { knowledge, snapshot }: PlatformParts) {
  const { fileMb, files: mostFiles, ...rest } = snapshot().config.platform.knowledge;
  const mostBytes = fileMb * 1e6;
  let count = 0;
  let length = 0;

  /** A name tells the format where the bytes do not. */
  const toFilename = (filename: string | null | undefined, mediaType: string): string => {
    if (filename) return filename;
    const format = knowledge.formats().find(({ mimeType }) => mimeType === mediaType.toLowerCase());
    return `file.${format?.extensions[0] ?? "txt"}`;
  };

  const readData = async (
    { file_data: data, filename }: SentFile,
    param: string,
  ): Promise<[name: string, text: string]> => {
    const found = DATA.exec((data ?? "").slice(0, 300));
    if (!found) return refuse(param, "send the file as `data:application/pdf;base64,…`");
    const name = toFilename(filename, found[1] ?? "");
    const bytes = Buffer.from((data ?? "").slice(found[0].length), "base64");
    if (bytes.length === 0) refuse(param, "the file is empty");
    if (bytes.length > mostBytes)
      refuse(param, `the file has more than ${mostBytes} bytes`, "file_too_large");
    const staged = await knowledge.stageBytes(bytes, mostBytes);
    const { pages, unzipRatio, textMb } = rest;
    const limits = { pages, unzipRatio, textChars: Math.min(textMb * 1e6, MAX_FILE_TEXT) };
    const wanted = { ...staged, filename: name, limits, text: "whole" } as const;
    const read = await knowledge.readText(wanted, c.req.raw.signal);
    return read.ok ? [name, read.text] : refuse(param, read.error.message, CODES[read.error.code]);
  };

  return async (file: SentFile, at: string): Promise<ConversationPart> => {
    count++;
    if (count > mostFiles)
      refuse(at, `send at most ${plural(mostFiles, "file")}`, "too_many_files");
    const [filename, text] = await readData(file, at);
    length += text.length;
    if (length > MAX_FILE_TEXT) refuse(at, TOO_MUCH, "file_too_large");
    return { type: "document", filename, text };
  };
}
