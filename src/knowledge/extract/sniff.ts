import { extname } from "node:path";
import { FORMATS, type FormatId } from "../formats.ts";
import { unzip } from "./archive.ts";
import { detectUtf16 } from "./charset.ts";
import { ExtractionError, encrypted } from "./types.ts";

const HEAD = 8192;
const BINARY: readonly [string, string][] = [
  ["89504e47", "a picture"],
  ["ffd8ff", "a picture"],
  ["47494638", "a picture"],
  ["52494646", "a picture or sound"],
  ["1f8b", "a compressed archive"],
  ["377abcaf271c", "a compressed archive"],
  ["526172211a07", "a compressed archive"],
];
const RTF = "7b5c727466";
const CFB = "d0cf11e0a1b11ae1";

/** Kinds of text, whose bytes do not say which: the name's ending does. */
const TEXTS: readonly FormatId[] = ["markdown", "csv", "json", "html", "xml"];

/** The streams that name the formats of Office before 2007 and of Outlook, whose mails may have documents of these formats attached. */
const COMPOUND: readonly [stream: string, format: FormatId][] = [
  ["__nameid_version1.0", "msg"],
  ["WordDocument", "doc"],
  ["PowerPoint Document", "ppt"],
  ["Workbook", "xls"],
  ["Book", "xls"],
];

/** The line before each mail of a mailbox: a sender and a date (RFC 4155). */
export const MAIL_START = /^From \S+ .*\d\d:\d\d.*\d{4}.*\r?\n/m;

/** Archives whose first entry is their type. */
const TYPED: readonly FormatId[] = ["odt", "ods", "odp", "epub"];

/** The ending of a name, without its point. */
export const getEnding = (filename: string): string => extname(filename).slice(1).toLowerCase();

const unsupported = (what: string): ExtractionError =>
  new ExtractionError("unsupported_type", `${what} cannot be read`);

/** The format of a zip file, by its `mimetype` entry and the names of its entries, not by those of archives in it. */
async function zipFormat(bytes: Buffer, filename: string): Promise<FormatId> {
  if (bytes.toString("latin1", 30, 38) === "mimetype") {
    const type = bytes.toString("latin1", 38, 138);
    const typed = TYPED.find((format) => type.startsWith(FORMATS[format].mimeType));
    if (typed) return typed;
  }
  const names: string[] = [];
  await unzip(bytes, { unzipRatio: Infinity }, (name) => names.push(name) < 0);
  const has = (start: string): boolean => names.some((name) => name.startsWith(start));
  // Word for the web names it `document2.xml`.
  if (has("word/document")) return "docx";
  if (has("xl/workbook.xml")) return "xlsx";
  if (has("ppt/presentation.xml")) return "pptx";
  if (has("META-INF/container.xml")) return "epub";
  // Packed again by a program that compresses the `mimetype` too.
  const ending = getEnding(filename);
  if (has("content.xml") && has("META-INF/manifest.xml"))
    return ending === "ods" || ending === "odp" ? ending : "odt";
  throw unsupported("this kind of zip archive");
}

const utf16 = (text: string): Buffer => Buffer.from(text, "utf16le");

/** The begin of a text, for what it says of its format; undefined if it is no text. UTF-16 has zeros, no other text has. */
function readHead(head: Buffer): string | undefined {
  const charset = detectUtf16(head);
  if (charset !== undefined)
    return new TextDecoder(charset).decode(head.subarray(0, head.length & ~1));
  // The byte order mark of UTF-8 would hide the first tag or field.
  return head.includes(0) ? undefined : head.toString("latin1").replace(/^\u00ef\u00bb\u00bf/, "");
}

function textFormat(head: string, filename: string): FormatId {
  const start = head
    .replace(/^\ufeff/, "")
    .trimStart()
    .slice(0, 2000);
  if (/^(?:<\?xml[^>]*>\s*)?(?:<!--[^]*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b/i.test(start))
    return "html";
  const ending = getEnding(filename);
  const named = TEXTS.find((id) => FORMATS[id].extensions.some((one) => one === ending));
  if (named !== undefined && (named !== "xml" || start.startsWith("<"))) return named;
  if (/^<\?xml\b/i.test(start)) return "xml";
  // Exports for Excel and Word, under their endings.
  if (/^<\s*(?:table|meta|style|div)\b/i.test(start)) return "html";
  const mailbox = MAIL_START.exec(head.trimStart());
  if (mailbox?.index === 0 && isMail(head.trimStart().slice(mailbox[0].length))) return "mbox";
  return isMail(head) ? "eml" : "text";
}

/** Returns whether a text begins with the fields of a mail (RFC 5322, 2.2). The last of them may be cut off. */
function isMail(head: string): boolean {
  const [fields = "", ...rest] = head.trimStart().split(/\r?\n\r?\n/);
  const lines = fields.split(/\r?\n/);
  if (rest.length === 0 && lines.length > 1) lines.pop();
  return (
    lines.every((line) => /^(?:[!-9;-~]+:|[ \t])/.test(line)) &&
    lines.some((line) => /^(?:From|Received|Return-Path|MIME-Version|Message-ID):/i.test(line))
  );
}

/**
 * Returns the format of a document, by its bytes; the name's ending decides only between kinds of text.
 * @throws ExtractionError `unsupported_type`, `encrypted_document`, `broken_document`, or `no_text_found` for an empty file.
 */
export async function sniff(bytes: Buffer, filename: string): Promise<FormatId> {
  if (bytes.length === 0) throw new ExtractionError("no_text_found", "the file is empty");
  const head = bytes.subarray(0, HEAD);
  const hex = head.toString("hex", 0, 16);
  if (head.subarray(0, 1024).includes("%PDF-")) return "pdf";
  if (hex.startsWith("504b0304")) return zipFormat(bytes, filename);
  if (hex.startsWith(CFB)) {
    if (bytes.includes(utf16("EncryptedPackage"))) throw encrypted();
    const found = COMPOUND.find(([stream]) => bytes.includes(utf16(stream)));
    if (found) return found[1];
    throw unsupported("a compound file of this kind");
  }
  if (hex.startsWith(RTF)) return "rtf";
  for (const [magic, name] of BINARY) if (hex.startsWith(magic)) throw unsupported(name);
  const text = readHead(head);
  if (text === undefined) throw unsupported("a binary file of this kind");
  return textFormat(text, filename);
}
