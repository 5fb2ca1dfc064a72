import { useEffect, useRef, useState } from "preact/hooks";
import { askLines, AskError, signedOut } from "../../api.ts";
import type { StreamLine } from "../../../../src/operate/records/event-feed.ts";
import type { EventRow } from "../events/types.ts";

export type StreamState = "connecting" | "live" | "paused" | "away";

export interface LiveEvents {
  /** The newest first. */
  rows: readonly EventRow[];
  state: StreamState;
  /** Events that came in faster than they could be sent here, or that were dropped while the list was paused. */
  leftOut: number;
  /** Events that wait behind a paused list. */
  waiting: number;
  /** The reason why the gateway ended the stream, if it sent one. */
  error: string | null;
}

/** More events than this are in `Events`. */
export const MAX_KEPT = 500;
const FIRST = 50;
/** The list is drawn at most so often: faster than that cannot be read, and drawing takes time from everything else. */
const DRAW_MS = 50;
const RETRY_MS = 1000;

/** Collects what the stream brings between two drawings. */
class Buffer {
  rows: EventRow[] = [];
  leftOut = 0;
  last: string | undefined;
  readonly #seen = new Set<string>();

  take(line: StreamLine): boolean {
    if (line.type === "alive") return false;
    if (line.type === "skipped") {
      this.leftOut += line.count;
      return true;
    }
    const { event } = line;
    this.last = event.id;
    if (this.#seen.has(event.id)) return false;
    this.#seen.add(event.id);
    this.rows.push(event);
    if (this.rows.length > MAX_KEPT) {
      this.leftOut += 1;
      this.rows.shift();
    }
    if (this.#seen.size > 4 * MAX_KEPT)
      for (const id of [...this.#seen].slice(0, 2 * MAX_KEPT)) this.#seen.delete(id);
    return true;
  }
}

const EMPTY: LiveEvents = { rows: [], state: "connecting", leftOut: 0, waiting: 0, error: null };
/** Resolves when somebody sees the page. */
const seen = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const look = (): void => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look, { once: true });
    look();
  });

/** Aborts when the page is hidden, and with `signal`: a browser opens few connections to one gateway. */
function whileSeen(signal: AbortSignal): { own: AbortSignal; end(): void } {
  const abort = new AbortController();
  const leave = (): void => {
    if (document.hidden) abort.abort();
  };
  document.addEventListener("visibilitychange", leave);
  return {
    own: AbortSignal.any([signal, abort.signal]),
    end: () => document.removeEventListener("visibilitychange", leave),
  };
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms));

/** Reads the stream until `signal` aborts, while the page is seen; after an end it goes on behind the last event. */
async function follow(
  query: string,
  buffer: Buffer,
  signal: AbortSignal,
  say: (state: StreamState, error: string | null) => void,
): Promise<void> {
  while (!signal.aborted) {
    await seen(signal);
    if (signal.aborted) return;
    const { own, end } = whileSeen(signal);
    const from =
      buffer.last === undefined ? `lines=${FIRST}` : `after=${encodeURIComponent(buffer.last)}`;
    try {
      const lines = askLines<StreamLine>(`/stream?${from}${query === "" ? "" : `&${query}`}`, {
        signal: own,
      });
      let first = true;
      for await (const line of lines) {
        if (own.aborted) break;
        if (first) say("live", null);
        first = false;
        if (buffer.take(line)) say("live", null);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (own.aborted) continue;
      // The event to go on from was deleted meanwhile: the stream begins again with the newest.
      if (error instanceof AskError && error.code === "not_found") buffer.last = undefined;
      const said =
        error instanceof AskError && error.code !== "unreachable" && error.code !== "signed_out"
          ? error.message
          : null;
      say("away", said);
    } finally {
      end();
    }
    do await sleep(RETRY_MS);
    while (signedOut.value && !signal.aborted);
  }
}

/** Draws what the buffer has, in the next frame and at most every `DRAW_MS`. */
function createPainter(draw: () => void): { ask(): void; stop(): void } {
  let frame = 0;
  let last = 0;
  const paint = (now: number): void => {
    frame = 0;
    if (now - last < DRAW_MS) return ask();
    last = now;
    draw();
  };
  const ask = (): void => {
    frame ||= requestAnimationFrame(paint);
  };
  return { ask, stop: () => cancelAnimationFrame(frame) };
}

/** The events as they come in. While `paused`, they wait behind the list. `query` has the filters. */
export function useLiveEvents(query: string, paused: boolean): LiveEvents {
  const [shown, setShown] = useState<LiveEvents>(EMPTY);
  const isPaused = useRef(paused);
  isPaused.current = paused;
  const redraw = useRef<() => void>(() => {});
  useEffect(() => {
    const abort = new AbortController();
    const buffer = new Buffer();
    let state: StreamState = "connecting";
    let error: string | null = null;
    setShown(EMPTY);
    const draw = (): void => {
      if (isPaused.current)
        return setShown((before) => ({
          ...before,
          state: "paused",
          waiting: buffer.rows.length,
          error,
        }));
      const fresh = buffer.rows.toReversed();
      buffer.rows = [];
      setShown((before) => ({
        rows: fresh.length === 0 ? before.rows : [...fresh, ...before.rows].slice(0, MAX_KEPT),
        state,
        leftOut: buffer.leftOut,
        waiting: 0,
        error,
      }));
    };
    const painter = createPainter(draw);
    redraw.current = painter.ask;
    void follow(query, buffer, abort.signal, (next, said) => {
      state = next;
      error = said;
      painter.ask();
    });
    return () => {
      abort.abort();
      painter.stop();
    };
  }, [query]);
  useEffect(() => redraw.current(), [paused]);
  return shown;
}
