import { setTimeout as sleep } from "node:timers/promises";
import type { Channel, ChannelHost, IncomingMessage } from "#plugin";
import { call, type Answer, type MattermostContext } from "./api.ts";

const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 60_000;
/** A connection that lasted so long was a good one. */
const STABLE_MS = 10_000;
/** The server greets at once; a connection without its greeting carries nothing. */
const HELLO_MS = 20_000;
/** A connection on which nothing comes is asked, and given up if it stays silent. */
const PING_MS = 30_000;
/** How far the saved place may lag behind while nothing is for the agent. */
const CURSOR_LAG_MS = 60_000;
const CALL_MS = 20_000;
/** What stands for a message of which nothing can be read, as a bare mention. */
const NO_TEXT = "[no text]";

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

interface Self {
  id: string;
  username: string;
}

/** What may be told as it is: messages of other errors may quote a post. */
class Trouble extends Error {}

/** A direct message or a mention, or nothing where it is neither or a bot wrote it. */
export function readPost(post: Post, direct: boolean, self: Self): IncomingMessage | undefined {
  const { id, user_id, channel_id, root_id, message, type = "", props = {}, delete_at = 0 } = post;
  if (user_id === self.id || type !== "" || delete_at > 0) return undefined;
  if (String(props["from_bot"]) === "true" || String(props["from_webhook"]) === "true") return undefined;
  const name = `@${self.username.replaceAll(".", "\\.")}(?![\\w-]|\\.\\w)`;
  if (!direct && !new RegExp(`(?<![\\w@])${name}`, "i").test(message)) return undefined;
  const files = (post.metadata?.files ?? []).map((file) => `[file: ${file.name ?? "without a name"}]`);
  const text =
    [message.replace(new RegExp(`^\\s*${name}[\\s,:]*`, "i"), "").trim(), ...files].filter((part) => part !== "").join("\n") || NO_TEXT;
  // A mention is answered in a thread, so that the answer stays with it.
  const thread = root_id || (direct ? undefined : id);
  return { id, from: user_id, to: channel_id, direct, text, ...(thread === undefined ? {} : { thread }) };
}

/** The place in the stream: when the last post was made, by the server's clock, and which one it was. */
function parseCursor(cursor: string | undefined): { at: number; id: string } | undefined {
  const found = /^(\d+):(\w*)$/.exec(cursor ?? "");
  return found ? { at: Number(found[1]), id: found[2] ?? "" } : undefined;
}

/** Posts come through a websocket; those of the time without one are asked for when it stands again. A test may wait less. */
export function createListener(
  context: MattermostContext,
  { helloMs = HELLO_MS, pingMs = PING_MS, stableMs = STABLE_MS } = {},
): Required<Pick<Channel, "listen">> {
  const get = async <T>(path: string, signal: AbortSignal): Promise<T> => {
    const answer: Answer<T> = await call<T>(context, AbortSignal.any([signal, AbortSignal.timeout(CALL_MS)]), path);
    if (!answer.ok) throw new Trouble(answer.failed.reason);
    return answer.body;
  };

  /** One connection, from its start to its end. Throws where it does not come about. */
  const connect = async (signal: AbortSignal, host: ChannelHost): Promise<void> => {
    const self = await get<Self>("users/me", signal);
    let place = parseCursor(await host.cursor());
    let saved = place?.at ?? 0;

    const take = async (post: Post, direct: boolean): Promise<void> => {
      if (post.id === place?.id) return;
      const message = readPost(post, direct, self);
      if (message)
        await host.receive(message).catch(() => Promise.reject(new Trouble("a message could not be stored; it is asked for again")));
      if (post.create_at >= (place?.at ?? 0)) place = { at: post.create_at, id: post.id };
      if (!message && place && place.at - saved < CURSOR_LAG_MS) return;
      await save();
    };
    const save = async (): Promise<void> => {
      if (!place) return;
      saved = place.at;
      await host.saveCursor(`${place.at}:${place.id}`);
    };

    /** What was written since the last place; at the very first start nothing is, and the place is now. */
    const catchUp = async (): Promise<void> => {
      const channels = await get<{ id: string; type: string; last_post_at: number }[]>(`users/${self.id}/channels`, signal);
      if (!place) {
        place = { at: Math.max(0, ...channels.map(({ last_post_at }) => last_post_at)) + 1, id: "" };
        return save();
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
      await save();
    };

    const socket = new WebSocket(`${context.config.url.replace(/^http/, "ws").replace(/\/+$/, "")}/api/v4/websocket`);
    const ended = Promise.withResolvers<void>();
    let open = true;
    let greeted = false;
    let heard = true;
    let seq = 1;
    let order = Promise.resolve();
    const tell = (action: string, data?: object): void => socket.send(JSON.stringify({ action, seq: seq++, ...(data && { data }) }));
    // What waits when the connection ends is asked for at the next one: nothing later may be taken before it.
    const inOrder = (work: () => void | Promise<void>): void => {
      order = order.then(() => (open ? work() : undefined)).catch((error: unknown) => end(error));
    };
    const end = (error?: unknown): void => {
      open = false;
      socket.close();
      if (error === undefined) ended.resolve();
      else ended.reject(error);
    };
    const stop = (): void => end();
    const read = ({ event, status, data }: Frame): void => {
      if (status === "FAIL") return end(new Trouble("mattermost refused the token"));
      if (event === "hello" && !greeted) {
        greeted = true;
        inOrder(catchUp);
        inOrder(() => host.report({ ok: true, message: "connected" }));
      }
      const { post, channel_type } = data ?? {};
      if (event === "posted" && post !== undefined) inOrder(() => take(JSON.parse(post) as Post, channel_type === "D"));
    };
    socket.addEventListener("open", () => tell("authentication_challenge", { token: context.config.token }));
    socket.addEventListener("error", () => {});
    socket.addEventListener("close", () => end(greeted ? undefined : new Trouble("the websocket cannot be opened")));
    socket.addEventListener("message", ({ data }) => {
      heard = true;
      try {
        read(JSON.parse(String(data)) as Frame);
      } catch (error) {
        end(error);
      }
    });
    const late = setTimeout(() => greeted || end(new Trouble("mattermost did not greet")), helloMs);
    const pulse = setInterval(() => {
      if (!heard) return end();
      heard = false;
      if (socket.readyState === WebSocket.OPEN) tell("ping");
    }, pingMs);
    signal.addEventListener("abort", stop);
    if (signal.aborted) stop();
    try {
      await ended.promise;
      await order;
    } finally {
      clearTimeout(late);
      clearInterval(pulse);
      signal.removeEventListener("abort", stop);
    }
  };

  return {
    async listen(signal, host) {
      for (let failures = 0; !signal.aborted;) {
        const begun = performance.now();
        let reason = "connections do not last; trying again";
        try {
          await connect(signal, host);
          failures = performance.now() - begun < stableMs ? failures + 1 : 0;
        } catch (error) {
          failures++;
          reason = error instanceof Trouble ? error.message : "mattermost sent what is not its format";
        }
        if (failures === 0 || signal.aborted) continue;
        host.report({ ok: false, message: reason });
        const wait = Math.min(FIRST_WAIT_MS * 2 ** (failures - 1), LONGEST_WAIT_MS) * (1 + Math.random() / 4);
        await sleep(wait, undefined, { signal }).catch(() => {});
      }
    },
  };
}
