import {
  nestParts,
  objectsIn,
  renderCard,
  renderLink,
  renderMention,
  renderTree,
  type HeardFile,
  type HeardPart,
} from "#channel-kit";

/** A file, as events carry it. */
export interface SlackFile {
  id?: string;
  name?: string;
  mimetype?: string;
  size?: number;
  mode?: string;
  url_private?: string;
  url_private_download?: string;
}

/** The files of a message. Of one in a shared channel only the id is there. */
const readFiles = (files: readonly SlackFile[] | undefined): HeardFile[] =>
  objectsIn(files)
    .filter(({ mode }) => mode !== "tombstone" && mode !== "hidden_by_limit")
    .map(
      ({
        id,
        name,
        mimetype: mime,
        size: bytes,
        url_private_download: download,
        url_private: address,
      }) => ({
        name,
        mime,
        bytes,
        ref: download ?? address ?? (id === undefined ? undefined : `id:${id}`),
      }),
    );

/** A card of a program in a message, or a message that was shared into it. */
export interface SlackAttachment {
  is_msg_unfurl?: boolean;
  is_share?: boolean;
  author_name?: string;
  author_id?: string;
  channel_name?: string;
  service_name?: string;
  pretext?: string;
  title?: string;
  title_link?: string;
  text?: string;
  fields?: readonly { title?: string; value?: string }[];
  footer?: string;
  fallback?: string;
  blocks?: unknown;
  files?: readonly SlackFile[];
  /** The message that was shared. */
  message_blocks?: readonly { message?: SlackContent }[];
}

/** The content of a message, wherever it is read. */
export interface SlackContent {
  text?: string;
  blocks?: unknown;
  attachments?: readonly SlackAttachment[];
  files?: readonly SlackFile[];
  /** Set on messages of apps. */
  bot_id?: string;
}

/** Texts that Slack writes for programs that show no blocks, if an app gives none. */
const STAND_INS: readonly unknown[] = [
  "[no preview available]",
  "This content can't be displayed.",
];
const getText = (text: unknown): string =>
  typeof text !== "string" || STAND_INS.includes(text) ? "" : text;

type Block = Readonly<Record<string, unknown>>;

const escape = (text: unknown): string =>
  (typeof text === "string" ? text : "")
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;");
const textIn = (value: unknown): string => {
  const { text } = (typeof value === "object" && value !== null ? value : {}) as Block;
  return typeof text === "string" ? text : "";
};

/** The elements of blocks that say more than their members. Their text is in Slack's marks, as that of messages. */
const LEAVES: Readonly<Record<string, (block: Block) => string>> = {
  text: ({ text }) => escape(text),
  link: ({ text, url }) => escape(renderLink(text as string, url as string)),
  user: ({ user_id: id }) => `<@${String(id)}>`,
  channel: ({ channel_id: id }) => `<#${String(id)}>`,
  usergroup: ({ usergroup_id: id }) => `<!subteam^${String(id)}>`,
  broadcast: ({ range }) => `<!${String(range)}>`,
  emoji: ({ name }) => `:${String(name)}:`,
  date: ({ fallback }) => escape(fallback),
  button: ({ text, url }) => renderLink(textIn(text), url as string),
  image: ({ alt_text: alt, image_url: url, title }) =>
    renderLink(textIn(title) || (alt as string), url as string),
};
const INLINE = ["rich_text_section", "rich_text_preformatted", "rich_text_quote"];
const BLOCKS = {
  members: [
    "title",
    "label",
    "text",
    "description",
    "fields",
    "elements",
    "element",
    "accessory",
    "rows",
    "title_url",
  ],
  leaf: (block: Block) => LEAVES[String(block["type"])]?.(block),
  isInline: ({ type }: Block) => INLINE.includes(String(type)),
};

/** Slack's marks as people read them; the agent's own name goes. */
export function readMarks(text: string, self?: string): string {
  return text
    .replace(
      /<([@#!]?)([^<>|]*)(?:\|([^<>]*))?>/g,
      (_, sign: string, target: string, label?: string) => {
        if (sign === "@") return target === self ? "" : renderMention(label, target);
        if (sign === "#") return `#${label || target}`;
        if (sign === "!") return label || `@${target}`;
        return renderLink(label, target);
      },
    )
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&amp;", "&")
    .trim();
}

function readAttachment(attachment: SlackAttachment): HeardPart {
  const { is_msg_unfurl: unfurled, is_share: shared, message_blocks, files } = attachment;
  const { pretext, author_name, title, title_link: url, fields, footer } = attachment;
  const blocks = renderTree(attachment.blocks, BLOCKS);
  const text = [attachment.text, blocks].filter(Boolean).join("\n");
  const fallback = getText(attachment.fallback);
  if (unfurled === true || shared === true) {
    const messages = text === "" ? objectsIn(message_blocks) : [];
    const inner = messages.flatMap(({ message }) => readParts(message ?? {}));
    const words = { pretext, title, url, text, fields, ...(messages.length === 0 && { fallback }) };
    const about = {
      kind: "shared" as const,
      author: author_name ?? attachment.author_id,
      place: attachment.channel_name ?? footer,
    };
    return nestParts(about, [
      { kind: "own", text: readMarks(renderCard(words)) },
      ...inner,
      { kind: "file", files: readFiles(files) },
    ]);
  }
  const card = { pretext, author: author_name, title, url, text, fields, footer, fallback };
  return {
    kind: "embedded",
    place: attachment.service_name,
    text: readMarks(renderCard(card)),
    files: readFiles(files),
  };
}

/** The words of a message in Slack's marks. Apps write what they show into blocks, and into the text what stands for it. */
export function getWords({ text, blocks, bot_id: app }: SlackContent): string {
  const [said, shown] = [getText(text), renderTree(blocks, BLOCKS)];
  return app === undefined ? said || shown : shown || said;
}

/** The parts of a message. */
export const readParts = (content: SlackContent, self?: string): HeardPart[] => [
  { kind: "own", text: readMarks(getWords(content), self) },
  ...objectsIn(content.attachments).map(readAttachment),
  { kind: "file", files: readFiles(content.files) },
];
