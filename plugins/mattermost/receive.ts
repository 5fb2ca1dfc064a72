import {
  ChannelError,
  checkpoint,
  followSocket,
  reconnectLoop,
  toEdit,
  toIncomingMessage,
  type Connection,
} from "#channel-kit";
import type { Channel, ChannelHost, ReceivedMessage } from "#plugin";
import { readParts, type PostContent } from "./content.ts";
import { createCall, VENDOR, type MattermostContext } from "./send.ts";

/** The server greets at once; a connection without its greeting carries nothing. */
const HELLO_MS = 20_000;
/** A connection on which nothing comes is asked, and given up if it stays silent. */
const PING_MS = 30_000;
/** The most that the saved place may lag behind while nothing is for the agent. */
const CURSOR_LAG_MS = 60_000;
const CALL_MS = 20_000;
/** The text of a message of which nothing can be read, such as a bare mention. */
const NO_TEXT = "[no text]";
/** Kinds of posts that a person wrote: the second is what `/me` makes. */
const WRITTEN_TYPES = ["", "me"];
const BROKEN = "mattermost sent what is not its format";

interface Post extends PostContent {
  id: string;
  channel_id: string;
  user_id: string;
  root_id?: string;
  message: string;
  type?: string;
  create_at: number;
  edit_at?: number;
  delete_at?: number;
}

interface Frame {
  event?: string;
  data?: {
    post?: string;
    channel_type?: string;
    channel_display_name?: string;
    sender_name?: string;
  };
  status?: string;
}

/** The channel of a post and its author's name, as far as the server sends them with it. */
interface ChannelInfo {
  /** `D` is the conversation of two, `G` a group of members, others are channels. */
  type: string | undefined;
  room?: string | undefined;
  /** The author, as `@name`. */
  sender?: string | undefined;
}

