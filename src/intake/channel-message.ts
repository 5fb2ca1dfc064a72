import { newId } from "../core/ids.ts";
import type { Logger } from "../core/log.ts";
import { sha256Hex } from "../core/secret.ts";
import { cutText, oneLine } from "../core/text.ts";
import type { ApprovalPress, IncomingMessage, ReceivedMessage } from "../contract/channel.ts";
import { channelSession, mainSession } from "../sessions/keys.ts";
import type { EventRecord, FencingToken, RunAction, RunSpec, SessionRef, Store } from "../store/types.ts";
import { answerDecision } from "../approvals/answer.ts";
import type { Approvals } from "../approvals/approvals.ts";
import { splitPerson } from "../approvals/checks.ts";
import { parseDecision, renderVerdict } from "../core/decision.ts";
import { renderMessage } from "../runs/channel-input.ts";
import { parseCommand } from "../runs/commands.ts";
import type { ActionContext } from "../runs/types.ts";
import { toReceipt } from "./record.ts";
import type { IntakeReceipt } from "./types.ts";

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

/** Returns the problem of a channel's message, or undefined. Third parties write channels, so their messages are checked. */
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

/** Returns the session of a message. Direct messages of the owner use the main session; with `dmScope: "shared"` all direct messages do. */
function sessionFor(channel: string, message: IncomingMessage, isOwner: boolean, { agents, config, rooms }: ActionContext): SessionRef {
  const agent = rooms.agentFor(channel, message);
  const isMain = message.direct && agent.id === agents.default.id && (isOwner || config.sessions.dmScope === "shared");
  return isMain ? mainSession(agent.id) : channelSession(agent.id, channel, message);
}

/** Whether there are people on channels who may decide: without them `approve 7f3` is a message as any other. */
const hasApprovers = ({ approvers, channels }: ActionContext): boolean =>
  approvers.some((approver) => splitPerson(approver, channels)?.loaded);

/** The run of a message: a turn, or a command. What an allowed sender writes is not outside text. */
function buildAction(channel: string, message: IncomingMessage, now: number, context: ActionContext): RunAction {
  const { config, rooms } = context;
  const { from, to, direct, thread } = message;
  const isOwner = rooms.isOwner(channel, from);
  const decision = hasApprovers(context) ? parseDecision(message.text) : undefined;
  const command = decision ? "decide" : parseCommand(message.text);
  const { text, cut } = cutText(message.text, config.hooks.maxMessageChars);
  const said = text + (cut > 0 ? `[cut: ${cut} characters]` : "");
  const spec: RunSpec = {
    session: sessionFor(channel, message, isOwner, context),
    name: command === undefined ? `message on ${channel}` : `/${decision?.verdict ?? command} on ${channel}`,
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
  if (decision) spec.decision = decision;
  return {
    kind: "run",
    runId: newId("run", now),
    warnings: cut > 0 ? [`the message was cut to ${config.hooks.maxMessageChars} characters, hooks.maxMessageChars`] : [],
    spec,
  };
}

/** The outcome of a message without problems: its reason, or its work. */
function checkMessage(channel: string, message: ReceivedMessage, now: number, context: ActionContext): Partial<EventRecord> {
  if ("skipped" in message) return { reason: cutText(oneLine(message.skipped), MAX_REASON).text };
  const { from, to, thread, text, files } = message;
  const { channels, approvers } = context;
  const decides = parseDecision(text) !== undefined && approvers.includes(`${channel}:${from}`);
  // An approver need not be one who may speak to the agent.
  if (!decides && !channels.get(channel)?.channel.allowFrom?.includes(from))
    return { reason: `"${from}" is not in allowFrom of channels.${channel}: nothing is answered` };
  const action = buildAction(channel, message, now, context);
  const { command, decision } = action.spec;
  const body = Buffer.from(JSON.stringify({ from, to, thread, text, files }));
  const reason = command === undefined ? {} : { reason: `the command /${decision?.verdict ?? command}` };
  return { outcome: "accepted", actions: [action], request: { ...REQUEST, body }, ...reason };
}

/**
 * Processes a message of a channel. A message of a person in `allowFrom` becomes a turn, whose reply goes to the same
 * conversation. A message of another person, or one that the channel skips, is recorded without its text and not answered.
 * Resolves once the outcome is on disk. A repeated message has no effect and gets the id of the first event.
 * @throws RouseError `store_unavailable`, also if the lease of `fencingToken` is lost: the channel must hand it over again.
 */
export async function receiveMessage(
  { store, log, context, now }: MessageDeps,
  channel: string,
  message: ReceivedMessage,
  fencingToken?: FencingToken,
): Promise<IntakeReceipt> {
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
    ...(problem === undefined ? checkMessage(channel, message, now, context) : { reason: problem }),
  };
  const expiresAt = now + context.config.hooks.dedupe.ttl;
  // A vendor may send one message in two forms, of which only the second is for the agent: the first must not hide it.
  const key = sha256Hex("skipped" in message ? `skipped ${message.id}` : message.id);
  const keys = problem === undefined ? [{ scope: path, key, expiresAt }] : [];
  const accepted = await store.accept(event, keys, fencingToken);
  const receipt: IntakeReceipt =
    accepted.kind === "duplicate"
      ? { kind: "receipt", eventId: accepted.record.eventId, outcome: "duplicate", actions: [] }
      : { kind: "receipt", eventId: event.id, outcome: event.outcome, actions: event.actions.map((action) => toReceipt(action, "queued")) };
  if (event.reason !== undefined) receipt.reason = event.reason;
  log.debug({ channel, outcome: receipt.outcome }, "a message was received");
  return receipt;
}

/**
 * Processes a button that a person pressed: records the decision, then an event that says what became of it. A press that
 * was recorded before leaves no second event. Fails if the store cannot be reached.
 */
export async function receivePress(
  { store, log, context, now, approvals }: MessageDeps & { approvals: Pick<Approvals, "decide"> },
  channel: string,
  { id, from: person, code, verdict }: ApprovalPress,
): Promise<{ text: string }> {
  const { ok, text } = await answerDecision({ channel, person, code, verdict }, approvals);
  const path = `channels/${channel}`;
  const reason = cutText(oneLine(`${renderVerdict(verdict, code)} by a button of "${person}": ${text}`), MAX_REASON).text;
  const about = { path, credential: `channel:${channel}`, outcome: ok ? "accepted" : "skipped", reason } as const;
  const key = { scope: path, key: sha256Hex(`press ${id}`), expiresAt: now + context.config.hooks.dedupe.ttl };
  await store.accept({ id: newId("evt", now), receivedAt: now, request: REQUEST, ...about, actions: [] }, [key]);
  log.debug({ channel, ok }, "a button was pressed");
  return { text };
}
