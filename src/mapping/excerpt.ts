const MAX_EXCERPT = 120;
/** The characters that are shown before the place of an error in a long line. */
const BEFORE = 60;

/** A place in a text, counted from 1. */
interface Excerpt {
  line: number;
  column: number;
  /** The line with a caret below the place; of a long line a part. */
  excerpt: string;
}

/** The place of a character of a text. */
export function placeIn(text: string, offset: number): Excerpt {
  const at = Math.max(0, Math.min(offset, text.length));
  const start = text.slice(0, at).lastIndexOf("\n") + 1;
  const end = text.indexOf("\n", at);
  const line = text.slice(0, start).split("\n").length;
  return {
    line,
    column: at - start + 1,
    excerpt: renderExcerpt(text.slice(start, end < 0 ? text.length : end), at - start),
  };
}

/** A line of code with a caret below one of its characters. */
export function renderExcerpt(line: string, column: number): string {
  const from = column > MAX_EXCERPT - 10 ? column - BEFORE : 0;
  const shown = line.slice(from, from + MAX_EXCERPT);
  const [head, tail] = [from > 0 ? "…" : "", from + MAX_EXCERPT < line.length ? "…" : ""];
  // Tabs stay, so that the caret stands where the character does.
  const indent = `${head}${line.slice(from, column)}`.replace(/[^\t]/g, " ");
  return `${head}${shown}${tail}\n${indent}^`;
}
