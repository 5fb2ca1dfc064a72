import type { TextBlock } from "../chunk.ts";

/** A cell of a table as its document has it: a merged one is there once. */
export interface TableCell {
  text: string;
  /** The number of columns and rows that it covers; 1 if it is not merged. */
  columns?: number;
  rows?: number;
}

/** A row as people see it. */
interface Row {
  cells: string[];
  /** True if a cell covers several of its columns, but not all that have text. */
  hasGroups: boolean;
  /** True if a cell goes on in the next row. */
  goesOn: boolean;
}

/** A spreadsheet says of its empty rest that a cell covers thousands of columns. */
export const MAX_MERGED = 100;
/** A longer text is repeated with its begin alone. */
const MAX_REPEATED = 300;

/** Reads how far a cell is merged. */
export const toSpan = (value: string | null | undefined): number =>
  Math.min(MAX_MERGED, Math.max(1, Math.floor(Number(value ?? 1)) || 1));

/** Renders a cell whose formula no program has calculated yet. */
export const renderUncalculated = (formula: string): string =>
  `=${formula.replace(/^=/, "")} (not calculated)`;

const repeated = (text: string): string =>
  text.length > MAX_REPEATED ? `${text.slice(0, MAX_REPEATED)}…` : text;

/** Lays cells out in columns: a merged cell is in every column and row that it covers. Rows without a cell of their own go. */
function* layOut(rows: Iterable<readonly TableCell[]>): Generator<Row> {
  let above: { text: string; rows: number }[] = [];
  for (const row of rows) {
    const cells: string[] = [];
    const below: typeof above = [];
    let different = 0;
    let hasGroups = false;
    const carry = (): void => {
      for (let covered; (covered = above[cells.length]) && covered.rows > 0;) {
        if (covered.rows > 1) below[cells.length] = { text: covered.text, rows: covered.rows - 1 };
        cells.push(covered.text);
      }
    };
    for (const { text, columns = 1, rows: height = 1 } of row) {
      carry();
      if (text !== "") different++;
      if (text !== "" && columns > 1) hasGroups = true;
      for (let column = 0; column < columns; column++) {
        if (height > 1) below[cells.length] = { text: repeated(text), rows: height - 1 };
        cells.push(column === 0 ? text : repeated(text));
      }
    }
    carry();
    // The row may end before the columns that cells above it cover.
    for (; cells.length < above.length; carry()) cells.push("");
    const carried = above.some((covered) => covered.rows > 0 && covered.text !== "");
    above = below;
    // A title over all columns is one text.
    const isTitle = hasGroups && different === 1 && !carried;
    if (isTitle) cells.splice(0, cells.length, ...cells.filter((text) => text !== "").slice(0, 1));
    while (cells.at(-1) === "") cells.pop();
    if (different === 0 || cells.length === 0) continue;
    yield {
      cells,
      hasGroups: hasGroups && !isTitle,
      goesOn: below.some((covered) => covered.text !== ""),
    };
  }
}

/** Names columns by two rows: by both names if they differ. */
const joinNames = (first: readonly string[], second: readonly string[]): string[] =>
  Array.from({ length: Math.max(first.length, second.length) }, (_, column) =>
    [...new Set([first[column] ?? "", second[column] ?? ""])].filter(Boolean).join(" "),
  );

/**
 * Returns whether a row goes on with the names of the columns: it names what a merged name above it covers, and what
 * has none.
 */
const goesOnWithNames = (above: Row, { cells }: Row): boolean =>
  above.goesOn ||
  (above.hasGroups &&
    cells.some((text, column) => text !== "" && (above.cells[column] ?? "") === "") &&
    !cells.some((text) => /^[\p{Sc}\s+-]*\d/u.test(text)));

/**
 * Makes a block of each row of a table. `isHead` says which rows name the columns; without it the first one does that has
 * more than one cell, with those below it that go on with its merged cells.
 */
export function* tableBlocks<Source extends readonly TableCell[]>(
  rows: Iterable<Source>,
  isHead?: (row: Source) => boolean,
): Generator<TextBlock> {
  let names: string[] | undefined;
  let above: Row | undefined;
  let marked = false;
  const marks = function* (): Generator<Source> {
    for (const row of rows) {
      // The row is laid out next.
      marked = isHead?.(row) ?? false;
      yield row;
    }
  };
  for (const row of layOut(marks())) {
    yield {
      kind: "row",
      text: row.cells.join(" | "),
      ...(names === undefined ? {} : { header: names.join(" | ") }),
    };
    const isFirst = names === undefined && (isHead ? marked : row.cells.length > 1);
    const isNext = above !== undefined && (isHead ? marked : goesOnWithNames(above, row));
    if (isFirst) names = row.cells;
    else if (isNext) names = joinNames(names ?? [], row.cells);
    above = isFirst || isNext ? row : undefined;
  }
}
