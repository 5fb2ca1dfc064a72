import { posix } from "node:path";
import type { TextBlock } from "../chunk.ts";
import {
  broken,
  checkParts,
  encrypted,
  optional,
  type ExtractFormat,
  type ExtractSource,
} from "./types.ts";
import { domBlocks, parseDom } from "./html.ts";
import { unzip, type ArchiveParts } from "./archive.ts";
import { loadNumberFormat } from "./number-format.ts";
import { tableBlocks, toSpan, type TableCell } from "./table.ts";
import {
  findElements,
  listElements,
  readTargets,
  readTitle,
  readXmlTree,
  tidy,
  toInnerText,
  toMargins,
  toPage,
  type XmlElement,
} from "./xml-tree.ts";

/** The level in the outline of text that is no heading. */
const MAX_OUTLINE = 9;

/** The text of a paragraph: `t` has it, with the prefix of the format; `breaks` are spaces in it. */
const joinRuns = (paragraph: XmlElement, t: string, breaks: readonly string[]): string =>
  tidy(
    [...listElements(paragraph)]
      .map((run) =>
        [t, "m:t"].includes(run.name) ? toInnerText(run) : breaks.includes(run.name) ? " " : "",
      )
      .join(""),
  );

/** The paragraphs of the headers or footers of a document. */
async function readMargins(parts: ArchiveParts, kind: "header" | "footer"): Promise<TextBlock[]> {
  const lines: string[] = [];
  for (const [name, bytes] of parts)
    if (name.startsWith(`word/${kind}`)) {
      const paragraphs = findElements(await readXmlTree(unwrapText(bytes)), "w:p");
      const texts = paragraphs.toReversed().map((paragraph) => {
        const text = joinRuns(paragraph, "w:t", ["w:tab", "w:br"]);
        // One in a text box is no part of the one that the box is in.
        paragraph.children = [];
        return text;
      });
      lines.push(...texts.toReversed());
    }
  return toMargins(lines);
}

const ALTERNATIVES =
  /<mc:AlternateContent\b[^>]*>((?:(?!<mc:AlternateContent\b)[^])*?)<\/mc:AlternateContent>/g;
/** Elements around text that mammoth leaves out with the text. */
const WRAPPERS =
  /(?<=<\/?)(?:w:(?:fldSimple|dir|bdo|ruby|rubyBase)|wp:(?:anchor|inline)|a:graphic(?:Data)?|wp[sgc]:\w+|m:(?!(?:r|t|\w*Pr)\b)\w+)\b/g;

/** The alternative that has the text: drawings that a program cannot show may be pictures without it. */
function chooseAlternative(inner: string): string {
  const [, choice = ""] = /<mc:Choice\b[^>]*>([^]*?)<\/mc:Choice>/.exec(inner) ?? [];
  const fallback = /<mc:Fallback\b[^>]*>([^]*?)<\/mc:Fallback>/.exec(inner)?.[1];
  return choice.includes("<w:txbxContent") ? choice : (fallback ?? choice);
}

/** Renames elements around text to ones that mammoth reads: those of fields, right-to-left runs, text boxes and formulas. */
function unwrapText(part: Buffer): Buffer {
  let xml = part.toString("utf8");
  // Those inside of others come first.
  for (let before = ""; before !== xml;) {
    before = xml;
    xml = xml.replace(ALTERNATIVES, (_, inner: string) => chooseAlternative(inner));
  }
  const unwrapped = xml
    .replace(/(?<=<\/?)w:drawing\b/g, "w:pict")
    .replace(WRAPPERS, "w:smartTag")
    .replace(/(?<=<\/?)m:(?=[rt]\b)/g, "w:");
  return Buffer.from(unwrapped);
}

/** Gives paragraphs with a level of their own in the outline a style of that level, by which mammoth makes headings of them. */
const styleOutlines = (part: Buffer): Buffer =>
  Buffer.from(
    part.toString("utf8").replace(/<w:pPr>([^]*?)<\/w:pPr>/g, (whole, inner: string) => {
      const [own = ""] = inner.split("<w:pPrChange");
      const level = /<w:outlineLvl\b[^>]*w:val="([0-8])"/.exec(own)?.[1];
      const style = `<w:pStyle w:val="Outline${level}"/>`;
      const others = inner.replace(/<w:pStyle\b[^>]*\/>/, "");
      return level === undefined ? whole : `<w:pPr>${style}${others}</w:pPr>`;
    }),
  );

