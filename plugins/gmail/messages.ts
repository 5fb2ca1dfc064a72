import { decodeEntities, htmlToText } from "./html.ts";

/** A part of a message as Gmail gives it; `data` is base64url with the transfer encoding undone. */
export interface MimePart {
  mimeType?: string;
  filename?: string;
  headers?: { name?: string; value?: string }[];
  body?: { data?: string; size?: number; attachmentId?: string };
  parts?: MimePart[];
}

export interface GmailMessage {
  id: string;
  threadId?: string;
  labelIds?: string[];
  snippet?: string;
  internalDate?: string;
  payload?: MimePart;
}

/** A message in the form that the hook gets. */
export interface MailMessage {
  id: string;
  threadId: string;
  from: string;
  to: string;
  subject: string;
  date: string;
  snippet: string;
  body: string;
  labels: string[];
}

/** Header values of this length say all they can; a list of a thousand recipients is cut. */
const MAX_HEADER_BYTES = 2000;
/** Control characters but tab and line feed: they say nothing, and JSON makes six bytes of each. */
// oxlint-disable-next-line no-control-regex -- they are what is looked for
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f]/g;

const clean = (text: string): string =>
  text.replace(/\r\n?/g, "\n").replace(CONTROLS, "").toWellFormed();

/** Cuts a text at so many bytes of UTF-8, between characters, and says how much is missing. */
export function cut(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= maxBytes) return text;
  let end = maxBytes;
  // A byte 10xxxxxx goes on with a character that began before.
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end--;
  return `${bytes.subarray(0, end).toString()}\n[cut: ${bytes.length - end} bytes]`;
}

function createDecoder(charset: string): InstanceType<typeof TextDecoder> | undefined {
  try {
    return new TextDecoder(charset.replace(/^cp932$/i, "shift_jis"));
  } catch {
    return undefined;
  }
}

const UTF8 = new TextDecoder("utf-8", { fatal: true });

/**
 * The text of bytes. Gmail has most texts turned to UTF-8 already while the header still names the sender's charset: that
 * counts only for bytes that are no UTF-8, and for those of a charset with escape sequences.
 */
export function decodeText(bytes: Uint8Array, charset: string | undefined): string {
  const stated = charset === undefined ? undefined : createDecoder(charset.trim());
  const escapes =
    stated !== undefined &&
    /^(?:iso-2022|utf-16)/.test(stated.encoding) &&
    (bytes.includes(0x1b) || bytes.includes(0));
  if (stated && escapes) return stated.decode(bytes);
  try {
    return UTF8.decode(bytes);
  } catch {
    return (
      stated && stated.encoding !== "utf-8" ? stated : new TextDecoder("windows-1252")
    ).decode(bytes);
  }
}

