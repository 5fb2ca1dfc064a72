import type { ChatEnd, ChatListener, ChatTurn } from "../../chat/types.ts";
import { errorObject, streamProblem } from "./problems.ts";

export type SuccessfulEnd = Extract<ChatEnd, { ok: true }>;

/** How a kind of stream writes what happens in a turn. */
export interface StreamFormat {
  begin(): string;
  text(delta: string): string;
  /** A piece of the model's reasoning. Not there: nothing. */
  reasoning?(delta: string): string;
  /** What stands where a call of a tool waits for a decision. Not there: nothing. */
  approval?(approval: Parameters<NonNullable<ChatListener["onApproval"]>>[0]): string;
  /** What stands at the end of a turn that came well. */
  end(end: SuccessfulEnd): string;
  /** What stands where it broke off; nothing follows, so that no client takes it for a success. */
  failed(end: Extract<ChatEnd, { ok: false }>): string;
}

export const KEEP_ALIVE_MS = 15_000;
const KEEP_ALIVE = ": keep-alive\n\n";

/** One event without a name. */
export const dataLine = (value: object): string => `data: ${JSON.stringify(value)}\n\n`;

/** A failure after the headers, as clients recognise it. */
export const failureLine = (end: Extract<ChatEnd, { ok: false }>): string =>
  dataLine(errorObject(streamProblem(end, "messages")));

/** A turn as server-sent events, from what has been said already to its end. A reader that goes leaves the turn. */
export function streamTurn(
  turn: ChatTurn,
  format: StreamFormat,
  keepAliveMs = KEEP_ALIVE_MS,
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let leave = (): void => undefined;
  let timer: NodeJS.Timeout | undefined;
  let over = false;
  return new ReadableStream({
    start(controller) {
      let waiting = "";
      const flush = (): void => {
        if (waiting !== "" && !over) controller.enqueue(encoder.encode(waiting));
        waiting = "";
      };
      /** What comes within one turn of the event loop goes out in one piece: each is a call of the system. */
      const write = (text: string): void => {
        if (text === "") return;
        if (waiting === "") setImmediate(flush);
        waiting += text;
      };
      timer = setInterval(() => write(KEEP_ALIVE), keepAliveMs);
      write(format.begin());
      leave = turn.listen({
        onText: (delta) => write(format.text(delta)),
        onReasoning: (delta) => write(format.reasoning?.(delta) ?? ""),
        onApproval: (approval) => write(format.approval?.(approval) ?? ""),
        onEnd(end) {
          clearInterval(timer);
          write(end.ok ? format.end(end) : format.failed(end));
          flush();
          over = true;
          controller.close();
        },
      });
    },
    cancel() {
      over = true;
      clearInterval(timer);
      leave();
    },
  });
}
