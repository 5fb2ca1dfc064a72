import { posix } from "node:path";
import type { TextBlock } from "../chunk.ts";
import { broken, checkParts, encrypted, type ExtractFormat, type ExtractSource } from "./types.ts";
import { domBlocks, parseDom } from "./html.ts";
import { unzip, type ArchiveParts } from "./archive.ts";
import { loadNumberFormat } from "./number-format.ts";
import { tableBlocks, toSpan, type TableCell } from "./table.ts";
import {
  findChild,
  findElements,
  getAttribute,
  isOn,
  listOuter,
  readTargets,
  readTitle,
  readXmlTree,
  tidy,
  toInnerText,
  toLocal,
  toMargins,
  toPage,
  toOfficeText,
  type XmlElement,
} from "./xml-tree.ts";

/** The level in the outline of text that is no heading. */
const MAX_OUTLINE = 9;

/** The levels of headings, from 0, by the styles of their paragraphs. */
type Levels = ReadonlyMap<string, number>;

/** A style that its program names as a heading, from 1. */
const HEADING = /^heading ?([1-9])$/i;

/** Reads the styles of paragraphs that have a level in the outline. A style has the level of the one that it is based on. */
async function readLevels(styles: Buffer | undefined): Promise<Levels> {
  const found = findElements(await readXmlTree(styles), "style").map((style) => {
    const read = (name: string): string | undefined =>
      getAttribute(findElements(style, name)[0], "val");
    const named = HEADING.exec(read("name") ?? "")?.[1];
    const level = read("outlineLvl") ?? (named === undefined ? undefined : Number(named) - 1);
    return { id: getAttribute(style, "styleId") ?? "", base: read("basedOn"), level };
  });
  const byId = new Map(found.map((style) => [style.id, style]));
  return new Map(
    found.map((style) => {
      let at: typeof style | undefined = style;
      // Styles that are based on each other would never end.
      for (let depth = 0; at && at.level === undefined && depth < byId.size; depth++)
        at = byId.get(at.base ?? "");
      return [style.id, Number(at?.level ?? MAX_OUTLINE)];
    }),
  );
}

/** The level of a paragraph that is a heading, from 1: its own, or that of its style. */
function getLevel(paragraph: XmlElement, levels: Levels): number | undefined {
  const properties = findChild(paragraph, "pPr");
  const read = (name: string): string | undefined =>
    properties && getAttribute(findChild(properties, name), "val");
  const style = read("pStyle") ?? "";
  const own = read("outlineLvl");
  const named = HEADING.exec(style)?.[1];
  const level = Number(own ?? levels.get(style) ?? Number(named ?? MAX_OUTLINE + 1) - 1);
  return level < MAX_OUTLINE ? level + 1 : undefined;
}

/** The rows of a table. A merged cell is there once, and says how far it goes. */
function toRows(table: XmlElement, levels: Levels): TableCell[][] {
  /** The last cell of each column, which may go on below. */
  const above: Required<TableCell>[] = [];
  return [...listOuter(table, "tr")].map((row) => {
    let column = 0;
    return [...listOuter(row, "tc")].flatMap((cell) => {
      const { attributes } = cell;
      const properties = findChild(cell, "tcPr");
      const merge = properties && findChild(properties, "vMerge");
      const span = properties && getAttribute(findChild(properties, "gridSpan"), "val");
      // On a slide, there is an empty cell for each one that a merged cell covers.
      if (isOn(attributes["hMerge"]) || isOn(attributes["vMerge"])) return [];
      const columns = toSpan(attributes["gridSpan"] ?? span);
      const at = column;
      column += columns;
      const start = above[at];
      if (merge && getAttribute(merge, "val") !== "restart" && start) {
        start.rows++;
        return [];
      }
      const text = tidy([...officeBlocks(cell, levels)].map((block) => block.text).join(" "));
      const read = { text, columns, rows: toSpan(attributes["rowSpan"]) };
      above[at] = read;
      return [read];
    });
  });
}

