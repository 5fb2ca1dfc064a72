import { newId } from "../core/ids.ts";
import type { Logger } from "../core/log.ts";
import { sha256Hex } from "../core/secret.ts";
import { cutText, oneLine } from "../core/text.ts";
import type { IncomingMessage, ReceivedMessage } from "../plugin/api.ts";
import { channelSession, mainSession } from "../sessions/keys.ts";
import type { EventRecord, Fence, RunAction, RunSpec, SessionRef, Store } from "../store/types.ts";
import { renderMessage } from "../actions/channel-input.ts";
import { parseCommand } from "../actions/commands.ts";
import type { ActionContext } from "../actions/types.ts";
import { toReceipt } from "./record.ts";
import type { Receipt } from "./types.ts";

export interface MessageDeps {
  store: Pick<Store, "accept">;
  log: Pick<Logger, "debug">;
  context: ActionContext;
  now: number;
}

const MAX_ID = 500;
const MAX_REASON = 300;

const REQUEST: EventRecord["request"] = { method: "MESSAGE", headers: {}, query: {}, body: null };

const isText = (value: unknown): value is string => typeof value === "string" && value.trim() !== "";

/** Returns what is wrong with a message that a channel handed over, or undefined: its plugin may be anybody's. */
function findProblem(message: ReceivedMessage): string | undefined {
  const { id } = message;
  const { from, to, thread = "none" } = "skipped" in message ? { from: id, to: id } : message;
  const wrong = Object.entries({ id, from, to, thread }).find(([, value]) => !isText(value) || value.length > MAX_ID);
  if (wrong) return `the channel gave no usable \`${wrong[0]}\``;
  if ("skipped" in message) return isText(message.skipped) ? undefined : "the channel skipped the message without a reason";
  const { text, files = [] } = message;
  if (!Array.isArray(files) || files.some((file) => typeof file !== "string")) return "the channel gave no usable `files`";
  return isText(text) || (text === "" && files.length > 0) ? undefined : "the message has no text";
}

/** The session of a message: the main session for the owner's direct messages, with `dmScope: "shared"` for everybody's. */
function sessionFor(channel: string, message: IncomingMessage, isOwner: boolean, { agents, config, rooms }: ActionContext): SessionRef {
  const agent = rooms.agentFor(channel, message);
  const isMain = message.direct && agent.id === agents.standard.id && (isOwner || config.sessions.dmScope === "shared");
  return isMain ? mainSession(agent.id) : channelSession(agent.id, channel, message);
}

/** The run of a message: a turn, or a command. What an allowed sender writes is not outside text. */
function buildAction(channel: string, message: IncomingMessage, now: number, context: ActionContext): RunAction {
  const { config, rooms } = context;
  const { from, to, direct, thread } = message;
  const isOwner = rooms.isOwner(channel, from);
  const command = parseCommand(message.text);
  const { text, cut } = cutText(message.text, config.hooks.maxMessageChars);
  const said = text + (cut > 0 ? `[cut: ${cut} characters]` : "");
  const spec: RunSpec = {
    session: sessionFor(channel, message, isOwner, context),
    name: command === undefined ? `message on ${channel}` : `/${command} on ${channel}`,
    hook: `channels/${channel}`,
    input: command === undefined ? renderMessage(channel, message, said, isOwner) : [],
    wakeMode: "next-heartbeat",
    deliver: true,
    channel,
    to,
    unsafe: false,
    incoming: { from, direct, replyTo: message.id, ...(thread === undefined ? {} : { thread }), ...(isOwner ? { owner: true } : {}) },
  };
  if (command !== undefined) spec.command = command;
  return {
    kind: "run",
    runId: newId("run", now),
    warnings: cut > 0 ? [`the message was cut to ${config.hooks.maxMessageChars} characters, hooks.maxMessageChars`] : [],
    spec,
  };
}

/** The outcome of a message without problems: its reason, or its work. */
function decide(channel: string, message: ReceivedMessage, now: number, context: ActionContext): Partial<EventRecord> {
  if ("skipped" in message) return { reason: cutText(oneLine(message.skipped), MAX_REASON).text };
  const { from, to, thread, text, files } = message;
  if (!context.channels.get(channel)?.channel.allowFrom?.includes(from))
    return { reason: `"${from}" is not in allowFrom of channels.${channel}: nothing is answered` };
  const action = buildAction(channel, message, now, context);
  const { command } = action.spec;
  const body = Buffer.from(JSON.stringify({ from, to, thread, text, files }));
  const reason = command === undefined ? {} : { reason: `the command /${command}` };
  return { outcome: "accepted", actions: [action], request: { ...REQUEST, body }, ...reason };
}

/**
 * Takes a message of a channel. From a person in `allowFrom` it becomes a turn, whose reply goes back to the same
 * conversation. From other people, and if the channel skips it, it is recorded without its text and not answered.
 * Resolves once that is on disk; a repeat of a message changes nothing, and gets the first event's id.
 * @throws RouseError `store_unavailable`, also if the lease of `fence` is lost: the message must come again.
 */
export async function receiveMessage(
  { store, log, context, now }: MessageDeps,
  channel: string,
  message: ReceivedMessage,
  fence?: Fence,
): Promise<Receipt> {
  const path = `channels/${channel}`;
  const problem = findProblem(message);
  const event: EventRecord = {
    id: newId("evt", now),
    receivedAt: now,
    path,
    credential: `channel:${channel}`,
    outcome: "skipped",
    actions: [],
    request: REQUEST,
    ...(problem === undefined ? decide(channel, message, now, context) : { reason: problem }),
  };
  const expiresAt = now + context.config.hooks.dedupe.ttl;
  // A vendor may send one message in two forms, of which only the second is for the agent: the first must not hide it.
  const key = sha256Hex("skipped" in message ? `skipped ${message.id}` : message.id);
  const keys = problem === undefined ? [{ scope: path, key, expiresAt }] : [];
  const accepted = await store.accept(event, keys, fence);
  const receipt: Receipt =
    accepted.kind === "duplicate"
      ? { kind: "receipt", eventId: accepted.record.eventId, outcome: "duplicate", actions: [] }
      : { kind: "receipt", eventId: event.id, outcome: event.outcome, actions: event.actions.map((action) => toReceipt(action, "queued")) };
  if (event.reason !== undefined) receipt.reason = event.reason;
  log.debug({ channel, outcome: receipt.outcome }, "a message was received");
  return receipt;
}
