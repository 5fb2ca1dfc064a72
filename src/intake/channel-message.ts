import { newId } from "../core/ids.ts";
import { cutText, oneLine } from "../core/text.ts";
import type { ApprovalPress, IncomingMessage, ReceivedMessage } from "../contract/channel.ts";
import type {
  EventRecord,
  FencingToken,
  MessageSpec,
  MessageCommand,
  RunAction,
} from "../store/types.ts";
import { answerDecision } from "../people/approvals.ts";
import { renderVerdict } from "../vocabulary/decision.ts";
import { getOwnText, renderMessage } from "../turns/channel/channel-input.ts";
import {
  checkStoredPlace,
  type CheckedMessage,
  NOT_ADDRESSED,
  toMessageKey,
  findContentProblem,
  getUnread,
} from "./edits-and-threads.ts";
import { createRateLimiter } from "./callers.ts";
import type { IntakeDeps } from "./context.ts";
import { toReceipt } from "./record.ts";
import {
  checkSender,
  findSession,
  isDecision,
  type MessageDeps,
  readCommand,
} from "./message-sender.ts";
import type { IntakeReceipt } from "./types.ts";
import { safeError } from "../core/errors.ts";
import { tellThatItWaits } from "../turns/channel/away-notice.ts";

/** Processes what people write and press on channels. */
export interface MessageIntake {
  /**
   * Processes a message of a channel and resolves once it is on disk. Fails if the lease of `fencingToken` is lost.
   * @throws RouseError `store_unavailable`: the channel must hand the message over again.
   */
  receiveMessage(
    channel: string,
    message: ReceivedMessage,
    fencingToken?: FencingToken,
  ): Promise<IntakeReceipt>;
  /** Processes a button that a person pressed on a channel; `text` is for that person. Fails if the store cannot be reached. */
  receivePress(channel: string, press: ApprovalPress): Promise<{ text: string }>;
}

/** Creates the intake of messages and presses of channels. */
export function createMessageIntake(deps: IntakeDeps): MessageIntake {
  const { store, clock, log, snapshot } = deps;
  const strangers = createRateLimiter(clock);
  return {
    async receiveMessage(channel, message, fencingToken) {
      const context = snapshot();
      const receipt = await receiveMessage(
        { ...deps, strangers, context, now: clock.now() },
        channel,
        message,
        fencingToken,
      );
      const runId =
        receipt.outcome === "accepted"
          ? receipt.actions.map((action) => action.ok && action.runId)[0]
          : undefined;
      if (!runId) return receipt;
      // The message is on disk: what is done about it now must not make the channel hand it over again.
      await tellThatItWaits(runId, { store, context, now: clock.now() }).catch((error: unknown) =>
        log.warn(
          { err: safeError(error), runId },
          "the notice that a message waits for a decision was not sent",
        ),
      );
      return receipt;
    },
    receivePress: (channel, press) =>
      receivePress({ ...deps, strangers, context: snapshot(), now: clock.now() }, channel, press),
  };
}

const MAX_ID = 500;
const MAX_REASON = 300;
const MAX_LANGUAGE = 35;

const REQUEST: EventRecord["request"] = { method: "MESSAGE", headers: {}, query: {}, body: null };

const isText = (value: unknown): value is string =>
  typeof value === "string" && value.trim() !== "";

/** Returns the problem of a channel's message, or undefined. Third parties write channels, so their messages are checked. */
function findProblem(message: ReceivedMessage): string | undefined {
  const { id } = message;
  const { from, to, thread = "none" } = "skipped" in message ? { from: id, to: id } : message;
  const wrong = Object.entries({ id, from, to, thread }).find(
    ([, value]) => !isText(value) || value.length > MAX_ID,
  );
  if (wrong) return `the channel gave no usable \`${wrong[0]}\``;
  if ("skipped" in message)
    return isText(message.skipped) ? undefined : "the channel skipped the message without a reason";
  return findContentProblem(message);
}

/** The word of a command, as it was written. */
const getWord = (command: MessageCommand): string =>
  "decision" in command ? command.decision.verdict : command.name;

/** The run of a message: a turn, or a command, which only the sender's own words are. */
async function buildAction(
  channel: string,
  message: IncomingMessage,
  deps: MessageDeps,
): Promise<RunAction<MessageSpec>> {
  const { context, now } = deps;
  const { config, rooms } = context;
  const { from, to, direct, thread, album, language } = message;
  const isOwner = rooms.isOwner(channel, from);
  const command = readCommand(getOwnText(message.parts), context);
  const { session, personId } = await findSession(channel, message, isOwner, deps);
  const { maxMessageChars: maxChars } = config.hooks;
  const { input, cut } =
    command === undefined
      ? renderMessage(channel, message, { isOwner, personId, maxChars })
      : { input: [], cut: 0 };
  const unread = command === undefined ? getUnread(message) : undefined;
  const spec: MessageSpec = {
    session,
    name: `${command ? `/${getWord(command)}` : "message"} on ${channel}`,
    hook: `channels/${channel}`,
    input,
    channel,
    to,
    incoming: {
      from,
      direct,
      replyTo: message.id,
      ...(thread === undefined ? {} : { thread }),
      ...(album === undefined ? {} : { album }),
      ...(isOwner ? { owner: true } : {}),
      ...(personId !== undefined && { personId }),
      ...(isText(language) && language.length <= MAX_LANGUAGE ? { language } : {}),
    },
    ...(unread && { unread }),
    ...(command && { command }),
  };
  return {
    kind: "run",
    runId: newId("run", now),
    warnings:
      cut > 0 ? [`the message was cut to ${maxChars} characters, hooks.maxMessageChars`] : [],
    spec,
  };
}

