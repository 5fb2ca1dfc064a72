/** Makes the input of a message's turn: the messages that came after it and join it, and all that they refer to. */
import type { Attachment, EarlierMessage, ThreadMessage } from "../../contract/channel.ts";
import { labelledText, type TextPart } from "../../core/text.ts";
import type { LoadedChannel } from "../../delivery/channels.ts";
import { parseSendKey } from "../../delivery/plan.ts";
import { isRunChanged } from "../../store/sql/errors.ts";
import {
  sessionId,
  toExpected,
  type Job,
  type MessageRun,
  type MessageSpec,
  type Ms,
  type Reads,
  type RunRecord,
  type Writes,
} from "../../store/types.ts";
import { getLastTurn } from "../session-history.ts";
import type { TurnDeps } from "../context.ts";
import type { ActionContext } from "../types.ts";
import { readAttachments, type AttachmentDeps } from "./attachments.ts";
import {
  findMessagePart,
  getMessageIds,
  isSamePlace,
  joinMessages,
  joinUnread,
  renderOutside,
  renderThread,
  toQuestion,
  toReadParts,
} from "./channel-input.ts";
import { listSessionRuns } from "./session-runs.ts";

/** The most messages of one turn. */
const MAX_MESSAGES = 50;
/** The most queued runs of a session that are looked at. */
const MAX_QUEUED = 1000;
/** Messages that keep coming hold a turn up for so many quiet times at most. */
const MAX_QUIET_TIMES = 10;

const hasSteps = async (run: RunRecord, { store }: TurnDeps): Promise<boolean> =>
  run.startedAt !== undefined && (await store.steps.list(run.id)).length > 0;

const countChars = ({ spec }: MessageRun): number =>
  spec.input.reduce((sum, { text }) => sum + text.length, 0);

/** The messages that came after a run's message and join it, oldest first. */
async function findFollowing(
  run: MessageRun,
  maxChars: number,
  { store }: TurnDeps,
): Promise<MessageRun[]> {
  const { session } = run.spec;
  const queued = await store.runs.list({
    status: "queued",
    sessionKey: session.key,
    limit: MAX_QUEUED,
  });
  // Messages that are older than the list cannot be put in order.
  if (queued.length === MAX_QUEUED) return [];
  const later = queued
    .toReversed()
    .filter(
      (one) =>
        one.id !== run.id &&
        one.createdAt >= run.createdAt &&
        sessionId(one.spec.session) === sessionId(session),
    );
  let chars = countChars(run);
  const following: MessageRun[] = [];
  for (const one of later) {
    const command = one.kind === "channel" ? one.spec.command : undefined;
    // Other commands than `/new` wait for no turn, and end no conversation.
    if (command && command.name !== "new") continue;
    if (command || one.kind !== "channel" || one.attempts > 0) break;
    if (!isSamePlace(run.spec, one.spec)) break;
    chars += countChars(one);
    if (chars > maxChars || following.length + 2 > MAX_MESSAGES) break;
    following.push(one);
  }
  return following;
}

/** Returns until when further messages are waited for; not after `now` if none are. */
export function getQuietEnd(times: readonly Ms[], quietMs: number, now: Ms): Ms {
  const last = times.at(-1) ?? now;
  // The clock was set back.
  if (last > now) return now;
  let begin = last;
  for (const at of times.toReversed()) {
    if (begin - at > quietMs) break;
    begin = at;
  }
  return Math.min(last + quietMs, begin + quietMs * MAX_QUIET_TIMES);
}

/** Makes one turn of a run's message and those that follow it: one commit, so that a crash loses and doubles none. */
async function join(
  job: Job,
  run: MessageRun,
  following: readonly MessageRun[],
  deps: TurnDeps,
): Promise<MessageRun | undefined> {
  const { store, clock, runEnds } = deps;
  const all = [run, ...following];
  const { owner: _last, ...incoming } = (following.at(-1) ?? run).spec.incoming;
  const isOwners = all.every(({ spec }) => spec.incoming.owner);
  const unread = joinUnread(all.map(({ spec }) => spec.unread));
  const ids = all.flatMap(({ spec }) => getMessageIds(spec));
  const joined = ids.filter((id) => id !== incoming.replyTo);
  const spec = {
    ...run.spec,
    ...joinMessages(all.map((one) => one.spec)),
    ...(unread && { unread }),
    // The reply answers the newest message.
    incoming: {
      ...incoming,
      ...(joined.length > 0 && { joined }),
      ...(isOwners && { owner: true as const }),
    },
  };
  const warnings = all.flatMap((one) => one.warnings);
  const route = {
    status: "skipped" as const,
    reason: `answered together with an earlier message, by the run ${run.id}`,
  };
  const write = (tx: Writes): void => {
    tx.runs.update(run.id, { spec, warnings }, toExpected(run));
    for (const one of following) {
      tx.runs.update(one.id, { status: "succeeded", route, endedAt: clock.now() }, toExpected(one));
      tx.jobs.delete("turn", one.id);
    }
  };
  const done = await store.commit(write, job).catch(async (error: unknown) => {
    if (!isRunChanged(error)) throw error;
    // A message was edited or cancelled meanwhile: what there is now is collected.
    await store.commit((tx) => tx.jobs.settle(job, clock.now(), { resetAttempts: true }), job);
    return false;
  });
  if (!done) return undefined;
  for (const { id } of following) runEnds.ended(id);
  return { ...run, spec, warnings };
}

