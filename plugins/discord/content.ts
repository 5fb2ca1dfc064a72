import {
  nestParts,
  objectsIn,
  renderCard,
  renderMention,
  renderTree,
  toPollPart,
  type HeardFile,
  type HeardPart,
} from "#channel-kit";

export interface DiscordUser {
  id: string;
  username?: string;
  global_name?: string | null;
  bot?: boolean;
  member?: { nick?: string | null };
}

/** A card of a program in a message, or the preview of a link. */
interface Embed {
  title?: string;
  url?: string;
  description?: string;
  author?: { name?: string };
  fields?: readonly { name?: string; value?: string }[];
  footer?: { text?: string };
  provider?: { name?: string };
}

/** The content of a message, its own or that of a forwarded one. */
export interface DiscordContent {
  content: string;
  mentions?: readonly DiscordUser[];
  attachments?: readonly { filename: string; url: string; content_type?: string; size?: number }[];
  embeds?: readonly Embed[];
  components?: unknown;
  sticker_items?: readonly { name?: string }[];
  poll?: {
    question?: { text?: string };
    answers?: readonly { poll_media?: { text?: string } }[];
  };
}

/** A message as the gateway gives it, as far as it is read here. */
export interface GatewayMessage extends DiscordContent {
  id: string;
  channel_id: string;
  guild_id?: string;
  /** The kind of the channel. */
  channel_type?: number;
  type: number;
  author: DiscordUser;
  member?: { nick?: string | null };
  webhook_id?: string;
  timestamp?: string;
  edited_timestamp?: string | null;
  mentions: readonly DiscordUser[];
  mention_roles?: readonly string[];
  /** The message that it answers: Discord sends one level. Null if that is gone. */
  referenced_message?: GatewayMessage | null;
  message_reference?: { message_id?: string; type?: number };
  /** The messages that it forwards. */
  message_snapshots?: readonly { message: DiscordContent }[];
}

/** The kind of a `message_reference` to what is answered; others are forwards. */
const ANSWERS = 0;

/** Texts, labels of buttons and fields, and what holds them. */
const COMPONENTS = { members: ["content", "label", "accessory", "components"] };

const readFiles = (attachments: DiscordContent["attachments"]): HeardFile[] =>
  objectsIn(attachments).map(({ filename: name, content_type: mime, size: bytes, url: ref }) => ({
    name,
    mime,
    bytes,
    ref,
  }));

export const toName = ({ username, global_name, member }: DiscordUser): string | undefined =>
  member?.nick || global_name || username;

/** An emoji of a server, and a time, as Discord writes them. */
const EMOJI = /<a?(:\w{2,32}:)\d{15,20}>/g;
const TIME = /<t:(-?\d{1,12})(?::[a-zA-Z])?>/g;

/** The text, with the names of people who are mentioned. What is in `own` goes: the marks of the bot. */
function readText({ content, mentions = [] }: DiscordContent, own: readonly string[]): string {
  const names = new Map(mentions.map((user) => [user.id, toName(user)]));
  return content
    .replace(/<@([!&]?)(\d+)>/g, (mark, sign: string, id: string) => {
      if (own.includes(`${sign === "&" ? "&" : ""}${id}`)) return "";
      return names.has(id) ? renderMention(names.get(id), id) : mark;
    })
    .replace(EMOJI, "$1")
    .replace(TIME, (_, seconds: string) => new Date(Number(seconds) * 1000).toISOString());
}

function readContent(content: DiscordContent, own: readonly string[] = []): HeardPart[] {
  const { embeds, attachments, components, sticker_items: stickers, poll } = content;
  return [
    { kind: "own", text: readText(content, own) },
    ...objectsIn(stickers).map(({ name }): HeardPart => ({
      kind: "own",
      text: `[sticker: ${name ?? ""}]`,
    })),
    toPollPart(
      poll && {
        question: poll.question?.text,
        options: poll.answers?.map((one) => one.poll_media?.text),
      },
    ),
    { kind: "embedded", text: renderTree(components, COMPONENTS) },
    ...objectsIn(embeds).map(
      ({ title, url, description: text, author, fields, footer, provider }): HeardPart => ({
        kind: "embedded",
        place: provider?.name,
        text: renderCard({
          author: author?.name,
          title,
          url,
          text,
          fields: objectsIn(fields).map(({ name, value }) => ({ title: name, value })),
          footer: footer?.text,
        }),
      }),
    ),
    { kind: "file", files: readFiles(attachments) },
  ];
}

/** The parts of a message that somebody wrote before. */
export const readWhole = (message: DiscordContent & Pick<GatewayMessage, "message_snapshots">) => [
  ...readContent(message),
  ...readShared(message),
];

/** The messages that a message forwards. Discord does not say who wrote them. */
const readShared = ({
  message_snapshots: snapshots,
}: Pick<GatewayMessage, "message_snapshots">): HeardPart[] =>
  objectsIn(snapshots).map(({ message }) => nestParts({ kind: "shared" }, readContent(message)));

/** The parts of a message for the bot; `own` are the marks by which it was mentioned. */
export function readParts(message: GatewayMessage, own: readonly string[]): HeardPart[] {
  const { referenced_message: answered, message_reference: reference } = message;
  const { message_id: id, type = ANSWERS } = reference ?? {};
  const quoted: HeardPart = answered
    ? nestParts(
        { kind: "quoted", author: toName(answered.author) ?? answered.author.id },
        readWhole(answered),
      )
    : { kind: "quoted", id: answered === undefined && type === ANSWERS ? id : undefined };
  return [...readContent(message, own), ...readShared(message), quoted];
}
