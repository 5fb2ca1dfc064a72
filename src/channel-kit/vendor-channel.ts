import type { ApprovalQuestion, Channel, EndedQuestion, OutgoingMessage, SendResult } from "../contract/channel.ts";
import { probing, sendAfter, type ErrorRules } from "./errors.ts";

/** The parts of a channel that differ by vendor. Each may throw: errors are classified by the vendor's rules. */
export interface VendorChannel<P> extends Omit<Channel, "send" | "ask" | "endQuestion" | "probe"> {
  vendor: ErrorRules;
  /** Where a message goes. Asking for it sends nothing: where it fails it may be done again. */
  find?(message: Pick<OutgoingMessage, "to" | "thread">, signal: AbortSignal): Promise<P> | P;
  post(message: OutgoingMessage, place: P, signal: AbortSignal): Promise<SendResult>;
  /** Posts a question with buttons. */
  postQuestion?(question: ApprovalQuestion, place: P, signal: AbortSignal): Promise<SendResult>;
  /** Changes a question's message. It may be called again: a change that was made twice is as one. */
  change?(ended: EndedQuestion, place: P, signal: AbortSignal): Promise<unknown>;
  /** Cheap; throws where the channel cannot be reached. */
  check?(signal: AbortSignal): Promise<unknown>;
}

/** The channel of a vendor. */
export function vendorChannel<P>({ vendor, find, post, postQuestion, change, check, ...channel }: VendorChannel<P>): Channel {
  // Without `find` no place is looked up, and no function reads `P`.
  const locate = async (message: Pick<OutgoingMessage, "to" | "thread">, signal: AbortSignal): Promise<P> =>
    (await find?.(message, signal)) as P;
  return {
    ...channel,
    send: (message, signal) =>
      sendAfter(
        vendor,
        () => locate(message, signal),
        (place) => post(message, place, signal),
      ),
    ...(postQuestion && {
      ask: (question, signal) =>
        sendAfter(
          vendor,
          () => locate(question, signal),
          (place) => postQuestion(question, place, signal),
        ),
    }),
    ...(change && {
      endQuestion: (ended, signal) =>
        sendAfter(
          vendor,
          async () => change(ended, await locate(ended, signal), signal),
          async () => sentResult(...ended.messageIds),
        ),
    }),
    ...(check && { probe: (signal) => probing(vendor, () => check(signal)) }),
  };
}

/** A message was sent and is known by these ids; one that the vendor did not name is left away. */
export function sentResult(...ids: readonly (string | undefined)[]): SendResult {
  const messageIds = ids.filter((id) => id !== undefined);
  return messageIds.length > 0 ? { status: "sent", messageIds } : { status: "sent" };
}