/** The messages of an album come one by one, within less than this. */
const ALBUM_MS = 1_000;

/** True if two messages are of one album: those are one message, however messages are collected. */
const isSameAlbum = (
  { spec: { incoming: one } }: MessageRun,
  { spec: { incoming: other } }: MessageRun,
): boolean => one.album !== undefined && one.album === other.album && one.from === other.from;

/**
 * Collects the messages that came after a run's message and have no turn yet into the run. Returns the run to execute, or
 * undefined if its job was put back, since the person may go on writing, or if another gateway has it.
 */
export async function collectMessages(
  job: Job,
  run: MessageRun,
  { config }: ActionContext,
  deps: TurnDeps,
): Promise<MessageRun | undefined> {
  const isAlbum = run.spec.incoming.album !== undefined;
  const collects = config.sessions.messages !== "separate";
  if ((!collects && !isAlbum) || run.attempts > 0 || (await hasSteps(run, deps))) return run;
  const found = await findFollowing(run, config.hooks.maxMessageChars, deps);
  const following = collects ? found : found.filter((one) => isSameAlbum(run, one));
  const now = deps.clock.now();
  const times = [run, ...following].map(({ createdAt }) => createdAt);
  const quietMs = collects ? config.sessions.quietTime : 0;
  const until = getQuietEnd(times, isAlbum ? Math.max(quietMs, ALBUM_MS) : quietMs, now);
  if (until > now) {
    await deps.store.commit((tx) => tx.jobs.settle(job, until, { resetAttempts: true }), job);
    return undefined;
  }
  return following.length === 0 ? run : join(job, run, following, deps);
}

interface UnreadDeps extends AttachmentDeps {
  store: Reads;
}

const ASK_MS = 10_000;
/** Runs among which a message that was quoted is looked for. */
const MAX_RUNS = 100;

/** Asks the channel; undefined if it fails or takes too long. */
async function ask<T>(
  question: ((signal: AbortSignal) => Promise<T>) | undefined,
  signal: AbortSignal,
): Promise<T | undefined> {
  try {
    return await question?.(AbortSignal.any([signal, AbortSignal.timeout(ASK_MS)]));
  } catch {
    return undefined;
  }
}

/** Finds a message among those that the session keeps: one that came in, or a reply. */
async function findRecorded(
  id: string,
  { spec }: MessageRun,
  store: UnreadDeps["store"],
): Promise<EarlierMessage | undefined> {
  const { session } = spec;
  for (const run of await listSessionRuns(session, { limit: MAX_RUNS }, store)) {
    if (run.kind !== "channel" || run.spec.channel !== spec.channel) continue;
    const { input } = run.spec;
    const part = findMessagePart(id, run.spec);
    // The first part of a message names the place.
    if (part)
      return {
        author: part.from,
        text: labelledText(input.slice(part.start + 1, part.start + part.count)),
      };
    const delivery =
      run.deliveryId === undefined ? undefined : await store.deliveries.get(run.deliveryId);
    if (run.reply !== undefined && delivery?.messageIds.includes(id))
      return { author: "you", text: run.reply };
  }
  return undefined;
}

/** Earlier messages as parts of the input, and their files. */
interface Earlier {
  parts: TextPart[];
  attachments: Attachment[];
}

const toThread = (messages: readonly EarlierMessage[]): Earlier => ({
  parts: renderThread(messages),
  attachments: messages.flatMap(({ attachments = [] }) => attachments),
});

async function readQuoted(
  id: string,
  run: MessageRun,
  { channel }: LoadedChannel,
  deps: UnreadDeps,
  signal: AbortSignal,
): Promise<Earlier> {
  const { to } = run.spec;
  const asked = await ask(
    channel.findQuoted &&
      ((limited) => channel.findQuoted?.({ id, to }, limited) ?? Promise.resolve(undefined)),
    signal,
  );
  const found = asked ??
    (await findRecorded(id, run, deps.store)) ?? { text: "[it is not known here]" };
  return {
    parts: renderOutside("quoted", found),
    attachments: [...(found.attachments ?? [])],
  };
}

