import type { InputImage } from "../agent/types.ts";
import type { Attachment, EarlierMessage, ThreadMessage } from "../contract/channel.ts";
import { parseSendKey } from "../delivery/plan.ts";
import type { LoadedChannel } from "../delivery/types.ts";
import { labelledText, type TextPart } from "../core/text.ts";
import type { RunRecord, RunSpec, Store } from "../store/types.ts";
import { readAttachments, type AttachmentDeps } from "./attachments.ts";
import { renderOutside, renderThread } from "./channel-input.ts";
import { findMessagePart, toReadParts } from "./message-parts.ts";
import { getLastTurn } from "./session-history.ts";
import type { ActionContext } from "./types.ts";

/** A channel's message with all that it refers to. */
export interface WholeMessage {
  spec: RunSpec;
  /** The edits that `spec` holds. */
  edits: number;
  /** What was written, without what it refers to. */
  text: readonly TextPart[];
  images: readonly InputImage[];
  warnings: string[];
}

export interface UnreadDeps extends AttachmentDeps {
  store: Pick<Store, "get" | "list">;
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
  { spec }: RunRecord,
  store: UnreadDeps["store"],
): Promise<EarlierMessage | undefined> {
  const runs = await store.list("runs", { sessionKey: spec.session.key, limit: MAX_RUNS });
  for (const run of runs) {
    const { incoming, channel, input } = run.spec;
    if (channel !== spec.channel || run.spec.session.agentId !== spec.session.agentId || !incoming)
      continue;
    const part = findMessagePart(id, run.spec);
    // The first part of a message names the place.
    if (part)
      return {
        author: part.from,
        text: labelledText(input.slice(part.start + 1, part.start + part.count)),
      };
    const delivery =
      run.deliveryId === undefined ? undefined : await store.get("delivery", run.deliveryId);
    if (run.reply !== undefined && delivery?.messageIds.includes(id))
      return { author: "you", text: run.reply };
  }
  return undefined;
}

/** What was written before, and its files. */
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
  run: RunRecord,
  { channel }: LoadedChannel,
  deps: UnreadDeps,
  signal: AbortSignal,
): Promise<Earlier> {
  const { to = "" } = run.spec;
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
  run: RunRecord,
  store: UnreadDeps["store"],
): Promise<ThreadMessage[]> {
  const { session } = run.spec;
  const runs = await store.list("runs", {
    sessionKey: session.key,
    before: run.id,
    limit: MAX_RUNS,
  });
  const earlier = runs.filter(
    ({ spec, status }) =>
      spec.session.agentId === session.agentId && spec.incoming && status === "succeeded",
  );
  const toIds = ({ spec }: RunRecord): string[] =>
    spec.incoming ? [...(spec.incoming.joined ?? []), spec.incoming.replyTo] : [];
  const deliveries = await Promise.all(
    earlier.map(({ deliveryId }) =>
      deliveryId === undefined ? undefined : store.get("delivery", deliveryId),
    ),
  );
  const answered = new Set(earlier.flatMap(toIds));
  const own = new Set([
    ...toIds(run),
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
  run: RunRecord,
  { channel }: LoadedChannel,
  { limit, deps, signal }: { limit: number; deps: UnreadDeps; signal: AbortSignal },
): Promise<Earlier> {
  const { to = "", incoming } = run.spec;
  const { thread, replyTo: before } = incoming ?? {};
  if (limit === 0 || !channel.listThread || thread === undefined || before === undefined)
    return toThread([]);
  const listThread = channel.listThread.bind(channel);
  const listed =
    (await ask((limited) => listThread({ to, thread, before, limit }, limited), signal)) ?? [];
  const unseen = (await findUnseen(listed, run, deps.store)).slice(-limit);
  return toThread(unseen);
}

/** Fetched again if edits keep changing what a message refers to. */
const MAX_READS = 3;

const hasSameUnread = (one: RunSpec, other: RunSpec): boolean =>
  JSON.stringify(one.unread) === JSON.stringify(other.unread);

/**
 * Gets what a channel's message refers to: its files, what it quotes, and what was written in its thread. What is text becomes
 * part of the input and is kept with the run, so that another attempt reads it no more; undefined if nothing is missing.
 */
export async function readUnread(
  given: RunRecord,
  { channels, config }: Pick<ActionContext, "channels" | "config">,
  deps: UnreadDeps,
  signal: AbortSignal,
): Promise<WholeMessage | undefined> {
  let run = given;
  for (let reads = 1; ; reads++) {
    const { unread, channel: id } = run.spec;
    const loaded = channels.get(id);
    const text = run.spec.input;
    const { edits = 0 } = run;
    const gone = `the channel "${id}" is gone, so what came with the message was not fetched`;
    if (!unread && reads === 1) return undefined;
    if (!unread || !loaded)
      return { spec: run.spec, edits, text, images: [], warnings: unread ? [gone] : [] };
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
    const latest = (await deps.store.get("run", run.id)) ?? run;
    const isSame = hasSameUnread(latest.spec, run.spec);
    run = latest;
    if (!isSame && reads < MAX_READS) continue;
    const { unread: _unread, ...spec } = latest.spec;
    const input = [...thread.parts, ...spec.input, ...quoted.flatMap((one) => one.parts), ...parts];
    const read = {
      ...spec,
      input,
      parts: toReadParts(latest.spec, thread.parts.length),
      ...(kept.length > 0 && { unread: { attachments: kept } }),
      ...(attachments.length > 0 && { received: spec.received ?? attachments }),
    };
    return { spec: read, edits: latest.edits ?? 0, text: spec.input, images, warnings: [] };
  }
}
