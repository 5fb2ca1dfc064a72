import { z } from "zod";
import { sha256Hex } from "../core/secret.ts";
import { type IncomingMessage, PART_KINDS, type MessagePart } from "../contract/channel.ts";
import { findMessagePart, replaceMessage } from "../turns/channel/channel-input.ts";
import { isRunChanged } from "../store/sql/errors.ts";
import {
  getEdits,
  toExpected,
  type EventRecord,
  type FencingToken,
  type MessageRun,
  type MessageSpec,
  type RunAction,
  type RunRecord,
  type Store,
} from "../store/types.ts";
import type { ActionContext } from "../turns/types.ts";
import type { UnreadContent } from "../store/attachments.ts";

const MAX_ATTACHMENTS = 100;

const short = z.string().max(1000);
const id = short.min(1);
const attachment = z.object({
  kind: z.enum(["image", "audio", "video", "document"]),
  name: short.optional(),
  mime: short.optional(),
  bytes: z.number().min(0).optional(),
  ref: z.string().min(1).max(4000),
});
const part = z
  .object({
    kind: z.enum(PART_KINDS),
    text: z.string(),
    author: short.optional(),
    place: short.optional(),
    attachments: z.array(attachment).optional(),
    id: id.optional(),
  })
  .refine((one) => one.id === undefined || one.kind === "quoted");
const content = z.object({
  parts: z
    .array(part)
    .max(200)
    .refine((parts) => getAttachments(parts).length <= MAX_ATTACHMENTS),
  edits: id.optional(),
  writtenAt: z.number().optional(),
  album: id.optional(),
});

const getAttachments = <T>(parts: readonly { attachments?: readonly T[] | undefined }[]): T[] =>
  parts.flatMap(({ attachments = [] }) => attachments);

/** Returns the problem of what a message holds, or undefined. */
export function findContentProblem(message: IncomingMessage): string | undefined {
  const checked = content.safeParse(message);
  if (!checked.success)
    return `the channel gave no usable \`${String(checked.error.issues[0]?.path[0])}\``;
  const isEmpty = ({ text, attachments = [], id }: MessagePart): boolean =>
    text.trim() === "" && attachments.length === 0 && id === undefined;
  return message.parts.every(isEmpty) ? "the message has no text" : undefined;
}

/** Returns what the turn of a message has to get from the channel; undefined if the message holds everything itself. */
export function getUnread({ parts, direct, thread }: IncomingMessage): UnreadContent | undefined {
  const attachments = getAttachments(parts);
  const quotedIds = parts.flatMap(({ id }) => id ?? []);
  const unread: UnreadContent = {
    ...(attachments.length > 0 && {
      attachments: attachments.map((one) => attachment.parse(one)),
    }),
    ...(quotedIds.length > 0 && { quotedIds }),
    ...(!direct && thread !== undefined && { hasThread: true as const }),
  };
  return Object.keys(unread).length === 0 ? undefined : unread;
}

/** The means to decide about a message that needs the store. */
interface StoredPlaceDeps {
  store: Store;
  context: Pick<ActionContext, "config">;
  fencingToken: FencingToken | undefined;
  now: number;
}

/** The result for a message by itself. */
export type CheckedMessage = Partial<Omit<EventRecord, "actions">> & {
  actions?: RunAction<MessageSpec>[];
};

/** The result for a message. `boundId`: the id of an earlier message that the message takes the place of. */
type PlacedMessage = CheckedMessage & { boundId?: string };

export const NOT_ADDRESSED = "the message is not addressed to the agent";
const REPLACED = "an edit: it replaced the text of a message that waited for its turn";
const TOO_LATE =
  "an edit of an earlier message: the turn of that message has begun, so it keeps its text";
const COMMAND = "an edit that makes a command of an earlier message: the message keeps its text";
const UNKNOWN = "an edit of an earlier message that is not known";
/** Messages of a session that wait at the same time, among which one that was edited is looked for. */
const MAX_QUEUED = 200;
/** An edit is tried again if the turn of the message, or another edit, has changed what was read. */
const MAX_TRIES = 5;

/** The duplicate key of a message, or of one that was skipped. */
export const toMessageKey = (id: string, isSkipped = false): string =>
  sha256Hex(isSkipped ? `skipped ${id}` : id);

type Edited = { edits: string; spec: MessageSpec };

/** Returns whether a run is that of the edited message, or holds it among others. */
function hasMessage(run: RunRecord, { edits, spec }: Edited): run is MessageRun {
  if (run.kind !== "channel") return false;
  const { session, channel, command } = run.spec;
  const isSession = channel === spec.channel && session.agentId === spec.session.agentId;
  return (
    isSession &&
    command === undefined &&
    findMessagePart(edits, run.spec)?.from === spec.incoming.from
  );
}

