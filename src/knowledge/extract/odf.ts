import type { TextBlock } from "../chunk.ts";
import { ExtractionError, broken, encrypted, type ExtractFormat } from "./types.ts";
import { readXml, unzip } from "./archive.ts";

const tidy = (text: string): string => text.replace(/\s+/g, " ").trim();
/** A spreadsheet says of its empty rest that a cell is repeated thousands of times. */
const MAX_REPEATS = 100;
/** Text that is no part of the page: notes on slides stay, comments and tracked deletions go. */
const SKIPPED = new Set([
  "office:annotation",
  "text:tracked-changes",
  "office:forms",
  "svg:title",
  "svg:desc",
]);

class OdfReader {
  readonly blocks: TextBlock[] = [];
  page = 0;
  #text = "";
  #depth = 0;
  #skipped = 0;
  #level: number | undefined;
  #cells: string[] | undefined;
  #repeat = 1;
  #header: string | undefined;

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
    else if (name === "table:table") this.#header = undefined;
    else if (name === "table:table-row") this.#cells = [];
    else if (name === "table:table-cell" || name === "table:covered-table-cell") {
      this.#cells?.push("");
      this.#repeat = Math.min(
        MAX_REPEATS,
        Number(attributes["table:number-columns-repeated"] ?? 1) || 1,
      );
    } else if (name === "text:p" || name === "text:h") {
      if (this.#depth++ === 0)
        this.#level =
          name === "text:h" ? Number(attributes["text:outline-level"] ?? 1) || 1 : undefined;
    } else if (name === "text:s" || name === "text:tab" || name === "text:line-break")
      this.#text += " ";
  }

  text(text: string): void {
    if (this.#depth > 0 && this.#skipped === 0) this.#text += text;
  }

  close(name: string): void {
    if (SKIPPED.has(name)) this.#skipped--;
    else if (name === "text:p" || name === "text:h") this.#endParagraph();
    else if (name === "table:table-cell" && this.#cells) {
      const cell = this.#cells.at(-1) ?? "";
      for (let i = 1; i < this.#repeat; i++) this.#cells.push(cell);
    } else if (name === "table:table-row") this.#endRow();
  }

  /** A sheet of a spreadsheet is a page of its own. */
  sheet(name: string | undefined): void {
    this.#newPage(name);
  }

  #endParagraph(): void {
    if (--this.#depth > 0) return;
    const text = tidy(this.#text);
    this.#text = "";
    const before = this.blocks.at(-1);
    // A slide is often named by its title.
    if (text === "" || (before?.kind === "heading" && before.text === text)) return;
    if (this.#cells)
      this.#cells[this.#cells.length - 1] = tidy(`${this.#cells.at(-1) ?? ""} ${text}`);
    else if (this.#level === undefined) this.blocks.push({ kind: "text", text, ...this.#at });
    else this.blocks.push({ kind: "heading", text, level: this.#level, ...this.#at });
  }

  #endRow(): void {
    const cells = this.#cells ?? [];
    this.#cells = undefined;
    while (cells.at(-1) === "") cells.pop();
    if (cells.length === 0) return;
    const text = cells.join(" | ");
    this.blocks.push({
      kind: "row",
      text,
      ...this.#at,
      ...(this.#header === undefined ? {} : { header: this.#header }),
    });
    if (this.#header === undefined && cells.length > 1) this.#header = text;
  }
}

async function readTitle(meta: Buffer | undefined): Promise<string | null> {
  let inside = false;
  let title = "";
  if (meta)
    await readXml(meta, {
      open: (name) => void (inside = name === "dc:title"),
      text: (text) => void (inside && (title += text)),
      close: () => void (inside = false),
    });
  return tidy(title) || null;
}

/** Text, spreadsheet and presentation of OpenDocument: one format for all three. */
export const extractOdf: ExtractFormat = async ({ bytes, limits }) => {
  const parts = await unzip(bytes, limits, (name) =>
    ["content.xml", "meta.xml", "META-INF/manifest.xml"].includes(name),
  );
  if (parts.get("META-INF/manifest.xml")?.includes("encryption-data")) throw encrypted();
  const content = parts.get("content.xml");
  if (!content) throw broken("the document has no content.xml");
  const reader = new OdfReader();
  let isSpreadsheet = false;
  await readXml(content, {
    open(name, attributes) {
      if (name === "office:spreadsheet") isSpreadsheet = true;
      if (isSpreadsheet && name === "table:table") reader.sheet(attributes["table:name"]);
      reader.open(name, attributes);
    },
    text: (text) => reader.text(text),
    close: (name) => reader.close(name),
  });
  if (reader.page > limits.pages)
    throw new ExtractionError("too_large", `the document has more than ${limits.pages} pages`);
  const hasText = reader.blocks.some(({ kind }) => !isSpreadsheet || kind === "row");
  return {
    title: await readTitle(parts.get("meta.xml")),
    pages: reader.page === 0 ? null : reader.page,
    blocks: hasText ? reader.blocks : [],
  };
};
