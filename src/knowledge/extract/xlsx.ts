import type { TextBlock } from "../chunk.ts";
import { unzip, type ArchiveParts } from "./archive.ts";
import { getBuiltInFormat, loadNumberFormat, type RenderNumber } from "./number-format.ts";
import { MAX_MERGED, renderUncalculated, tableBlocks, type TableCell } from "./table.ts";
import { broken, checkParts, type ExtractFormat } from "./types.ts";
import {
  findChild,
  findElements,
  isOn,
  isTelling,
  readElements,
  readTargets,
  readXmlTree,
  tidy,
  toInnerText,
  toLocal,
  toPage,
  toOfficeText,
  type XmlElement,
} from "./xml-tree.ts";

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
async function readWorkbook(parts: ArchiveParts): Promise<{ sheets: Sheet[]; is1904: boolean }> {
  const workbook = parts.get("xl/workbook.xml");
  const targets = await readTargets(parts, "xl/workbook.xml");
  if (!workbook || targets.size === 0) throw broken("the workbook has no list of sheets");
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
    isOn(attributes["date1904"]),
  );
  return { sheets, is1904 };
}

/** A text as a cell shows it: characters that XML cannot have are written as `_x000D_` (ECMA-376 part 1, 22.9.2.19). */
const decodeText = (text: string): string =>
  tidy(
    text.replace(/_x([\dA-F]{4})_/gi, (_, code: string) => String.fromCharCode(parseInt(code, 16))),
  );

/** The text of a cell, without how it is pronounced. */
const toCellText = (element: XmlElement): string =>
  decodeText(toInnerText(element, ({ name }) => (toLocal(name) === "rPh" ? "" : undefined)));

/** The texts that cells share. */
async function readSharedTexts(bytes: Buffer | undefined): Promise<string[]> {
  const texts: string[] = [];
  if (bytes)
    await readElements(bytes, {
      open: (name) => (toLocal(name) === "si" ? "whole" : undefined),
      whole: (element) => void texts.push(toCellText(element)),
    });
  return texts;
}

/** Reads the number format of each style. */
async function readStyles(bytes: Buffer | undefined): Promise<(string | undefined)[]> {
  const tree = await readXmlTree(bytes);
  const formats = new Map(
    findElements(tree, "numFmt").map(({ attributes }) => [
      Number(attributes["numFmtId"]),
      attributes["formatCode"],
    ]),
  );
  return findElements(tree, "cellXfs")
    .flatMap((all) => findElements(all, "xf"))
    .map(({ attributes }) => {
      const id = Number(attributes["numFmtId"] ?? 0);
      return formats.get(id) ?? getBuiltInFormat(id);
    });
}

/** The parts of a workbook that its cells refer to. */
interface Workbook {
  texts: readonly string[];
  /** The number format of each style. */
  styles: readonly (string | undefined)[];
  renderNumber: RenderNumber;
}

function renderCell(cell: XmlElement, { texts, styles, renderNumber }: Workbook): string {
  const [text, formula, inline] = ["v", "f", "is"].map((name) => findChild(cell, name));
  const value = text ? toInnerText(text) : "";
  switch (cell.attributes["t"]) {
    case "s":
      return texts[Number(value)] ?? "";
    case "inlineStr":
      return inline ? toCellText(inline) : "";
    case "b":
      return isOn(value) ? "TRUE" : "FALSE";
    case "str":
    case "e":
      return decodeText(value);
    case "d":
      return value.replace(/T00:00:00(?:\.0+)?Z?$/, "");
    default: {
      if (value === "") return formula ? renderUncalculated(toCellText(formula)) : "";
      const format = styles[Number(cell.attributes["s"] ?? 0)];
      return Number.isFinite(Number(value)) ? tidy(renderNumber(Number(value), format)) : value;
    }
  }
}

/** The cells of a sheet that have text, and its merged ranges. */
interface SheetContent {
  rows: Map<number, string[]>;
  merges: Merge[];
  /** Its headers and footers, each once. */
  margins: ReadonlySet<string>;
}

const MARGIN = /^(?:odd|even|first)(?:Header|Footer)$/;

/** Renders a header or footer without its codes: sections, fonts, sizes, and fields such as the page's number. */
function renderMargin(text: string): string {
  const hasField = /(?<!&)(?:&&)*&[PNDTAFZ]/.test(text);
  const words = tidy(
    text
      .replace(/&&/g, "\u0000")
      .replace(/&[LCR]/g, "  ")
      .replace(/&"[^"]*"|&K[\dA-Fa-f+-]{1,8}|&\d+|&[A-Z]/g, "")
      .replaceAll("\u0000", "&"),
  );
  return hasField && !isTelling(words) ? "" : words;
}

