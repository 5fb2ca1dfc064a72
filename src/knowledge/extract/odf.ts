import type { TextBlock } from "../chunk.ts";
import { ExtractionError, broken, encrypted, type ExtractFormat } from "./types.ts";
import { readXml, unzip } from "./archive.ts";
import { renderUncalculated, tableBlocks, toSpan, type TableCell } from "./table.ts";
import {
  findElements,
  isTelling,
  listElements,
  readTitle,
  readXmlTree,
  tidy,
  toInnerText,
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

/** A cell of which the end has not come, with what it says if it has no text. */
interface OpenCell {
  text: string;
  fallback: string;
  columns: number;
  rows: number;
  repeats: number;
  isCovered: boolean;
}

/** What a cell says that has a value or a formula and no text: programs that calculate nothing write none. */
function toFallback(attributes: Record<string, string>): string {
  const value = attributes["office:value"];
  switch (attributes["office:value-type"]) {
    case undefined: {
      const formula = attributes["table:formula"]?.replace(/^[a-z]+:/, "");
      return formula === undefined ? "" : renderUncalculated(formula);
    }
    case "percentage":
      return value === undefined ? "" : `${Number((Number(value) * 100).toPrecision(12))}%`;
    case "currency":
      return [value, attributes["office:currency"]].filter(Boolean).join(" ");
    case "date":
      return (attributes["office:date-value"] ?? "").replace(/T00:00:00$/, "");
    case "boolean":
      return (attributes["office:boolean-value"] ?? "").toUpperCase();
    case "time":
      return attributes["office:time-value"] ?? "";
    case "string":
      return attributes["office:string-value"] ?? "";
    default:
      return value ?? "";
  }
}

class OdfReader {
  readonly blocks: TextBlock[] = [];
  page = 0;
  #text = "";
  #depth = 0;
  #skipped = 0;
  #level: number | undefined;
  /** How many tables are open; one inside of another is a part of its cell. */
  #tables = 0;
  #rows: TableCell[][] = [];
  #cells: TableCell[] | undefined;
  #cell: OpenCell | undefined;

  get #at(): { page?: number } {
    return this.page === 0 ? {} : { page: this.page };
  }

  #newPage(name: string | undefined): void {
    this.page++;
    if (name !== undefined && !/^(?:page|Slide ?)\d+$/i.test(name))
      this.blocks.push({ kind: "heading", text: name, level: 1, ...this.#at });
  }

  open(name: string, attributes: Record<string, string>): void {
    if (SKIPPED.has(name)) this.#skipped++;
    else if (name === "draw:page") this.#newPage(attributes["draw:name"]);
    else if (name === "table:table") this.#tables++;
    else if (name.startsWith("table:")) this.#openInTable(name, attributes);
    else if (name === "text:p" || name === "text:h") {
      if (this.#depth++ === 0)
        this.#level =
          name === "text:h" ? Number(attributes["text:outline-level"] ?? 1) || 1 : undefined;
    } else if (name === "text:s" || name === "text:tab" || name === "text:line-break")
      this.#text += " ";
  }

  #openInTable(name: string, attributes: Record<string, string>): void {
    if (this.#tables !== 1) return;
    if (name === "table:table-row") this.#cells = [];
    else if (name === "table:table-cell" || name === "table:covered-table-cell")
      this.#cell = {
        text: "",
        fallback: toFallback(attributes),
        columns: toSpan(attributes["table:number-columns-spanned"]),
        rows: toSpan(attributes["table:number-rows-spanned"]),
        repeats: toSpan(attributes["table:number-columns-repeated"]),
        isCovered: name === "table:covered-table-cell",
      };
  }

  text(text: string): void {
    if (this.#depth > 0 && this.#skipped === 0) this.#text += text;
  }

  close(name: string): void {
    if (SKIPPED.has(name)) this.#skipped--;
    else if (name === "text:p" || name === "text:h") this.#endParagraph();
    else if (name === "table:table") this.#endTable();
    else if (this.#tables !== 1) return;
    else if (name === "table:table-cell" || name === "table:covered-table-cell") this.#endCell();
    else if (name === "table:table-row") this.#endRow();
  }

  /** A sheet of a spreadsheet is a page of its own, and so are its passages. */
  sheet(name: string): void {
    this.page++;
    this.blocks.push({ kind: "heading", text: name, level: 1, startsPassage: true, ...this.#at });
  }

  #endParagraph(): void {
    if (--this.#depth > 0) return;
    const text = tidy(this.#text);
    this.#text = "";
    if (text === "") return;
    if (this.#tables > 0) {
      if (this.#cell) this.#cell.text = tidy(`${this.#cell.text} ${text}`);
      return;
    }
    const before = this.blocks.at(-1);
    // A slide is often named by its title.
    if (before?.kind === "heading" && before.text === text) return;
    if (this.#level === undefined) this.blocks.push({ kind: "text", text, ...this.#at });
    else this.blocks.push({ kind: "heading", text, level: this.#level, ...this.#at });
  }

  #endCell(): void {
    if (!this.#cell) return;
    const { text, fallback, columns, rows, repeats, isCovered } = this.#cell;
    this.#cell = undefined;
    // The merged cell itself says how far it goes.
    if (isCovered) return;
    for (let at = 0; at < repeats; at++)
      this.#cells?.push({ text: text || tidy(fallback), columns, rows });
  }

  #endRow(): void {
    if (this.#cells) this.#rows.push(this.#cells);
    this.#cells = undefined;
  }

  #endTable(): void {
    if (--this.#tables > 0) return;
    // A sheet without cells would name the one after it.
    if (this.#rows.every((cells) => cells.every(({ text }) => text === "")))
      if (this.blocks.at(-1)?.startsPassage) this.blocks.pop();
    this.blocks.push(...tableBlocks(this.#rows.splice(0), this.page === 0 ? undefined : this.page));
  }
}

/** Fields of a header that differ on each page, or say what the document says of itself. */
const PAGE_FIELDS = /^text:(?:page-|sheet-name|date$|time$|file-name|title$)/;

/** What stands in a line of a header. */
const toMargin = ({ name }: XmlElement): string | undefined =>
  PAGE_FIELDS.test(name) ? "" : /^text:(?:s|tab|line-break)$/.test(name) ? " " : undefined;

/** The paragraphs of the headers or footers of all pages, each once. */
function readMargins(styles: XmlElement, kind: "header" | "footer"): TextBlock[] {
  const found = new Set<string>();
  for (const margin of listElements(styles)) {
    const { name, attributes } = margin;
    if (name !== `style:${kind}` && !name.startsWith(`style:${kind}-`)) continue;
    if (attributes["style:display"] === "false") continue;
    for (const line of [...findElements(margin, "text:p"), ...findElements(margin, "text:h")]) {
      const text = tidy(toInnerText(line, toMargin));
      const hasField = [...listElements(line)].some((element) => PAGE_FIELDS.test(element.name));
      if (text !== "" && (!hasField || isTelling(text))) found.add(text);
    }
  }
  return [...found].map((text) => ({ kind: "text", text }));
}

/** Text, spreadsheet and presentation of OpenDocument: one format for all three. */
export const extractOdf: ExtractFormat = async ({ bytes, limits }) => {
  const parts = await unzip(bytes, limits, (name) =>
    ["content.xml", "styles.xml", "meta.xml", "META-INF/manifest.xml"].includes(name),
  );
  if (parts.get("META-INF/manifest.xml")?.includes("encryption-data")) throw encrypted();
  const content = parts.get("content.xml");
  if (!content) throw broken("the document has no content.xml");
  const reader = new OdfReader();
  const hiddenStyles = new Set<string>();
  let style = "";
  let isSpreadsheet = false;
  /** How many tables are open inside of a hidden sheet. */
  let hidden = 0;
  await readXml(content, {
    open(name, attributes) {
      if (name === "office:spreadsheet") isSpreadsheet = true;
      else if (name === "style:style") style = attributes["style:name"] ?? "";
      else if (name === "style:table-properties" && attributes["table:display"] === "false")
        hiddenStyles.add(style);
      if (isSpreadsheet && name === "table:table") {
        if (hidden > 0 || hiddenStyles.has(attributes["table:style-name"] ?? "")) hidden++;
        else reader.sheet(attributes["table:name"] ?? "");
      }
      if (hidden === 0) reader.open(name, attributes);
    },
    text: (text) => void (hidden === 0 && reader.text(text)),
    close(name) {
      if (hidden === 0) reader.close(name);
      else if (name === "table:table") hidden--;
    },
  });
  if (reader.page > limits.pages)
    throw new ExtractionError("too_large", `the document has more than ${limits.pages} pages`);
  const hasText = reader.blocks.some(({ kind }) => !isSpreadsheet || kind === "row");
  const styles = await readXmlTree(parts.get("styles.xml"));
  return {
    title: await readTitle(parts.get("meta.xml")),
    pages: reader.page === 0 ? null : reader.page,
    blocks: hasText
      ? [...readMargins(styles, "header"), ...reader.blocks, ...readMargins(styles, "footer")]
      : [],
  };
};
