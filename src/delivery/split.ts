import { readMarkdownLines, type CodeFence, type Line } from "./code-fences.ts";

/** Where a piece may end: its text goes up to `end`, the next one begins at `next`; between them is white space or a fence's line. */
interface Break {
  end: number;
  next: number;
  /** Code that is open there. */
  fence: CodeFence | undefined;
}

interface Source {
  text: string;
  limit: number;
  lines: readonly Line[];
}

/** A place that fills so much of a piece is taken before a better kind of place that fills less. */
const FILLED = 0.5;
/** Links longer than this are not looked for. */
const MAX_LINK = 2000;
const SENTENCE_END = /[.!?…][)"'\]”’*_]*(?=\s)|[。！？]/g;
const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });

/**
 * Splits a markdown text into pieces of at most `limit` UTF-16 units (20 or more), for channels with a longest message.
 * Breaks after paragraphs, lines, sentences or words, in this order; a code fence is closed and opened again,
 * and no surrogate pair, no grapheme and no link that fits is cut. White space at a break goes; no piece is blank.
 */
export function splitText(text: string, limit: number): string[] {
  if (text.trim() === "") return [];
  if (text.length <= limit) return [text];
  const source: Source = { text, limit, lines: readMarkdownLines(text, limit) };
  const pieces: string[] = [];
  let fence: CodeFence | undefined;
  let line = 0;
  for (let at = skipBlankLines(text, 0); at < text.length;) {
    while ((source.lines[line + 1]?.start ?? Infinity) <= at) line++;
    const room = limit - (fence ? fence.reopen.length + 1 : 0);
    const found: Break =
      text.length - at <= room
        ? { end: text.length, next: text.length, fence: undefined }
        : findBreak(source, line, at, room);
    const body = text.slice(at, found.end);
    const piece = found.fence ? body : body.trimEnd();
    if (body.trim() !== "")
      pieces.push(
        (fence ? `${fence.reopen}\n` : "") + piece + (found.fence ? `\n${found.fence.close}` : ""),
      );
    at = found.next;
    fence = found.fence;
    // The closing line has just been written.
    const first = lineAt(source, line, at);
    if (fence && first?.kind === "close" && first.start === at) {
      at = first.end + 1;
      fence = undefined;
    }
    if (!fence) at = skipBlankLines(text, at);
  }
  return pieces;
}

/** The least that a piece is cut to where a channel counts it longer than its text is. */
const LEAST_PIECE = 20;

/**
 * Splits a text so that each piece fits as its channel counts it: `measure` gives the length of a piece in the channel's
 * dialect, which may be more or less than that of its text.
 */
export function splitMeasured(
  text: string,
  limit: number,
  measure?: (text: string) => number,
): string[] {
  if (!measure) return splitText(text, limit);
  const measurePiece = (piece: string): number => {
    try {
      return measure(piece);
    } catch {
      // A plugin that cannot count a text has to send it all the same.
      return piece.length;
    }
  };
  return splitText(text, limit).flatMap((piece) => {
    const length = measurePiece(piece);
    const room = Math.max(
      LEAST_PIECE,
      Math.floor(Math.min(piece.length - 1, (piece.length * limit) / length)),
    );
    return length <= limit || piece.length <= LEAST_PIECE
      ? [piece]
      : splitMeasured(piece, room, scaled(measurePiece, limit, room));
  });
}

/** The measure for pieces that are cut to `room`, where `limit` is what they may come to. */
function scaled(
  measure: (text: string) => number,
  limit: number,
  room: number,
): (text: string) => number {
  return (text) => (measure(text) / limit) * room;
}

function lineAt(source: Source, from: number, offset: number): Line | undefined {
  let index = from;
  while ((source.lines[index + 1]?.start ?? Infinity) <= offset) index++;
  return source.lines[index];
}

/** The start of the first line from `at` on that is not blank; its indentation stays. */
function skipBlankLines(text: string, at: number): number {
  let start = at;
  for (let i = at; i < text.length && /\s/.test(text.charAt(i)); i++)
    if (text[i] === "\n") start = i + 1;
  return start;
}

/** Finds the best end of the piece that begins at `at` (in line `first`) and may hold `room` units, its closing fence included. */
function findBreak(source: Source, first: number, at: number, room: number): Break {
  const whole = wholeLines(source, first, at, room);
  const filled = (candidate: Break | undefined): candidate is Break =>
    candidate !== undefined && candidate.end - at >= room * FILLED;
  const { overflow, overflowIndex, beforeFence } = whole;
  if (
    beforeFence &&
    (overflow.kind === "open" || (overflow.before && fenceFits(source, overflowIndex)))
  )
    return beforeFence;
  if (filled(whole.paragraph)) return whole.paragraph;
  if (filled(whole.line)) return whole.line;
  if (filled(whole.code)) return whole.code;
  const inside = insideLine(source, overflow, at, room);
  if (filled(inside.sentence)) return inside.sentence;
  if (filled(inside.word)) return inside.word;
  return (
    whole.code ?? whole.line ?? whole.paragraph ?? inside.sentence ?? inside.word ?? inside.hard()
  );
}

