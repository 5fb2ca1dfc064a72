import {
  cutAt,
  findAncestors,
  findDefinitions,
  findWholeBlock,
  readBeginning,
  type Beginning,
  type Halves,
  type Place,
} from "./cut.ts";

/** A place that fills so much of a piece is taken before a better kind of place that fills less. */
const FILLED = 0.5;
const SENTENCE_END = /[.!?…][)"'\]”’*_]*(?=\s)|[。！？]/g;
const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });

/**
 * Splits a markdown text into pieces of at most `limit` UTF-16 units (20 or more), for channels with a longest message.
 * Breaks after blocks, items, lines, sentences or words, in this order. What is open at a break, as bold text, a link, code,
 * a quote or a table, is closed in the piece and opened again in the next, so that each piece shows by itself what the
 * whole shows; no surrogate pair, no grapheme, no escaped sign and no link that fits is cut. White space at a break goes; no
 * piece is blank.
 */
export const splitText = (text: string, limit: number): string[] => [...cutPieces(text, limit)];

function* cutPieces(text: string, limit: number): Generator<string> {
  if (text.trim() === "") return;
  if (text.length <= limit) return yield text;
  const definitions = findDefinitions(text);
  let rest = text;
  while (rest.trim() !== "") {
    rest = rest.slice(skipBlankLines(rest, 0));
    const beginning = readBeginning(rest, limit, definitions);
    const isLast = beginning.behind === "" && beginning.text.length <= limit;
    const halves = isLast ? { piece: beginning.text.trimEnd(), rest: "" } : cut(beginning);
    if (halves.piece.trim() !== "") yield halves.piece;
    rest = halves.rest;
  }
}

/** The least that a piece is cut to where a channel counts it longer than its text is. */
const LEAST_PIECE = 20;

type Measure = (text: string) => number;

/**
 * Splits a text so that each piece fits as its channel counts it: `measure` gives the length of a piece in the channel's
 * dialect, which may be more or less than that of its text. A piece is cut when it is asked for: who needs the first alone
 * does not wait for a long text.
 */
export function* cutMeasured(text: string, limit: number, measure?: Measure): Generator<string> {
  if (!measure) return yield* cutPieces(text, limit);
  const measurePiece = (piece: string): number => {
    try {
      return measure(piece);
    } catch {
      // A plugin that cannot count a text has to send it all the same.
      return piece.length;
    }
  };
  for (const piece of cutPieces(text, limit)) {
    const length = measurePiece(piece);
    const room = Math.max(
      LEAST_PIECE,
      Math.floor(Math.min(piece.length - 1, (piece.length * limit) / length)),
    );
    if (length <= limit || piece.length <= LEAST_PIECE) yield piece;
    else yield* cutMeasured(piece, room, scaled(measurePiece, limit, room));
  }
}

/** The measure for pieces that are cut to `room`, where `limit` is what they may come to. */
const scaled =
  (measure: Measure, limit: number, room: number): Measure =>
  (text) =>
    (measure(text) / limit) * room;

/** The start of the first line from `at` on that is not blank; its indentation stays. */
function skipBlankLines(text: string, at: number): number {
  let start = at;
  for (let i = at; i < text.length && /\s/.test(text.charAt(i)); i++)
    if (text[i] === "\n") start = i + 1;
  return start;
}

/** A cut, and how much of a piece it fills. */
type Found = Halves & Place;
type Kind = "block" | "item" | "line" | "code";

/** Cuts a piece off the beginning of a text, at the best place. */
function cut(beginning: Beginning): Halves {
  const { text, limit, behind } = beginning;
  const lines = cutLines(beginning);
  if (lines.whole) return lines.whole;
  const filled = (found: Found | undefined): found is Found =>
    found !== undefined && found.end >= limit * FILLED;
  const { block, item, line, code } = lines.found;
  const best = [block, item, line, code].find(filled);
  if (best) return best;
  const sentence = cutSentence(beginning);
  if (filled(sentence)) return sentence;
  const word = cutWord(beginning);
  if (filled(word)) return word;
  const more = { ...beginning, cutsMore: true };
  const any =
    code ?? line ?? item ?? block ?? sentence ?? word ?? cutWord(more) ?? cutGrapheme(more);
  if (any) return any;
  // Nothing keeps its forms, as an address that is longer than a piece.
  const end = graphemeStart(text, limit);
  return { piece: text.slice(0, end), rest: text.slice(end) + behind };
}

