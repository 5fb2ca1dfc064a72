import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import type { TextItem } from "pdfjs-dist/types/src/display/api.js";
import type { TextBlock } from "../chunk.ts";
import { broken, checkParts, encrypted, optional, type ExtractFormat } from "./types.ts";
import { tidy } from "./xml-tree.ts";

interface Line {
  text: string;
  page: number;
  /** Of the largest letters, in points. */
  height: number;
  width: number;
  /** Of the baseline, from below. */
  y: number;
  /** The height that most letters of its page have. */
  usual: number;
}

interface Item extends Pick<TextItem, "str" | "width" | "height" | "hasEOL"> {
  transform: number[];
}

/** A line that is so much larger than the page's usual one, and short, is a heading. */
const HEADING_RATIO = 1.15;
const MAX_HEADING = 150;
/** A paragraph ends where the next line is further away than so many line heights. */
const PARAGRAPH_GAP = 1.7;
/** Lines below the text that are so much smaller than the usual ones are notes. */
const NOTE_RATIO = 0.92;
/** A line that is so much of the one above it does not end its paragraph. */
const FULL_RATIO = 0.85;
/** So many lines at the top, and at the bottom, may be a header or a footer. */
const MARGIN_LINES = 3;

/** Returns whether an item is the raised number of a note: no part of the word before, as that of a unit (m2) is. */
const isNoteMark = ({ str, height, transform }: Item, before: Line): boolean =>
  /^\d{1,3}$/.test(str) &&
  height < before.height * NOTE_RATIO &&
  (transform[5] ?? 0) > before.y &&
  /\p{L}{4}\p{P}*$/u.test(before.text);

/** Returns whether an item was drawn to the left of the one before, as the words of Arabic and Hebrew are. */
const isLeftOf = ({ transform, width }: Item, before: Item): boolean =>
  (transform[4] ?? 0) + width < (before.transform[4] ?? 0);

function toLines(items: readonly Item[], page: number): Line[] {
  const lines: Line[] = [];
  let current: Line | undefined;
  let last: Item | undefined;
  for (const item of items) {
    const y = item.transform[5] ?? 0;
    if (item.str !== "") {
      current ??= { text: "", page, height: 0, width: 0, y, usual: 0 };
      if (isNoteMark(item, current) || (last && isLeftOf(item, last))) current.text += " ";
      last = item.str.trim() === "" ? undefined : item;
      current.text += item.str;
      current.width += item.width;
      if (item.str.trim() !== "") current.height = Math.max(current.height, item.height);
    }
    if (!item.hasEOL || !current) continue;
    lines.push(current);
    current = last = undefined;
  }
  if (current) lines.push(current);
  const found = lines.filter((line) => line.text.trim() !== "");
  const usual = findUsualHeight(found);
  return found.map((line) => ({ ...line, text: line.text.trim(), usual }));
}

/** The height that most letters have. */
function findUsualHeight(lines: readonly Line[]): number {
  const letters = new Map<number, number>();
  for (const { text, height } of lines) {
    const rounded = Math.round(height * 2) / 2;
    letters.set(rounded, (letters.get(rounded) ?? 0) + text.length);
  }
  return [...letters].toSorted((a, b) => b[1] - a[1])[0]?.[0] ?? 0;
}

const UNSPACED = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}，。、；：？！）」』】]$/u;
const STARTS_UNSPACED = /^[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}，。、；：？！（「『【]/u;

/** Joins two lines of one paragraph: a word divided at the line's end becomes one again, Chinese and Japanese take no space. */
function join2(before: string, line: string): string {
  if (before === "") return line;
  if (/\p{L}[-\u2010]$/u.test(before) && /^\p{Ll}/u.test(line)) return before.slice(0, -1) + line;
  return UNSPACED.test(before) && STARTS_UNSPACED.test(line) ? before + line : `${before} ${line}`;
}

