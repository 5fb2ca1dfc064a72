import type { InputImage } from "../agent/types.ts";
import type { EarlierMessage } from "../contract/channel.ts";
import type { LoadedChannel } from "../delivery/types.ts";
import { plainText, type TextPart } from "../core/text.ts";
import type { RunRecord, RunSpec, Store } from "../store/types.ts";
import { readAttachments, type AttachmentDeps } from "./attachments.ts";
import { QUOTED, renderEarlier } from "./channel-input.ts";
import { getLastTurn } from "./session-history.ts";
import type { ActionContext } from "./types.ts";

/** A channel's message with all that it refers to. */
export interface WholeMessage {
  spec: RunSpec;
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
async function ask<T>(question: ((signal: AbortSignal) => Promise<T>) | undefined, signal: AbortSignal): Promise<T | undefined> {
  try {
    return await question?.(AbortSignal.any([signal, AbortSignal.timeout(ASK_MS)]));
  } catch {
    return undefined;
  }
}

/** Finds a message among those that the session keeps: one that came in, or a reply. */
async function findRecorded(id: string, { spec }: RunRecord, store: UnreadDeps["store"]): Promise<EarlierMessage | undefined> {
  const runs = await store.list("runs", { sessionKey: spec.session.key, limit: MAX_RUNS });
  for (const run of runs) {
    const { incoming, channel, input } = run.spec;
    if (channel !== spec.channel || run.spec.session.agentId !== spec.session.agentId || !incoming) continue;
    // The first part names the place.
    if (incoming.replyTo === id) return { author: incoming.from, text: plainText(input.slice(1)) };
    const delivery = run.deliveryId === undefined ? undefined : await store.get("delivery", run.deliveryId);
    if (run.reply !== undefined && delivery?.messageIds.includes(id)) return { author: "you", text: run.reply };
  }
  return undefined;
}

async function readQuoted(
  id: string,
  run: RunRecord,
  { channel }: LoadedChannel,
  deps: UnreadDeps,
  signal: AbortSignal,
): Promise<TextPart[]> {
  const { to = "" } = run.spec;
  const asked = await ask(
    channel.findQuoted && ((limited) => channel.findQuoted?.({ id, to }, limited) ?? Promise.resolve(undefined)),
    signal,
  );
  const found = asked ?? (await findRecorded(id, run, deps.store));
  const quoted = found ?? { text: "[it is not known here]" };
  return [renderEarlier(QUOTED, [quoted]), { text: "\n", outside: false }];
}

/** Lists what was written in the message's thread since the agent's last turn in it. */
async function readThread(
  run: RunRecord,
  { channel }: LoadedChannel,
  { limit, deps, signal }: { limit: number; deps: UnreadDeps; signal: AbortSignal },
): Promise<TextPart[]> {
  const { to = "", incoming, session } = run.spec;
  const { thread, replyTo: before, joined = [] } = incoming ?? {};
  if (limit === 0 || !channel.listThread || thread === undefined || before === undefined) return [];
  const listThread = channel.listThread.bind(channel);
  const last = await getLastTurn(deps.store, session);
  const listed = (await ask((limited) => listThread({ to, thread, before, limit }, limited), signal)) ?? [];
  const unseen = listed
    .filter(({ id, at, text }) => id !== before && !joined.includes(id) && text.trim() !== "" && at > (last?.at ?? 0))
    .slice(-limit);
  if (unseen.length === 0) return [];
  return [renderEarlier("What was written in this thread before:", unseen), { text: "\n", outside: false }];
}

/**
 * Gets what a channel's message refers to: its files, what it quotes, and what was written in its thread. What is text becomes
 * part of the input and is kept with the run, so that another attempt reads it no more; undefined if nothing is missing.
 */
export async function readUnread(
  run: RunRecord,
  { channels, config }: Pick<ActionContext, "channels" | "config">,
  deps: UnreadDeps,
  signal: AbortSignal,
): Promise<WholeMessage | undefined> {
  const { unread, channel: id } = run.spec;
  if (!unread) return undefined;
  const loaded = channels.get(id);
  if (!loaded)
    return { spec: run.spec, images: [], warnings: [`the channel "${id}" is gone, so what came with the message was not fetched`] };
  const { quotedIds = [], hasThread, attachments = [] } = unread;
  const thread = hasThread ? await readThread(run, loaded, { limit: config.threads.messages, deps, signal }) : [];
  const quoted = (await Promise.all(quotedIds.map((id) => readQuoted(id, run, loaded, deps, signal)))).flat();
  const { parts, images, kept } = await readAttachments(attachments, { channel: loaded.channel, config }, deps, signal);
  // An edit may have replaced the text meanwhile.
  const { unread: _unread, ...spec } = (await deps.store.get("run", run.id))?.spec ?? run.spec;
  const input = [...thread, ...spec.input, ...quoted, ...parts];
  return { spec: { ...spec, input, ...(kept.length > 0 && { unread: { attachments: kept } }) }, images, warnings: [] };
}
