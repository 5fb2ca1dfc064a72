import type { TextBlock } from "../chunk.ts";
import { decodeDocument } from "./charset.ts";
import {
  broken,
  ExtractionError,
  optional,
  type AttachedDocument,
  type ExtractFormat,
  type ExtractSource,
} from "./types.ts";
import type { Address, Attachment, Email } from "postal-mime";
import { domBlocks, parseDom } from "./html.ts";
import { MAIL_START } from "./sniff.ts";
import { paragraphs } from "./text.ts";

const person = ({ name, address, group = [] }: Partial<Address>): string =>
  [name, address && `<${address}>`, group.map(person).join(", ")].filter(Boolean).join(" ");

const MAX_DEPTH = 3;
const MAX_ATTACHED = 50;

/** The bytes of an attachment; undefined for pictures that stand in the mail's text, and for parts of its format. */
function toDocument(
  { filename, mimeType, disposition, content }: Attachment,
  index: number,
): AttachedDocument | undefined {
  const isMail = mimeType === "message/rfc822";
  const isPicture = disposition === "inline" && mimeType.startsWith("image/");
  // Mails that bounce have the reason in a part without a name.
  const isFormat = !mimeType.startsWith("message/") && (!filename || isPicture);
  if (mimeType.endsWith("-signature") || (disposition !== "attachment" && isFormat))
    return undefined;
  const bytes =
    typeof content === "string"
      ? Buffer.from(content)
      : Buffer.from(content instanceof Uint8Array ? content : new Uint8Array(content));
  const unnamed = isMail ? `mail-${index + 1}.eml` : `file-${index + 1}`;
  return { bytes, filename: filename ?? unnamed };
}

/** The text of what is attached, each under its name; what cannot be read is only named, with the reason. */
async function readAttachments(
  attachments: readonly Attachment[],
  { depth, readAttached }: ExtractSource,
): Promise<TextBlock[]> {
  const blocks: TextBlock[] = [];
  const documents = attachments.flatMap((attachment, index) => toDocument(attachment, index) ?? []);
  for (const [index, document] of documents.entries()) {
    const named = `Attached: ${document.filename}`;
    const refused =
      depth >= MAX_DEPTH
        ? "it is nested too deeply"
        : index >= MAX_ATTACHED
          ? `only ${MAX_ATTACHED} are read`
          : undefined;
    if (refused !== undefined) {
      blocks.push({ kind: "row", text: `${named} (not read: ${refused})` });
      continue;
    }
    try {
      const read = await readAttached(document);
      blocks.push({ kind: "heading", text: named, level: 2 }, ...read.blocks);
    } catch (error) {
      if (
        !(error instanceof ExtractionError) ||
        error.code === "too_large" ||
        error.code === "timeout"
      )
        throw error;
      blocks.push({ kind: "row", text: `${named} (not read: ${error.message})` });
    }
  }
  return blocks;
}

/** The parts of a mail that are read. */
type Mail = Pick<
  Email,
  "subject" | "from" | "to" | "cc" | "date" | "text" | "html" | "attachments"
>;

const MAX_HINT = 300;
const countLetters = (blocks: readonly TextBlock[]): number =>
  blocks.reduce((sum, { text }) => sum + text.length, 0);

/** The blocks of a mail: its head in words, its text, and what is attached. */
async function readMail(mail: Mail, source: ExtractSource): ReturnType<ExtractFormat> {
  const { subject, from, to = [], cc = [], date, text = "", html, attachments } = mail;
  const head = [
    from && `From: ${person(from)}`,
    to.length > 0 && `To: ${to.map(person).join(", ")}`,
    cc.length > 0 && `Cc: ${cc.map(person).join(", ")}`,
    date && `Date: ${date}`,
  ].filter(Boolean);
  const blocks: TextBlock[] = [];
  if (subject) blocks.push({ kind: "heading", text: subject, level: 1 });
  if (head.length > 0) blocks.push({ kind: "row", text: head.join("\n") });
  // Quotes of earlier mails stay: often they hold the question.
  const plain = [...paragraphs(text)];
  const isShort = countLetters(plain) < MAX_HINT;
  const { body } = html && isShort ? await parseDom(html) : { body: null };
  const page = body ? [...domBlocks(body)] : [];
  // The text of some is a hint to look at the page, which has what is said.
  const isHint = countLetters(page) > countLetters(plain) * 2 || /\bhtml\b/i.test(text);
  const said = isHint && page.length > 0 ? page : plain;
  // An invitation may be all that a mail has.
  const [first] = attachments;
  if (said.length === 0 && first?.mimeType === "text/calendar") first.disposition = "attachment";
  blocks.push(...said, ...(await readAttachments(attachments, source)));
  return { title: subject ?? null, blocks };
}