const isHeading = ({ text, height, usual }: Line): boolean =>
  usual > 0 && height > usual * HEADING_RATIO && text.length <= MAX_HEADING;

const isNear = (one: Line, other: Line): boolean =>
  Math.abs(one.y - other.y) <= PARAGRAPH_GAP * Math.max(other.height, other.usual);

/** A line of a header or a footer is at the same place of other pages, but for its numbers. */
const toMarginKey = ({ text, y }: Line): string =>
  `${Math.round(y / 3)} ${text.replace(/\d+/g, "#")}`;

/** A page, with what stands apart from its text: headers, footers, notes, and what was filled into fields. */
interface Page {
  body: Line[];
  apart: Line[];
  fields: readonly TextBlock[];
}

/** Finds the lines of pages that stand apart from their text, which goes on behind them. */
function dividePages(pages: readonly { lines: Line[]; fields: TextBlock[] }[]): Page[] {
  const ends = pages.flatMap(({ lines }) => [
    ...new Set([...lines.slice(0, MARGIN_LINES), ...lines.slice(-MARGIN_LINES)].map(toMarginKey)),
  ]);
  const counts = Map.groupBy(ends, (key) => key);
  /** The number of lines that are a margin at the begin of a list. */
  const countMargin = (lines: readonly Line[]): number => {
    const count = lines
      .slice(0, MARGIN_LINES + 1)
      .findIndex((line) => isHeading(line) || (counts.get(toMarginKey(line))?.length ?? 0) < 2);
    const [last, next] = [lines[count - 1], lines[count]];
    // The names of a table's columns stand near to its rows.
    return last && next && !isNear(last, next) ? count : 0;
  };
  return pages.map(({ lines, fields }) => {
    const top = countMargin(lines);
    const bottom = lines.length - countMargin(lines.toReversed());
    const last = lines.findLastIndex(
      ({ height, usual }, index) => index < bottom && height >= usual * NOTE_RATIO,
    );
    const end = Math.max(top, last + 1);
    const apart = [...lines.slice(0, top), ...lines.slice(end)];
    return { body: lines.slice(top, end), apart, fields };
  });
}

/** The text that a paragraph has on one page. */
type Part = Pick<Line, "text" | "page">;

const sentences = new Intl.Segmenter(undefined, { granularity: "sentence" });

/** Divides a paragraph into what is on each page; a sentence is whole, on the page on which it begins. */
function* toParagraph([first, next, ...rest]: readonly Part[]): Generator<TextBlock> {
  if (!first) return;
  const text = next ? join2(first.text, next.text) : first.text;
  const sentence = next && sentences.segment(text).containing(text.length - next.text.length);
  const end = sentence ? sentence.index + sentence.segment.length : text.length;
  if (text !== "") yield { kind: "text", text: text.slice(0, end).trim(), page: first.page };
  if (next) yield* toParagraph([{ ...next, text: text.slice(end).trim() }, ...rest]);
}

