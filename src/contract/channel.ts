/** The types of a channel, of its environment, and of all that passes between it and the gateway. */
import type { Attachment } from "../store/attachments.ts";
import type { Cursor } from "../store/cursor.ts";
import type { Verdict } from "../store/steps.ts";

export type { Attachment, Cursor, Verdict };

/** One message, already in a piece that fits the channel. */
export interface OutgoingMessage {
  to: string;
  /** Markdown as the agent wrote it. */
  text: string;
  thread?: string;
  /** The message that this one answers, where it was written on the channel: its id there. */
  replyTo?: string;
  /** The same for every try at this piece: channels that know idempotency keys use it. */
  idempotencyKey: string;
  /** Set if the vendor took the message and then refused it, and the channel asked to send it once more (`resend`). */
  refused?: true;
}

/** A file that the agent sends. */
export interface OutgoingFile extends Omit<OutgoingMessage, "text"> {
  /** Safe as the name of a file: no path, no control characters. */
  name: string;
  /** The type of the bytes, found by the gateway in the bytes themselves. */
  mediaType: string;
  data: Uint8Array<ArrayBuffer>;
}

/** The result of sending a file. `unsupported`: the channel cannot send this file, and says so in words in its place. */
export type FileSendResult = SendResult | { status: "unsupported"; reason: string };

/** A question to a person about one tool call. The person presses a button, or writes what `instruction` says. */
export interface ApprovalQuestion {
  to: string;
  thread?: string;
  replyTo?: string;
  /** The data of a button, together with its verdict. Nothing else: who pressed it comes from the vendor. */
  code: string;
  /** Markdown, about 1,500 characters at most: what the agent wants to do, the arguments, what made it ask, until when. */
  text: string;
  /** Words that decide without a button, if buttons do not work: `Reply "approve 7f3" or "deny 7f3".` */
  instruction: string;
  /** The buttons, in order: two or three, their labels at most 20 characters long. */
  verdicts: readonly { verdict: Verdict; label: string }[];
  /** Milliseconds since the epoch. */
  expiresAt: number;
  /** The same for every try at this question. */
  idempotencyKey: string;
  /** As in `OutgoingMessage`. */
  refused?: true;
}

/** A question that was decided or has expired: its buttons are to go. */
export interface EndedQuestion {
  to: string;
  thread?: string;
  /** The ids that `ask` returned. */
  messageIds: readonly string[];
  /** The question and what became of it, in markdown: it replaces the message's text. */
  text: string;
}

/** A button that a person pressed. */
export interface ApprovalPress {
  /** The vendor's id of the press: a repeat of it is recorded once. */
  id: string;
  /** The person who pressed it, by what the vendor authenticates; in the form of `IncomingMessage.from`. Never from the button's data. */
  from: string;
  code: string;
  verdict: Verdict;
  /** The language of the person's app, as `IncomingMessage.language`. */
  language?: string | undefined;
}

/** The bytes of a file, or why there are none: `retry` may pass later, `failed` never will. `reason` quotes no address. */
export type FetchedFile =
  | { status: "found"; body: ReadableStream<Uint8Array> }
  | { status: "retry"; reason: string; afterMs?: number }
  | { status: "failed"; reason: string };

/** A message that somebody else, or the agent, wrote before. All of it is outside text. */
export interface EarlierMessage {
  /** The author: a display name or an id. */
  author?: string | undefined;
  /** The place of writing: the display name of a chat or a site. */
  place?: string | undefined;
  /** Empty only if there are attachments. */
  text: string;
  /** Its files: the agent gets their content, too. */
  attachments?: readonly Attachment[] | undefined;
}

/**
 * Whose words a part of a message is: `own`, its sender's; `forwarded`, those of a message that the sender passed on; `quoted`,
 * those of the message that it quotes or answers; `shared`, those of a copy of another message in it; `embedded`, what a
 * program has put there, such as cards, previews of links, places and contacts; `file`, files that came with it.
 */
export const PART_KINDS = ["own", "forwarded", "quoted", "shared", "embedded", "file"] as const;
export type PartKind = (typeof PART_KINDS)[number];

/** A part of a message. All but `own` is outside text, whoever sends it. */
export interface MessagePart extends EarlierMessage {
  kind: PartKind;
  /** The id of a quoted message, if the vendor sends no more of it. */
  id?: string | undefined;
}

/** A message of a thread, as the vendor's API gives it. */
export interface ThreadMessage extends EarlierMessage {
  /** As in `IncomingMessage.id`. */
  id: string;
  /** When it was written, in milliseconds since the epoch. */
  at: number;
  /** Of a message that the gateway sent, if the vendor keeps it: the key in `OutgoingMessage`. */
  idempotencyKey?: string | undefined;
}

/** The part of a thread that is asked for. */
export interface ThreadPlace {
  to: string;
  thread: string;
  /** The id of a message: only those before it. */
  before: string;
  limit: number;
}

/** A message that did not arrive although the vendor had taken it. `idempotencyKey` as it was sent; `reason` as in `SendResult`. */
export interface LostMessage {
  idempotencyKey: string;
  reason: string;
  /** True if the message is to be sent once more, as `refused`. */
  resend?: boolean;
}

