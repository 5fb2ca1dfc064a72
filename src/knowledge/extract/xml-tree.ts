import { posix } from "node:path";
import type { TextBlock } from "../chunk.ts";
import type { ArchiveParts } from "./archive.ts";
import { broken, optional } from "./types.ts";

/** An element with all that is in it. Names have their prefixes. */
export interface XmlElement {
  name: string;
  attributes: Record<string, string>;
  children: (XmlElement | string)[];
}

export const tidy = (text: string): string => text.replace(/\s+/g, " ").trim();

/** Programs prefix the elements of a workbook, or do not. */
export const toLocal = (name: string): string => name.slice(name.indexOf(":") + 1);

const MAX_DEPTH = 1000;

interface ElementHandlers {
  /** Returns the reading of an element: as a tree, not at all, or by its beginning and end alone. */
  open(name: string, attributes: Record<string, string>): "whole" | "nothing" | undefined;
  /** Called with an element that was wanted whole. */
  whole(element: XmlElement): void;
  /** Called at the end of any other element that was not left out. */
  close?(name: string): void;
}

const decode = (bytes: Buffer): string =>
  new TextDecoder(bytes[0] === 0xff || bytes[0] === 0xfe ? "utf-16" : "utf-8").decode(bytes);

/**
 * Reads a large part of a document by its elements: those of rows and paragraphs are small, the list of them is not. No external
 * entity is ever fetched.
 * @throws ExtractionError `broken_document` if it is not well-formed, or nested too deeply
 */
export async function readElements(
  source: Buffer | string,
  { open, whole, close }: ElementHandlers,
): Promise<void> {
  const { SaxesParser } = await optional("saxes", () => import("saxes"));
  const parser = new SaxesParser();
  /** The elements that are open in one that is wanted whole, which is the first. */
  const trees: XmlElement[] = [];
  let depth = 0;
  let leftOut = 0;
  const addText = (text: string): void => void (leftOut === 0 && trees.at(-1)?.children.push(text));
  parser.on("opentag", ({ name, attributes }) => {
    if (++depth > MAX_DEPTH) throw broken("the elements of the document are nested too deeply");
    if (leftOut > 0) return void leftOut++;
    const wanted = trees.length > 0 ? "whole" : open(name, attributes);
    if (wanted === "nothing") leftOut = 1;
    if (wanted !== "whole") return;
    const element: XmlElement = { name, attributes, children: [] };
    trees.at(-1)?.children.push(element);
    trees.push(element);
  });
  parser.on("text", addText);
  parser.on("cdata", addText);
  parser.on("closetag", ({ name }) => {
    depth--;
    if (leftOut > 0) return void leftOut--;
    const element = trees.pop();
    if (element && toLocal(name) === "AlternateContent") chooseForm(element);
    if (!element) close?.(name);
    else if (trees.length === 0) whole(element);
  });
  parser.on("error", () => {
    throw broken("the XML inside the document is not well-formed");
  });
  parser.write(typeof source === "string" ? source : decode(source)).close();
}

/**
 * Leaves one form of what a document has in several: the first one, unless only another one has text. Drawings that a program
 * cannot show may be pictures without their text.
 */
function chooseForm(element: XmlElement): void {
  const [choice, fallback] = ["Choice", "Fallback"].map((name) => findChild(element, name));
  const chosen = fallback && findElements(choice ?? element, "t").length === 0 ? fallback : choice;
  element.children = chosen?.children ?? [];
}

/** Reads a part of a document as a whole; returns an empty element for no bytes. */
export async function readXmlTree(source: Buffer | string | undefined): Promise<XmlElement> {
  let root: XmlElement = { name: "", attributes: {}, children: [] };
  if (source !== undefined)
    await readElements(source, {
      open: () => "whole",
      whole: (element) => (root = { ...root, children: [element] }),
    });
  return root;
}

/** The elements inside of another one, in the order of the text. */
export function* listElements({ children }: XmlElement): Generator<XmlElement> {
  for (const child of children)
    if (typeof child !== "string") {
      yield child;
      yield* listElements(child);
    }
}

/** Those with a name, with its prefix or without it. */
export const findElements = (element: XmlElement, wanted: string): XmlElement[] =>
  [...listElements(element)].filter(({ name }) => name === wanted || toLocal(name) === wanted);

/** The first element with a name right inside of another one, with any prefix. */
export const findChild = ({ children }: XmlElement, wanted: string): XmlElement | undefined =>
  children.find(
    (child): child is XmlElement => typeof child !== "string" && toLocal(child.name) === wanted,
  );

/** The outermost elements with a name inside of another one, with any prefix. */
export function* listOuter({ children }: XmlElement, wanted: string): Generator<XmlElement> {
  for (const child of children)
    if (typeof child !== "string") {
      if (toLocal(child.name) === wanted) yield child;
      else yield* listOuter(child, wanted);
    }
}

/** The value of an attribute, with any prefix. */
export const getAttribute = (element: XmlElement | undefined, wanted: string): string | undefined =>
  Object.entries(element?.attributes ?? {}).find(([name]) => toLocal(name) === wanted)?.[1];

/** The text of an element. `render` says what is in the place of one inside of it; undefined for its own text. */
export function toInnerText(
  { children }: XmlElement,
  render: (element: XmlElement) => string | undefined = () => undefined,
): string {
  return children
    .map((child) =>
      typeof child === "string" ? child : (render(child) ?? toInnerText(child, render)),
    )
    .join("");
}

