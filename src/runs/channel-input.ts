import { cutText, oneLine, plainText, type TextPart } from "../core/text.ts";
import type { Attachment, EarlierMessage, IncomingMessage } from "../contract/channel.ts";

const MAX_ID = 200;
const MAX_NAME = 100;
const MAX_FILES = 50;
const MAX_FILE = 1000;
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

/** Renders messages that were written before, as outside text under a title. */
export function renderEarlier(title: string, messages: readonly EarlierMessage[]): TextPart {
  const lines = messages.map(({ author, text, attachments = [] }) => {
    const files = attachments.slice(0, MAX_FILES).map((file) => renderAttachment(file));
    const said = cutText([text.trim(), ...files].filter(Boolean).join(" "), MAX_EARLIER);
    const by = typeof author === "string" ? cutText(oneLine(author), MAX_NAME).text : "";
    return `${by === "" ? "somebody" : by}: ${said.text}${said.cut > 0 ? `[cut: ${said.cut} characters]` : ""}`;
  });
  return { text: `${title}\n${lines.join("\n")}`, outside: true };
}

export const QUOTED = "The message that this one quotes or answers:";

/** The lines of the files; the rest is counted. */
function fileLines(files: readonly string[]): string[] {
  const left = files.length - MAX_FILES;
  return [
    ...files.slice(0, MAX_FILES).map((file) => cutText(oneLine(file), MAX_FILE).text),
    ...(left > 0 ? [`[and ${left} more files]`] : []),
  ];
}

const LEAD_START = "Message on ";
const LEAD_END = " All that follows is theirs:\n";

const isWritten = ({ text, outside, by }: TextPart): boolean =>
  outside ? by !== "sender" : !(text.startsWith(LEAD_START) && text.endsWith(LEAD_END));

/** The text that an input asks about: without the lines about who wrote its messages, and where. */
export const toQuestion = (input: readonly TextPart[]): string =>
  plainText(input.filter(isWritten));

/**
 * Renders the input of a message's turn: a line with the ids of sender and room, the display names as outside text, then
 * `text`, which the sender wrote, and as outside text what was quoted and the names of files: people send on what others have
 * written and named. The owner's direct messages have no display names. `personId` is that of a linked person, whose messages
 * have other sender's ids on other channels.
 */
export function renderMessage(
  channel: string,
  message: IncomingMessage,
  text: string,
  { isOwner, personId }: { isOwner: boolean; personId?: string | undefined },
): TextPart[] {
  const who = isOwner
    ? " (the owner)"
    : personId === undefined
      ? ""
      : ` (the person ${renderId(personId)})`;
  const sender = `${renderId(message.from)}${who}`;
  const lead = `${LEAD_START}${channel} from ${sender}, ${renderPlace(message)}.${LEAD_END}`;
  const { quoted } = message;
  const files = [
    ...(message.attachments ?? []).map((file) => renderAttachment(file)),
    ...(message.files ?? []),
  ];
  const names =
    isOwner && message.direct
      ? []
      : [
          ...nameLines("sender's name", message.name),
          ...nameLines("room's name", message.room?.name),
        ];
  return [
    { text: lead, outside: false },
    ...(names.length === 0
      ? []
      : [{ text: names.join("\n"), outside: true, by: "sender" as const }]),
    { text: `\n${text}`, outside: false, ...(isOwner ? { by: "owner" as const } : {}) },
    ...(quoted && "text" in quoted
      ? [renderEarlier(QUOTED, [quoted]), { text: "\n", outside: false }]
      : []),
    ...(files.length === 0 ? [] : [{ text: fileLines(files).join("\n"), outside: true }]),
  ];
}
