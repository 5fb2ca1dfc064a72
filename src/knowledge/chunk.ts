import { countTokens } from "./words/tokens.ts";

/** A piece of a document as an extractor gives it. */
export interface TextBlock {
  kind: "heading" | "text" | "row";
  text: string;
  /** From 1, of a heading. */
  level?: number;
  /** From 1; the page, slide or sheet. */
  page?: number;
  /** True if a new passage begins here, however short the one before is: a sheet or a slide. */
  startsPassage?: boolean;
  /** The names of a row's columns: put before the rows of a chunk that does not hold them. */
  header?: string;
}

/** A passage: the text that search returns, and the text that it searches. */
export interface Chunk {
  text: string;
  headings: string[];
  page: number | null;
  /** UTF-16 units in the document's text: the blocks with an empty line between them. */
  start: number;
  end: number;
}

/** Tokens as `countTokens` estimates them. */
const MAX_TOKENS = 500;
const TARGET_TOKENS = 450;
/** A heading ends the chunk before it, unless that has less: a page of one-line sections is no list of chunks. */
const MIN_TOKENS = 120;
/** A sentence that is repeated at the head of the next chunk; a longer one would be half of it. */
const MAX_OVERLAP = 100;
/** A row stays whole up to here. */
const MAX_ROW = 1500;
/** The UTF-16 units that are segmented into sentences in one call: the segmenter's time grows faster than the text. */
const WINDOW = 20_000;
export const SEPARATOR = "\n\n";

interface Unit {
  text: string;
  start: number;
  end: number;
  tokens: number;
  /** Stands between it and the unit before, inside a chunk. */
  glue: string;
  /** The block that it is a sentence of, or all of. */
  block: TextBlock;
  headings: string[];
}

const sentences = new Intl.Segmenter(undefined, { granularity: "sentence" });

/** Cuts what is longer than `most` tokens, at white space if there is some. */
function* cutLong(text: string, most: number): Generator<string> {
  let rest = text;
  while (countTokens(rest) > most) {
    // A character is at most one token, and four are at least one.
    let end = Math.min(rest.length, most * 4);
    while (countTokens(rest.slice(0, end)) > most) end = Math.floor(end * 0.75);
    const space = rest.lastIndexOf(" ", end);
    if (space > end / 2) end = space + 1;
    const code = rest.charCodeAt(end - 1);
    if (code >= 0xd800 && code <= 0xdbff) end -= 1;
    yield rest.slice(0, end);
    rest = rest.slice(end);
  }
  yield rest;
}

function* splitSentences(text: string): Generator<string> {
  for (let from = 0; from < text.length;) {
    let to = Math.min(text.length, from + WINDOW);
    if (to < text.length) {
      const space = text.lastIndexOf(" ", to);
      if (space > from) to = space + 1;
    }
    for (const { segment } of sentences.segment(text.slice(from, to)))
      yield* cutLong(segment, MAX_TOKENS);
    from = to;
  }
}

/** The path of headings after one more. */
function under(
  path: { level: number; text: string }[],
  block: TextBlock,
): { level: number; text: string }[] {
  const level = block.level ?? 1;
  return [
    ...path.filter((heading) => heading.level < level),
    { level, text: block.text.replace(/\s+/g, " ").trim().slice(0, 200) },
  ];
}

function* splitUnits(blocks: Iterable<TextBlock>): Generator<Unit> {
  let offset = 0;
  let path: { level: number; text: string }[] = [];
  for (const block of blocks) {
    if (block.text.trim() === "") continue;
    if (block.kind === "heading") path = under(path, block);
    const headings = path.map(({ text }) => text);
    let glue = block.kind === "row" ? "\n" : SEPARATOR;
    const pieces =
      block.kind === "text"
        ? splitSentences(block.text)
        : cutLong(block.text, block.kind === "row" ? MAX_ROW : MAX_TOKENS);
    for (const text of pieces) {
      const end = offset + text.length;
      yield { text, start: offset, end, tokens: countTokens(text), glue, block, headings };
      offset = end;
      glue = "";
    }
    offset += SEPARATOR.length;
  }
}

function buildChunk(units: readonly Unit[]): Chunk | undefined {
  const first = units[0];
  const last = units.at(-1);
  if (!first || !last) return undefined;
  const body = units
    .map((unit, index) => (index === 0 ? unit.text : unit.glue + unit.text))
    .join("");
  const { kind, header: names, page = null } = first.block;
  const header = kind === "row" && names !== undefined ? `${names}\n` : "";
  const text = (header + body).trim();
  if (text === "") return undefined;
  // A chunk that begins with a heading lies under it; one of several short sections is named by the first.
  return {
    text,
    headings: first.headings,
    page,
    start: first.start,
    end: last.end,
  };
}

/** Returns whether a unit can no longer be added. */
function isFull(current: readonly Unit[], tokens: number, unit: Unit): boolean {
  if (current.length === 0) return false;
  if (unit.block.startsPassage) return true;
  if (unit.block.kind === "heading") return tokens >= MIN_TOKENS;
  if (tokens + unit.tokens > MAX_TOKENS) return true;
  // Past the aim, a chunk ends where a block does.
  return tokens >= TARGET_TOKENS && unit.glue !== "";
}

/** The units that the next chunk repeats: the last sentence, where the text goes on under the same heading. */
function getOverlap(current: readonly Unit[], next: Unit): Unit[] {
  const last = current.at(-1);
  const goesOn = last?.block.kind === "text" && next.block.kind === "text" && current.length > 1;
  return goesOn && last.tokens <= MAX_OVERLAP && last.tokens + next.tokens <= MAX_TOKENS
    ? [last]
    : [];
}

/**
 * Cuts a document into chunks of 350 to 500 tokens (the last of a section may be shorter): by heading, then by
 * sentence, with one sentence of overlap; table rows stay whole.
 */
export function* splitChunks(blocks: Iterable<TextBlock>): Generator<Chunk> {
  let current: Unit[] = [];
  let tokens = 0;
  for (const unit of splitUnits(blocks)) {
    if (isFull(current, tokens, unit)) {
      // A heading at the very end belongs to what follows.
      const headings: Unit[] = [];
      while (current.length > 1 && current.at(-1)?.block.kind === "heading")
        headings.unshift(current.pop() as Unit);
      const chunk = buildChunk(current);
      if (chunk) yield chunk;
      current = headings.length > 0 ? headings : getOverlap(current, unit);
      tokens = current.reduce((sum, { tokens: own }) => sum + own, 0);
    }
    current.push(unit);
    tokens += unit.tokens;
  }
  const chunk = buildChunk(current);
  if (chunk) yield chunk;
}
