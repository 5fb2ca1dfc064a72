/** Routes, and the deliveries that take them. */
import type { Verdict } from "../vocabulary/decision.ts";
import type { DeliveryState } from "../vocabulary/outcomes.ts";
import type { DeliveryErrorCode } from "../core/errors.ts";
import type { TraceContext } from "../core/http/trace-context.ts";
import type { Ms } from "./records.ts";

/** The recipient of a reply: fixed before the model runs. */
export interface Route {
  channel: string;
  to: string;
  thread?: string;
  /** The message that it answers, by the channel's id. */
  replyTo?: string;
}

/** The target that a run asks for: a channel or `last`, and a recipient if one is named. */
export interface ReplyTarget {
  channel: string;
  to?: string;
}

export type RouteDecision =
  | { status: "route"; route: Route }
  | { status: "skipped"; reason: string }
  | { status: "no_route"; reason: string };

/** The origin of a channel's message, and what its reply answers. */
export interface MessageOrigin {
  /** The id of who wrote it, and whether that is the owner. */
  from: string;
  owner?: true;
  /** The linked person that it is from. */
  personId?: string;
  /** True if it was written to the agent alone. */
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
  /** True if an edit of it may still arrive at the vendor: then it is deleted, and not changed. */
  isUncertain?: true;
}

/** The error code of a reply that has no route. */
export const NO_ROUTE = "no_route";
export type DeliveryStatus = Exclude<DeliveryState, typeof NO_ROUTE>;

export interface DeliveryError {
  code: DeliveryErrorCode;
  message: string;
}

/** A file of a delivery. Its content is the stored result of this id, in base64, whose run is the delivery. */
export interface DeliveryFile {
  id: string;
  name: string;
  mediaType: string;
  bytes: number;
}

export interface DeliveryRecord {
  id: string;
  /** Empty for a message of the gateway itself, such as the code for a stranger. */
  runId: string;
  /** Its route. In the state `no_route`: the target of its run, with the whole text as the only chunk. */
  route: Omit<Route, "to"> & ReplyTarget;
  /** The text in pieces that fit the channel, in order. */
  chunks: string[];
  /** Files that follow the chunks: the first of them is number `chunks.length`. */
  files?: readonly DeliveryFile[];
  /** The parts that were sent in another way than they were meant to be, in sentences for the operator. */
  warnings?: readonly string[];
  /** The first chunk or file that was not sent. */
  nextChunk: number;
  status: DeliveryStatus;
  attempts: number;
  messageIds: string[];
  error?: DeliveryError;
  createdAt: Ms;
  nextAt: Ms;
  endedAt?: Ms;
  /** Set once the vendor has refused the message that it had taken, and it was sent once more in another form. */
  resent?: boolean;
  /** The time since which the chunk at `nextChunk` is being sent: whoever reads this in a pending delivery does not know whether it arrived. */
  sendingSince?: Ms;
  /** The span of the run that it comes from. */
  trace?: TraceContext;
  /** The message that the first chunk replaces, and that is deleted if it does not. */
  live?: LiveMessage;
  /** Set for a question about an approval, and for the delivery that takes its buttons away. */
  ask?: DeliveryAsk;
}

/** A question about an approval. `chunks` hold it with the instruction how to answer in text. */
export interface DeliveryAsk {
  approvalId: string;
  code: string;
  /** Without the instruction, in markdown. */
  text: string;
  instruction: string;
  /** The language of the question, as a tag. Default: English. */
  language?: string;
  verdicts: readonly Verdict[];
  expiresAt: Ms;
  /** The routes to those who are asked if this question cannot be delivered, in order. */
  next: readonly Route[];
  /** From 0: how many were asked before. */
  position: number;
  /** The delivery whose buttons this one takes away: `chunks` hold what replaces the question. */
  ends?: string;
}

/** The fields of a delivery that may change; null takes a field away. */
export type DeliveryChange = Partial<
  Pick<
    DeliveryRecord,
    | "route"
    | "chunks"
    | "nextChunk"
    | "status"
    | "attempts"
    | "messageIds"
    | "nextAt"
    | "resent"
    | "warnings"
  >
> & {
  error?: DeliveryError | null;
  endedAt?: Ms | null;
  sendingSince?: Ms | null;
};

/** A delivery starts as pending; with `error` it has failed already. */
export type NewDelivery = Pick<
  DeliveryRecord,
  "id" | "runId" | "route" | "chunks" | "createdAt" | "error" | "ask" | "trace" | "files" | "live"
>;

/** The state by which a delivery is listed and counted. */
export function deliveryState({
  status,
  error,
}: Pick<DeliveryRecord, "status" | "error">): DeliveryState {
  return status === "failed" && error?.code === NO_ROUTE ? NO_ROUTE : status;
}