async function readSheet(
  bytes: Buffer,
  render: (cell: XmlElement) => string,
): Promise<SheetContent> {
  const rows: SheetContent["rows"] = new Map();
  const merges: Merge[] = [];
  const margins = new Set<string>();
  let row = -1;
  const addRow = ({ attributes, children }: XmlElement): void => {
    row = attributes["r"] === undefined ? row + 1 : Number(attributes["r"]) - 1;
    let column = -1;
    for (const cell of children) {
      if (typeof cell === "string" || toLocal(cell.name) !== "c") continue;
      column = parseReference(cell.attributes["r"] ?? "")?.column ?? column + 1;
      const text = render(cell);
      if (text === "") continue;
      const texts = rows.get(row) ?? [];
      texts[column] = text;
      rows.set(row, texts);
    }
  };
  await readElements(bytes, {
    open(name) {
      const local = toLocal(name);
      return local === "row" || local === "mergeCell" || MARGIN.test(local) ? "whole" : undefined;
    },
    whole(element) {
      const local = toLocal(element.name);
      if (local === "row") return addRow(element);
      if (local !== "mergeCell") {
        const margin = renderMargin(toInnerText(element));
        if (margin !== "") margins.add(margin);
        return;
      }
      const merge = parseRange(element.attributes["ref"] ?? "");
      if (merge)
        merges.push({ ...merge, right: Math.min(merge.right, merge.left + MAX_MERGED - 1) });
    },
  });
  return { rows, merges, margins };
}

/** The texts in the shapes on a sheet, such as text boxes. */
async function readShapes(parts: ArchiveParts, sheet: string): Promise<TextBlock[]> {
  const texts = new Set<string>();
  for (const name of (await readTargets(parts, sheet)).values())
    if (name.startsWith("xl/drawings/"))
      for (const paragraph of findElements(await readXmlTree(parts.get(name)), "a:p"))
        texts.add(toOfficeText(paragraph));
  return [...texts].filter((text) => text !== "").map((text) => ({ kind: "text", text }));
}

/** The rows that have cells. A merged cell is there once, and covers no column and row without any cell. */
function* toRows({ rows, merges }: SheetContent): Generator<TableCell[]> {
  const numbers = [...rows.keys()].toSorted((a, b) => a - b);
  const width = numbers.reduce((most, row) => Math.max(most, rows.get(row)?.length ?? 0), 0);
  const starts = Map.groupBy(merges, ({ top }) => top);
  /** The last row in which each column is covered by a cell above. */
  const coveredTo: number[] = [];
  for (const [index, number] of numbers.entries()) {
    const texts = rows.get(number) ?? [];
    const own = new Map((starts.get(number) ?? []).map((merge) => [merge.left, merge]));
    const end = [...own.values()].reduce((most, { right }) => Math.max(most, right + 1), 0);
    const cells: TableCell[] = [];
    for (let column = 0; column < Math.min(Math.max(end, texts.length), width); column++) {
      if ((coveredTo[column] ?? -1) >= number) continue;
      const { right = column, bottom = number } = own.get(column) ?? {};
      const columns = Math.min(right + 1, width) - column;
      let height = 1;
      while ((numbers[index + height] ?? Infinity) <= bottom) height++;
      cells.push({ text: texts[column] ?? "", columns, rows: height });
      for (let covered = 0; covered < columns; covered++) coveredTo[column + covered] = bottom;
      column += columns - 1;
    }
    yield cells;
  }
}

/** A workbook as people see it: numbers in their formats, merged cells in all they cover, without hidden sheets. */
export const extractXlsx: ExtractFormat = async ({ bytes, limits, progress }) => {
  const parts = await unzip(bytes, limits, (name) =>
    /^xl\/(?:(?:_rels\/)?workbook\.xml|sharedStrings|styles|worksheets\/|drawings\/drawing)/i.test(
      name,
    ),
  );
  const { sheets, is1904 } = await readWorkbook(parts);
  const shown = sheets.filter(({ isHidden }) => !isHidden);
  checkParts("the workbook", shown.length, limits.pages, "sheet");
  // Names of parts are the same in capitals, as some programs write this one.
  const shared = [...parts].find(([name]) => /^xl\/sharedStrings\.xml$/i.test(name));
  const workbook: Workbook = {
    texts: await readSharedTexts(shared?.[1]),
    styles: await readStyles(parts.get("xl/styles.xml")),
    renderNumber: await loadNumberFormat(is1904),
  };
  const blocks: TextBlock[] = [];
  for (const [index, { name, file }] of shown.entries()) {
    const part = parts.get(file);
    if (!part) continue;
    const sheet = await readSheet(part, (cell) => renderCell(cell, workbook));
    const rows = [...tableBlocks(toRows(sheet)), ...(await readShapes(parts, file))];
    progress((index + 1) / shown.length);
    // A sheet without cells would name the one after it.
    if (rows.length === 0) continue;
    const margins = [...sheet.margins].map((text): TextBlock => ({ kind: "text", text }));
    const heading: TextBlock = { kind: "heading", text: name, level: 1 };
    blocks.push(...toPage([heading, ...margins, ...rows], index + 1));
  }
  return { pages: shown.length, blocks };
};