/** The outcome of a message without problems: its reason, or its work. Not `recorded` is a message of a flood of strangers. */
async function checkMessage(
  channel: string,
  message: ReceivedMessage,
  deps: MessageDeps,
): Promise<CheckedMessage & { recorded?: boolean }> {
  if ("skipped" in message) return { reason: cutText(oneLine(message.skipped), MAX_REASON).text };
  const { from, to, thread, parts } = message;
  const { context } = deps;
  const text = getOwnText(parts);
  const checked = isDecision(text, `${channel}:${from}`, context)
    ? { ok: true as const }
    : await checkSender(channel, message, deps);
  if (!checked.ok) return { reason: checked.reason, recorded: checked.recorded };
  const action = await buildAction(channel, message, deps);
  const { command } = action.spec;
  const body = Buffer.from(JSON.stringify({ from, to, thread, parts }));
  const reason = command ? { reason: `the command /${getWord(command)}` } : {};
  return { outcome: "accepted", actions: [action], request: { ...REQUEST, body }, ...reason };
}

/**
 * Processes a message of a channel. A message of a person who may write becomes a turn, whose reply goes to the same
 * conversation. A message of another person, or one that the channel skips, is recorded without its text and not answered.
 * Resolves once the outcome is on disk. A repeated message has no effect and gets the id of the first event.
 * @throws RouseError `store_unavailable`, also if the lease of `fencingToken` is lost: the channel must hand it over again.
 */
async function receiveMessage(
  deps: MessageDeps,
  channel: string,
  received: ReceivedMessage,
  fencingToken?: FencingToken,
): Promise<IntakeReceipt> {
  const { store, log, context, now } = deps;
  const { language } = context.config;
  const message =
    "skipped" in received || language === undefined
      ? received
      : { ...received, language: received.language ?? language };
  const path = `channels/${channel}`;
  const problem = findProblem(message);
  const { recorded = true, ...outcome } =
    problem === undefined ? await checkMessage(channel, message, deps) : { reason: problem };
  const stored = { store, context, fencingToken, now };
  const { boundId, ...placed } =
    "skipped" in message
      ? { ...outcome, boundId: undefined }
      : await checkStoredPlace(message, outcome, stored);
  const event: EventRecord = {
    id: newId("evt", now),
    receivedAt: now,
    path,
    credential: `channel:${channel}`,
    outcome: "skipped",
    actions: [],
    request: REQUEST,
    ...placed,
  };
  if (!recorded)
    return {
      kind: "receipt",
      eventId: event.id,
      outcome: "skipped",
      actions: [],
      reason: event.reason as string,
    };
  const expiresAt = now + context.config.hooks.dedupe.ttl;
  // A vendor may send one message in two forms, of which only the second is for the agent: the first must not hide it.
  const isSkipped = "skipped" in message || placed.reason === NOT_ADDRESSED;
  const bound = [
    toMessageKey(message.id, isSkipped),
    ...(boundId === undefined ? [] : [toMessageKey(boundId)]),
  ];
  const keys = problem === undefined ? bound.map((key) => ({ scope: path, key, expiresAt })) : [];
  const accepted = await store.accept(event, keys, fencingToken);
  const receipt: IntakeReceipt =
    accepted.kind === "duplicate"
      ? { kind: "receipt", eventId: accepted.record.eventId, outcome: "duplicate", actions: [] }
      : {
          kind: "receipt",
          eventId: event.id,
          outcome: event.outcome,
          actions: event.actions.map((action) => toReceipt(action, "queued")),
        };
  if (event.reason !== undefined) receipt.reason = event.reason;
  log.debug({ channel, outcome: receipt.outcome }, "a message was received");
  return receipt;
}

/**
 * Processes a button that a person pressed: records the decision, then an event that says what became of it. A press that
 * was recorded before leaves no second event. Fails if the store cannot be reached.
 */
async function receivePress(
  { store, log, context, now, approvals }: MessageDeps,
  channel: string,
  { id, from: person, code, verdict, language }: ApprovalPress,
): Promise<{ text: string }> {
  const { ok, answer } = await answerDecision({ channel, person, code, verdict }, approvals);
  const path = `channels/${channel}`;
  const reason = cutText(
    oneLine(`${renderVerdict(verdict, code)} by a button of "${person}": ${answer()}`),
    MAX_REASON,
  ).text;
  const about = {
    path,
    credential: `channel:${channel}`,
    outcome: ok ? "accepted" : "skipped",
    reason,
  } as const;
  const key = {
    scope: path,
    key: toMessageKey(`press ${id}`),
    expiresAt: now + context.config.hooks.dedupe.ttl,
  };
  await store.accept(
    { id: newId("evt", now), receivedAt: now, request: REQUEST, ...about, actions: [] },
    [key],
  );
  log.debug({ channel, ok }, "a button was pressed");
  return { text: answer(language ?? context.config.language) };
}
