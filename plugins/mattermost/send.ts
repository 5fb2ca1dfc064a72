import { conversations, createRest, retryIdempotent, sentResult, vendorChannel, type ErrorRules } from "#channel-kit";
import type { Channel, PluginContext } from "#plugin";
import { toMattermost } from "./format.ts";

/** What the parts of the plugin share. */
export type MattermostContext = Pick<PluginContext<{ url: string; token: string }>, "config" | "fetch">;

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
  return vendorChannel({
    vendor: VENDOR,
    async find({ to }, signal) {
      const named = to.startsWith("@");
      return conversation(named ? `user:${await callForId(`users/username/${to.slice(1)}`, signal)}` : to, signal);
    },
    async post({ text, thread, idempotencyKey }, channel, signal) {
      const about = { channel_id: channel, pending_post_id: `rouse:${idempotencyKey}`, ...(thread !== undefined && { root_id: thread }) };
      const post = { ...about, message: toMattermost(text) };
      return retryIdempotent(VENDOR, signal, { tries: ATTEMPTS, pauseMs: PAUSE_MS }, async () =>
        sentResult(await callForId("posts", AbortSignal.any([signal, AbortSignal.timeout(attemptMs)]), post)),
      );
    },
    check: (signal) => callForId("users/me", signal),
  });
}
