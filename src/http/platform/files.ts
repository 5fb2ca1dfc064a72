import type { Context } from "hono";
import { plural } from "../../core/text.ts";
import type { ConversationPart } from "../../agent/types.ts";
import { getAccess } from "../../chat/api-keys.ts";
import { joinChunks } from "../../knowledge/chunk.ts";
import { MAX_FILE_TEXT, type DocumentError, type DocumentPassage } from "../../knowledge/types.ts";
import { badRequest } from "./problems.ts";
import type { PlatformEnv, PlatformParts } from "./types.ts";

/** A file of a message: its bytes, or the id of a document. */
export interface SentFile {
  file_data?: string | null | undefined;
  filename?: string | null | undefined;
  file_id?: string | null | undefined;
}

const DATA = /^data:([^,;]*)(?:;[^,;]*)*;\s*base64,/i;
const PAGE = 500;

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
export function createFileReader(
  c: Context<PlatformEnv>,
  { knowledge, keys, snapshot }: PlatformParts,
) {
  const { key } = c.get("caller");
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

  const readDocument = async (id: string, param: string): Promise<[name: string, text: string]> => {
    const mayRead = key.scopes.includes("knowledge:read");
    const document = mayRead
      ? await knowledge.get(key.tenant, id, await getAccess(key, keys))
      : undefined;
    if (!document) {
      const why = mayRead
        ? "there is no such document for this key"
        : 'this API key does not have the scope "knowledge:read"';
      return refuse(param, `${why}; send the file as file_data`, "file_not_found");
    }
    if (document.status !== "ready")
      return refuse(
        param,
        `the document is not ready: its status is ${document.status}`,
        "file_not_ready",
      );
    const passages: DocumentPassage[] = [];
    let chars = 0;
    for (let from = 0; ;) {
      const page = await knowledge.passages(key.tenant, id, { from, limit: PAGE });
      if (!page) return refuse(param, "there is no such document for this key", "file_not_found");
      passages.push(...page.passages);
      chars += page.passages.reduce((sum, { text }) => sum + text.length, 0);
      if (chars > MAX_FILE_TEXT) refuse(param, TOO_MUCH, "file_too_large");
      if (!page.hasMore) return [document.filename, joinChunks(passages)];
      from += page.passages.length;
    }
  };

  return async (file: SentFile, at: string): Promise<ConversationPart> => {
    count++;
    if (count > mostFiles)
      refuse(at, `send at most ${plural(mostFiles, "file")}`, "too_many_files");
    const isDocument = typeof file.file_id === "string";
    if (isDocument && typeof file.file_data === "string")
      refuse(at, "send either file_data or file_id");
    const [filename, text] = isDocument
      ? await readDocument(file.file_id as string, at)
      : await readData(file, at);
    length += text.length;
    if (length > MAX_FILE_TEXT) refuse(at, TOO_MUCH, "file_too_large");
    return { type: "document", filename, text };
  };
}
