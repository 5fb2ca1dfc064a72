/** Where a reply goes: fixed before the model runs. */
export interface Route {
  channel: string;
  to: string;
  thread?: string;
  /** The message that it answers, by the channel's id. */
  replyTo?: string;
}

/** What a run asks for: a channel or `last`, and a recipient if one is named. */
export interface ReplyTarget {
  channel: string;
  to?: string;
}

export type RouteDecision =
  | { status: "route"; route: Route }
  | { status: "skipped"; reason: string }
  | { status: "no_route"; reason: string };

/** Where a message of a channel comes from, and what its reply answers. */
export interface MessageOrigin {
  /** The id of who wrote it, and whether that is the owner. */
  from: string;
  owner?: true;
  /** The linked person that it is from. */
  personId?: string;
  /** Whether it was written to the agent alone. */
  direct: boolean;
  replyTo: string;
  /** Further messages that the same turn answers. */
  joined?: readonly string[];
  thread?: string;
  /** The album that the message is a part of. */
  album?: string;
  /** The language of the sender's app. */
  language?: string;
}

/** A message in which the text of a running turn was shown. */
export interface LiveMessage {
  messageId: string;
  /** Whether an edit of it may still arrive at the vendor: then it is deleted, and not changed. */
  isUncertain?: true;
}