/** A text without its code, in which the server sees no mentions. */
const withoutCode = (text: string): string =>
  text.replace(/```[^]*?(?:```|$)/g, "").replace(/`[^`\n]*`/g, "");

/** A direct message or a mention, or why it is not for the agent; undefined for its own. */
function readPost(
  post: Post,
  place: ChannelInfo,
  self: { id: string; username: string },
): ReceivedMessage | undefined {
  const { id, user_id, channel_id, root_id, message, type = "", props = {}, delete_at = 0 } = post;
  if (user_id === self.id) return undefined;
  if (!WRITTEN_TYPES.includes(type))
    return {
      id,
      skipped: `a notice of the server (${/^\w{1,40}$/.exec(type)?.[0] ?? "unknown"}), not a post of a person`,
    };
  if (delete_at > 0) return { id, skipped: "the post was deleted before it was read" };
  if (String(props["from_bot"]) === "true" || String(props["from_webhook"]) === "true")
    return { id, skipped: "the post was written by a bot or a webhook" };
  const name = `@${self.username.replaceAll(".", "\\.")}(?![\\w-]|\\.\\w)`;
  const mentioned = new RegExp(`(?<![\\w@])${name}`, "i").test(withoutCode(message));
  const said = message.replace(new RegExp(`^\\s*${name}[\\s,:]*`, "i"), "");
  const direct = place.type === "D";
  // A mention is answered in a thread, so that the answer stays with it.
  const thread = root_id || (direct ? undefined : id);
  const room = direct
    ? undefined
    : { kind: place.type === "G" ? ("group" as const) : ("channel" as const), name: place.room };
  const sender = place.sender?.replace(/^@/, "");
  return toIncomingMessage({
    id,
    from: user_id,
    name: sender,
    to: channel_id,
    thread,
    direct,
    room,
    mentioned,
    parts: readParts({ ...post, message: said }),
    inThread: Boolean(root_id),
    noText: NO_TEXT,
  });
}

/** The place in the stream: when the last post was made, by the server's clock, and which one it was. */
function parseCursor(cursor: string | undefined): { at: number; id: string } | undefined {
  const found = /^(\d+):(\w*)$/.exec(cursor ?? "");
  return found ? { at: Number(found[1]), id: found[2] ?? "" } : undefined;
}

/** Posts come through a websocket; those of the time without one are asked for when it stands again. A test may wait less. */
export function createListener(
  context: MattermostContext,
  {
    helloMs = HELLO_MS,
    pingMs = PING_MS,
    stableMs,
  }: { helloMs?: number; pingMs?: number; stableMs?: number } = {},
): Required<Pick<Channel, "listen">> {
  const call = createCall(context);
  const get = async <T>(path: string, signal: AbortSignal): Promise<T> => {
    const answer = await call<T>(path, AbortSignal.any([signal, AbortSignal.timeout(CALL_MS)]));
    if (answer === undefined) throw new ChannelError(BROKEN);
    return answer;
  };

  /** One connection, from its start to its end. Throws where it does not come about. */
  const connect = async (signal: AbortSignal, host: ChannelHost): Promise<void> => {
    const self = await get<{ id: string; username: string }>("users/me", signal);
    let place = parseCursor(await host.cursor());
    const kept = checkpoint(host, CURSOR_LAG_MS);
    let known = false;

    const take = async (post: Post, context: ChannelInfo): Promise<void> => {
      if (post.id === place?.id) return;
      const message = readPost(post, context, self);
      if (message) await host.receive(message);
      if (post.create_at >= (place?.at ?? 0)) place = { at: post.create_at, id: post.id };
      await move(message !== undefined && !("skipped" in message));
    };
    const takeEdit = async (post: Post, context: ChannelInfo): Promise<void> => {
      const { id, edit_at = 0, create_at } = post;
      if (edit_at === 0 || post.user_id === self.id) return;
      // The server does not say with an edit where it was made.
      const place =
        context.type === undefined
          ? await get<{ type: string }>(`channels/${post.channel_id}`, signal)
          : context;
      const read = readPost(post, place, self);
      if (read) await host.receive(toEdit(read, `${id} ${edit_at}`, create_at));
    };
    const move = async (now: boolean): Promise<void> =>
      place && kept.move(`${place.at}:${place.id}`, now);

    /** Reads the posts since the last place. The very first start reads none, and saves the current place. */
    const catchUp = async (): Promise<void> => {
      const channels = await get<
        { id: string; type: string; display_name?: string; last_post_at: number }[]
      >(`users/${self.id}/channels`, signal);
      if (!place) {
        place = {
          at: Math.max(0, ...channels.map(({ last_post_at }) => last_post_at)) + 1,
          id: "",
        };
        return move(true);
      }
      const { at } = place;
      const missed: { post: Post; context: ChannelInfo }[] = [];
      for (const { id, type, display_name: room } of channels.filter(
        ({ last_post_at }) => last_post_at >= at,
      )) {
        // Later than this, by the server's reading.
        const { posts } = await get<{ posts: Record<string, Post> }>(
          `channels/${id}/posts?since=${at - 1}`,
          signal,
        );
        // The list holds older posts too, changed since.
        for (const post of Object.values(posts))
          if (post.create_at >= at) missed.push({ post, context: { type, room } });
      }
      for (const { post, context } of missed.toSorted(
        (a, b) => a.post.create_at - b.post.create_at,
      ))
        await take(post, context);
      await move(true);
    };

    const socket = {
      name: VENDOR.name,
      url: `${context.config.url.replace(/^http/, "ws")}/api/v4/websocket`,
      helloMs,
      pingMs,
      hello: { action: "authentication_challenge", data: { token: context.config.token } },
      ping: { action: "ping" },
      read(frame: unknown, { greeted, inOrder, fail }: Connection): void {
        const { event, status, data = {} } = frame as Frame;
        if (status === "FAIL") return fail(new ChannelError("mattermost refused the token"));
        if (event === "hello" && !known) {
          known = true;
          greeted();
          // Asks for posts that waited when a connection ended, before any later post is taken.
          inOrder(catchUp);
          inOrder(() => host.report({ ok: true, message: "connected" }));
        }
        if (data.post === undefined) return;
        const post = JSON.parse(data.post) as Post;
        const place = {
          type: data.channel_type,
          room: data.channel_display_name,
          sender: data.sender_name,
        };
        if (event === "posted") inOrder(() => take(post, place));
        if (event === "post_edited") inOrder(() => takeEdit(post, place));
      },
    };
    await followSocket(socket, signal);
  };

  return {
    listen: (signal, host) =>
      reconnectLoop(signal, host, {
        connect: (to) => connect(signal, to),
        vendor: VENDOR,
        stableMs,
      }),
  };
}
