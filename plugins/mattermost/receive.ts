import { followSocket, heard, keepPlace, stayConnected, Trouble, type Channel, type ChannelHost, type Link } from "#plugin";
import { createCall, VENDOR, type MattermostContext } from "./send.ts";

/** The server greets at once; a connection without its greeting carries nothing. */
const HELLO_MS = 20_000;
/** A connection on which nothing comes is asked, and given up if it stays silent. */
const PING_MS = 30_000;
/** How far the saved place may lag behind while nothing is for the agent. */
const CURSOR_LAG_MS = 60_000;
const CALL_MS = 20_000;
/** What stands for a message of which nothing can be read, as a bare mention. */
const NO_TEXT = "[no text]";
const BROKEN = "mattermost sent what is not its format";

interface Post {
  id: string;
  channel_id: string;
  user_id: string;
  root_id?: string;
  message: string;
  type?: string;
  create_at: number;
  delete_at?: number;
  props?: Record<string, unknown>;
  metadata?: { files?: { name?: string }[] };
}

interface Frame {
  event?: string;
  data?: { post?: string; channel_type?: string };
  status?: string;
  seq_reply?: number;
}

/** A direct message or a mention, or nothing where it is neither or a bot wrote it. */
function readPost(post: Post, direct: boolean, self: { id: string; username: string }) {
  const { id, user_id, channel_id, root_id, message, type = "", props = {}, delete_at = 0 } = post;
  if (user_id === self.id || type !== "" || delete_at > 0) return undefined;
  if (String(props["from_bot"]) === "true" || String(props["from_webhook"]) === "true") return undefined;
  const name = `@${self.username.replaceAll(".", "\\.")}(?![\\w-]|\\.\\w)`;
  const called = new RegExp(`(?<![\\w@])${name}`, "i").test(message);
  const text = message.replace(new RegExp(`^\\s*${name}[\\s,:]*`, "i"), "");
  // A mention is answered in a thread, so that the answer stays with it.
  const thread = root_id || (direct ? undefined : id);
  return heard({ id, from: user_id, to: channel_id, thread, direct, called, text, files: post.metadata?.files, noText: NO_TEXT });
}

/** The place in the stream: when the last post was made, by the server's clock, and which one it was. */
function parseCursor(cursor: string | undefined): { at: number; id: string } | undefined {
  const found = /^(\d+):(\w*)$/.exec(cursor ?? "");
  return found ? { at: Number(found[1]), id: found[2] ?? "" } : undefined;
}

/** Posts come through a websocket; those of the time without one are asked for when it stands again. A test may wait less. */
export function createListener(
  context: MattermostContext,
  { helloMs = HELLO_MS, pingMs = PING_MS, stableMs }: { helloMs?: number; pingMs?: number; stableMs?: number } = {},
): Required<Pick<Channel, "listen">> {
  const call = createCall(context);
  const get = async <T>(path: string, signal: AbortSignal): Promise<T> => {
    const answer = await call<T>(path, AbortSignal.any([signal, AbortSignal.timeout(CALL_MS)]));
    if (answer === undefined) throw new Trouble(BROKEN);
    return answer;
  };

  /** One connection, from its start to its end. Throws where it does not come about. */
  const connect = async (signal: AbortSignal, host: ChannelHost): Promise<void> => {
    const self = await get<{ id: string; username: string }>("users/me", signal);
    let place = parseCursor(await host.cursor());
    const kept = keepPlace(host, CURSOR_LAG_MS);
    let known = false;

    const take = async (post: Post, direct: boolean): Promise<void> => {
      if (post.id === place?.id) return;
      const message = readPost(post, direct, self);
      if (message) await host.receive(message);
      if (post.create_at >= (place?.at ?? 0)) place = { at: post.create_at, id: post.id };
      await move(message !== undefined);
    };
    const move = async (now: boolean): Promise<void> => place && kept.move(`${place.at}:${place.id}`, now);

    /** What was written since the last place; at the very first start nothing is, and the place is now. */
    const catchUp = async (): Promise<void> => {
      const channels = await get<{ id: string; type: string; last_post_at: number }[]>(`users/${self.id}/channels`, signal);
      if (!place) {
        place = { at: Math.max(0, ...channels.map(({ last_post_at }) => last_post_at)) + 1, id: "" };
        return move(true);
      }
      const { at } = place;
      const missed: { post: Post; direct: boolean }[] = [];
      for (const { id, type } of channels.filter(({ last_post_at }) => last_post_at >= at)) {
        // Later than this, by the server's reading.
        const { posts } = await get<{ posts: Record<string, Post> }>(`channels/${id}/posts?since=${at - 1}`, signal);
        // The list holds older posts too, changed since.
        for (const post of Object.values(posts)) if (post.create_at >= at) missed.push({ post, direct: type === "D" });
      }
      for (const { post, direct } of missed.toSorted((a, b) => a.post.create_at - b.post.create_at)) await take(post, direct);
      await move(true);
    };

    const socket = {
      name: VENDOR.name,
      url: `${context.config.url.replace(/^http/, "ws")}/api/v4/websocket`,
      helloMs,
      pingMs,
      hello: { action: "authentication_challenge", data: { token: context.config.token } },
      ping: { action: "ping" },
      read(frame: unknown, { greeted, inOrder, fail }: Link): void {
        const { event, status, data = {} } = frame as Frame;
        if (status === "FAIL") return fail(new Trouble("mattermost refused the token"));
        if (event === "hello" && !known) {
          known = true;
          greeted();
          // What waits when the connection ends is asked for at the next one: nothing later may be taken before it.
          inOrder(catchUp);
          inOrder(() => host.report({ ok: true, message: "connected" }));
        }
        if (event !== "posted" || data.post === undefined) return;
        const post = JSON.parse(data.post) as Post;
        inOrder(() => take(post, data.channel_type === "D"));
      },
    };
    await followSocket(socket, signal);
  };

  return {
    listen: (signal, host) => stayConnected(signal, host, { connect: (to) => connect(signal, to), vendor: VENDOR, stableMs }),
  };
}
