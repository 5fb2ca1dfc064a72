import { cutText, oneLine, plainText, type TextPart, plural } from "../../core/text.ts";
import type {
  Attachment,
  EarlierMessage,
  IncomingMessage,
  MessagePart,
  PartKind,
} from "../../contract/channel.ts";
import type { MessageSpan, UnreadContent } from "../../store/attachments.ts";
import type { MessageSpec, Route } from "../../store/types.ts";

const BETWEEN: TextPart = { text: "\n\n", outside: false };

/** Returns the messages that a turn answers, in their order in its input. */
function getMessageParts({ parts, incoming, input, unread }: MessageSpec): readonly MessageSpan[] {
  if (parts) return parts;
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

/** The ids of the messages that a turn answers; the newest is last. */
export const getMessageIds = ({ incoming }: MessageSpec): string[] => [
  ...(incoming.joined ?? []),
  incoming.replyTo,
];

/** The route of the reply to a channel's message: back to its conversation. */
export function replyRoute({ incoming, channel, to }: MessageSpec): Route {
  const { replyTo, thread } = incoming;
  return { channel, to, replyTo, ...(thread === undefined ? {} : { thread }) };
}

/** True if two messages were written in the same place. */
export const isSamePlace = (one: MessageSpec, other: MessageSpec): boolean =>
  one.channel === other.channel &&
  one.to === other.to &&
  one.incoming.thread === other.incoming.thread;

/** Finds a message among those that a turn answers, by its id or that of an edit of it. */
export const findMessagePart = (id: string, spec: MessageSpec): MessageSpan | undefined =>
  getMessageParts(spec).find((part) => part.id === id || part.editIds?.includes(id));

const moveParts = (parts: readonly MessageSpan[], by: number): MessageSpan[] =>
  parts.map((part) => ({ ...part, start: part.start + by }));

/** The messages of a turn after `added` parts of text were put before its input, and all that they refer to was fetched. */
export const toReadParts = (spec: MessageSpec, added: number): MessageSpan[] =>
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
export function joinMessages(specs: readonly MessageSpec[]): Pick<MessageSpec, "input" | "parts"> {
  const input: TextPart[] = [];
  const parts: MessageSpan[] = [];
  for (const spec of specs) {
    if (input.length > 0) input.push(BETWEEN);
    parts.push(...moveParts(getMessageParts(spec), input.length));
    input.push(...spec.input);
  }
  return { input, parts };
}

/** Returns what a turn has to get from the channel once one of its messages has other content. */
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
  spec: MessageSpec,
  edited: MessageSpan,
  edit: MessageSpec,
  isRead: boolean,
): MessageSpec {
  const { unread: all, ...kept } = spec;
  const { start, count } = edited;
  const after = isRead && !edited.unread ? undefined : edit.unread;
  const parts = getMessageParts(spec).map((part): MessageSpan => {
    if (part.start > start) return { ...part, start: part.start + edit.input.length - count };
    if (part.start < start) return part;
    const { unread: _before, editIds = [], ...same } = part;
    return {
      ...same,
      count: edit.input.length,
      editIds: [...editIds, edit.incoming.replyTo],
      ...(after && { unread: after }),
    };
  });
  const unread = replaceUnread(all, edited.unread, after);
  const input = [...spec.input.slice(0, start), ...edit.input, ...spec.input.slice(start + count)];
  return { ...kept, input, parts, ...(unread && { unread }) };
}

const MAX_ID = 200;
const MAX_NAME = 100;
const MAX_FILES = 50;
const MAX_EARLIER = 4000;

