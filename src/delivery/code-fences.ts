/** A code fence that may have to be closed at the end of one piece and opened again in the next. */
export interface CodeFence {
  /** The line that opens it again, with its info string if there is room. */
  reopen: string;
  /** The line that closes it. */
  close: string;
}

/** One line of a text: offsets without its line break, and whether code is open before and after it. */
export interface Line {
  start: number;
  end: number;
  kind: "text" | "open" | "code" | "close";
  before: CodeFence | undefined;
  after: CodeFence | undefined;
}

/** What may stand before a fence: indentation, quote marks, the mark of a list item. */
const CONTAINER = /^(?:[ \t]|>|(?:[-*+]|\d{1,9}[.)])[ \t])*/;
const OPENING = /^(`{3,}(?=[^`]*$)|~{3,})(.*)$/;
const CLOSING = /^[ \t>]*(`{3,}|~{3,})[ \t\r]*$/;
/** The least that has to be left for code between two fence lines: a surrogate pair. */
const LEAST_ROOM = 2;
/** Fence lines may take half of a piece; in very small pieces so many units. */
const SMALL_OVERHEAD = 18;

function affordable(lines: readonly string[], limit: number): boolean {
  const overhead = lines.reduce((sum, line) => sum + line.length + 1, 0);
  return overhead <= Math.max(limit / 2, SMALL_OVERHEAD) && overhead <= limit - LEAST_ROOM;
}

interface Opened {
  marker: string;
  /** Undefined if its lines take more room than a chunk has: then its code is split like text. */
  fence: CodeFence | undefined;
}

function openFence(line: string, limit: number): Opened | undefined {
  const container = CONTAINER.exec(line)?.[0] ?? "";
  const found = OPENING.exec(line.slice(container.length).trimEnd());
  const marker = found?.[1];
  if (marker === undefined) return undefined;
  const indent = container.replace(/[^\s>]/g, " ");
  const close = indent + marker;
  const whole = indent + marker + (found?.[2] ?? "");
  // The line itself is in the first piece, together with a closing one.
  if (line.length + close.length + 2 > limit - LEAST_ROOM) return { marker, fence: undefined };
  if (affordable([whole, close], limit)) return { marker, fence: { reopen: whole, close } };
  return {
    marker,
    fence: affordable([close, close], limit) ? { reopen: close, close } : undefined,
  };
}

function closes(line: string, marker: string): boolean {
  const found = CLOSING.exec(line)?.[1];
  return found !== undefined && found[0] === marker[0] && found.length >= marker.length;
}

/** Reads a markdown text line by line and says where code fences are open. */
export function readMarkdownLines(text: string, limit: number): Line[] {
  const lines: Line[] = [];
  let opened: Opened | undefined;
  for (let start = 0; start <= text.length;) {
    const newline = text.indexOf("\n", start);
    const end = newline < 0 ? text.length : newline;
    const line = text.slice(start, end);
    const before = opened?.fence;
    let kind: Line["kind"] = "text";
    if (opened) {
      const ends = closes(line, opened.marker);
      if (before) kind = ends ? "close" : "code";
      if (ends) opened = undefined;
    } else {
      opened = openFence(line, limit);
      if (opened?.fence) kind = "open";
    }
    lines.push({ start, end, kind, before, after: opened?.fence });
    start = end + 1;
  }
  return lines;
}
