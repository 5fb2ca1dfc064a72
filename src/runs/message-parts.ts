import type { TextPart } from "../core/text.ts";
import type { MessageSpan, UnreadContent } from "../store/attachments.ts";
import type { RunSpec } from "../store/types.ts";

const BETWEEN: TextPart = { text: "\n\n", outside: false };

/** Returns the messages that a turn answers, in their order in its input. */
export function getMessageParts({
  parts,
  incoming,
  input,
  unread,
}: RunSpec): readonly MessageSpan[] {
  if (parts) return parts;
  if (!incoming) return [];
  return [
    {
      id: incoming.replyTo,
      from: incoming.from,
      start: 0,
      count: input.length,
      ...(unread && { unread }),
    },
  ];
}

/** Finds a message among those that a turn answers. */
export const findMessagePart = (id: string, spec: RunSpec): MessageSpan | undefined =>
  getMessageParts(spec).find((part) => part.id === id);

const moveParts = (parts: readonly MessageSpan[], by: number): MessageSpan[] =>
  parts.map((part) => ({ ...part, start: part.start + by }));

/** The messages of a turn after `added` parts of text were put before its input, and all that they refer to was fetched. */
export const toReadParts = (spec: RunSpec, added: number): MessageSpan[] =>
  moveParts(getMessageParts(spec), added).map(({ unread: _unread, ...part }) => part);

/** Returns what the turn of several messages has to get from the channel; undefined if they hold everything themselves. */
export function joinUnread(all: readonly (UnreadContent | undefined)[]): UnreadContent | undefined {
  const unread = all.flatMap((one) => one ?? []);
  const attachments = unread.flatMap((one) => one.attachments ?? []);
  const quotedIds = [...new Set(unread.flatMap((one) => one.quotedIds ?? []))];
  const joined: UnreadContent = {
    ...(attachments.length > 0 && { attachments }),
    ...(quotedIds.length > 0 && { quotedIds }),
    ...(unread.some(({ hasThread }) => hasThread) && { hasThread: true as const }),
  };
  return Object.keys(joined).length === 0 ? undefined : joined;
}

/** Puts the messages of several turns into one input, in order. */
export function joinMessages(specs: readonly RunSpec[]): Pick<RunSpec, "input" | "parts"> {
  const input: TextPart[] = [];
  const parts: MessageSpan[] = [];
  for (const spec of specs) {
    if (input.length > 0) input.push(BETWEEN);
    parts.push(...moveParts(getMessageParts(spec), input.length));
    input.push(...spec.input);
  }
  return { input, parts };
}

/** What a turn has to get once one of its messages has other content. */
function replaceUnread(
  all: UnreadContent | undefined,
  before: UnreadContent | undefined,
  after: UnreadContent | undefined,
) {
  const refs = new Set(before?.attachments?.map(({ ref }) => ref));
  const kept: UnreadContent = {
    ...(all?.hasThread && { hasThread: true as const }),
    attachments: all?.attachments?.filter(({ ref }) => !refs.has(ref)) ?? [],
    quotedIds: all?.quotedIds?.filter((id) => !before?.quotedIds?.includes(id)) ?? [],
  };
  return joinUnread([kept, after]);
}

/**
 * Replaces the text of one message of a turn, and what comes with it. If its files were fetched already, those stay.
 * @param isRead whether the turn has begun before
 */
export function replaceMessage(
  spec: RunSpec,
  edited: MessageSpan,
  edit: RunSpec,
  isRead: boolean,
): RunSpec {
  const { unread: all, ...kept } = spec;
  const { start, count } = edited;
  const after = isRead && !edited.unread ? undefined : edit.unread;
  const parts = getMessageParts(spec).map((part): MessageSpan => {
    if (part.start > start) return { ...part, start: part.start + edit.input.length - count };
    if (part.start < start) return part;
    const { unread: _before, ...same } = part;
    return { ...same, count: edit.input.length, ...(after && { unread: after }) };
  });
  const unread = replaceUnread(all, edited.unread, after);
  const input = [...spec.input.slice(0, start), ...edit.input, ...spec.input.slice(start + count)];
  return { ...kept, input, parts, ...(unread && { unread }) };
}