const hasPlaceholder = (shape: XmlElement, ...types: string[]): boolean =>
  findElements(shape, "ph").some(({ attributes }) => types.includes(attributes["type"] ?? ""));

/** The blocks of a Word file, a slide, a diagram or a chart in the order of the file. `isTitle`: those of a slide's title. */
function* officeBlocks(
  { children }: XmlElement,
  levels: Levels = new Map(),
  isTitle = false,
): Generator<TextBlock> {
  for (const child of children) {
    if (typeof child === "string") continue;
    const name = toLocal(child.name);
    if (name === "tbl") yield* tableBlocks(toRows(child, levels));
    else if (name === "p") {
      const text = toOfficeText(child);
      const level = isTitle ? 1 : getLevel(child, levels);
      if (text !== "")
        yield level === undefined ? { kind: "text", text } : { kind: "heading", text, level };
      for (const box of listOuter(child, "txbxContent")) yield* officeBlocks(box, levels);
    } else {
      if (name === "plotArea") yield* tableBlocks(toChartRows(child));
      const isShape = name === "sp";
      yield* officeBlocks(
        child,
        levels,
        isShape ? hasPlaceholder(child, "title", "ctrTitle") : isTitle,
      );
    }
  }
}

/** The parts with what is drawn of data: diagrams and charts. */
const DRAWN = /^(?:ppt|word)\/(?:diagrams\/data|charts\/chart)/;

/** The text of a Word file; Word for the web numbers it. */
const DOCUMENT = /^word\/document[^/]*\.xml$/;
const MAX_DEPTH = 3;

/** Reads the documents that Word makes paragraphs of when it opens the file: programs put HTML into it in this way. */
async function readChunks(
  parts: ArchiveParts,
  { depth, readAttached }: ExtractSource,
): Promise<TextBlock[]> {
  const blocks: TextBlock[] = [];
  for (const [part, xml] of parts) {
    if (depth >= MAX_DEPTH || !DOCUMENT.test(part)) continue;
    const targets = await readTargets(parts, part);
    for (const named of findElements(await readXmlTree(xml), "altChunk")) {
      const filename = targets.get(getAttribute(named, "id") ?? "") ?? "";
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
  const levels = await readLevels(parts.get("word/styles.xml"));
  const read = async (
    wanted: RegExp,
    readTree: (part: Buffer) => Promise<XmlElement> = readXmlTree,
  ): Promise<TextBlock[]> => {
    const blocks: TextBlock[] = [];
    for (const [name, part] of parts)
      if (wanted.test(name)) blocks.push(...officeBlocks(await readTree(part), levels));
    return blocks;
  };
  const readMargins = async (wanted: RegExp): Promise<TextBlock[]> =>
    toMargins((await read(wanted)).map(({ text }) => text));
  return {
    title: await readTitle(parts.get("docProps/core.xml")),
    blocks: [
      ...(await readMargins(/^word\/header[^/]*\.xml$/)),
      ...(await read(DOCUMENT)),
      ...(await readChunks(parts, source)),
      ...(await read(/^word\/(?:foot|end)notes\.xml$/)),
      ...(await read(DRAWN, readDrawn)),
      ...(await readMargins(/^word\/footer[^/]*\.xml$/)),
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

/** The parts beside a slide that have text of it: its diagrams and charts, then the speaker's notes. */
async function readBeside(parts: ArchiveParts, slide: string): Promise<XmlElement[]> {
  const names = [...(await readTargets(parts, slide)).values()];
  const drawn = names.filter((name) => DRAWN.test(name));
  const notes = names.filter((name) => name.startsWith("ppt/notesSlides/"));
  const found = await Promise.all([...drawn, ...notes].map((name) => readDrawn(parts.get(name))));
  // A page of notes has shapes for the slide's picture, the date and the number, too.
  return found.flatMap((tree) => {
    const shapes = findElements(tree, "p:sp");
    return shapes.length === 0 ? [tree] : shapes.filter((shape) => hasPlaceholder(shape, "body"));
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
    const slideText = shown.flatMap((tree) => [...officeBlocks(tree)]);
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