const SENTENCE_END = /[\p{STerm}:;：；][\p{Pe}\p{Pf}"']*$/u;

/** Returns whether a paragraph goes on in a line. From one page or column to the next it does so within a sentence. */
function goesOn(paragraph: readonly Line[], line: Line): boolean {
  const [above, last] = [paragraph.at(-2), paragraph.at(-1)];
  if (!last || isHeading(last) || isHeading(line)) return false;
  if (last.page === line.page && (isNear(last, line) || line.y <= last.y))
    return isNear(last, line);
  if (SENTENCE_END.test(last.text)) return false;
  return /^\p{Ll}/u.test(line.text) || (above && last.width >= above.width * FULL_RATIO) === true;
}

function* groupLines(lines: readonly Line[]): Generator<Line[]> {
  let paragraph: Line[] = [];
  for (const line of lines) {
    if (paragraph.length > 0 && !goesOn(paragraph, line)) yield paragraph.splice(0);
    paragraph.push(line);
  }
  if (paragraph.length > 0) yield paragraph;
}

function toBlocks(lines: readonly Line[]): TextBlock[] {
  const [first] = lines;
  if (first && isHeading(first)) {
    const { text, page, height, usual } = first;
    return [{ kind: "heading", text, level: height > usual * 1.5 ? 1 : 2, page }];
  }
  const parts = Map.groupBy(lines, ({ page }) => page);
  return [
    ...toParagraph(
      [...parts].map(([page, own]) => ({ page, text: own.map(({ text }) => text).reduce(join2) })),
    ),
  ];
}

/** The blocks of a document. What stands apart on a page comes behind its text. */
function* buildBlocks(pages: readonly Page[]): Generator<TextBlock> {
  let done = 0;
  const endPages = function* (to: number): Generator<TextBlock> {
    for (const { apart, fields } of pages.slice(done, to)) {
      for (const lines of groupLines(apart)) yield* toBlocks(lines);
      yield* fields;
    }
    done = Math.max(done, to);
  };
  for (const lines of groupLines(pages.flatMap(({ body }) => body))) {
    const [first, ...rest] = toBlocks(lines);
    yield* endPages((lines[0]?.page ?? 1) - 1);
    if (first) yield first;
    yield* endPages((lines.at(-1)?.page ?? 1) - 1);
    yield* rest;
  }
  yield* endPages(pages.length);
}

/** A field of a form, or a text that was written over the page, as pdf.js reports it. */
interface Annotation {
  subtype?: string;
  fieldType?: string;
  fieldName?: string;
  alternativeText?: string;
  fieldValue?: unknown;
  checkBox?: boolean;
  radioButton?: boolean;
  exportValue?: unknown;
  buttonValue?: unknown;
  options?: readonly { exportValue?: unknown; displayValue?: string }[];
  hidden?: boolean;
  password?: boolean;
  /** Left, bottom, right, top. */
  rect?: number[];
  contentsObj?: { str?: string };
}

/** Names that programs give fields: they say nothing. */
const UNNAMED =
  /^(?:(?:text|check|radio|combo|list|drop)?[ _-]?(?:field|box|button|down)?|undefined|untitled)[ _-]?\d*$/i;
/** The largest distance between a label and its field, in points. */
const LABEL_GAP = 150;

/** The text that stands beside a field on its line: to the left of it, or to the right of a box to tick. */
function findLabel(
  items: readonly Item[],
  [left = 0, bottom = 0, right = 0, top = 0]: number[],
  isBox: boolean,
): string {
  let nearest = LABEL_GAP;
  let label = "";
  for (const { str, transform, width } of items) {
    const [x, y] = [transform[4] ?? 0, transform[5] ?? 0];
    if (str.trim() === "" || y < bottom - 3 || y > top + 1) continue;
    const distance = isBox && x >= right - 2 ? x - right : left - (x + width);
    if (distance < -2 || distance >= nearest) continue;
    nearest = distance;
    label = str;
  }
  return tidy(label).replace(/[\s:._…]+$/, "");
}

/** The value of a field as people see it; empty if it is not filled in. */
function toFieldValue(field: Annotation): string {
  const { fieldType, fieldValue, checkBox, radioButton, exportValue, buttonValue } = field;
  if (fieldType === "Btn") {
    const own = checkBox ? exportValue : buttonValue;
    const isOn = (checkBox || radioButton) && fieldValue === own && fieldValue !== "Off";
    return isOn ? "☒" : "";
  }
  if (fieldType !== "Tx" && fieldType !== "Ch") return "";
  const values = Array.isArray(fieldValue) ? fieldValue : [fieldValue];
  const shown = values.map((value) => {
    const option = field.options?.find((one) => one.exportValue === value);
    return typeof value === "string" ? (option?.displayValue ?? value) : "";
  });
  return tidy(shown.filter(Boolean).join(", "));
}

/**
 * Builds the texts that were filled into a page: each field with its name, or with the text beside it, and texts that
 * were written over it.
 */
function* buildFields(
  annotations: readonly Annotation[],
  items: readonly Item[],
  page: number,
): Generator<TextBlock> {
  for (const field of annotations) {
    if (field.hidden || field.password) continue;
    const value =
      field.subtype === "FreeText" ? tidy(field.contentsObj?.str ?? "") : toFieldValue(field);
    if (value === "") continue;
    const beside = findLabel(items, field.rect ?? [], field.fieldType === "Btn");
    const own =
      tidy(field.fieldName ?? "")
        .split(".")
        .at(-1) ?? "";
    const name = tidy(field.alternativeText ?? "") || beside || (UNNAMED.test(own) ? "" : own);
    const isTicked = field.fieldType === "Btn";
    const text = isTicked ? `${value} ${name || own}` : name === "" ? value : `${name}: ${value}`;
    yield { kind: "row", text, page };
  }
}

const folder = (): string =>
  dirname(createRequire(import.meta.url).resolve("pdfjs-dist/package.json"));

function toFailure(error: unknown): Error {
  const { name } = error as { name?: string };
  if (name === "PasswordException") return encrypted();
  return broken("the PDF cannot be read; it may be damaged or cut off");
}

/**
 * The browser's classes that pdf.js makes instances of as soon as it is loaded, and uses for drawing alone. It takes them
 * from a native package that not every platform has.
 */
function standInForDrawing(): void {
  const scope = globalThis as Record<string, unknown>;
  for (const name of ["DOMMatrix", "ImageData", "Path2D"]) scope[name] ??= function standIn() {};
}

/** Titles that programs write if the author gave none, and what they write before the name of a file. */
const NO_TITLE = /^(?:(?:untitled\b.*|\(anonymous\))$|Microsoft (?:Word|PowerPoint|Excel) - )/i;

/** PDF with the pages' numbers. Without the character maps, text in Chinese, Japanese and Korean comes out empty, without an error. */
export const extractPdf: ExtractFormat = async ({ bytes, limits, progress }) => {
  standInForDrawing();
  const { getDocument, VerbosityLevel } = await optional(
    "pdfjs-dist",
    () => import("pdfjs-dist/legacy/build/pdf.mjs"),
  );
  const root = folder();
  const task = getDocument({
    data: new Uint8Array(bytes),
    cMapUrl: join(root, "cmaps/"),
    cMapPacked: true,
    standardFontDataUrl: join(root, "standard_fonts/"),
    wasmUrl: join(root, "wasm/"),
    disableFontFace: true,
    useSystemFonts: false,
    stopAtErrors: false,
    verbosity: VerbosityLevel.ERRORS,
  });
  const document = await task.promise.catch((error: unknown) => {
    throw toFailure(error);
  });
  checkParts("the document", document.numPages, limits.pages, "page");
  const { info } = await document.getMetadata().catch(() => ({ info: {} }));
  const { Title: title } = info as { Title?: unknown };
  const pages: { lines: Line[]; fields: TextBlock[] }[] = [];
  let letters = 0;
  for (let number = 1; number <= document.numPages && letters <= limits.textChars; number++) {
    const page = await document.getPage(number);
    const content = await page.getTextContent();
    const items = content.items.filter((item): item is typeof item & Item => "str" in item);
    const annotations = (await page.getAnnotations().catch(() => [])) as Annotation[];
    const lines = toLines(items, number);
    letters += lines.reduce((sum, { text }) => sum + text.length, 0);
    pages.push({ lines, fields: [...buildFields(annotations, items, number)] });
    page.cleanup();
    progress(number / document.numPages);
  }
  const { numPages } = document;
  await task.destroy();
  return {
    title: typeof title === "string" ? title.trim().replace(NO_TITLE, "") || null : null,
    pages: numPages,
    blocks: buildBlocks(dividePages(pages)),
  };
};