const tryCut = (beginning: Beginning, place: Place): Found | undefined => {
  const halves = cutAt(beginning, place);
  return halves && halves.piece.trim() !== "" ? { ...halves, ...place } : undefined;
};

/** The last cuts between lines of each kind; `whole` is the one before code or a table that a piece of its own can hold. */
function cutLines(beginning: Beginning): {
  found: Partial<Record<Kind, Found>>;
  whole: Found | undefined;
} {
  const { text, limit } = beginning;
  const found: Partial<Record<Kind, Found>> = {};
  const wholeFrom = findWholeBlock(beginning, limit);
  for (let at = text.lastIndexOf("\n", limit); at > 0; at = text.lastIndexOf("\n", at - 1)) {
    const place = endLine(text, at);
    const ancestors = findAncestors(beginning.tree, place.end);
    const isBeforeWhole = wholeFrom !== undefined && place.next <= wholeFrom;
    const kind = kindOf(ancestors.map(({ type }) => type));
    if (found[kind] && !isBeforeWhole) continue;
    const made = tryCut(beginning, place);
    if (isBeforeWhole && made) return { found, whole: made };
    if (made && !found[kind]) found[kind] = made;
  }
  return { found, whole: undefined };
}

function kindOf(ancestors: readonly string[]): Kind {
  if (ancestors.includes("code")) return "code";
  if (ancestors.length === 0) return "block";
  return ancestors.length === 1 && ancestors[0] === "list" ? "item" : "line";
}

/** The place at the end of a line, without the white space around it and the sign of a hard break. */
function endLine(text: string, newline: number): Place {
  const line = text.slice(text.lastIndexOf("\n", newline - 1) + 1, newline).trimEnd();
  const escapes = /\\*$/.exec(line)?.[0].length ?? 0;
  const spaces = newline - text.slice(0, newline).trimEnd().length;
  return {
    end: Math.max(0, newline - spaces - (escapes % 2)),
    next: skipBlankLines(text, newline),
  };
}

/** The last cut after a sentence in the line that does not fit. */
function cutSentence(beginning: Beginning): Found | undefined {
  const { text, limit } = beginning;
  const from = text.lastIndexOf("\n", limit - 1) + 1;
  // One unit more, so that the look-ahead of a sentence's end just behind the piece counts.
  const ends = [...text.slice(from, limit + 1).matchAll(SENTENCE_END)];
  for (const { index, 0: end } of ends.toReversed()) {
    const at = from + index + end.length;
    const found =
      at <= limit ? tryCut(beginning, { end: at, next: skipSpace(text, at) }) : undefined;
    if (found) return found;
  }
  return undefined;
}

/** The last cut between two words of the line that does not fit. */
function cutWord(beginning: Beginning): Found | undefined {
  const { text, limit } = beginning;
  const from = text.lastIndexOf("\n", limit - 1) + 1;
  for (let end = limit; end > from; end--) {
    if (!/\s/.test(text.charAt(end)) || /\s/.test(text.charAt(end - 1))) continue;
    const found = tryCut(beginning, { end, next: skipSpace(text, end) });
    if (found) return found;
  }
  return undefined;
}

/** The last cut between two graphemes; of what is longer than half a piece none is looked for. */
function cutGrapheme(beginning: Beginning): Found | undefined {
  const { text, limit } = beginning;
  for (let end = limit; end > limit * FILLED;) {
    const at = graphemeStart(text, end);
    const found = tryCut(beginning, { end: at, next: at });
    if (found) return found;
    end = Math.min(at, end) - 1;
  }
  return undefined;
}

function skipSpace(text: string, at: number): number {
  let next = at;
  while (next < text.length && /[^\S\n]/.test(text.charAt(next))) next++;
  return next;
}

/** The end of the last whole grapheme up to `last`; of the last whole character where one grapheme is longer than that. */
function graphemeStart(text: string, last: number): number {
  let from = Math.max(0, last - 256);
  // Flags are pairs of signs: from the middle of a flag on, all that follow would be paired wrongly.
  while (from > 0 && /[\uDDE6-\uDDFF\uD83C]/u.test(text.charAt(from - 1))) from--;
  const index = graphemes.segment(text.slice(from, last + 64)).containing(last - from)?.index ?? 0;
  if (index > 0) return from + index;
  const code = text.charCodeAt(last - 1);
  return code >= 0xd800 && code <= 0xdbff && last > 1 ? last - 1 : last;
}