interface WholeLines {
  paragraph: Break | undefined;
  line: Break | undefined;
  code: Break | undefined;
  /** Before the line that opens the code that did not fit. */
  beforeFence: Break | undefined;
  /** The first line that did not fit. */
  overflow: Line;
  overflowIndex: number;
}

/** The last breaks between lines that leave the piece within its room. */
function wholeLines({ text, lines }: Source, first: number, at: number, room: number): WholeLines {
  const found: Partial<WholeLines> = {};
  let index = first;
  for (; index < lines.length - 1; index++) {
    const line = lines[index] as Line;
    const next = lines[index + 1] as Line;
    const cost = line.end - at + (line.after ? line.after.close.length + 1 : 0);
    if (cost > room) break;
    const candidate: Break = { end: line.end, next: next.start, fence: line.after };
    if (line.end <= at || text.slice(at, line.end).trim() === "") continue;
    if (line.after) {
      if (line.kind !== "open") found.code = candidate;
      continue;
    }
    if (next.kind === "open") found.beforeFence = candidate;
    if (
      line.kind === "close" ||
      next.kind === "open" ||
      startsBlock(text.slice(next.start, next.end))
    )
      found.paragraph = candidate;
    else found.line = candidate;
  }
  return {
    paragraph: found.paragraph,
    line: found.line,
    code: found.code,
    beforeFence: found.beforeFence,
    overflow: lines[index] as Line,
    overflowIndex: index,
  };
}

function startsBlock(line: string): boolean {
  return line.trim() === "" || /^#{1,6} /.test(line);
}

/** Whether the code that line `index` belongs to would fit into one piece. */
function fenceFits({ lines, limit }: Source, index: number): boolean {
  let from = index;
  while (from > 0 && lines[from]?.kind !== "open") from--;
  let to = index;
  while (to < lines.length - 1 && lines[to]?.kind !== "close") to++;
  return (lines[to]?.end ?? Infinity) - (lines[from]?.start ?? 0) <= limit;
}

/** The last breaks inside the line that did not fit. */
function insideLine({ text, limit }: Source, line: Line, at: number, room: number) {
  const fence = line.kind === "code" || line.kind === "close" ? line.before : undefined;
  const from = Math.max(at, line.start);
  const last = at + room - (fence ? fence.close.length + 1 : 0);
  const hard = (): Break => {
    const end = graphemeStart(text, from, last);
    return { end, next: end, fence };
  };
  if (fence) return { sentence: undefined, word: undefined, hard };
  const links = findLinks(text, from, last, limit);
  const allowed = (end: number): boolean =>
    end > at &&
    end <= last &&
    !links.some((link) => link.start < end && end < link.end) &&
    text.slice(at, end).trim() !== "";
  const breakAt = (end: number): Break => ({ end, next: skipSpace(text, end), fence: undefined });
  // One unit more, so that a space or the look-ahead of a sentence's end just behind the room counts.
  const window = text.slice(from, last + 1);
  let sentence: Break | undefined;
  for (const match of window.matchAll(SENTENCE_END)) {
    const end = from + match.index + match[0].length;
    if (allowed(end)) sentence = breakAt(end);
  }
  let word: Break | undefined;
  for (let i = window.length - 1; i > 0 && !word; i--) {
    const end = from + i;
    if (/\s/.test(text.charAt(end)) && !/\s/.test(text.charAt(end - 1)) && allowed(end))
      word = breakAt(end);
  }
  return { sentence, word, hard };
}

function skipSpace(text: string, at: number): number {
  let next = at;
  while (next < text.length && /[^\S\n]/.test(text.charAt(next))) next++;
  return next;
}

/** Links near the end of a piece that fit into one. */
function findLinks(
  text: string,
  from: number,
  last: number,
  limit: number,
): { start: number; end: number }[] {
  const links: { start: number; end: number }[] = [];
  const lowest = Math.max(from, last - MAX_LINK);
  const window = text.slice(lowest, last + MAX_LINK);
  for (let middle = window.indexOf("]("); middle >= 0; middle = window.indexOf("](", middle + 2)) {
    const start = window.lastIndexOf("[", middle);
    const end = window.indexOf(")", middle) + 1;
    if (start < 0 || end === 0 || end - start > limit) continue;
    if (!/\n|\s(?!["'])/.test(window.slice(middle + 2, end)))
      links.push({ start: lowest + start, end: lowest + end });
  }
  return links;
}

/** The end of the last whole grapheme in `from..last`; of the last whole character where one grapheme is longer than that. */
function graphemeStart(text: string, from: number, last: number): number {
  const index = graphemes.segment(text.slice(from, last + 64)).containing(last - from)?.index ?? 0;
  if (index > 0) return from + index;
  const code = text.charCodeAt(last - 1);
  return code >= 0xd800 && code <= 0xdbff && last - 1 > from ? last - 1 : last;
}