/**
 * Text that is no part of the page or of its words: notes stay; their marks, comments, deletions, readings of characters, and boxes,
 * which are paragraphs of their own, go.
 */
export const SKIPPED = new Set([
  "office:annotation",
  "text:tracked-changes",
  "office:forms",
  "text:note-citation",
  "text:ruby-text",
  "svg:title",
  "svg:desc",
  // With any prefix.
  "moveFrom",
  "rt",
  "txbxContent",
]);

/** Elements that stand for signs, by their names without prefixes. */
const SIGNS: Readonly<Record<string, string>> = {
  tab: " ",
  br: " ",
  cr: " ",
  s: " ",
  "line-break": " ",
  ptab: " ",
  noBreakHyphen: "-",
};

export const isOn = (value: string | undefined): boolean => /^(?:1|true|on)$/i.test(value ?? "");

/** Signs of the fonts Wingdings, with which people tick boxes, and Symbol, by their codes. */
const SYMBOLS = new Map(
  "F0FE☒ F0FD☒ F0FC✓ F0A8☐ F0E0→ F0AE→ F0B7• F0B0° F0B1± F0B4× F0A3≤ F0B3≥ F0B9≠ F0BB≈ F0A5∞ F044Δ F053Σ F057Ω F061α F062β F06Dμ F070π"
    .split(" ")
    .map((sign) => [sign.slice(0, 4), sign.slice(4)]),
);
/** Signs before parts of formulas, which would be digits of the part before. */
const BEFORE: Readonly<Record<string, string>> = { den: "/", sup: "^" };

/** Renders the state of a box to tick; undefined for other elements. */
function renderBox(element: XmlElement): string | undefined {
  if (toLocal(element.name) === "sym") {
    const code = (getAttribute(element, "char") ?? "").toUpperCase();
    // Codes below those of fonts are characters of Unicode.
    return parseInt(code, 16) < 0xf000
      ? String.fromCodePoint(parseInt(code, 16))
      : SYMBOLS.get(code);
  }
  if (!/^(?:sdt|fldChar)$/.test(toLocal(element.name))) return undefined;
  const box = ["checkbox", "checkBox"].flatMap((name) => findElements(element, name))[0];
  if (!box) return undefined;
  const state = findChild(box, "checked") ?? findChild(box, "default");
  return state && isOn(getAttribute(state, "val") ?? "1") ? "☒" : "☐";
}

function joinText({ name, children }: XmlElement): string {
  // Between other elements there are line breaks, names of fields and what was deleted.
  const hasText = toLocal(name) === "t" || name.startsWith("text:");
  return children
    .map((child) => {
      if (typeof child === "string") return hasText ? child : "";
      const local = toLocal(child.name);
      if (SKIPPED.has(child.name) || SKIPPED.has(local)) return "";
      const sign = SIGNS[local] ?? renderBox(child);
      if (sign !== undefined) return sign;
      const [hidden] = local === "r" ? findElements(child, "vanish") : [];
      if (hidden && isOn(getAttribute(hidden, "val") ?? "1")) return "";
      if (BEFORE[local] !== undefined) return BEFORE[local] + joinText(child);
      return isParagraph(child.name) ? ` ${joinText(child)} ` : joinText(child);
    })
    .join("");
}

/** Returns whether an element is a paragraph of OpenDocument or of Office. */
export const isParagraph = (name: string): boolean => /^(?:text:[ph]|(?:[aw]:)?p)$/.test(name);

/** The text of a paragraph or a cell, as office programs write it. */
export const toOfficeText = (element: XmlElement): string => tidy(joinText(element));

/** The title that a document gives itself in its metadata; damaged metadata have none. */
export async function readTitle(metadata: Buffer | undefined): Promise<string | null> {
  const tree = await readXmlTree(metadata).catch(() => undefined);
  const [title] = tree ? findElements(tree, "dc:title") : [];
  return (title && tidy(toInnerText(title))) || null;
}

/** The parts that a part of an Office file names, by their ids. */
export async function readTargets(parts: ArchiveParts, part: string): Promise<Map<string, string>> {
  const { dir, base } = posix.parse(part);
  const relations = parts.get(`${dir}/_rels/${base}.rels`);
  const found = findElements(await readXmlTree(relations), "Relationship");
  return new Map(
    found.map(({ attributes: { Id = "", Target = "" } }) => [
      Id,
      Target.startsWith("/") ? Target.slice(1) : posix.join(dir, Target),
    ]),
  );
}

const LONG_WORD = /\p{L}{4,}/gu;
const MIN_LONG_WORDS = 2;
/** The digits of telephone numbers and accounts are more than those of pages. */
const MIN_DIGITS = 7;

/** Returns whether a line of a margin that has a number or a field tells something besides. */
export const isTelling = (text: string): boolean =>
  (text.match(LONG_WORD)?.length ?? 0) >= MIN_LONG_WORDS ||
  (text.match(/\d/g)?.length ?? 0) >= MIN_DIGITS;

/** The lines of headers or footers, each once. One such as "Page 1 of 3" tells nothing. */
export const toMargins = (lines: Iterable<string>): TextBlock[] =>
  [...new Set(lines)]
    .filter((text) => text !== "" && (!/\d/.test(text) || isTelling(text)))
    .map((text) => ({ kind: "text", text }));

/** The blocks of a slide or a sheet: the first one begins a passage. */
export const toPage = (blocks: Iterable<TextBlock>, page: number): TextBlock[] =>
  [...blocks].map((block, index) => ({
    ...block,
    page,
    ...(index === 0 && { startsPassage: true }),
  }));
