import {
  objectsIn,
  renderCard,
  renderMention,
  toContactPart,
  toPollPart,
  type HeardPart,
} from "#channel-kit";
import { readFiles, type SignalFile } from "./files.ts";

export interface Party {
  number?: string | null | undefined;
  uuid?: string | null | undefined;
}

type Mentions = readonly (Party & { name?: string | null; start?: number; length?: number })[];

/** The quoted message. */
interface SignalQuote {
  authorNumber?: string | null;
  authorUuid?: string | null;
  text?: string | null;
  mentions?: Mentions;
  attachments?: readonly {
    contentType?: string | null;
    filename?: string | null;
    thumbnail?: SignalFile | null;
  }[];
}

/** The card of a person that was sent on. */
interface SharedContact {
  name?: { display?: string | null; given?: string | null; family?: string | null };
  organization?: string | null;
  phone?: readonly { value?: string }[];
  email?: readonly { value?: string }[];
}

/** The content of a message. */
export interface SignalContent {
  message?: string | null;
  mentions?: Mentions;
  quote?: SignalQuote;
  attachments?: readonly SignalFile[];
  contacts?: readonly SharedContact[];
  /** Previews of links. */
  previews?: readonly { url?: string; title?: string; description?: string }[];
  pollCreate?: { question?: string; options?: readonly string[] };
  sticker?: object;
}

/** A text with a name in the place of each mention, which Signal leaves empty; the agent's own goes. */
function withNames(
  text: string | null | undefined,
  mentions: Mentions = [],
  isSelf: (party: Party) => boolean,
): string {
  let said = text ?? "";
  for (const mention of mentions.toSorted((a, b) => (b.start ?? 0) - (a.start ?? 0))) {
    const { start = 0, length = 1, name, number, uuid } = mention;
    // The daemon gives the number as the name of a person whom it does not know.
    const known = name === number ? undefined : name;
    const shown = isSelf(mention) ? "" : renderMention(known, number ?? uuid ?? "");
    said = said.slice(0, start) + shown + said.slice(start + length);
  }
  return said;
}

/**
 * The message that a message quotes. Of its files Signal sends a thumbnail at most, which is an image; the others are only
 * named.
 */
function readQuoted({ quote }: SignalContent, to: string): HeardPart[] {
  if (!quote) return [];
  const { authorNumber, authorUuid, text, mentions, attachments = [] } = quote;
  const files = attachments.flatMap(({ contentType, filename, thumbnail }) =>
    contentType?.startsWith("image/") === true && thumbnail?.id !== undefined
      ? readFiles([{ ...thumbnail, filename: filename ?? null }], to)
      : [{ name: filename || contentType }],
  );
  const said = withNames(text, mentions, () => false);
  return [{ kind: "quoted", author: authorNumber ?? authorUuid, text: said, files }];
}

/** The parts of a message. Signal does not say which was forwarded. */
export function readParts(
  content: SignalContent,
  { to, isSelf }: { to: string; isSelf(party: Party): boolean },
): HeardPart[] {
  const { message, mentions, attachments, contacts, previews, pollCreate, sticker } = content;
  return [
    { kind: "own", text: withNames(message, mentions, isSelf) },
    { kind: "own", text: sticker && "[sticker]" },
    toPollPart(pollCreate),
    ...objectsIn(contacts).map(({ name, organization, phone, email }) =>
      toContactPart({
        name: name?.display || [name?.given, name?.family].filter(Boolean).join(" "),
        organization,
        reach: [...objectsIn(phone), ...objectsIn(email)].map(({ value }) => value),
      }),
    ),
    ...objectsIn(previews).map(({ url, title, description: text }): HeardPart => ({
      kind: "embedded",
      text: renderCard({ title, url, text }),
    })),
    { kind: "file", files: readFiles(attachments, to) },
    ...readQuoted(content, to),
  ];
}
