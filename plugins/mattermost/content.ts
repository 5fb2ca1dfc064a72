import { nestParts, objectsIn, renderCard, type HeardFile, type HeardPart } from "#channel-kit";

/** A file of a post. */
export interface PostFile {
  id?: string;
  name?: string;
  mime_type?: string;
  size?: number;
}

/** A card of a program in a post. */
interface PostAttachment {
  pretext?: string;
  author_name?: string;
  title?: string;
  title_link?: string;
  text?: string;
  fields?: readonly { title?: string; value?: unknown }[] | null;
  footer?: string;
  fallback?: string;
}

/** The preview of a link, or the linked post, which the server shows below a post. */
interface PostEmbed {
  type?: string;
  url?: string;
  data?: {
    title?: string;
    description?: string;
    site_name?: string;
    post?: PostContent & { user_id?: string };
    channel_display_name?: string;
  };
}

/** The content of a post, wherever it is read. */
export interface PostContent {
  message?: string;
  props?: Record<string, unknown>;
  metadata?: { files?: readonly PostFile[]; embeds?: readonly PostEmbed[] };
}

const readFiles = (files: readonly PostFile[] = []): HeardFile[] =>
  files.map(({ id: ref, name, mime_type: mime, size: bytes }) => ({ name, mime, bytes, ref }));

function readAttachment(attachment: PostAttachment): HeardPart {
  const { author_name: author, title_link: url, fields, ...card } = attachment;
  const values = objectsIn(fields ?? []).map(({ title, value }) => ({
    title,
    value: typeof value === "string" ? value : JSON.stringify(value),
  }));
  return { kind: "embedded", text: renderCard({ ...card, author, url, fields: values }) };
}

function readEmbed({ type, url, data = {} }: PostEmbed): HeardPart[] {
  const { post, channel_display_name: place, title, description: text, site_name } = data;
  if (type === "permalink" && post)
    return [nestParts({ kind: "shared", author: post.user_id, place }, readParts(post))];
  if (type !== "opengraph") return [];
  return [{ kind: "embedded", place: site_name, text: renderCard({ title, url, text }) }];
}

/** The parts of a post. */
export function readParts({ message, props = {}, metadata = {} }: PostContent): HeardPart[] {
  return [
    { kind: "own", text: message },
    ...objectsIn(props["attachments"] as PostAttachment[] | undefined).map(readAttachment),
    ...objectsIn(metadata.embeds).flatMap(readEmbed),
    { kind: "file", files: readFiles(metadata.files) },
  ];
}
