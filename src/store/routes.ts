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
