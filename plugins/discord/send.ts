import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { REST } from "@discordjs/rest";
import type { Channel, OutgoingMessage, SendResult } from "#plugin";
import { problemOf, type Problem } from "./client.ts";
import { toDiscord } from "./format.ts";

/** Longest text of a message. Discord counts characters, of which there are never more than UTF-16 units. */
export const LIMIT = 2000;
/** `SUPPRESS_EMBEDS`: a preview would make Discord fetch what a text names. */
const NO_PREVIEWS = 4;
const NONCE_LENGTH = 25;
/** A reply needs the permission to read what came before. */
const NO_HISTORY = "160002";
/** Before a try that asks what became of the one before. */
const PAUSE_MS = 500;

/** What is posted: a nonce makes Discord answer a repeat with the message that is there already. */
function bodyOf({ text, idempotencyKey }: OutgoingMessage): object {
  const dialect = toDiscord(text);
  const fits = dialect.trim() !== "" && dialect.length <= LIMIT;
  return {
    // The agent's markdown is nearly Discord's: it stands in where marks that were escaped made the text too long.
    content: fits ? dialect : text,
    flags: NO_PREVIEWS,
    // A reply calls nobody: what it says may come from outside.
    allowed_mentions: { parse: [] },
    nonce: createHash("sha256").update(idempotencyKey).digest("base64url").slice(0, NONCE_LENGTH),
    enforce_nonce: true,
  };
}

function toResult({ kind, reason, status = 0, afterMs }: Problem): SendResult {
  if (kind === "limited") return { status: "retry", reason, ...(afterMs === undefined ? {} : { afterMs }) };
  if (kind === "not written" || status >= 500) return { status: "retry", reason };
  return { status: kind === "cut" ? "unknown" : "failed", reason };
}

/** `send` of the channel. */
export function createSend(client: () => Promise<REST>): Channel["send"] {
  /** The channels of direct messages, by user: they stay. */
  const direct = new Map<string, string>();

  const channelOf = async ({ to, thread }: OutgoingMessage, signal: AbortSignal): Promise<string> => {
    // A thread is a channel.
    if (thread !== undefined) return thread;
    const [, user] = /^user:(\d+)$/.exec(to) ?? [];
    if (user === undefined) return to;
    const known = direct.get(user);
    if (known !== undefined) return known;
    const rest = await client();
    const { id } = (await rest.post("/users/@me/channels", { body: { recipient_id: user }, signal })) as { id: string };
    direct.set(user, id);
    return id;
  };

  return async (message, signal) => {
    let channel: string;
    try {
      channel = await channelOf(message, signal);
    } catch (error) {
      // Opening a conversation sends nothing, and may be done twice.
      const problem = problemOf(error);
      return toResult(problem.kind === "cut" ? { ...problem, kind: "not written" } : problem);
    }
    const body = bodyOf(message);
    let reply = message.replyTo === undefined ? {} : { message_reference: { message_id: message.replyTo, fail_if_not_exists: false } };
    const post = async (): Promise<SendResult | Problem> => {
      try {
        const rest = await client();
        const { id } = (await rest.post(`/channels/${channel}/messages`, { body: { ...body, ...reply }, signal })) as { id: string };
        return { status: "sent", messageIds: [id] };
      } catch (error) {
        return problemOf(error);
      }
    };
    let doubt: Problem | undefined;
    for (;;) {
      const outcome = await post();
      if (!("kind" in outcome)) return outcome;
      if (outcome.code === NO_HISTORY && "message_reference" in reply) {
        // An answer that points to nothing is better than none.
        reply = {};
        continue;
      }
      if (outcome.kind === "cut") doubt ??= outcome;
      if (!doubt) return toResult(outcome);
      // Asked again with the same nonce, Discord tells by its answer what has become of the first try. It remembers a
      // nonce for a few minutes only, so it is asked at once: the outbox would come too late.
      const again = outcome.kind === "cut" || toResult(outcome).status === "retry";
      if (again) await sleep(outcome.afterMs ?? PAUSE_MS, undefined, { signal }).catch(() => undefined);
      if (!again || signal.aborted) return { status: "unknown", reason: doubt.reason };
    }
  };
}
