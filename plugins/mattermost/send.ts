import {
  ChannelError,
  conversations,
  createRest,
  ignoreGone,
  lookAfterCrash,
  retryIdempotent,
  sendAfter,
  sentResult,
  vendorChannel,
  type ErrorRules,
} from "#channel-kit";
import type { Channel, OutgoingMessage, PluginContext, SendResult, OutgoingFile } from "#plugin";
import { toMattermost } from "./format.ts";

/** Uploads a file. One that no post names is shown to nobody, so that an upload may be repeated. */
async function uploadFile(
  call: ReturnType<typeof createRest>,
  { name, mediaType, data }: OutgoingFile,
  channel: string,
  signal: AbortSignal,
): Promise<string> {
  const form = new FormData();
  form.append("channel_id", channel);
  form.append("files", new Blob([data], { type: mediaType }), name);
  const answer = await call<{ file_infos?: { id?: string }[] }>("files", signal, form);
  const id = answer?.file_infos?.[0]?.id;
  if (id === undefined)
    throw new ChannelError({ status: "failed", reason: "mattermost gave no id of the file" });
  return id;
}

/** A post, as far as it is looked for. */
interface Post {
  id?: string;
  props?: Record<string, unknown>;
}

/** The context that the parts of the plugin share. */
export type MattermostContext = Pick<
  PluginContext<{ url: string; token: string }>,
  "config" | "fetch"
>;

/** Reasons hold the status and the server's error id, never its text. */
export const VENDOR: ErrorRules = {
  name: "mattermost",
  defaultWaitMs: 1_000,
  errors: {
    // The answer to a repeat while the first request is still being worked on.
    "api.post.deduplicate_create_post.pending": { status: "unknown" },
  },
};

/**
 * The server knows a `pending_post_id` for 30 seconds. Within these an attempt of which nobody knows how it ended is made
 * again with the same id, which posts nothing twice; after them it would.
 */
const ATTEMPTS = 3;
const ATTEMPT_MS = 8_000;
const PAUSE_MS = 500;
/** By how much the clocks of the server and of this machine may differ. */
const SKEW_MS = 60_000;
/** The server lists so many of the posts since a time, and not the rest. */
const MAX_LISTED = 1_000;
/** Mattermost's apps show for 5 seconds that somebody is typing, unless the server is set up otherwise. */
const TYPING_MS = 4_000;
/** A server that limits calls takes 10 a second by default, for all that the bot does. */
const EDIT_MS = 2_000;
/** The property by which a post is found again. */
const KEY = "rouse_key";

/** Reads the key that a post was made with; undefined if the gateway did not make it. */
export function readPostKey({ props }: { props?: Record<string, unknown> }): string | undefined {
  const key = props?.[KEY];
  return typeof key === "string" ? key : undefined;
}

/** Calls of the REST API. */
export function createCall({ config, fetch }: MattermostContext): ReturnType<typeof createRest> {
  return createRest({
    ...VENDOR,
    fetch,
    base: `${config.url}/api/v4`,
    headers: { authorization: `Bearer ${config.token}` },
    read(body, { headers }) {
      // Seconds to wait, as in `Retry-After`.
      const seconds = Number(headers.get("x-ratelimit-reset") ?? 0);
      return { code: (body as { id?: unknown }).id, afterMs: Math.max(0, seconds * 1000) };
    },
  });
}

/** Sends by the REST API; a test may wait less for an answer. */
export function createChannel(context: MattermostContext, attemptMs = ATTEMPT_MS): Channel {
  const call = createCall(context);
  const callForId = async (path: string, signal: AbortSignal, body?: object): Promise<string> => {
    const answer = await call<{ id: string }>(path, signal, body);
    if (answer === undefined) throw new Error("no JSON");
    return answer.id;
  };
  const conversation = conversations(async (user, signal) =>
    callForId("channels/direct", signal, [await callForId("users/me", signal), user]),
  );
  type Piece = Pick<OutgoingMessage, "thread" | "idempotencyKey">;
  const post = (
    { thread, idempotencyKey }: Piece,
    channel: string,
    content: object,
    signal: AbortSignal,
  ): Promise<SendResult> => {
    const about = {
      channel_id: channel,
      pending_post_id: `rouse:${idempotencyKey}`,
      ...(thread !== undefined && { root_id: thread }),
    };
    const body = { ...about, ...content, props: { [KEY]: idempotencyKey } };
    return retryIdempotent(VENDOR, signal, { tries: ATTEMPTS, pauseMs: PAUSE_MS }, async () =>
      sentResult(
        await callForId("posts", AbortSignal.any([signal, AbortSignal.timeout(attemptMs)]), body),
      ),
    );
  };
  return vendorChannel({
    vendor: VENDOR,
    async find({ to }, signal) {
      const named = to.startsWith("@");
      return conversation(
        named ? `user:${await callForId(`users/username/${to.slice(1)}`, signal)}` : to,
        signal,
      );
    },
    post: (message, channel, signal) =>
      post(message, channel, { message: toMattermost(message.text) }, signal),
    async repost(message, channel, since, signal) {
      const seen = await lookAfterCrash(
        VENDOR,
        signal,
        { looks: 2, pauseMs: PAUSE_MS, again: true },
        async () => {
          const found = await call<{ posts?: Record<string, Post> }>(
            `channels/${channel}/posts?since=${since - SKEW_MS}`,
            signal,
          );
          const posts = Object.values(found?.posts ?? {});
          const id = posts.find((one) => readPostKey(one) === message.idempotencyKey)?.id;
          if (id === undefined && posts.length >= MAX_LISTED)
            throw new ChannelError({ status: "failed", reason: "mattermost lists no more posts" });
          return id === undefined ? undefined : sentResult(id);
        },
      );
      return seen ?? post(message, channel, { message: toMattermost(message.text) }, signal);
    },
    postFile: (file, channel, signal) =>
      sendAfter(
        VENDOR,
        () => uploadFile(call, file, channel, signal),
        (id) => post(file, channel, { message: "", file_ids: [id] }, signal),
      ),
    streaming: {
      everyMs: EDIT_MS,
      edit: ({ messageId, text }, _, signal) =>
        call(`posts/${messageId}/patch`, signal, { message: toMattermost(text) }, {}, "PUT"),
      remove: ({ messageId }, _, signal) =>
        call(`posts/${messageId}`, signal, undefined, {}, "DELETE").catch(ignoreGone),
    },
    typing: {
      everyMs: TYPING_MS,
      show: ({ thread }, channel, signal) =>
        call("users/me/typing", signal, {
          channel_id: channel,
          ...(thread !== undefined && { parent_id: thread }),
        }),
    },
    check: (signal) => callForId("users/me", signal),
  });
}
