import type { Chat, Message, MessageEntity, MessageOrigin, User } from "grammy/types";
import {
  nestParts,
  renderCard,
  renderLink,
  renderTree,
  toContactPart,
  toPlacePart,
  toPollPart,
  type HeardPart,
} from "#channel-kit";
import { readFiles } from "./files.ts";

/** The content that a message shares with one that it answers in another chat. */
type Content = Partial<
  Pick<
    Message,
    | "contact"
    | "venue"
    | "location"
    | "poll"
    | "checklist"
    | "game"
    | "invoice"
    | "story"
    | "sticker"
    | "dice"
  >
>;

export const toName = (user: User): string =>
  [user.first_name, user.last_name].filter(Boolean).join(" ");
const toTitle = (chat: Chat | undefined): string | undefined =>
  chat && (chat.title ?? chat.first_name ?? chat.username);

/** The currencies of https://core.telegram.org/bots/payments that have other than two decimals; XTR are stars. */
const NO_DECIMALS = /^(?:BYR|CLP|ISK|JPY|KRW|PYG|UGX|VND|XTR)$/;
const THREE_DECIMALS = /^(?:BHD|IQD)$/;

/** Renders an amount of a currency's smallest unit, as Telegram sends it. */
function renderAmount(amount: number, currency: string): string {
  const decimals = NO_DECIMALS.test(currency) ? 0 : THREE_DECIMALS.test(currency) ? 3 : 2;
  return `${(amount / 10 ** decimals).toFixed(decimals)} ${currency}`;
}

/** A text with the addresses behind its words. */
function withLinks(text: string, entities: readonly MessageEntity[] = []): string {
  let said = text;
  // From the end, so that the places of the others stay.
  for (const entity of entities.toSorted((a, b) => b.offset - a.offset)) {
    if (entity.type !== "text_link") continue;
    const { offset, length, url } = entity;
    const words = said.slice(offset, offset + length);
    said = said.slice(0, offset) + renderLink(words, url) + said.slice(offset + length);
  }
  return said;
}

const RICH = {
  members: ["text", "summary", "items", "blocks", "cells", "caption", "credit"],
  leaf: ({ type, text, url }: Readonly<Record<string, unknown>>) =>
    type === "url" && typeof url === "string" && typeof text === "string"
      ? renderLink(text, url)
      : undefined,
  // The text of a block is a list of its pieces.
  isInline: ({ text }: Readonly<Record<string, unknown>>) => Array.isArray(text),
};

/** Reads the content that is neither text nor a file. */
function readKinds(content: Content): HeardPart[] {
  const { contact, venue, location, poll, checklist, game, invoice, story, sticker, dice } =
    content;
  const place = venue ? { ...venue.location, name: venue.title, address: venue.address } : location;
  const tasks = checklist?.tasks.map(
    ({ text, completion_date: done }) => `- [${done ? "x" : " "}] ${text}`,
  );
  return [
    toPlacePart(place),
    toContactPart(
      contact && {
        name: [contact.first_name, contact.last_name].filter(Boolean).join(" "),
        reach: [contact.phone_number],
      },
    ),
    toPollPart(poll && { ...poll, options: poll.options.map(({ text }) => text) }),
    {
      kind: "own",
      text: checklist && ["[checklist]", checklist.title, ...(tasks ?? [])].join("\n"),
    },
    { kind: "own", text: sticker && `[sticker ${sticker.emoji ?? ""}]` },
    { kind: "own", text: dice && `[dice ${dice.emoji} ${dice.value}]` },
    {
      kind: "embedded",
      text: game && `[game] ${renderCard({ ...game, text: game.text ?? game.description })}`,
    },
    {
      kind: "embedded",
      text:
        invoice &&
        `[invoice] ${renderCard({
          title: invoice.title,
          text: invoice.description,
          footer: renderAmount(invoice.total_amount, invoice.currency),
        })}`,
    },
    { kind: "shared", place: toTitle(story?.chat), text: story && "[story]" },
  ];
}

/** Reads the author of a forwarded message, and its place. */
function readOrigin(origin: MessageOrigin): Pick<HeardPart, "author" | "place"> {
  switch (origin.type) {
    case "user":
      return { author: toName(origin.sender_user) };
    case "hidden_user":
      return { author: origin.sender_user_name };
    case "chat":
      return { author: origin.author_signature, place: toTitle(origin.sender_chat) };
    case "channel":
      return { author: origin.author_signature, place: toTitle(origin.chat) };
  }
}

/** The message or story that a message answers. With a quote, its text is the part that was quoted. */
function readQuoted(message: Message): HeardPart[] {
  const { quote, reply_to_message: answered, external_reply: other, reply_to_story } = message;
  const part: HeardPart = { kind: "own", text: quote && withLinks(quote.text, quote.entities) };
  const story: HeardPart = {
    kind: "quoted",
    place: toTitle(reply_to_story?.chat),
    text: reply_to_story && "[story]",
  };
  if (answered) {
    const { from, sender_chat } = answered;
    const said = quote
      ? [part, { kind: "file" as const, files: readFiles(answered) }]
      : readParts(answered);
    const author = toTitle(sender_chat) ?? (from && toName(from));
    return [nestParts({ kind: "quoted", author }, said), story];
  }
  if (!other) return [nestParts({ kind: "quoted" }, [part]), story];
  const about = { place: toTitle(other.chat), ...readOrigin(other.origin) };
  const files: HeardPart = { kind: "file", files: readFiles(other) };
  return [nestParts({ kind: "quoted", ...about }, [part, ...readKinds(other), files]), story];
}

/** A start from a link brings what the link says of itself. */
const START = /^\/start(?:@\w+)? [\w-]{1,64}$/;

/** The parts of a message. Of one that was passed on, or written by a bot for its sender, nothing is the sender's own. */
export function readParts(message: Message): HeardPart[] {
  const { text, caption, entities, caption_entities, rich_message, via_bot, forward_origin } =
    message;
  const said: HeardPart[] = [
    {
      kind: "own",
      text: START.test(text ?? "")
        ? "/start"
        : withLinks(text ?? caption ?? "", entities ?? caption_entities),
    },
    { kind: "own", text: renderTree(rich_message?.blocks, RICH) },
    ...readKinds(message),
    { kind: "file", files: readFiles(message) },
  ];
  // Bot API servers of before version 7.0 say no more than that, in members that are gone since.
  const isForward = forward_origin !== undefined || "forward_date" in message;
  const others: Pick<HeardPart, "kind" | "author" | "place"> | undefined = isForward
    ? { kind: "forwarded", ...(forward_origin && readOrigin(forward_origin)) }
    : via_bot && { kind: "embedded", author: `@${via_bot.username}` };
  return [...(others ? [nestParts(others, said)] : said), ...readQuoted(message)];
}
