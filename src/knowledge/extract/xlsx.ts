import type { TextBlock } from "../chunk.ts";
import { readXml, unzip } from "./archive.ts";
import { loadNumberFormats, type NumberFormats, type Styles } from "./number-format.ts";
import { MAX_MERGED, renderUncalculated, tableBlocks, type TableCell } from "./table.ts";
import { ExtractionError, broken, type ExtractFormat } from "./types.ts";
import { findElements, isTelling, readTargets, readXmlTree, tidy, toLocal } from "./xml-tree.ts";

interface Sheet {
  name: string;
  file: string;
  isHidden: boolean;
}

interface Merge {
  top: number;
  bottom: number;
  left: number;
  right: number;
}

/** Reads `B7`, counted from 0. */
function parseReference(reference: string): { row: number; column: number } | undefined {
  const [, letters, digits] = /^([A-Z]{1,3})(\d{1,7})$/.exec(reference) ?? [];
  if (letters === undefined) return undefined;
  let column = 0;
  for (const letter of letters) column = column * 26 + letter.charCodeAt(0) - 64;
  return { row: Number(digits) - 1, column: column - 1 };
}

function parseRange(range: string): Merge | undefined {
  const [from, to] = range.split(":").map(parseReference);
  return from && to
    ? { top: from.row, bottom: to.row, left: from.column, right: to.column }
    : undefined;
}

/** The sheets in the order of their tabs, and whether days are counted from 1904 on. */
async function readWorkbook(
  parts: ReadonlyMap<string, Buffer>,
): Promise<{ sheets: Sheet[]; is1904: boolean }> {
  const workbook = parts.get("xl/workbook.xml");
  const relations = parts.get("xl/_rels/workbook.xml.rels");
  if (!workbook || !relations) throw broken("the workbook has no list of sheets");
  const targets = await readTargets(relations, "xl");
  const tree = await readXmlTree(workbook);
  const sheets = findElements(tree, "sheet").map(({ attributes }): Sheet => {
    const id = Object.entries(attributes).find(([key]) => key.endsWith(":id"))?.[1] ?? "";
    return {
      name: attributes["name"] ?? "",
      file: targets.get(id) ?? "",
      isHidden: attributes["state"] === "hidden" || attributes["state"] === "veryHidden",
    };
  });
  const is1904 = findElements(tree, "workbookPr").some(({ attributes }) =>
    /^(?:1|true|on)$/.test(attributes["date1904"] ?? ""),
  );
  return { sheets, is1904 };
}

/** The texts that cells share, without how they are pronounced. */
async function readSharedTexts(bytes: Buffer | undefined): Promise<string[]> {
  const texts: string[] = [];
  let text = "";
  let isText = false;
  let phonetic = 0;
  if (bytes)
    await readXml(bytes, {
      open(name) {
        if (toLocal(name) === "si") text = "";
        else if (toLocal(name) === "rPh") phonetic++;
        isText = toLocal(name) === "t" && phonetic === 0;
      },
      text: (piece) => void (isText && (text += piece)),
      close(name) {
        isText = false;
        if (toLocal(name) === "rPh") phonetic--;
        else if (toLocal(name) === "si") texts.push(tidy(text));
      },
    });
  return texts;
}

async function readStyles(bytes: Buffer | undefined): Promise<Omit<Styles, "is1904">> {
  const tree = await readXmlTree(bytes);
  const formats = new Map<number, string>();
  for (const { attributes } of findElements(tree, "numFmt"))
    if (attributes["formatCode"] !== undefined)
      formats.set(Number(attributes["numFmtId"] ?? 0), attributes["formatCode"]);
  const styles = findElements(tree, "cellXfs")
    .flatMap((all) => findElements(all, "xf"))
    .map(({ attributes }) => Number(attributes["numFmtId"] ?? 0));
  return { formats, styles };
}

interface OpenCell {
  type: string;
  style: number;
  value: string;
  inline: string;
  formula: string | undefined;
}

function renderCell(
  { type, style, value, inline, formula }: OpenCell,
  shared: readonly string[],
  numbers: NumberFormats,
): string {
  switch (type) {
    case "s":
      return shared[Number(value)] ?? "";
    case "inlineStr":
      return tidy(inline);
    case "b":
      return value === "1" ? "TRUE" : "FALSE";
    case "str":
    case "e":
      return tidy(value);
    case "d":
      return value.replace(/T00:00:00(?:\.0+)?Z?$/, "");
    default:
      if (value === "") return formula === undefined ? "" : renderUncalculated(tidy(formula));
      return Number.isFinite(Number(value)) ? tidy(numbers.render(Number(value), style)) : value;
  }
}

/** Reads the cells of a sheet, its merged ranges, and what it prints above and below each page. */
class SheetReader {
  readonly merges: Merge[] = [];
  readonly rows = new Map<number, string[]>();
  readonly margins = new Set<string>();
  readonly #render: (cell: OpenCell) => string;
  #row = -1;
  #column = -1;
  #cell: OpenCell | undefined;
  #element = "";
  #phonetic = 0;
  #margin: string | undefined;

  constructor(render: (cell: OpenCell) => string) {
    this.#render = render;
  }

