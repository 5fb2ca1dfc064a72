/** A file that came with a message. Its bytes are fetched by `Channel.fetchFile`, when the turn of the message begins. */
export interface Attachment {
  kind: "image" | "audio" | "video" | "document";
  /** As the sender's program names it. Outside text. */
  name?: string | undefined;
  /** The media type that the vendor states. */
  mime?: string | undefined;
  /** Its size, as far as the vendor states it. */
  bytes?: number | undefined;
  /** How the channel finds it: an id of the vendor, or an address that the vendor's API has named. */
  ref: string;
}

/** What a channel's message does not hold itself: it is fetched when the message's turn begins. Images are fetched again for each attempt. */
export interface UnreadContent {
  attachments?: readonly Attachment[];
  /** The ids of the messages that were quoted. */
  quotedIds?: readonly string[];
  /** Whether what was written in the thread before is to be looked up. */
  hasThread?: true;
}

/** A message within the input of a turn. */
export interface MessageSpan {
  /** The channel's id of the message, and who wrote it. */
  id: string;
  from: string;
  /** The ids of the edits of it that the input holds: an edit may name the one before it. */
  editIds?: readonly string[];
  /** Where it is in the input, and how many parts of the input it has. */
  start: number;
  count: number;
  /** What of it is still to be fetched. */
  unread?: UnreadContent;
}
