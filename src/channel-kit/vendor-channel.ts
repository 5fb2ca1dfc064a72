import type {
  ApprovalQuestion,
  Channel,
  EndedQuestion,
  FileSendResult,
  OutgoingFile,
  OutgoingMessage,
  SendResult,
  SentMessage,
  TypingPlace,
} from "../contract/channel.ts";
import { classifyError, sendAfter, type ErrorRules } from "./errors.ts";

/** The parts of a channel that differ by vendor. Each may throw: errors are classified by the vendor's rules. */
export interface VendorChannel<P> extends Omit<
  Channel,
  "send" | "resend" | "sendFile" | "ask" | "endQuestion" | "typing" | "streaming" | "probe"
> {
  vendor: ErrorRules;
  /** Finds the place of a message. It sends nothing, so a failed call may be repeated. */
  find?(message: Pick<OutgoingMessage, "to" | "thread">, signal: AbortSignal): Promise<P> | P;
  post(message: OutgoingMessage, place: P, signal: AbortSignal): Promise<SendResult>;
  /** Posts a message that may be there already, by a try that began at `since`; see `Channel.resend`. */
  repost?(
    message: OutgoingMessage,
    place: P,
    since: number,
    signal: AbortSignal,
  ): Promise<SendResult>;
  postFile?(file: OutgoingFile, place: P, signal: AbortSignal): Promise<FileSendResult>;
  /** Posts a question with buttons. Returns undefined if they cannot work: then it is asked in text. */
  postQuestion?(
    question: ApprovalQuestion,
    place: P,
    signal: AbortSignal,
  ): Promise<SendResult | undefined>;
  /** Changes a question's message. It may be called again: a change that was made twice is as one. */
  change?(ended: EndedQuestion, place: P, signal: AbortSignal): Promise<unknown>;
  /** The sign that the agent is typing. Errors of both functions are classified too. */
  typing?: {
    everyMs: number;
    show(about: TypingPlace, place: P, signal: AbortSignal): Promise<unknown>;
    hide?(about: TypingPlace, place: P, signal: AbortSignal): Promise<unknown>;
  };
  /** Messages that are changed. Errors of both functions are classified too. */
  streaming?: {
    everyMs: number;
    edit(message: SentMessage & { text: string }, place: P, signal: AbortSignal): Promise<unknown>;
    remove(message: SentMessage, place: P, signal: AbortSignal): Promise<unknown>;
  };
  /** Cheap; throws where the channel cannot be reached. */
  check?(signal: AbortSignal): Promise<unknown>;
}

/** The channel of a vendor. */
export function vendorChannel<P>(parts: VendorChannel<P>): Channel {
  const {
    vendor,
    find,
    post,
    repost,
    postFile,
    postQuestion,
    change,
    typing,
    streaming,
    check,
    ...channel
  } = parts;
  type About = Pick<OutgoingMessage, "to" | "thread">;
  type Act<M, R> = (about: M, place: P, signal: AbortSignal) => Promise<R>;
  // Without `find` no place is looked up, and no function reads `P`.
  const locate = async (about: About, signal: AbortSignal): Promise<P> =>
    (await find?.(about, signal)) as P;
  /** Finds the place, and acts there. */
  const inPlace =
    <M extends About, R>(act: Act<M, R>) =>
    (about: M, signal: AbortSignal): Promise<R | SendResult> =>
      sendAfter(
        vendor,
        () => locate(about, signal),
        (place) => act(about, place, signal),
      );
  /** The same for an act that has no result of its own. */
  const done = <M extends TypingPlace | SentMessage>(act: Act<M, unknown>) =>
    inPlace<M, SendResult>(async (about, place, signal) => {
      await act(about, place, signal);
      return sentResult("messageId" in about ? about.messageId : undefined);
    });
  return {
    ...channel,
    send: inPlace(post),
    ...(repost && {
      resend: (given, since, signal) =>
        inPlace<OutgoingMessage, SendResult>((message, place) =>
          repost(message, place, since, signal),
        )(given, signal),
    }),
    ...(postFile && { sendFile: inPlace(postFile) }),
    ...(postQuestion && {
      ask: inPlace<ApprovalQuestion, SendResult>(async (question, place, signal) => {
        const text = `${question.text}\n\n${question.instruction}`;
        return (
          (await postQuestion(question, place, signal)) ??
          post({ ...question, text }, place, signal)
        );
      }),
    }),
    ...(change && {
      endQuestion: (ended, signal) =>
        sendAfter(
          vendor,
          async () => change(ended, await locate(ended, signal), signal),
          async () => sentResult(...ended.messageIds),
        ),
    }),
    ...(typing && {
      typing: {
        everyMs: typing.everyMs,
        show: done(typing.show),
        ...(typing.hide && { hide: done(typing.hide) }),
      },
    }),
    ...(streaming && {
      streaming: {
        everyMs: streaming.everyMs,
        edit: done(streaming.edit),
        remove: done(streaming.remove),
      },
    }),
    ...(check && {
      probe: (signal) =>
        check(signal).then(
          () => ({ ok: true }) as const,
          (error: unknown) =>
            ({ ok: false, message: classifyError(vendor, error).reason }) as const,
        ),
    }),
  };
}

/** A message was sent and is known by these ids; one that the vendor did not name is left away. */
export function sentResult(...ids: readonly (string | undefined)[]): SendResult {
  const messageIds = ids.filter((id) => id !== undefined);
  return messageIds.length > 0 ? { status: "sent", messageIds } : { status: "sent" };
}
