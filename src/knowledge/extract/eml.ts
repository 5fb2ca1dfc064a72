import type { TextBlock } from "../chunk.ts";
import { optional, type ExtractFormat } from "./types.ts";
import { domBlocks, parseDom } from "./html.ts";

interface Address {
  name?: string | undefined;
  address?: string | undefined;
}

const person = ({ name, address }: Address): string => [name, address === undefined ? "" : `<${address}>`].filter(Boolean).join(" ");

/** Quotes of earlier mails stay: often they hold the question. */
function* paragraphs(text: string): Generator<TextBlock> {
  for (const paragraph of text.replace(/\r\n?/g, "\n").split(/\n\s*\n/))
    if (paragraph.trim() !== "") yield { kind: "text", text: paragraph.trim() };
}

/** A mail: its head in words, its text, and the names of what is attached. */
export const extractEml: ExtractFormat = async ({ bytes }) => {
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
  const names = mail.attachments.flatMap(({ filename }) => (filename ? [filename] : []));
  if (names.length > 0) blocks.push({ kind: "row", text: `Attached: ${names.join(", ")}` });
  return { title: mail.subject ?? null, pages: null, blocks };
};