const OUTLINE_STYLES = Array.from(
  { length: MAX_OUTLINE },
  (_, level) => `p.Outline${level} => h${Math.min(level + 1, 6)}:fresh`,
);

/** The styles of paragraphs that have a level in the outline, as mammoth maps them. A style has the level of the one that it is based on. */
async function mapHeadingStyles(styles: Buffer | undefined): Promise<string[]> {
  const found = findElements(await readXmlTree(styles), "w:style").map((style) => {
    const read = (name: string): string | undefined =>
      findElements(style, name)[0]?.attributes["w:val"];
    const id = style.attributes["w:styleId"] ?? "";
    return { id, name: read("w:name"), base: read("w:basedOn"), level: read("w:outlineLvl") };
  });
  const byId = new Map(found.map((style) => [style.id, style]));
  return found.flatMap((style) => {
    const { name } = style;
    let at: typeof style | undefined = style;
    // Styles that are based on each other would never end.
    for (let depth = 0; at && at.level === undefined && depth < byId.size; depth++)
      at = byId.get(at.base ?? "");
    const level = Number(at?.level ?? MAX_OUTLINE);
    if (name === undefined || !(level < MAX_OUTLINE)) return [];
    const escaped = name.replace(/['\\]/g, "\\$&");
    return [`p[style-name='${escaped}'] => h${Math.min(level + 1, 6)}:fresh`];
  });
}

/** The parts with what is drawn of data: diagrams and charts. */
const DRAWN = /^(?:ppt|word)\/(?:diagrams\/data|charts\/chart)/;

const MAX_DEPTH = 3;

/** Reads the documents that Word makes paragraphs of when it opens the file: programs put HTML into it in this way. */
async function readChunks(
  parts: ArchiveParts,
  { depth, readAttached }: ExtractSource,
): Promise<TextBlock[]> {
  const blocks: TextBlock[] = [];
  for (const [part, xml] of parts) {
    if (depth >= MAX_DEPTH || !/^word\/document[^/]*\.xml$/.test(part)) continue;
    const targets = await readTargets(parts, part);
    for (const [, id = ""] of xml
      .toString("utf8")
      .matchAll(/<w:altChunk\b[^>]*\br:id="([^"]+)"/g)) {
      const filename = targets.get(id) ?? "";
      const chunk = parts.get(filename);
      // The rest of the file is there without it.
      const read = chunk && (await readAttached({ bytes: chunk, filename }).catch(() => undefined));
      blocks.push(...(read?.blocks ?? []));
    }
  }
  return blocks;
}

export const extractDocx: ExtractFormat = async (source) => {
  const { bytes, limits } = source;
  const parts = await unzip(bytes, limits, (name) => !name.startsWith("word/media/"));
  const readable = [...parts].map(([name, part]) => [
    name,
    !/^word\/[^/]+\.xml$/.test(name)
      ? part
      : unwrapText(name.startsWith("word/document") ? styleOutlines(part) : part),
  ]);
  const { zipSync } = await optional("fflate", () => import("fflate"));
  // Mammoth unpacks without looking: it gets what was counted.
  const buffer = Buffer.from(zipSync(Object.fromEntries(readable), { level: 0 }));
  const mammoth = await optional("mammoth", () => import("mammoth"));
  const { value } = await mammoth.default
    .convertToHtml(
      { buffer },
      {
        convertImage: mammoth.default.images.imgElement(async () => ({ src: "" })),
        ignoreEmptyParagraphs: true,
        styleMap: [...OUTLINE_STYLES, ...(await mapHeadingStyles(parts.get("word/styles.xml")))],
      },
    )
    .catch(() => {
      throw broken("the document cannot be read; its XML is damaged");
    });
  const { body } = await parseDom(value);
  const drawn: TextBlock[] = [];
  for (const [name, part] of parts)
    if (DRAWN.test(name)) drawn.push(...slideBlocks(await readDrawn(part)));
  return {
    title: await readTitle(parts.get("docProps/core.xml")),
    blocks: [
      ...(await readMargins(parts, "header")),
      ...(body ? domBlocks(body) : []),
      ...(await readChunks(parts, source)),
      ...drawn,
      ...(await readMargins(parts, "footer")),
    ],
  };
};

/** The slides of a presentation in the order in which they are shown. */
async function slideNames(parts: ArchiveParts): Promise<string[]> {
  const presentation = parts.get("ppt/presentation.xml");
  const targets = await readTargets(parts, "ppt/presentation.xml");
  if (!presentation || targets.size === 0) throw broken("the presentation has no list of slides");
  return findElements(await readXmlTree(presentation), "p:sldId")
    .map(({ attributes }) => targets.get(attributes["r:id"] ?? "") ?? "")
    .filter((name) => parts.has(name));
}

const toParagraph = (paragraph: XmlElement): string => joinRuns(paragraph, "a:t", ["a:br"]);

const isOn = (value: string | undefined): boolean => value === "1" || value === "true";

/** The cells of a row of a slide's table. The merged cell itself says how far it goes. */
const toCells = (row: XmlElement): TableCell[] =>
  findElements(row, "a:tc")
    .filter(({ attributes }) => !isOn(attributes["hMerge"]) && !isOn(attributes["vMerge"]))
    .map((cell) => ({
      text: tidy(findElements(cell, "a:p").map(toParagraph).join(" ")),
      columns: toSpan(cell.attributes["gridSpan"]),
      rows: toSpan(cell.attributes["rowSpan"]),
    }));

const isTitleShape = (shape: XmlElement): boolean =>
  findElements(shape, "p:ph").some(({ attributes }) =>
    ["title", "ctrTitle"].includes(attributes["type"] ?? ""),
  );

const listPoints = (element: XmlElement): XmlElement[] => findElements(element, "c:pt");

const readText = (element: XmlElement, name: string): string | undefined =>
  findElements(element, name).map((found) => toInnerText(found))[0];

/** Programs write this for the date that each shows in the order of its own country. */
const COUNTRY_DATE = "m/d/yyyy";

/** Reads a diagram or a chart. The numbers of a chart become what it shows: dates, percentages, without noise of calculations. */
async function readDrawn(part: Buffer | undefined): Promise<XmlElement> {
  const tree = await readXmlTree(part);
  const caches = ["c:numCache", "c:numLit"].flatMap((name) => findElements(tree, name));
  if (caches.length === 0) return tree;
  const [calendar] = findElements(tree, "c:date1904");
  const render = await loadNumberFormat(isOn(calendar && (calendar.attributes["val"] ?? "1")));
  for (const cache of caches) {
    const format = readText(cache, "c:formatCode");
    for (const point of listPoints(cache)) {
      const text = readText(point, "c:v")?.trim() ?? "";
      if (text === "" || Number.isNaN(Number(text))) continue;
      const own = point.attributes["formatCode"] ?? format;
      point.children = [render(Number(text), own === COUNTRY_DATE ? "yyyy-mm-dd" : own)];
    }
  }
  return tree;
}

/** The numbers of a chart as a table: a row for each category, with its value in each series. */
function toChartRows(chart: XmlElement): TableCell[][] {
  const series = findElements(chart, "c:ser");
  const list = (one: XmlElement, ...names: string[]): string[] => {
    const texts: string[] = [];
    for (const point of names.flatMap((name) => findElements(one, name)).flatMap(listPoints)) {
      const at = Number(point.attributes["idx"]);
      // A category of several levels has a text for each of them.
      texts[at] = tidy(`${texts[at] ?? ""} ${toInnerText(point)}`);
    }
    return texts;
  };
  const categories = series.slice(0, 1).map((one) => list(one, "c:cat", "c:xVal"));
  const values = series.map((one) => list(one, "c:val", "c:yVal"));
  const columns = [...categories, ...values];
  const length = Math.max(0, ...columns.map((column) => column.length));
  const names = ["", ...series.map((one) => list(one, "c:tx").join(" "))];
  const rows = Array.from({ length }, (_, row) => columns.map((column) => column[row] ?? ""));
  return [names, ...rows].map((row) => row.map((text) => ({ text })));
}

function* slideBlocks({ children }: XmlElement, isTitle = false): Generator<TextBlock> {
  for (const child of children) {
    if (typeof child === "string") continue;
    const { name } = child;
    // The alternative for programs that do not know the other one.
    if (name === "mc:Fallback") continue;
    if (name === "a:tbl") yield* tableBlocks(findElements(child, "a:tr").map(toCells));
    else if (name === "a:p") {
      const text = toParagraph(child);
      if (text !== "") yield isTitle ? { kind: "heading", text, level: 1 } : { kind: "text", text };
    } else {
      if (name === "c:plotArea") yield* tableBlocks(toChartRows(child));
      yield* slideBlocks(child, name === "p:sp" ? isTitleShape(child) : isTitle);
    }
  }
}

/** The parts beside a slide that have text of it: its diagrams and charts, then the speaker's notes. */
async function readBeside(parts: ArchiveParts, slide: string): Promise<XmlElement[]> {
  const names = [...(await readTargets(parts, slide)).values()];
  const drawn = names.filter((name) => DRAWN.test(name));
  const notes = names.filter((name) => name.startsWith("ppt/notesSlides/"));
  const found = await Promise.all([...drawn, ...notes].map((name) => readDrawn(parts.get(name))));
  // A page of notes has shapes for the slide's picture, the date and the number, too.
  return found.flatMap((tree) => {
    const shapes = findElements(tree, "p:sp");
    const isBody = (shape: XmlElement): boolean =>
      findElements(shape, "p:ph").some(({ attributes }) => attributes["type"] === "body");
    return shapes.length === 0 ? [tree] : shapes.filter(isBody);
  });
}

const PRESENTATION =
  /^ppt\/(?:slides\/(?:_rels\/)?slide|notesSlides\/notes|diagrams\/data|charts\/chart|presentation|_rels\/presentation)|^docProps\/core/;

export const extractPptx: ExtractFormat = async ({ bytes, limits, progress }) => {
  const parts = await unzip(bytes, limits, (name) => PRESENTATION.test(name));
  const names = await slideNames(parts);
  checkParts("the presentation", names.length, limits.pages, "slide");
  const blocks: TextBlock[] = [];
  for (const [index, name] of names.entries()) {
    const slide = await readXmlTree(parts.get(name));
    const isHidden = findElements(slide, "p:sld").some(({ attributes }) =>
      /^(?:0|false)$/.test(attributes["show"] ?? ""),
    );
    const shown = isHidden ? [] : [slide, ...(await readBeside(parts, name))];
    const slideText = shown.flatMap((tree) => [...slideBlocks(tree)]);
    blocks.push(...toPage(slideText, index + 1));
    progress((index + 1) / names.length);
  }
  return {
    title: await readTitle(parts.get("docProps/core.xml")),
    pages: names.length,
    blocks,
  };
};

/** The chapters of a book in reading order. */
async function chapterNames(opf: Buffer, path: string): Promise<string[]> {
  const tree = await readXmlTree(opf);
  const items = new Map(
    findElements(tree, "item")
      .filter(({ attributes }) => attributes["media-type"]?.includes("html"))
      .map(({ attributes: { id = "", href = "" } }) => [id, href]),
  );
  return findElements(tree, "itemref").flatMap(({ attributes: { idref = "" } }) =>
    items.has(idref)
      ? [posix.join(posix.dirname(path), decodeURIComponent(items.get(idref) as string))]
      : [],
  );
}

export const extractEpub: ExtractFormat = async ({ bytes, limits, progress }) => {
  const parts = await unzip(bytes, limits, (name) => /\.(?:x?html?|opf|xml)$/i.test(name));
  const roots = findElements(await readXmlTree(parts.get("META-INF/container.xml")), "rootfile");
  const path = roots[0]?.attributes["full-path"] ?? "";
  const opf = parts.get(path);
  if (!opf) throw broken("the book has no list of contents");
  const names = await chapterNames(opf, path);
  const locked = parts.get("META-INF/encryption.xml")?.toString("utf8") ?? "";
  if (names.some((name) => locked.includes(`"${name}"`))) throw encrypted();
  checkParts("the book", names.length, limits.pages, "chapter");
  const blocks: TextBlock[] = [];
  for (const [index, name] of names.entries()) {
    const { body } = await parseDom(parts.get(name)?.toString("utf8") ?? "");
    if (body) blocks.push(...domBlocks(body));
    progress((index + 1) / names.length);
  }
  return { title: await readTitle(opf), blocks };
};
