import { AsyncLocalStorage } from "node:async_hooks";
import { relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { inspect } from "node:util";
import { isInside } from "../core/files.ts";
import type { CodeError, ConsoleLine } from "../vocabulary/debug-notes.ts";

/** Console lines that are kept of one call and of one event, and the characters in them. */
const MAX_LINES = 100;
export const MAX_CHARS = 16_384;

/** Console lines up to a bound. */
export class ConsoleBuffer {
  readonly lines: ConsoleLine[] = [];
  /** True if lines, or the end of one, were left out. */
  cut = false;
  #room = MAX_CHARS;

  /** Returns what of a line was kept; undefined if there is no room for any of it. */
  add({ stream, text }: ConsoleLine): ConsoleLine | undefined {
    if (this.lines.length >= MAX_LINES || this.#room === 0) {
      this.cut = true;
      return undefined;
    }
    const isWhole = text.length <= this.#room;
    const kept: ConsoleLine = { stream, text: isWhole ? text : `${text.slice(0, this.#room)}…` };
    if (!isWhole) this.cut = true;
    // An empty line takes room as well.
    this.#room -= Math.min(this.#room, Math.max(1, text.length));
    this.lines.push(kept);
    return kept;
  }

  /** Takes a message of a child over; false if it is none of the console. A module can send any. */
  take(message: object): boolean {
    if ("cut" in message) this.cut = true;
    else if ("line" in message) {
      const { stream, text } = (message.line ?? {}) as Record<keyof ConsoleLine, unknown>;
      if (typeof text === "string")
        this.add({ stream: stream === "stderr" ? "stderr" : "stdout", text });
    } else return false;
    return true;
  }
}

/** A message of a child about a call before its answer: a line that was printed, or that no further ones are kept. */
export type ConsoleMessage = { id: number; line: ConsoleLine } | { id: number; cut: true };

/**
 * Captures what code prints by `console` or to the standard streams, for the call in which it was started: what an earlier
 * call left running prints nothing into a later one. Returns the function that runs a call.
 */
export function captureConsole(
  send: (message: ConsoleMessage) => void,
): <T>(id: number, run: () => T) => T {
  const calls = new AsyncLocalStorage<{ id: number; kept: ConsoleBuffer }>();
  const print = (stream: ConsoleLine["stream"], chunk: unknown): void => {
    const call = calls.getStore();
    if (!call || call.kept.cut) return;
    const text = chunk instanceof Uint8Array ? Buffer.from(chunk).toString("utf8") : String(chunk);
    for (const line of text.replace(/\n$/, "").split("\n")) {
      const kept = call.kept.add({ stream, text: line });
      if (kept) send({ id: call.id, line: kept });
      if (call.kept.cut) return send({ id: call.id, cut: true });
    }
  };
  for (const stream of ["stdout", "stderr"] as const) {
    process[stream].write = (chunk: unknown, encoding?: unknown, done?: unknown): boolean => {
      print(stream, chunk);
      const callback = typeof encoding === "function" ? encoding : done;
      if (typeof callback === "function") process.nextTick(callback);
      return true;
    };
  }
  return (id, run) => calls.run({ id, kept: new ConsoleBuffer() }, run);
}

/** A thrown value, as text. */
export interface Thrown {
  message: string;
  stack: string;
}

const MAX_MESSAGE = 2_000;
const MAX_STACK = 8_000;
const MAX_CAUSES = 3;
const MAX_FRAMES = 10;
/** A longer line of a stack is no frame of a file. */
const MAX_FRAME = 500;

const renderError = (error: unknown): string =>
  error instanceof Error ? `${error.name}: ${error.message}` : inspect(error, { depth: 3 });

/** Describes what code threw, with its causes. Never throws itself, whatever the error's members do. */
export function describeThrown(error: unknown): Thrown {
  try {
    const messages = [renderError(error)];
    for (
      let at = error;
      at instanceof Error && at.cause !== undefined && messages.length <= MAX_CAUSES;
      at = at.cause
    )
      messages.push(`caused by ${renderError(at.cause)}`);
    const stack = error instanceof Error ? (error.stack ?? "") : "";
    // The stack begins with the message, which may look like frames.
    const head = error instanceof Error ? stack.indexOf(error.message) : -1;
    const frames = head < 0 ? stack : stack.slice(head + (error as Error).message.length);
    return {
      message: messages.join("\n").slice(0, MAX_MESSAGE),
      stack: frames.slice(0, MAX_STACK),
    };
  } catch {
    return { message: "an error that cannot be read was thrown", stack: "" };
  }
}

const FRAME =
  /^\s*at (?:(?:async )?(.*?) \()?(?:async )?((?:file:\/\/)?\/.*?)(?:\?[^:)]*)?:(\d+):(\d+)\)?$/;

function toPath(place: string): string | undefined {
  try {
    return place.startsWith("file:") ? fileURLToPath(place) : place;
  } catch {
    return undefined;
  }
}

/** The frames of a stack that lie in a folder and in no package below it, as `shop.ts:12:7 (total)`. */
function ownFrames(stack: string, folder: string): string[] {
  return stack.split("\n").flatMap((line) => {
    const [, name = "", place = "", row, column] =
      (line.length <= MAX_FRAME && FRAME.exec(line)) || [];
    const path = toPath(place);
    if (place === "" || path === undefined) return [];
    const file = relative(folder, path);
    if (!isInside(folder, path) || file.split(sep).includes("node_modules")) return [];
    return [`${file}:${row}:${column}${name === "" || name === "<anonymous>" ? "" : ` (${name})`}`];
  });
}

/**
 * Converts a thrown value, with the stack frames of the files in a folder alone. A module can send anything in its
 * place.
 */
export function codeError(
  { message, stack }: Record<keyof Thrown, unknown>,
  folder: string,
): CodeError {
  const frames = ownFrames(String(stack).slice(0, MAX_STACK), folder).slice(0, MAX_FRAMES);
  return {
    message: String(message).slice(0, MAX_MESSAGE),
    ...(frames.length > 0 ? { frames } : {}),
  };
}
