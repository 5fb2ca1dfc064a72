import { setTimeout as sleep } from "node:timers/promises";
import type { Channel, OutgoingMessage, SendResult } from "#plugin";
import { call, type Answer, type MattermostContext } from "./api.ts";
import { toMattermost } from "./format.ts";

/**
 * The server knows a `pending_post_id` for 30 seconds. Within these an attempt of which nobody knows how it ended is made
 * again with the same id, which posts nothing twice; after them it would.
 */
const ATTEMPTS = 3;
const ATTEMPT_MS = 8_000;
const PAUSE_MS = 500;

/** Makes `send` and `probe`; a test may wait less for an answer. */
export function createSender(context: MattermostContext, attemptMs = ATTEMPT_MS): Required<Pick<Channel, "send" | "probe">> {
  /** Conversations with one member, by the member's id: they stay. */
  const direct = new Map<string, string>();

  const idOf = async (path: string, signal: AbortSignal, body?: object): Promise<Answer<string>> => {
    const answer = await call<{ id: string }>(context, signal, path, body);
    return answer.ok ? { ok: true, body: answer.body.id } : answer;
  };

  const channelOf = async (to: string, signal: AbortSignal): Promise<Answer<string>> => {
    if (!to.startsWith("user:") && !to.startsWith("@")) return { ok: true, body: to };
    let user: Answer<string> = { ok: true, body: to.slice("user:".length) };
    if (to.startsWith("@")) user = await idOf(`users/username/${to.slice(1)}`, signal);
    if (!user.ok) return user;
    const known = direct.get(user.body);
    if (known !== undefined) return { ok: true, body: known };
    const me = await idOf("users/me", signal);
    if (!me.ok) return me;
    const channel = await idOf("channels/direct", signal, [me.body, user.body]);
    if (channel.ok) direct.set(user.body, channel.body);
    return channel;
  };

  const post = async (channel: string, { text, thread, idempotencyKey }: OutgoingMessage, signal: AbortSignal): Promise<SendResult> => {
    const answer = await idOf("posts", AbortSignal.any([signal, AbortSignal.timeout(attemptMs)]), {
      channel_id: channel,
      message: toMattermost(text),
      pending_post_id: `rouse:${idempotencyKey}`,
      ...(thread === undefined ? {} : { root_id: thread }),
    });
    return answer.ok ? { status: "sent", messageIds: [answer.body] } : answer.failed;
  };

  return {
    async send(message, signal) {
      const channel = await channelOf(message.to, signal);
      // Nothing has been posted yet, so nothing is unknown.
      if (!channel.ok) return channel.failed.status === "unknown" ? { ...channel.failed, status: "retry" } : channel.failed;
      let unsure = false;
      for (let attempt = 1; ; attempt++) {
        const result = await post(channel.body, message, signal);
        if (result.status === "sent") return result;
        unsure ||= result.status === "unknown";
        if (!unsure) return result;
        // What a later attempt is told says nothing of the first one.
        if (attempt === ATTEMPTS || signal.aborted) return { status: "unknown", reason: result.reason };
        await sleep(PAUSE_MS, undefined, { signal }).catch(() => {});
      }
    },
    async probe(signal) {
      const me = await idOf("users/me", signal);
      return me.ok ? { ok: true } : { ok: false, message: me.failed.reason };
    },
  };
}
