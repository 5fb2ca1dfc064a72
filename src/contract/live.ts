/** What people see on a channel while the agent works on an answer. */
import type { SendResult } from "./send-result.ts";

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
