import type { TextBlock } from "../chunk.ts";
import { ExtractionError, broken, encrypted, type ExtractFormat } from "./types.ts";
import { unzip } from "./archive.ts";
import { renderUncalculated, tableBlocks, toSpan, type TableCell } from "./table.ts";
import {
  listElements,
  readElements,
  readTitle,
  readXmlTree,
  tidy,
  toInnerText,
  toMargins,
  type XmlElement,
} from "./xml-tree.ts";

/** Text that is no part of the page: notes on slides stay, comments and tracked deletions go. */
const SKIPPED = new Set([
  "office:annotation",
  "text:tracked-changes",
  "office:forms",
  "svg:title",
  "svg:desc",
]);
const SPACES = new Set(["text:s", "text:tab", "text:line-break"]);
const isParagraph = (name: string): boolean => name === "text:p" || name === "text:h";

const toText = (element: XmlElement): string =>
  tidy(
    toInnerText(element, (inner) => {
      if (SKIPPED.has(inner.name)) return "";
      if (SPACES.has(inner.name)) return " ";
      return isParagraph(inner.name) ? ` ${toText(inner)} ` : undefined;
    }),
  );

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
      text: toText(cell) || tidy(toFallback(attributes)),
      columns: toSpan(attributes["table:number-columns-spanned"]),
      rows: toSpan(attributes["table:number-rows-spanned"]),
    };
    return Array.from({ length: toSpan(attributes["table:number-columns-repeated"]) }, () => read);
  });

class OdfReader {
  readonly blocks: TextBlock[] = [];
  page = 0;
  isSpreadsheet = false;
  /** True if the next block is the first one of a slide. */
  #startsPassage = false;
  #style = "";
  readonly #hiddenStyles = new Set<string>();
  #rows: TableCell[][] = [];

  get #at(): { page?: number } {
    return this.page === 0 ? {} : { page: this.page };
  }

  #add(block: TextBlock): void {
    this.blocks.push({
      ...block,
      ...this.#at,
      ...(this.#startsPassage && { startsPassage: true }),
    });
    this.#startsPassage = false;
  }

  open(name: string, attributes: Record<string, string>): "whole" | "nothing" | undefined {
    if (SKIPPED.has(name)) return "nothing";
    if (name === "office:spreadsheet") this.isSpreadsheet = true;
    else if (name === "style:style") this.#style = attributes["style:name"] ?? "";
    else if (name === "style:table-properties" && attributes["table:display"] === "false")
      this.#hiddenStyles.add(this.#style);
    else if (name === "draw:page") this.#beginPage(attributes["draw:name"]);
    else if (name === "table:table" && this.isSpreadsheet) return this.#beginSheet(attributes);
    return isParagraph(name) || name === "table:table-row" ? "whole" : undefined;
  }

  #beginPage(name: string | undefined): void {
    this.page++;
    this.#startsPassage = true;
    if (name !== undefined && !/^(?:page|Slide ?)\d+$/i.test(name))
      this.#add({ kind: "heading", text: name, level: 1 });
  }

  /** A sheet of a spreadsheet is a page of its own, and so are its passages. */
  #beginSheet(attributes: Record<string, string>): "nothing" | undefined {
    if (this.#hiddenStyles.has(attributes["table:style-name"] ?? "")) return "nothing";
    this.page++;
    const text = attributes["table:name"] ?? "";
    this.blocks.push({ kind: "heading", text, level: 1, startsPassage: true, ...this.#at });
    return undefined;
  }

  whole(element: XmlElement): void {
    if (element.name === "table:table-row") return void this.#rows.push(toCells(element));
    const text = toText(element);
    const before = this.blocks.at(-1);
    // A slide is often named by its title.
    if (text === "" || (before?.kind === "heading" && before.text === text)) return;
    const level = Number(element.attributes["text:outline-level"]) || 1;
    this.#add(
      element.name === "text:p" ? { kind: "text", text } : { kind: "heading", text, level },
    );
  }

  close(name: string): void {
    if (name !== "table:table") return;
    const rows = [...tableBlocks(this.#rows.splice(0), this.#at.page)];
    // A sheet without cells would name the one after it.
    if (rows.length === 0 && this.blocks.at(-1)?.startsPassage) this.blocks.pop();
    this.blocks.push(...rows);
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
      .map(toText),
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
  if (reader.page > limits.pages)
    throw new ExtractionError("too_large", `the document has more than ${limits.pages} pages`);
  const styles = await readXmlTree(reader.isSpreadsheet ? undefined : parts.get("styles.xml"));
  return {
    title: await readTitle(parts.get("meta.xml")),
    pages: reader.page === 0 ? null : reader.page,
    blocks: [...readMargins(styles, "header"), ...reader.blocks, ...readMargins(styles, "footer")],
  };
};