function wordBytes(encoding: string, text: string): Buffer {
  if (encoding.toLowerCase() === "b") return Buffer.from(text, "base64");
  const binary = text
    .replaceAll("_", " ")
    .replace(/=([0-9A-Fa-f]{2})/g, (_, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    );
  return Buffer.from(binary, "latin1");
}

/** Decodes the encoded words of a header (RFC 2047): `=?utf-8?Q?Gr=C3=BC=C3=9Fe?=`. */
export function decodeHeader(value: string): string {
  const unfolded = value.replace(/\r?\n(?=[ \t])/g, "");
  // White space between encoded words is no part of the text, and a character may be spread over two of them.
  const joined = unfolded.replace(/(=\?[^?\s]{1,80}\?[bBqQ]\?[^?]*\?=)\s+(?==\?)/g, "$1");
  return joined.replace(/(?:=\?[^?\s]{1,80}\?[bBqQ]\?[^?]*\?=)+/g, (run) => {
    const words = [...run.matchAll(/=\?([^?*\s]{1,80})(?:\*[^?\s]*)?\?([bBqQ])\?([^?]*)\?=/g)];
    const texts: { charset: string; bytes: Buffer[] }[] = [];
    for (const [, charset = "", encoding = "", text = ""] of words) {
      const last = texts.at(-1);
      const bytes = wordBytes(encoding, text);
      if (last?.charset.toLowerCase() === charset.toLowerCase()) last.bytes.push(bytes);
      else texts.push({ charset, bytes: [bytes] });
    }
    return texts.map(({ charset, bytes }) => decodeText(Buffer.concat(bytes), charset)).join("");
  });
}

const getHeader = (part: MimePart | undefined, name: string): string | undefined =>
  part?.headers?.find((header) => header.name?.toLowerCase() === name)?.value;

function shownHeader(message: GmailMessage, name: string): string {
  const value = decodeHeader(getHeader(message.payload, name) ?? "");
  return cut(clean(value).replace(/\s+/g, " ").trim(), MAX_HEADER_BYTES);
}

const isAttached = (part: MimePart): boolean =>
  (part.filename ?? "") !== "" ||
  /^\s*attachment/i.test(getHeader(part, "content-disposition") ?? "");

/** A longer text is no hint. */
const MAX_HINT = 300;
/** Mails are nested a few levels deep; more is somebody's joke. */
const MAX_DEPTH = 30;

/** Plain text comes before HTML, and before whatever else a mailer calls text. */
const getRank = ({ mimeType = "" }: MimePart): number =>
  /^text\/plain$/i.test(mimeType) ? 0 : /^(?:text\/html$|multipart\/)/i.test(mimeType) ? 1 : 2;

/** The text of a part, given its data in base64url. */
function toText(part: MimePart, data: string): string {
  const charset = /;\s*charset\s*=\s*(?:"([^"]*)"|([^\s;]+))/i.exec(
    getHeader(part, "content-type") ?? "",
  );
  const text = decodeText(Buffer.from(data, "base64url"), charset?.[1] ?? charset?.[2]);
  return part.mimeType?.toLowerCase() === "text/html" ? htmlToText(text) : text;
}

/**
 * Reads the text of a mail as its reader sees it: of alternatives the best one that is not blank, and no hint to see another;
 * of other parts each, since pictures and footers of lists stand between and behind texts. Attachments are not read.
 */
export async function readMailText(
  part: MimePart,
  getData: (part: MimePart) => Promise<string>,
  depth = 0,
): Promise<string> {
  const type = part.mimeType?.toLowerCase() ?? "";
  if (type.startsWith("text/")) return isAttached(part) ? "" : toText(part, await getData(part));
  // An attached mail has a body of its own.
  if (type === "message/rfc822" || depth > MAX_DEPTH) return "";
  const parts = part.parts ?? [];
  const choices =
    type === "multipart/alternative"
      ? parts.toSorted((a, b) => getRank(a) - getRank(b)).map((one) => [one])
      : [parts.filter((one) => getRank(one) < 2), parts.filter((one) => getRank(one) === 2)];
  let best = "";
  for (const choice of choices) {
    if (best !== "" && choice.some((one) => getRank(one) === 2)) break;
    const texts: string[] = [];
    for (const one of choice) texts.push(await readMailText(one, getData, depth + 1));
    const text = texts.filter((one) => one.trim() !== "").join("\n\n");
    const isBetter = text.length > best.length * 2 || /\bhtml\b/i.test(best);
    if (text !== "" && isBetter) best = text;
    if (best !== "" && (type !== "multipart/alternative" || best.length >= MAX_HINT)) break;
  }
  return best;
}

function getDate({ internalDate }: GmailMessage): string {
  const date = new Date(Number(internalDate));
  return Number.isNaN(date.getTime()) ? "" : date.toISOString();
}

/** A message in the form that the hook gets; `text` is that of its body. */
export function toMail(message: GmailMessage, text: string, maxBytes: number): MailMessage {
  return {
    id: message.id,
    threadId: message.threadId ?? message.id,
    from: shownHeader(message, "from"),
    to: shownHeader(message, "to"),
    subject: shownHeader(message, "subject"),
    date: getDate(message),
    // Gmail escapes it for HTML.
    snippet: cut(clean(decodeEntities(message.snippet ?? "")), MAX_HEADER_BYTES),
    body: cut(clean(text).trim(), maxBytes),
    labels: message.labelIds ?? [],
  };
}
