import type { ChatEnd, ChatListener, ChatTurn } from "../../chat/types.ts";

export type SuccessfulEnd = Extract<ChatEnd, { ok: true }>;

/** An event of a stream. If it has a `type`, that is its name; a text stands as it is. */
type StreamEvent = object | string;

/** Writes one turn in a form of the API: whole, or as it comes. */
export interface TurnRenderer {
  whole(end: SuccessfulEnd): object;
  /** The same for a caller that does not wait for the end. */
  begun?(): object;
  begin(): StreamEvent[];
  text(delta: string): StreamEvent[];
  /** A piece of the model's reasoning. */
  reasoning(delta: string): StreamEvent[];
  /** A call of a tool waits for a decision. */
  approval(approval: Parameters<NonNullable<ChatListener["onApproval"]>>[0]): StreamEvent[];
  /** Returns the last events of a turn that has an answer. */
  end(end: SuccessfulEnd): StreamEvent[];
  /** Returns the events of a turn that broke off. Nothing follows them, so that no client takes it for a success. */
  failed(end: Extract<ChatEnd, { ok: false }>): StreamEvent[];
}

export const KEEP_ALIVE_MS = 15_000;
const KEEP_ALIVE = ": keep-alive\n\n";

function renderEvent(event: StreamEvent): string {
  if (typeof event === "string") return `data: ${event}\n\n`;
  const name = "type" in event ? `event: ${String(event.type)}\n` : "";
  return `${name}data: ${JSON.stringify(event)}\n\n`;
}

/** A turn as server-sent events, from what has been said already to its end. A reader that goes leaves the turn. */
export function streamTurn(
  turn: ChatTurn,
  renderer: TurnRenderer,
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
      /** Text that comes within one turn of the event loop goes out in one piece: each write is a call of the system. */
      const write = (text: string): void => {
        if (text === "") return;
        if (waiting === "") setImmediate(flush);
        waiting += text;
      };
      const send = (events: readonly StreamEvent[]): void =>
        write(events.map(renderEvent).join(""));
      timer = setInterval(() => write(KEEP_ALIVE), keepAliveMs);
      send(renderer.begin());
      leave = turn.listen({
        onText: (delta) => send(renderer.text(delta)),
        onReasoning: (delta) => send(renderer.reasoning(delta)),
        onApproval: (approval) => send(renderer.approval(approval)),
        onEnd(end) {
          clearInterval(timer);
          send(end.ok ? renderer.end(end) : renderer.failed(end));
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