/** Keeps the messages of a thread that the session does not have. */
async function findUnseen(
  listed: readonly ThreadMessage[],
  run: MessageRun,
  store: UnreadDeps["store"],
): Promise<ThreadMessage[]> {
  const { session } = run.spec;
  const runs = await listSessionRuns(session, { before: run.id, limit: MAX_RUNS }, store);
  const earlier = runs.filter(
    (one): one is MessageRun => one.kind === "channel" && one.status === "succeeded",
  );
  const deliveries = await Promise.all(
    earlier.map(({ deliveryId }) =>
      deliveryId === undefined ? undefined : store.deliveries.get(deliveryId),
    ),
  );
  const answered = new Set(earlier.flatMap(({ spec }) => getMessageIds(spec)));
  const own = new Set([
    ...getMessageIds(run.spec),
    ...deliveries.flatMap((delivery) => delivery?.messageIds ?? []),
  ]);
  const replies = new Set(earlier.map(({ deliveryId }) => deliveryId));
  // The ids of a reply's messages are not known while it is sent, and if its outcome is unknown.
  const isReply = ({ idempotencyKey: key }: ThreadMessage): boolean =>
    key !== undefined && replies.has(parseSendKey(key).id);
  const [newest] = earlier;
  // Not the time at which the turn ended: what was written meanwhile was not there to be read.
  const at = newest?.createdAt ?? (await getLastTurn(store, session))?.at ?? 0;
  const last = listed.findLastIndex(({ id }) => answered.has(id));
  const unseen = last < 0 ? listed.filter((message) => message.at > at) : listed.slice(last + 1);
  return unseen
    .filter((message) => !own.has(message.id) && !isReply(message))
    .filter(({ text, attachments = [] }) => text.trim() !== "" || attachments.length > 0);
}

/** Lists what was written in the message's thread since the agent's last turn in it. */
async function readThread(
  run: MessageRun,
  { channel }: LoadedChannel,
  { limit, deps, signal }: { limit: number; deps: UnreadDeps; signal: AbortSignal },
): Promise<Earlier> {
  const {
    to,
    incoming: { thread, replyTo: before },
  } = run.spec;
  if (limit === 0 || !channel.listThread || thread === undefined) return toThread([]);
  const listThread = channel.listThread.bind(channel);
  const listed =
    (await ask((limited) => listThread({ to, thread, before, limit }, limited), signal)) ?? [];
  const unseen = (await findUnseen(listed, run, deps.store)).slice(-limit);
  return toThread(unseen);
}

/**
 * Gets what a channel's message refers to: its files, what it quotes, and what was written in its thread. What is text becomes
 * part of the input and is kept with the run, so that another attempt reads it no more; undefined if nothing is missing. If a
 * message is edited meanwhile, the run cannot start, and all is read again. `question` is the text of the messages alone.
 */
export async function readUnread(
  run: MessageRun,
  { channels, config }: Pick<ActionContext, "channels" | "config">,
  deps: UnreadDeps,
  signal: AbortSignal,
) {
  const { unread, channel: id, ...spec } = run.spec;
  if (!unread) return undefined;
  const loaded = channels.get(id);
  const question = toQuestion(spec.input);
  if (!loaded) {
    const gone = `the channel "${id}" is gone, so what came with the message was not fetched`;
    return { spec: run.spec, question, images: [], warnings: [gone] };
  }
  const { quotedIds = [], hasThread } = unread;
  const thread = hasThread
    ? await readThread(run, loaded, { limit: config.threads.messages, deps, signal })
    : toThread([]);
  const quoted = await Promise.all(
    quotedIds.map((one) => readQuoted(one, run, loaded, deps, signal)),
  );
  const attachments = [
    ...(unread.attachments ?? []),
    ...quoted.flatMap((one) => one.attachments),
    ...thread.attachments,
  ];
  const { parts, images, kept } = await readAttachments(
    attachments,
    { channel: loaded.channel, config },
    deps,
    signal,
  );
  const read: MessageSpec = {
    ...spec,
    channel: id,
    input: [...thread.parts, ...spec.input, ...quoted.flatMap((one) => one.parts), ...parts],
    parts: toReadParts(run.spec, thread.parts.length),
    ...(kept.length > 0 && { unread: { attachments: kept } }),
  };
  return { spec: read, question, images, warnings: [] };
}