/** An id as it may stand outside the boundary: other characters than ids have become `_`. */
const renderId = (id: string): string => cutText(id.replace(/[^\w.@:;+=/#-]/g, "_"), MAX_ID).text;

/** The line of a display name; none for a blank name. */
function nameLines(label: string, name: unknown): string[] {
  const text = typeof name === "string" ? cutText(oneLine(name), MAX_NAME).text : "";
  return text === "" ? [] : [`${label}: ${text}`];
}

function renderPlace({ direct, to, thread, room }: IncomingMessage): string {
  if (direct) return "to you alone";
  // The plugin may be anybody's: what it says about the kind is not repeated.
  return `in the ${room?.kind === "channel" ? "channel" : "group"} ${renderId(to)}${thread === undefined ? "" : `, thread ${renderId(thread)}`}`;
}

const NAMES = {
  image: "image",
  audio: "voice or audio",
  video: "video",
  document: "file",
} as const;

/** Names a file in one line: `[file: report.pdf]`. What was found out about it follows the name. */
export function renderAttachment(
  { kind, name }: Pick<Attachment, "kind" | "name">,
  note = "",
): string {
  const named = name === undefined ? "" : `: ${cutText(oneLine(name), MAX_NAME).text}`;
  return `[${NAMES[kind]}${named}${note === "" ? "" : `, ${note}`}]`;
}

const renderAuthor = (author: unknown): string =>
  typeof author === "string" ? cutText(oneLine(author), MAX_NAME).text : "";

const KINDS: Record<Exclude<PartKind, "own">, string> = {
  forwarded: "forwarded message",
  quoted: "quoted or answered message",
  shared: "shared message",
  embedded: "embedded content",
  file: "files",
};

/** Names whose words a part of a message is: `forwarded message, by Vera, from Friday`. */
function renderOrigin(
  kind: keyof typeof KINDS,
  { author, place }: Pick<EarlierMessage, "author" | "place">,
): string {
  const [by, from] = [renderAuthor(author), renderAuthor(place)];
  return `${KINDS[kind]}${by === "" ? "" : `, by ${by}`}${from === "" ? "" : `, from ${from}`}`;
}

/** The names of files, a line each; the rest is counted. */
function renderFiles(attachments: readonly Attachment[]): string[] {
  const left = attachments.length - MAX_FILES;
  return [
    ...attachments.slice(0, MAX_FILES).map((file) => renderAttachment(file)),
    ...(left > 0 ? [`[and ${plural(left, "more file")}]`] : []),
  ];
}

/** Cuts at `limit` characters, with a note. */
function cutNoted(text: string, limit: number): { text: string; cut: number } {
  const { text: kept, cut } = cutText(text, Math.max(0, limit));
  return { text: cut > 0 ? `${kept}[cut: ${cut} characters]` : kept, cut };
}

const NEXT_LINE: TextPart = { text: "\n", outside: false };

/** Renders what others than the sender said, as outside text with its origin. */
export function renderOutside(
  kind: keyof typeof KINDS,
  { author, place, text, attachments = [] }: EarlierMessage,
): TextPart[] {
  const said = [text.trim(), ...renderFiles(attachments)].filter(Boolean).join("\n");
  const origin = renderOrigin(kind, { author, place });
  return [NEXT_LINE, { text: said, outside: true, origin }, NEXT_LINE];
}

/** Renders messages of a thread that were written before, as outside text. */
export function renderThread(messages: readonly EarlierMessage[]): TextPart[] {
  if (messages.length === 0) return [];
  const lines = messages.map(({ author, text, attachments = [] }) => {
    const said = [text.trim(), ...renderFiles(attachments)].filter(Boolean).join(" ");
    return `${renderAuthor(author) || "somebody"}: ${cutNoted(said, MAX_EARLIER).text}`;
  });
  return [
    { text: lines.join("\n"), outside: true, origin: "what was written in this thread before" },
    NEXT_LINE,
  ];
}

const LEAD_START = "Message on ";
const LEAD = /^Message on [^\n]*\. All that follows [^\n]*:\n$/;
const OWN = "All that follows is theirs:\n";
const WITH_OTHERS =
  "All that follows was sent by them, but only what stands outside the markers is theirs:\n";

const isWritten = ({ text, outside, by }: TextPart): boolean =>
  outside ? by !== "sender" : !LEAD.test(text);

/** The text that an input asks about: without the lines about who wrote its messages, and where. */
export const toQuestion = (input: readonly TextPart[]): string =>
  plainText(input.filter(isWritten));

/** The words of a message's sender. */
export const getOwnText = (parts: readonly MessagePart[]): string =>
  parts.flatMap(({ kind, text }) => (kind === "own" ? text : [])).join("\n");

/**
 * Renders the input of a message's turn: a line with the ids of sender and room, the display names as outside text, then
 * what the sender wrote, and as outside text with its origin all that others wrote or named. The owner's direct messages have
 * no display names. `personId` is that of a linked person, whose messages have other sender's ids on other channels. `cut` is
 * how many characters were more than `maxChars`.
 */
export function renderMessage(
  channel: string,
  message: IncomingMessage,
  {
    isOwner,
    personId,
    maxChars,
  }: { isOwner: boolean; personId?: string | undefined; maxChars: number },
): { input: TextPart[]; cut: number } {
  const who = isOwner
    ? " (the owner)"
    : personId === undefined
      ? ""
      : ` (the person ${renderId(personId)})`;
  const sender = `${renderId(message.from)}${who}`;
  const lead = `${LEAD_START}${channel} from ${sender}, ${renderPlace(message)}.`;
  const names =
    isOwner && message.direct
      ? []
      : [
          ...nameLines("sender's name", message.name),
          ...nameLines("room's name", message.room?.name),
        ];
  let left = maxChars;
  let cut = 0;
  const said = message.parts.flatMap(({ kind, id, ...part }): TextPart[] => {
    const { text, cut: gone } = cutNoted(part.text, left);
    left -= part.text.length - gone;
    cut += gone;
    if (kind === "own")
      return [{ text: `\n${text}`, outside: false, ...(isOwner ? { by: "owner" as const } : {}) }];
    // The gateway looks the message up, when its turn begins.
    return id === undefined ? renderOutside(kind, { ...part, text }) : [];
  });
  const isOwn = message.parts.every(({ kind }) => kind === "own");
  return {
    input: [
      { text: `${lead} ${isOwn ? OWN : WITH_OTHERS}`, outside: false },
      ...(names.length === 0
        ? []
        : [{ text: names.join("\n"), outside: true, by: "sender" as const }]),
      ...said,
    ],
    cut,
  };
}
