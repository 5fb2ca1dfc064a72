/** A file that came with a message. Its bytes are fetched by `Channel.fetchFile`, when the turn of the message begins. */
export interface Attachment {
  kind: "image" | "audio" | "video" | "document";
  /** As the sender's program names it. Outside text. */
  name?: string | undefined;
  /** The media type that the vendor states. */
  mime?: string | undefined;
  /** Its size, as far as the vendor states it. */
  bytes?: number | undefined;
  /** Names the file to the channel: an id of the vendor, or an address that the vendor's API has named. */
  ref: string;
}

/** The content that a channel's message only refers to: it is fetched when the message's turn begins. Images are fetched again for each attempt. */
export interface UnreadContent {
  attachments?: readonly Attachment[];
  /** The ids of the messages that were quoted. */
  quotedIds?: readonly string[];
  /** True if the earlier messages of the thread are to be fetched. */
  hasThread?: true;
}

/** A message within the input of a turn. */
export interface MessageSpan {
  /** The channel's id of the message, and who wrote it. */
  id: string;
  from: string;
  /** The ids of the edits of it that the input holds: an edit may name the one before it. */
  editIds?: readonly string[];
  /** Its first part in the input, and the number of its parts. */
  start: number;
  count: number;
  /** Its content that is still to be fetched. */
  unread?: UnreadContent;
}
