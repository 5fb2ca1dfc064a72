import { cutText, oneLine, plainText, type TextPart } from "../core/text.ts";
import type {
  Attachment,
  EarlierMessage,
  IncomingMessage,
  MessagePart,
  PartKind,
} from "../contract/channel.ts";

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
    ...(left > 0 ? [`[and ${left} more files]`] : []),
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
