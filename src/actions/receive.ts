import type { Clock } from "../core/clock.ts";
import { newId } from "../core/ids.ts";
import type { Logger } from "../core/log.ts";
import { sha256Hex } from "../core/secret.ts";
import { cutText } from "../core/text.ts";
import type { IncomingMessage } from "../plugin/api.ts";
import { mainSession } from "../sessions/keys.ts";
import type { DedupeEntry, EventRecord, Fence, RunAction, Store } from "../store/types.ts";
import type { ActionContext } from "./types.ts";

export interface ReceiveDeps {
  store: Store;
  clock: Clock;
  log: Logger;
  context(): ActionContext;
}

const MAX_ID = 500;

function problemOf({ id, from, to, text }: IncomingMessage): string | undefined {
  const ids = { id, from, to };
  const wrong = Object.entries(ids).find(([, value]) => typeof value !== "string" || value === "" || value.length > MAX_ID);
  if (wrong) return `the channel gave no usable \`${wrong[0]}\``;
  return typeof text !== "string" || text.trim() === "" ? "the message has no text" : undefined;
}

/** A turn of the main session: what the owner says is not outside text. */
function actionOf(channel: string, message: IncomingMessage, now: number, { agents, config }: ActionContext): RunAction {
  const { text, cut } = cutText(message.text, config.hooks.maxMessageChars);
  const { from, direct, thread } = message;
  return {
    kind: "run",
    runId: newId("run", now),
    warnings: cut > 0 ? [`the message was cut to ${config.hooks.maxMessageChars} characters, hooks.maxMessageChars`] : [],
    spec: {
      session: mainSession(agents.standard.id),
      name: `message on ${channel}`,
      hook: `channels/${channel}`,
      input: [{ text: text + (cut > 0 ? `[cut: ${cut} characters]` : ""), outside: false }],
      wakeMode: "next-heartbeat",
      deliver: true,
      channel,
      to: message.to,
      unsafe: false,
      incoming: { from, direct, replyTo: message.id, ...(thread === undefined ? {} : { thread }) },
    },
  };
}

/**
 * Takes a message that somebody wrote on a channel: from those in `allowFrom` it becomes a turn of the main session, whose
 * reply goes back to where it was written; from others it is recorded, without its text, and answered nothing. Resolves
 * once that is on disk; a message that came before is recorded as its repeat.
 * @throws RouseError `store_unavailable`, also where the lease of `fence` is lost: the message must come again.
 */
export function createReceiver({
  store,
  clock,
  log,
  context,
}: ReceiveDeps): (channel: string, message: IncomingMessage, fence?: Fence) => Promise<void> {
  return async (channel, message, fence) => {
    const snapshot = context();
    const now = clock.now();
    const loaded = snapshot.channels.get(channel);
    const allowed = loaded?.channel.allowFrom?.includes(message.from) ?? false;
    const problem = problemOf(message);
    const event: EventRecord = {
      id: newId("evt", now),
      receivedAt: now,
      path: `channels/${channel}`,
      credential: `channel:${channel}`,
      outcome: "skipped",
      actions: [],
      request: { method: "MESSAGE", headers: {}, query: {}, body: null },
    };
    if (problem !== undefined) event.reason = problem;
    else if (!allowed) event.reason = `"${message.from}" is not in allowFrom of channels.${channel}: nothing is answered`;
    else {
      event.outcome = "accepted";
      event.actions = [actionOf(channel, message, now, snapshot)];
      event.request.body = Buffer.from(JSON.stringify({ from: message.from, text: message.text }));
    }
    const expiresAt = now + snapshot.config.hooks.dedupe.ttl;
    const key = (): DedupeEntry => ({ scope: event.path, key: sha256Hex(message.id), expiresAt, answer: { status: 202, body: null } });
    const accepted = await store.accept(event, problem === undefined ? [key()] : [], fence);
    log.debug({ channel, outcome: accepted.kind === "duplicate" ? "duplicate" : event.outcome }, "a message was received");
  };
}