/** A message that somebody wrote on the channel. */
export interface IncomingMessage {
  /** The channel's own id of the message: a repeat of it makes no second turn. */
  id: string;
  /** The author: an id that stays, never a display name. */
  from: string;
  /** The recipient of the answer, as `send` takes it. */
  to: string;
  thread?: string | undefined;
  /** Written to the agent alone; false for a mention in a group. */
  direct: boolean;
  /** The kind of room, if it is not a direct message, and the room's display name. Default: a group. */
  room?: { kind: "group" | "channel"; name?: string | undefined } | undefined;
  /** The language of the sender's app, as a tag (`de`, `pt-br`), if the vendor tells it. */
  language?: string | undefined;
  /** The sender's display name, which people can change. */
  name?: string | undefined;
  /** The content, in order. */
  parts: readonly MessagePart[];
  /** An id that all messages of an album have in common: together they are one message. */
  album?: string | undefined;
  /** The id of the message whose text this one replaces: an edit. It has an id of its own. */
  edits?: string | undefined;
  /**
   * When the message that this one edits was written, in milliseconds since the epoch, if the vendor tells it. An edit of a
   * message that the gateway has forgotten makes no turn.
   */
  writtenAt?: number | undefined;
  /** Set to false for a message of a thread that does not address the agent: it counts if the agent takes part in the thread. */
  addressed?: false | undefined;
}

/**
 * A message that is not for the agent: not addressed to it, written by a bot, an edit, or of a kind that the channel cannot
 * read. It leaves an event with the reason. The agent's own messages, reactions, receipts and typing are not handed over:
 * the delivery is the record of the agent's messages, and reactions, receipts and typing are no messages.
 */
export interface SkippedMessage {
  id: string;
  /** The reason, in a sentence that quotes nothing of the message. */
  skipped: string;
}

/** A message as a channel hands it over. */
export type ReceivedMessage = IncomingMessage | SkippedMessage;

/** The gateway, as a channel that receives sees it. The cursor is the place in the vendor's stream. */
export interface ChannelHost extends Cursor {
  /** Hands a message over; once it resolves the message is on disk, and the vendor may forget it. */
  receive(message: ReceivedMessage): Promise<void>;
  /**
   * Passes on what a person decided. Answers with the sentence to show to that person: approved, already decided, expired or
   * not allowed. Fails only if the store cannot be reached.
   */
  decide(press: ApprovalPress): Promise<{ text: string }>;
  /** Tells that a message did not arrive that the vendor had taken. */
  notDelivered(message: LostMessage): Promise<void>;
  report(state: ServiceState): void;
}

/**
 * Rules for who may write direct messages: `allowlist`, those in `allowFrom`; `pairing`, also those whom the operator has approved;
 * `open`, everybody; `closed`, no person. In groups only those in `allowFrom` may.
 */
export const DM_POLICIES = ["allowlist", "pairing", "open", "closed"] as const;
export type DmPolicy = (typeof DM_POLICIES)[number];

/** A place where replies go. Only `send` is required. */
export interface Channel {
  send(message: OutgoingMessage, signal: AbortSignal): Promise<SendResult>;
  /** Sends a file. Without it the gateway sends a sentence in the file's place. */
  sendFile?(file: OutgoingFile, signal: AbortSignal): Promise<FileSendResult>;
  /**
   * Sends a message that may have arrived already, by a try that began at `since` (milliseconds since the epoch) and ended with
   * its process. Finds out first; answers `unknown` if the vendor cannot tell. Without it such a delivery ends as `unknown`.
   */
  resend?(message: OutgoingMessage, since: number, signal: AbortSignal): Promise<SendResult>;
  /**
   * Asks with buttons, whose presses go to `ChannelHost.decide`. If buttons do not work here it sends `text` and `instruction`.
   * Without it the gateway sends both as a message.
   */
  ask?(question: ApprovalQuestion, signal: AbortSignal): Promise<SendResult>;
  /** Takes the buttons of a question away, if the vendor lets a message be changed. */
  endQuestion?(question: EndedQuestion, signal: AbortSignal): Promise<SendResult>;
  /** The sign that the agent is typing. `typing: false` in the channel's section of the config turns it off. */
  typing?: TypingSign;
  /** Messages that show the text of a running turn. `streaming: true` in the channel's section of the config turns it on. */
  streaming?: LiveEdits;
  /** Opens a file that came with a message. Credentials go to the vendor's hosts alone, and no redirect is followed. */
  fetchFile?(file: Attachment, signal: AbortSignal): Promise<FetchedFile>;
  /** Finds a message that was quoted by its id alone; undefined if the vendor does not have it. */
  findQuoted?(
    message: { id: string; to: string },
    signal: AbortSignal,
  ): Promise<EarlierMessage | undefined>;
  /** Lists the newest messages of a thread that were written before a message, oldest first. */
  listThread?(place: ThreadPlace, signal: AbortSignal): Promise<ThreadMessage[]>;
  /** The recipient of direct messages to a person whose id is as `IncomingMessage.from` gives it. Default: the id. */
  directRecipient?(person: string): string;
  /** The longest message, in UTF-16 units of the markdown or as `measurePiece` counts; default unlimited. */
  limit?: number;
  /** The length of a markdown text as this channel counts it once it is in its dialect. Pieces are cut so that each fits. */
  lengthOf?(text: string): number;
  /** Ids of those who may speak to the agent, as `from` gives them. Messages of other people are recorded and not answered. Default: no person may. */
  allowFrom?: readonly string[];
  /** Rule for who else may write direct messages to the agent. Default: `allowlist`, those in `allowFrom` alone. */
  dmPolicy?: DmPolicy;
  /** Listens until `signal` aborts; reconnects by itself, and reports how it does. Runs in one process at a time. */
  listen?(signal: AbortSignal, host: ChannelHost): Promise<void>;
  /** Answers requests to `/channels/<id>` and below. The gateway has not authenticated the sender: the plugin does. */
  request?(request: Request, host: ChannelHost): Promise<Response>;
  /** The recipient of replies for which nothing else names one. */
  defaultTo?: string;
  /** The last resort for `channel: "last"` when no last route is known. At most one loaded channel may say so. */
  fallback?: boolean;
  /** Checks and normalises a recipient. Default: any text that is not blank. */
  parseRecipient?(to: string): { ok: true; to: string } | { ok: false; message: string };
  /** Cheap check that the channel can be reached, for `doctor`. */
  probe?(signal: AbortSignal): Promise<{ ok: true } | { ok: false; message: string }>;
}