/** Finds the run of a message that waits for its turn: none of its model calls was answered. */
async function findWaiting(
  edited: Edited,
  { store }: StoredPlaceDeps,
): Promise<MessageRun | undefined> {
  const { key: sessionKey } = edited.spec.session;
  const [queued, parked] = await Promise.all(
    (["queued", "parked"] as const).map((status) =>
      store.runs.list({ status, sessionKey, limit: MAX_QUEUED }),
    ),
  );
  const run = [...(queued ?? []), ...(parked ?? [])].find((one) => hasMessage(one, edited));
  const steps = run?.startedAt === undefined ? [] : await store.steps.list(run.id);
  return steps.length === 0 ? run : undefined;
}

/** Replaces the text of a message that waits for its turn, and what comes with it. False if its turn has begun, or it has none. */
async function replaceText(edited: Edited, deps: StoredPlaceDeps): Promise<boolean> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const run = await findWaiting(edited, deps);
    const part = run && findMessagePart(edited.edits, run.spec);
    if (!part) return false;
    const spec = replaceMessage(run.spec, part, edited.spec, run.startedAt !== undefined);
    try {
      const change = { spec, edits: getEdits(run) + 1 };
      // The turn may begin meanwhile, or collect the message into another one.
      await deps.store.commit(
        (tx) => tx.runs.update(run.id, change, toExpected(run)),
        deps.fencingToken,
      );
      return true;
    } catch (error) {
      if (!isRunChanged(error)) throw error;
    }
  }
  return false;
}

/** Returns whether a message was received before, or skipped. */
async function isBound(key: string, path: string, { store }: StoredPlaceDeps): Promise<boolean> {
  const [bound] = await store.findDuplicates([{ scope: path, key }]);
  return bound !== undefined;
}

/** Returns whether a message was taken: it has, or had, a turn. */
async function wasTaken(edited: Edited, path: string, deps: StoredPlaceDeps): Promise<boolean> {
  if (await isBound(toMessageKey(edited.edits), path, deps)) return true;
  const sessionKey = edited.spec.session.key;
  const runs = await deps.store.runs.list({ sessionKey, limit: MAX_QUEUED });
  return runs.some((run) => hasMessage(run, edited));
}

/**
 * Returns whether the agent has answered in a message's thread, and threads are followed. `/new` leaves the session
 * there, without turns.
 */
async function isFollowed(
  { spec }: RunAction,
  { store, context }: StoredPlaceDeps,
): Promise<boolean> {
  return context.config.threads.follow && (await store.sessions.get(spec.session)) !== undefined;
}

/**
 * Decides about an edit: it replaces a message that waits. One that an agent gets only as it is now is a new message: in a
 * group an edit can add the mention. Of a message that is older than the duplicate keys are kept, nothing says whether it had a turn.
 */
async function placeEdit(
  { edits, writtenAt = Infinity, direct, addressed }: IncomingMessage & { edits: string },
  action: RunAction<MessageSpec>,
  checked: CheckedMessage,
  deps: StoredPlaceDeps,
): Promise<PlacedMessage> {
  const { spec } = action;
  const edited = { edits, spec };
  const path = spec.hook;
  if (spec.command === undefined && (await replaceText(edited, deps)))
    return { outcome: "accepted", actions: [], reason: REPLACED };
  if (await wasTaken(edited, path, deps))
    return { reason: spec.command === undefined ? TOO_LATE : COMMAND };
  const isForgotten = writtenAt < deps.now - deps.context.config.hooks.dedupe.ttl;
  const isUnknown = direct || isForgotten;
  if (isUnknown && !(await isBound(toMessageKey(edits, true), path, deps)))
    return { reason: UNKNOWN };
  if (addressed === false && !(await isFollowed(action, deps))) return { reason: NOT_ADDRESSED };
  const incoming = { ...spec.incoming, replyTo: edits };
  return {
    ...checked,
    actions: [{ ...action, spec: { ...spec, incoming } }],
    boundId: edits,
  };
}

/** Decides about a message that would be a turn: an edit replaces another message, and not every message of a thread is for the agent. */
export async function checkStoredPlace(
  message: IncomingMessage,
  checked: CheckedMessage,
  deps: StoredPlaceDeps,
): Promise<PlacedMessage> {
  const [action] = checked.actions ?? [];
  if (!action) return checked;
  const { edits, addressed } = message;
  if (edits !== undefined) return placeEdit({ ...message, edits }, action, checked, deps);
  if (addressed === false && !(await isFollowed(action, deps))) return { reason: NOT_ADDRESSED };
  return checked;
}
