import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import type { TextBlock } from "../chunk.ts";
import { ExtractionError, broken, encrypted, optional, type ExtractFormat } from "./types.ts";
import { tidy } from "./xml-tree.ts";

interface Line {
  text: string;
  /** Of the largest letters, in points. */
  height: number;
  /** Of the baseline, from below. */
  y: number;
}

interface Item {
  str: string;
  width: number;
  height: number;
  transform: number[];
  hasEOL: boolean;
}

/** A line that is so much larger than the page's usual one, and short, is a heading. */
const HEADING_RATIO = 1.15;
const MAX_HEADING = 150;
/** A paragraph ends where the next line is further away than so many line heights. */
const PARAGRAPH_GAP = 1.7;

function toLines(items: readonly Item[]): Line[] {
  const lines: Line[] = [];
  let current: Line | undefined;
  for (const item of items) {
    const y = item.transform[5] ?? 0;
    if (item.str !== "") {
      current ??= { text: "", height: 0, y };
      current.text += item.str;
      if (item.str.trim() !== "") current.height = Math.max(current.height, item.height);
    }
    if (!item.hasEOL || !current) continue;
    lines.push(current);
    current = undefined;
  }
  if (current) lines.push(current);
  return lines.filter((line) => line.text.trim() !== "");
}

/** The height that most letters of the document's page have. */
function usualHeight(lines: readonly Line[]): number {
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
  if (/\p{L}-$/u.test(before) && /^\p{Ll}/u.test(line)) return before.slice(0, -1) + line;
  return UNSPACED.test(before) && STARTS_UNSPACED.test(line) ? before + line : `${before} ${line}`;
}

function* buildBlocks(items: readonly Item[], page: number): Generator<TextBlock> {
  const lines = toLines(items);
  const usual = usualHeight(lines);
  let paragraph = "";
  let last: Line | undefined;
  for (const line of lines) {
    const text = line.text.trim();
    const isHeading =
      usual > 0 && line.height > usual * HEADING_RATIO && text.length <= MAX_HEADING;
    const goesOn =
      last !== undefined &&
      !isHeading &&
      Math.abs(last.y - line.y) <= PARAGRAPH_GAP * Math.max(line.height, usual);
    if (!goesOn && paragraph !== "") {
      yield { kind: "text", text: paragraph, page };
      paragraph = "";
    }
    if (isHeading) yield { kind: "heading", text, level: line.height > usual * 1.5 ? 1 : 2, page };
    else paragraph = paragraph === "" ? text : join2(paragraph, text);
    last = isHeading ? undefined : line;
  }
  if (paragraph !== "") yield { kind: "text", text: paragraph, page };
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

/** Titles that programs write if the author gave none. */
const NO_TITLE = /^(?:untitled\b.*|\(anonymous\)|)$/i;

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
  if (document.numPages > limits.pages)
    throw new ExtractionError("too_large", `the document has more than ${limits.pages} pages`);
  const { info } = await document.getMetadata().catch(() => ({ info: {} }));
  const { Title: title } = info as { Title?: unknown };
  const blocks: TextBlock[] = [];
  let letters = 0;
  for (let number = 1; number <= document.numPages; number++) {
    const page = await document.getPage(number);
    const content = await page.getTextContent();
    const items = content.items.filter((item): item is typeof item & Item => "str" in item);
    const annotations = (await page.getAnnotations().catch(() => [])) as Annotation[];
    for (const block of [
      ...buildBlocks(items, number),
      ...buildFields(annotations, items, number),
    ]) {
      letters += block.text.length;
      blocks.push(block);
    }
    page.cleanup();
    if (letters > limits.textChars) break;
    progress(number / document.numPages);
  }
  const pages = document.numPages;
  await task.destroy();
  return {
    title: typeof title === "string" && !NO_TITLE.test(title.trim()) ? title.trim() : null,
    pages,
    blocks,
  };
};