/** The state of a service. `ok: false` shows in `/readyz`, `rouse doctor` and the log; say what to change. No body, no credential. */
export interface ServiceState {
  ok: boolean;
  message: string;
}

export interface PluginLog {
  debug(message: string): void;
  info(message: string): void;
  warn(message: string): void;
  error(message: string): void;
}

/** A plugin's own values, by key, that all gateways on one database see. */
export interface SharedValues {
  get(key: string): Promise<unknown>;
  /** A value that JSON can hold; in the database when it resolves. */
  set(key: string, value: unknown): Promise<void>;
}

/** The environment of a plugin. Side effects come in as arguments. */
export interface PluginContext<C> {
  config: C;
  fetch: typeof fetch;
  clock: { now(): number };
  log: PluginLog;
  /** Ends with the gateway or with the snapshot. */
  signal: AbortSignal;
  /** The config's folder: relative paths in the section start there. */
  baseDir: string;
  /** A folder of the plugin's own in the state folder; made when first asked for. */
  stateDir: () => Promise<string>;
  /** Values that all gateways on one database see; gives undefined if the store serves one gateway alone. */
  sharedValues?: () => SharedValues | undefined;
  /** Standard output of the gateway, for channels that are a terminal. */
  print: (text: string) => void;
}

/**
 * The result of sending. `retry` may pass later (`afterMs`: the channel's own wish), `failed` never will,
 * `unknown` may have arrived and is not sent again. An `uncertain` retry may have arrived too: the next try is `resend`.
 * `reason` is kept and shown to the operator: no body, no credential.
 */
export type SendResult =
  | { status: "sent"; messageIds?: string[] }
  | { status: "retry"; reason: string; afterMs?: number; uncertain?: true }
  | { status: "failed"; reason: string }
  | { status: "unknown"; reason: string };

/** A conversation in which the agent works on an answer, and the message that it answers: as in `OutgoingMessage`. */
export interface TypingPlace {
  to: string;
  thread?: string;
  replyTo?: string;
}

/** The vendor's sign that the agent is typing. It ends by itself: the gateway shows it again for as long as a turn runs. */
export interface TypingSign {
  /** Shows the sign once. The result is not recorded: after an error the gateway shows the sign less often. */
  show(place: TypingPlace, signal: AbortSignal): Promise<SendResult>;
  /** Takes the sign away, if the vendor shows it for much longer than a turn may take. */
  hide?(place: TypingPlace, signal: AbortSignal): Promise<SendResult>;
  /** Milliseconds from one `show` to the next, at least 1,000: a little less than the vendor shows the sign. */
  everyMs: number;
}

/** A message that was sent: its id is one of those that `send` returned. */
export interface SentMessage {
  to: string;
  thread?: string;
  messageId: string;
}

/**
 * Messages that are changed. While a turn runs, the gateway shows its text in a message of its own, which the answer replaces.
 * Both functions may be called again with the same message: what was done twice is as what was done once.
 */
export interface LiveEdits {
  /** Replaces the text of a message. `failed` if it cannot be changed, as one that somebody has deleted. */
  edit(message: SentMessage & { text: string }, signal: AbortSignal): Promise<SendResult>;
  /** Deletes a message. One that is not there counts as deleted. */
  remove(message: SentMessage, signal: AbortSignal): Promise<SendResult>;
  /** Milliseconds from one edit to the next in a conversation, at least 1,000, by the vendor's limits. */
  everyMs: number;
  /** Set by the gateway, from the channel's section of the config. */
  isOn?: boolean;
}