/** The names that programs give a character set that they do not know; UTF-8 is the most likely one. */
const NO_CHARSET = /charset *= *"?(?:us-ascii|(?:x-)?unknown(?:-8bit)?)\b"?/gi;
/** A character set, in the field of a part or in an encoded word. */
const CHARSET = /(charset *= *"?|=\?)(?:utf-?8|(?:iso-8859|windows|cp)-?\d+)\b/gi;

const FIELDS = ["subject", "text", "html"] as const;
const SPOILT = /\ufffd|[\u00c2-\u00f4][\u0080-\u00bf\u0152-\u0192\u02c6-\u2122]/g;
/** Counts characters that were not decoded, and those of UTF-8 that was read byte by byte. */
const countSpoilt = (text = ""): number => text.match(SPOILT)?.length ?? 0;

/** A mail as it is sent over the internet (RFC 5322). */
export const extractEml: ExtractFormat = async (source) => {
  const { default: PostalMime } = await optional("postal-mime", () => import("postal-mime"));
  const parse = (text: string) => PostalMime.parse(Buffer.from(text, "latin1"));
  const bytes = source.bytes.subarray(source.bytes.indexOf("\ufeff") === 0 ? 3 : 0);
  const written = bytes.toString("latin1").replace(NO_CHARSET, "charset=utf-8");
  const mail = await parse(written);
  // Mails name another character set than theirs, and old ones name none.
  const others = [
    () => parse(written.replace(CHARSET, "$1utf-8")),
    async () => PostalMime.parse(await decodeDocument(Buffer.from(written, "latin1"))),
    () => parse(written.replace(CHARSET, "$1windows-1252")),
  ];
  for (const read of others) {
    const spoilt = FIELDS.filter((field) => countSpoilt(mail[field]) > 0);
    const other = spoilt.length > 0 ? await read().catch(() => undefined) : undefined;
    for (const field of spoilt)
      if (other && countSpoilt(other[field]) < countSpoilt(mail[field])) mail[field] = other[field];
  }
  return readMail(mail, source);
};

/** The mails of a mailbox, as their bytes. A line of a mail that begins like the line before each mail has a `>` before it. */
function* splitMailbox(bytes: Buffer): Generator<Buffer> {
  // One character for each byte: mails have different character sets.
  const text = bytes.toString("latin1");
  const starts = [...text.matchAll(new RegExp(MAIL_START, "gm"))];
  for (const [index, { 0: line, index: at }] of starts.entries()) {
    const mail = text.slice(at + line.length, starts[index + 1]?.index);
    yield Buffer.from(mail.replace(/^>(>*From )/gm, "$1"), "latin1");
  }
}

/** A mailbox: each mail is a section. */
export const extractMbox: ExtractFormat = async (source) => {
  const blocks: TextBlock[] = [];
  for (const bytes of splitMailbox(source.bytes)) {
    const mail = await extractEml({ ...source, bytes });
    if (!mail.title) blocks.push({ kind: "heading", text: "(no subject)", level: 1 });
    blocks.push(...mail.blocks);
  }
  return { blocks };
};

const toAddress = (name = "", address = ""): Address => ({ name, address });

/** A mail that Outlook has saved. */
export const extractMsg: ExtractFormat = async (source) => {
  const { bytes } = source;
  const { default: module } = await optional(
    "@kenjiuno/msgreader",
    () => import("@kenjiuno/msgreader"),
  );
  const reader = new module.default(
    bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer,
  );
  const fields = reader.getFileData();
  if (fields.error !== undefined) throw broken("the mail cannot be read; it may be damaged");
  const attachments = (fields.attachments ?? []).flatMap((attached): Attachment[] => {
    if (attached.attachmentHidden) return [];
    const { fileName, content } = reader.getAttachment(attached);
    const mimeType = attached.attachMimeTag ?? "";
    const disposition = attached.pidContentId === undefined ? null : "inline";
    return [{ filename: fileName, mimeType, disposition, content }];
  });
  const html = fields.bodyHtml ?? (fields.html && (await decodeDocument(Buffer.from(fields.html))));
  const listRecipients = (kind: string): Address[] =>
    (fields.recipients ?? [])
      .filter(({ recipType = "to" }) => recipType === kind)
      .map(({ name, smtpAddress, email }) => toAddress(name, smtpAddress ?? email));
  return readMail(
    {
      subject: fields.subject,
      from: toAddress(fields.senderName, fields.senderSmtpAddress ?? fields.senderEmail),
      to: listRecipients("to"),
      cc: listRecipients("cc"),
      date: fields.messageDeliveryTime ?? fields.clientSubmitTime,
      text: fields.body,
      html,
      attachments,
    },
    source,
  );
};
