import { createFetchFile, openDownload, toEarlierMessage } from "#channel-kit";
import type { Channel, ThreadMessage } from "#plugin";
import { readParts, type PostContent } from "./content.ts";
import { createCall, readPostKey, VENDOR, type MattermostContext } from "./send.ts";

interface ListedPost extends PostContent {
  id: string;
  user_id: string;
  create_at: number;
  type?: string;
  delete_at?: number;
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
      return wanted.map((post): ThreadMessage => {
        // A webhook posts as whoever made it, under a name of its own.
        const shown = post.props?.["override_username"];
        const name = typeof shown === "string" ? shown : names.get(post.user_id);
        return {
          text: "",
          ...toEarlierMessage(name ?? post.user_id, readParts(post)),
          id: post.id,
          at: post.create_at,
          idempotencyKey: readPostKey(post),
        };
      });
    },
  };
}
