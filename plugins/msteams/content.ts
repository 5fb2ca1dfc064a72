import {
  objectsIn,
  parseDecision,
  parseObject,
  parseText,
  renderLink,
  renderMention,
  renderTree,
  type HeardPart,
} from "#channel-kit";
import { readFiles, type TeamsAttachment } from "./files.ts";
import { hasQuotes, takeQuotes, toText, type HtmlQuote } from "./html.ts";

/** The content of an activity. */
export interface TeamsContent {
  text?: unknown;
  /** The data of a card's button. */
  value?: { rouse?: unknown } | null;
  entities?: {
    type?: unknown;
    text?: unknown;
    locale?: unknown;
    mentioned?: { id?: unknown; name?: unknown };
    quotedReply?: { senderId?: unknown; senderName?: unknown; preview?: unknown };
  }[];
  attachments?: TeamsAttachment[];
}

type Node = Readonly<Record<string, unknown>>;
const isText = (value: unknown): value is string => typeof value === "string";

/** Adaptive cards, and the older kinds. */
const CARDS = {
  members: [
    "title",
    "subtitle",
    "activityTitle",
    "activitySubtitle",
    "activityText",
    "text",
    "altText",
    "body",
    "sections",
    "items",
    "columns",
    "rows",
    "cells",
    "inlines",
    "facts",
    "card",
    "buttons",
    "actions",
  ],
  leaf({ title, name = title, value, url, targets }: Node): string | undefined {
    const [target] = Array.isArray(targets) ? (targets as Node[]) : [];
    const address =
      url ?? target?.["uri"] ?? (/^https?:/.test(parseText(value) ?? "") ? value : undefined);
    if (isText(name) && isText(address)) return renderLink(name, address);
    return isText(name) && isText(value) ? `${name}: ${value}` : undefined;
  },
  isInline: ({ inlines }: Node) => inlines !== undefined,
};

const AUTHOR = /<(strong|span)\b[^>]{0,1000}?itemprop="mri"[^>]{0,1000}>([^]{0,1000}?)<\/\1>/;
const AUTHOR_ID = /itemprop="mri"[^>]{0,1000}?itemid="([^"]{0,200})"/;
const PREVIEW = /<p\b[^>]{0,1000}?itemprop="(?:preview|copy)"[^>]{0,1000}>([^]*?)(?:<\/p>|$)/;

/** A message that stands in the HTML. Of what is answered Teams has the author and the first words. */
function readQuote({ kind, html }: HtmlQuote): HeardPart {
  if (kind === "Forward") return { kind: "forwarded", text: toText(html) };
  const preview = PREVIEW.exec(html)?.[1];
  return {
    kind: "quoted",
    author: toText(AUTHOR.exec(html)?.[2] ?? ""),
    text: toText(preview ?? html),
  };
}

interface Reference {
  messagePreview?: unknown;
  messageSender?: { user?: { displayName?: unknown } };
  originalMessageContent?: unknown;
  originalMessageSender?: { user?: { displayName?: unknown } };
}

/** A message that an attachment refers to, or a card. Kinds without words are named. */
function readAttachment(attachment: TeamsAttachment): HeardPart[] {
  const { content } = attachment;
  const type = parseText(attachment.contentType) ?? "";
  const given = isText(content) ? parseObject(content) : content;
  if (type === "messageReference" || type === "forwardedMessageReference") {
    const { messagePreview, messageSender, originalMessageContent, originalMessageSender } =
      (given ?? {}) as Reference;
    return [
      {
        kind: type === "messageReference" ? "quoted" : "forwarded",
        author: parseText((messageSender ?? originalMessageSender)?.user?.displayName),
        text: toText(parseText(messagePreview ?? originalMessageContent) ?? ""),
      },
    ];
  }
  if (type === "text/html" || type === "" || readFiles([attachment]).length > 0) return [];
  return [{ kind: "embedded", text: renderTree(given, CARDS) || `[${type}]` }];
}

/** A person who is mentioned, in the text and in HTML. */
const MENTIONS = /<(at|span)\b([^>]{0,500})>([^<]{0,200})<\/\1>/gi;
/** Stands for a quoted message in the text. */
const PLACEHOLDER = /<quoted\b[^>]{0,200}>/g;

/** Replaces the people who are mentioned by what `rename` gives for their names. */
const replaceMentions = (said: string, rename: (name: string) => string): string =>
  said.replace(MENTIONS, (whole, tag: string, attributes: string, shown: string) =>
    tag.toLowerCase() === "at" || attributes.includes("schema.skype.com/Mention")
      ? rename(toText(shown))
      : whole,
  );

/**
 * Reads the words of a message without the mentions of the bot, whether it was mentioned or answered, and what came
 * along.
 */
export function readContent(
  { entities, attachments, text, value }: TeamsContent,
  bot: string,
): { mentioned: boolean; parts: HeardPart[] } {
  // A button of the bot's own card: whoever presses it speaks to the bot.
  const pressed = typeof value === "object" ? value?.rouse : undefined;
  if (typeof pressed === "string" && parseDecision(pressed))
    return { mentioned: true, parts: [{ kind: "own", text: pressed }] };
  const mentions = objectsIn(entities).filter(
    (entity) => entity.type === "mention" && entity.mentioned?.id === bot,
  );
  const html = objectsIn(attachments).find(
    ({ contentType }) => contentType === "text/html",
  )?.content;
  const { own, quotes } = takeQuotes(parseText(html) ?? "");
  // The text holds the words of what is answered or forwarded, and no addresses of links.
  const isRich =
    !parseText(text)?.trim() || quotes.length > 0 || hasQuotes(own) || /<a\s/i.test(own);
  // Teams leaves the text out if the name has an `&`.
  const names = mentions.map(({ text: mark, mentioned }) =>
    toText(parseText(mark) ?? parseText(mentioned?.name) ?? ""),
  );
  const said = replaceMentions(isRich ? own : (parseText(text) ?? ""), (name) =>
    names.includes(name) ? "" : renderMention(name, ""),
  );
  const replies = objectsIn(entities).flatMap(({ quotedReply }) => quotedReply ?? []);
  const answered = [
    ...quotes.map((quote) => AUTHOR_ID.exec(quote.html)?.[1]),
    ...replies.map(({ senderId }) => senderId),
  ];
  return {
    mentioned: mentions.length > 0 || answered.includes(bot),
    parts: [
      {
        // A form of quotes that is not known is nobody's own words.
        kind: hasQuotes(own) ? "forwarded" : "own",
        text: isRich ? toText(said) : said.replace(PLACEHOLDER, "").replaceAll("&nbsp;", " "),
      },
      ...quotes.map(readQuote),
      ...(quotes.length > 0 ? [] : replies).map(({ senderName, preview }): HeardPart => ({
        kind: "quoted",
        author: parseText(senderName),
        text: parseText(preview),
      })),
      ...objectsIn(attachments).flatMap(readAttachment),
      { kind: "file", files: readFiles(attachments) },
    ],
  };
}
