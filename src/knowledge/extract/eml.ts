import type { TextBlock } from "../chunk.ts";
import {
  ExtractionError,
  optional,
  type AttachedDocument,
  type ExtractFormat,
  type ExtractSource,
} from "./types.ts";
import { domBlocks, parseDom } from "./html.ts";

interface Address {
  name?: string | undefined;
  address?: string | undefined;
}

const person = ({ name, address }: Address): string =>
  [name, address === undefined ? "" : `<${address}>`].filter(Boolean).join(" ");

/** Quotes of earlier mails stay: often they hold the question. */
function* paragraphs(text: string): Generator<TextBlock> {
  for (const paragraph of text.replace(/\r\n?/g, "\n").split(/\n\s*\n/))
    if (paragraph.trim() !== "") yield { kind: "text", text: paragraph.trim() };
}

const MAX_DEPTH = 3;
const MAX_ATTACHED = 50;

interface Attachment {
  filename: string | null;
  mimeType: string;
  disposition?: string | null;
  content: ArrayBuffer | Uint8Array | string;
}

/** The bytes of an attachment; undefined for pictures that stand in the mail's text, and for what has no name. */
function toDocument(
  { filename, mimeType, disposition, content }: Attachment,
  index: number,
): AttachedDocument | undefined {
  const isMail = mimeType === "message/rfc822";
  if (!isMail && (!filename || (disposition === "inline" && mimeType.startsWith("image/"))))
    return undefined;
  const bytes =
    typeof content === "string"
      ? Buffer.from(content)
      : Buffer.from(content instanceof Uint8Array ? content : new Uint8Array(content));
  return { bytes, filename: filename ?? `mail-${index + 1}.eml` };
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

/** A mail: its head in words, its text, and what is attached. */
export const extractEml: ExtractFormat = async (source) => {
  const { bytes } = source;
  const { default: PostalMime } = await optional("postal-mime", () => import("postal-mime"));
  const mail = await PostalMime.parse(bytes);
  const head = [
    mail.from && `From: ${person(mail.from as Address)}`,
    mail.to && `To: ${mail.to.map((to) => person(to as Address)).join(", ")}`,
    mail.date && `Date: ${mail.date}`,
  ].filter(Boolean);
  const blocks: TextBlock[] = [];
  if (mail.subject) blocks.push({ kind: "heading", text: mail.subject, level: 1 });
  if (head.length > 0) blocks.push({ kind: "row", text: head.join("\n") });
  if (mail.text?.trim()) blocks.push(...paragraphs(mail.text));
  else if (mail.html) {
    const { body } = await parseDom(mail.html);
    if (body) blocks.push(...domBlocks(body));
  }
  blocks.push(...(await readAttachments(mail.attachments, source)));
  return { title: mail.subject ?? null, pages: null, blocks };
};
