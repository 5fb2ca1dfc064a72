import type { AlignType } from "mdast";

/** The drawing of a table in letters of one width. */
export interface Columns {
  /** Between two cells; a blank line's worth of it is never left at the end. */
  between: string;
  /** The line below the head: what fills a column, and what stands between two. None: no such line. */
  rule?: readonly [fill: string, joint: string];
  /** True if columns are aligned as the table wishes; otherwise all stand to the left. */
  aligned?: boolean;
}

// Signs that count double: East Asian scripts and emoji.
const WIDE =
  /[\u1100-\u115f\u3000-\u303f\uff01-\uff60\uffe0-\uffe6]|\p{Script=Han}|\p{Script=Hiragana}|\p{Script=Katakana}|\p{Script=Hangul}|\p{Emoji_Presentation}|\ufe0f/u;
let graphemes: Intl.Segmenter | undefined;

function width(text: string): number {
  graphemes ??= new Intl.Segmenter("en", { granularity: "grapheme" });
  let sum = 0;
  for (const { segment } of graphemes.segment(text)) sum += WIDE.test(segment) ? 2 : 1;
  return sum;
}

/** The width of the widest line of a text, in letters of one width. */
export function displayWidth(text: string): number {
  return text.split("\n").reduce((widest, line) => Math.max(widest, width(line)), 0);
}

function pad(text: string, room: number, align: AlignType | undefined): string {
  const missing = room - width(text);
  const left = align === "right" ? missing : align === "center" ? Math.floor(missing / 2) : 0;
  return " ".repeat(left) + text + " ".repeat(missing - left);
}

/** Rows of cells as lines of text in columns; the first row is the head. Cells hold one line each. */
export function alignTable(
  rows: readonly (readonly string[])[],
  { between, rule, aligned = false }: Columns,
  align: readonly AlignType[] = [],
): string {
  const cells = rows.map((row) => row.map((cell) => cell.replaceAll("\n", " ")));
  const count = Math.max(0, ...cells.map((row) => row.length));
  const widths = Array.from({ length: count }, (_, column) =>
    Math.max(1, ...cells.map((row) => width(row[column] ?? ""))),
  );
  const lines = cells.map((row) =>
    widths
      .map((room, column) => pad(row[column] ?? "", room, aligned ? align[column] : undefined))
      .join(between)
      .trimEnd(),
  );
  const below = rule ? [widths.map((room) => rule[0].repeat(room)).join(rule[1])] : [];
  return [...lines.slice(0, 1), ...below, ...lines.slice(1)].join("\n");
}
