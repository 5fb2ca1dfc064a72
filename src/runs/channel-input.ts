import { cutText, oneLine, type TextPart } from "../core/text.ts";
import type { IncomingMessage } from "../contract/channel.ts";

const MAX_ID = 200;
const MAX_NAME = 100;
const MAX_FILES = 50;
const MAX_FILE = 1000;

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

/** The lines of the files; the rest is counted. */
function fileLines(files: readonly string[]): string[] {
  const left = files.length - MAX_FILES;
  return [
    ...files.slice(0, MAX_FILES).map((file) => cutText(oneLine(file), MAX_FILE).text),
    ...(left > 0 ? [`[and ${left} more files]`] : []),
  ];
}

/**
 * Renders the input of a message's turn: a line with the ids of sender and room, the display names as outside text, then
 * `text`, which the sender wrote, and the names of files as outside text: people send on what others have named. The owner's
 * direct messages have no display names.
 */
export function renderMessage(channel: string, message: IncomingMessage, text: string, isOwner: boolean): TextPart[] {
  const sender = `${renderId(message.from)}${isOwner ? " (the owner)" : ""}`;
  const lead = `Message on ${channel} from ${sender}, ${renderPlace(message)}. All that follows is theirs:\n`;
  const { files = [] } = message;
  const names =
    isOwner && message.direct ? [] : [...nameLines("sender's name", message.name), ...nameLines("room's name", message.room?.name)];
  return [
    { text: lead, outside: false },
    ...(names.length === 0 ? [] : [{ text: names.join("\n"), outside: true }]),
    { text: `\n${text}`, outside: false, ...(isOwner ? { by: "owner" as const } : {}) },
    ...(files.length === 0 ? [] : [{ text: fileLines(files).join("\n"), outside: true }]),
  ];
}