  open(name: string, attributes: Record<string, string>): void {
    this.#element = toLocal(name);
    if (this.#element === "row") {
      this.#row = attributes["r"] === undefined ? this.#row + 1 : Number(attributes["r"]) - 1;
      this.#column = -1;
    } else if (this.#element === "c") {
      const at = parseReference(attributes["r"] ?? "");
      this.#column = at?.column ?? this.#column + 1;
      const { t: type = "n", s: style = "0" } = attributes;
      this.#cell = { type, style: Number(style), value: "", inline: "", formula: undefined };
    } else if (this.#element === "f" && this.#cell) this.#cell.formula = "";
    else if (this.#element === "rPh") this.#phonetic++;
    else if (this.#element === "mergeCell") {
      const merge = parseRange(attributes["ref"] ?? "");
      if (merge)
        this.merges.push({ ...merge, right: Math.min(merge.right, merge.left + MAX_MERGED - 1) });
    } else if (/^(?:odd|even|first)(?:Header|Footer)$/.test(this.#element)) this.#margin = "";
  }

  text(text: string): void {
    if (this.#margin !== undefined) this.#margin += text;
    else if (!this.#cell) return;
    else if (this.#element === "v") this.#cell.value += text;
    else if (this.#element === "f") this.#cell.formula = (this.#cell.formula ?? "") + text;
    else if (this.#element === "t" && this.#phonetic === 0) this.#cell.inline += text;
  }

  close(name: string): void {
    const local = toLocal(name);
    this.#element = "";
    if (local === "rPh") this.#phonetic--;
    else if (local === "c" && this.#cell) {
      const text = this.#render(this.#cell);
      this.#cell = undefined;
      if (text === "") return;
      const row = this.rows.get(this.#row) ?? [];
      row[this.#column] = text;
      this.rows.set(this.#row, row);
    } else if (this.#margin !== undefined) {
      const text = renderMargin(this.#margin);
      if (text !== "") this.margins.add(text);
      this.#margin = undefined;
    }
  }
}

/** A header or footer without its codes: sections, fonts, sizes, and fields such as the page's number. */
function renderMargin(text: string): string {
  const hasField = /&[PNDTAFZ]/.test(text);
  const words = tidy(
    text
      .replace(/&&/g, "\u0000")
      .replace(/&[LCR]/g, "  ")
      .replace(/&"[^"]*"|&K[\dA-Fa-f+-]{1,8}|&\d+|&[A-Z]/g, "")
      .replaceAll("\u0000", "&"),
  );
  return hasField && !isTelling(words) ? "" : words;
}

/** How many of some sorted numbers are not above a limit. */
function countUpTo(sorted: readonly number[], limit: number): number {
  let from = 0;
  for (let to = sorted.length; from < to;) {
    const middle = (from + to) >>> 1;
    if ((sorted[middle] as number) <= limit) from = middle + 1;
    else to = middle;
  }
  return from;
}

/** The rows that have cells. A merged cell is there once, and covers no column and row without any cell. */
function* toRows({ rows, merges }: SheetReader): Generator<TableCell[]> {
  const numbers = [...rows.keys()].toSorted((a, b) => a - b);
  const width = numbers.reduce((most, row) => Math.max(most, rows.get(row)?.length ?? 0), 0);
  const starts = Map.groupBy(merges, ({ top }) => top);
  let above: Merge[] = [];
  for (const [index, number] of numbers.entries()) {
    const texts = rows.get(number) ?? [];
    const own = starts.get(number) ?? [];
    above = above.filter(({ bottom }) => bottom >= number);
    const end = [...own, ...above].reduce(
      (most, { right }) => Math.max(most, right + 1),
      texts.length,
    );
    const cells: TableCell[] = [];
    for (let column = 0; column < Math.min(end, width);) {
      const covered = above.find(({ left, right }) => column >= left && column <= right);
      if (covered) {
        column = covered.right + 1;
        continue;
      }
      const merge = own.find(({ left }) => left === column);
      const columns = merge ? Math.min(merge.right + 1, width) - column : 1;
      const height = merge ? countUpTo(numbers, merge.bottom) - index : 1;
      cells.push({ text: texts[column] ?? "", columns, rows: height });
      column += columns;
    }
    above.push(...own.filter(({ bottom }) => bottom > number));
    yield cells;
  }
}

/** A workbook as people see it: numbers in their formats, merged cells in all they cover, without hidden sheets. */
export const extractXlsx: ExtractFormat = async ({ bytes, limits, progress }) => {
  const parts = await unzip(bytes, limits, (name) =>
    /^xl\/(?:(?:_rels\/)?workbook\.xml|sharedStrings|styles|worksheets\/[^/]*\.xml$)/i.test(name),
  );
  const { sheets, is1904 } = await readWorkbook(parts);
  const shown = sheets.filter(({ isHidden }) => !isHidden);
  if (shown.length > limits.pages)
    throw new ExtractionError("too_large", `the workbook has more than ${limits.pages} sheets`);
  const shared = await readSharedTexts(parts.get("xl/sharedStrings.xml"));
  const numbers = await loadNumberFormats({
    ...(await readStyles(parts.get("xl/styles.xml"))),
    is1904,
  });
  const blocks: TextBlock[] = [];
  for (const [index, { name, file }] of shown.entries()) {
    const part = parts.get(file);
    if (!part) continue;
    const page = index + 1;
    const reader = new SheetReader((cell) => renderCell(cell, shared, numbers));
    await readXml(part, {
      open: (element, attributes) => reader.open(element, attributes),
      text: (text) => reader.text(text),
      close: (element) => reader.close(element),
    });
    const rows = [...tableBlocks(toRows(reader), page)];
    progress(page / shown.length);
    // A sheet without cells would name the one after it.
    if (rows.length === 0) continue;
    blocks.push(
      { kind: "heading", text: name, level: 1, page, startsPassage: true },
      ...[...reader.margins].map((text): TextBlock => ({ kind: "text", text, page })),
      ...rows,
    );
  }
  return { title: null, pages: shown.length, blocks };
};
