import type { TextBlock } from "../chunk.ts";
import { broken, checkParts, encrypted, type ExtractFormat } from "./types.ts";
import { unzip } from "./archive.ts";
import { renderUncalculated, tableBlocks, toSpan, type TableCell } from "./table.ts";
import {
  isParagraph,
  listElements,
  readElements,
  readTitle,
  readXmlTree,
  SKIPPED,
  tidy,
  toMargins,
  toPage,
  toOfficeText,
  type XmlElement,
} from "./xml-tree.ts";

/** Renders a cell that has a value or a formula and no text: programs that calculate nothing write none. */
function toFallback(attributes: Record<string, string>): string {
  const value = attributes["office:value"] ?? "";
  const type = attributes["office:value-type"];
  if (type === undefined) {
    const formula = attributes["table:formula"]?.replace(/^[a-z]+:/, "");
    return formula === undefined ? "" : renderUncalculated(formula);
  }
  if (type === "percentage") return `${Number((Number(value) * 100).toPrecision(12))}%`;
  if (type === "currency") return `${value} ${attributes["office:currency"] ?? ""}`;
  return (attributes[`office:${type}-value`] ?? value).replace(/T00:00:00$/, "");
}

/** The cells of a row. A merged cell says how far it goes; those that it covers are left out. */
const toCells = (row: XmlElement): TableCell[] =>
  row.children.flatMap((cell) => {
    if (typeof cell === "string" || cell.name !== "table:table-cell") return [];
    const { attributes } = cell;
    const read = {
      text: toOfficeText(cell) || tidy(toFallback(attributes)),
      columns: toSpan(attributes["table:number-columns-spanned"]),
      rows: toSpan(attributes["table:number-rows-spanned"]),
    };
    return Array.from({ length: toSpan(attributes["table:number-columns-repeated"]) }, () => read);
  });

class OdfReader {
  /** The blocks of each slide or sheet, behind those of a text, which has no pages. */
  readonly pages: TextBlock[][] = [[]];
  isSpreadsheet = false;
  #style = "";
  readonly #hiddenStyles = new Set<string>();
  #rows: TableCell[][] = [];

  open(name: string, attributes: Record<string, string>): "whole" | "nothing" | undefined {
    if (SKIPPED.has(name)) return "nothing";
    if (name === "office:spreadsheet") this.isSpreadsheet = true;
    else if (name === "style:style") this.#style = attributes["style:name"] ?? "";
    else if (name === "style:table-properties" && attributes["table:display"] === "false")
      this.#hiddenStyles.add(this.#style);
    else if (name === "draw:page") this.#beginSlide(attributes["draw:name"] ?? "");
    else if (name === "table:table" && this.isSpreadsheet) {
      if (this.#hiddenStyles.has(attributes["table:style-name"] ?? "")) return "nothing";
      this.#beginPage(attributes["table:name"] ?? "");
    }
    return isParagraph(name) || name === "table:table-row" ? "whole" : undefined;
  }

  #beginPage(text: string): void {
    this.pages.push([{ kind: "heading", text, level: 1 }]);
  }

  #beginSlide(name: string): void {
    if (/^(?:(?:page|Slide ?)\d+)?$/i.test(name)) this.pages.push([]);
    else this.#beginPage(name);
  }

  whole(element: XmlElement): void {
    if (element.name === "table:table-row") return void this.#rows.push(toCells(element));
    const text = toOfficeText(element);
    const page = this.pages.at(-1);
    const before = page?.at(-1);
    // A slide is often named by its title.
    if (text === "" || (before?.kind === "heading" && before.text === text)) return;
    const level = Number(element.attributes["text:outline-level"]) || 1;
    page?.push(
      element.name === "text:p" ? { kind: "text", text } : { kind: "heading", text, level },
    );
  }

  close(name: string): void {
    if (name === "table:table") this.pages.at(-1)?.push(...tableBlocks(this.#rows.splice(0)));
  }
}

/** The paragraphs of the headers or footers of all pages. */
const readMargins = (styles: XmlElement, kind: "header" | "footer"): TextBlock[] =>
  toMargins(
    [...listElements(styles)]
      .filter(
        ({ name, attributes }) =>
          (name === `style:${kind}` || name.startsWith(`style:${kind}-`)) &&
          attributes["style:display"] !== "false",
      )
      .flatMap((margin) => [...listElements(margin)].filter(({ name }) => isParagraph(name)))
      .map(toOfficeText),
  );

/** Text, spreadsheet and presentation of OpenDocument: one format for all three. */
export const extractOdf: ExtractFormat = async ({ bytes, limits }) => {
  const parts = await unzip(bytes, limits, (name) =>
    ["content.xml", "styles.xml", "meta.xml", "META-INF/manifest.xml"].includes(name),
  );
  if (parts.get("META-INF/manifest.xml")?.includes("encryption-data")) throw encrypted();
  const content = parts.get("content.xml");
  if (!content) throw broken("the document has no content.xml");
  const reader = new OdfReader();
  await readElements(content, {
    open: (name, attributes) => reader.open(name, attributes),
    whole: (element) => reader.whole(element),
    close: (name) => reader.close(name),
  });
  const { isSpreadsheet } = reader;
  const [text = [], ...pages] = reader.pages;
  checkParts("the document", pages.length, limits.pages, "page");
  const styles = await readXmlTree(isSpreadsheet ? undefined : parts.get("styles.xml"));
  return {
    title: await readTitle(parts.get("meta.xml")),
    pages: pages.length || null,
    blocks: [
      ...readMargins(styles, "header"),
      ...text,
      // A sheet without cells would name the one after it.
      ...pages.flatMap((blocks, index) =>
        isSpreadsheet && blocks.length === 1 ? [] : toPage(blocks, index + 1),
      ),
      ...readMargins(styles, "footer"),
    ],
  };
};
