import {
  createFetchFile,
  openDownload,
  toAttachments,
  toEarlierMessage,
  type HeardFile,
} from "#channel-kit";
import type { Channel, EarlierMessage, ThreadMessage } from "#plugin";
import { createCall, readPostKey, VENDOR, type MattermostContext } from "./send.ts";

/** A file of a post. */
export interface PostFile {
  id?: string;
  name?: string;
  mime_type?: string;
  size?: number;
}

/** What the server shows below a post; a link to another post brings that post along. */
export interface PostEmbed {
  type?: string;
  data?: {
    post?: { message?: string; user_id?: string; metadata?: { files?: readonly PostFile[] } };
  };
}

interface ListedPost {
  id: string;
  user_id: string;
  message: string;
  create_at: number;
  type?: string;
  delete_at?: number;
  props?: Record<string, unknown>;
  metadata?: { files?: readonly PostFile[] };
}

export const readFiles = (files: readonly PostFile[] = []): HeardFile[] =>
  files.map(({ id: ref, name, mime_type: mime, size: bytes }) => ({ name, mime, bytes, ref }));

/** The post that a post links to. */
export function readQuoted(embeds: readonly PostEmbed[] = []): EarlierMessage | undefined {
  const linked = embeds.find(({ type }) => type === "permalink")?.data?.post;
  return (
    linked && toEarlierMessage(linked.user_id, linked.message, readFiles(linked.metadata?.files))
  );
}

/** Opens files, and lists the posts of threads. */
export function createContentReader(
  context: MattermostContext,
): Required<Pick<Channel, "fetchFile" | "listThread">> {
  const { config, fetch } = context;
  const call = createCall(context);
  return {
    fetchFile: createFetchFile(VENDOR, async ({ ref }, signal) => {
      const url = new URL(`${config.url}/api/v4/files/${encodeURIComponent(ref)}`);
      const headers = { authorization: `Bearer ${config.token}` };
      return (await openDownload(url, { fetch, vendor: VENDOR, headers, signal })).body;
    }),
    async listThread({ thread, before, limit }, signal) {
      const listed = await call<{ posts?: Record<string, ListedPost> }>(
        `posts/${encodeURIComponent(thread)}/thread`,
        signal,
      );
      const posts = Object.values(listed?.posts ?? {}).toSorted(
        (a, b) => a.create_at - b.create_at,
      );
      const at = posts.find(({ id }) => id === before)?.create_at ?? Infinity;
      const earlier = posts.filter(({ id, create_at, type = "", delete_at = 0 }) => {
        return id !== before && create_at <= at && type === "" && delete_at === 0;
      });
      const wanted = earlier.slice(-limit);
      const ids = [...new Set(wanted.map(({ user_id }) => user_id))];
      const users =
        ids.length === 0
          ? []
          : ((await call<{ id: string; username: string }[]>("users/ids", signal, ids)) ?? []);
      const names = new Map(users.map(({ id, username }) => [id, username]));
      return wanted.map((post): ThreadMessage => ({
        id: post.id,
        at: post.create_at,
        idempotencyKey: readPostKey(post),
        author: names.get(post.user_id) ?? post.user_id,
        text: post.message,
        attachments: toAttachments(readFiles(post.metadata?.files)),
      }));
    },
  };
}
