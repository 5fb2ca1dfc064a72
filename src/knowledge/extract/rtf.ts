import type { TextBlock } from "../chunk.ts";
import { tableBlocks } from "./table.ts";
import { broken, ExtractionError, type ExtractFormat } from "./types.ts";

/** Groups that hold no text of the document: fonts, colours, styles, pictures, and what the program that wrote it needs. */
const SKIPPED = new Set(
  "fonttbl colortbl stylesheet info pict object themedata colorschememapping datastore latentstyles listtable listoverridetable rsidtbl generator xmlnstbl fldinst filetbl revtbl mmathPr deleted".split(
    " ",
  ),
);
/** Control words that stand for text. */
const TEXTS: Record<string, string> = {
  tab: "\t",
  line: "\n",
  emdash: "—",
  endash: "–",
  lquote: "‘",
  rquote: "’",
  ldblquote: "“",
  rdblquote: "”",
  bullet: "•",
  footnote: " ",
  emspace: " ",
  enspace: " ",
  nestcell: " ",
};
const PARAGRAPH_ENDS = new Set(["par", "sect", "page", "column"]);
/** Groups whose text is no part of the paragraph that they are in. */
const APART = /^(?:(?:header|footer)[lrf]?|shptxt)$/;
const MAX_DEPTH = 1000;
/** The level in the outline of text that is no heading. */
const MAX_OUTLINE = 9;

/** The code pages of fonts whose character set is not that of the document. */
const CHARSETS: Record<number, number> = {
  0: 1252,
  128: 932,
  129: 949,
  134: 936,
  136: 950,
  161: 1253,
  162: 1254,
  163: 1258,
  177: 1255,
  178: 1256,
  186: 1257,
  204: 1251,
  222: 874,
  238: 1250,
};

const ROOT = {
  isSkipped: false,
  isHidden: false,
  /** The level of a heading; undefined for other paragraphs. */
  level: undefined as number | undefined,
  /** True if its text is apart from that around it. */
  isApart: false,
  decoder: undefined as InstanceType<typeof TextDecoder> | undefined,
  /** The number of fallback characters behind a `\u`. */
  fallback: 1,
};
type Group = typeof ROOT;

/** A control word with its number, a control symbol with its two hexadecimal digits, a brace, or text. */
const TOKEN = /\\([a-z]+)(-?\d+)? ?|\\'([0-9a-f]{2})|\\([^a-z])|([{}])|([^\\{}\r\n]+)|[\r\n]+/giy;

/** The character set of the code page that a file declares; that of Western Windows if it is not known here. */
function toDecoder(codePage: number): InstanceType<typeof TextDecoder> {
  const names: Record<number, string> = {
    932: "shift_jis",
    936: "gb18030",
    949: "euc-kr",
    950: "big5",
    10_000: "macintosh",
    65001: "utf-8",
  };
  try {
    return new TextDecoder(names[codePage] ?? `windows-${codePage}`);
  } catch {
    return new TextDecoder("windows-1252");
  }
}

/** Reads a document (Rich Text Format Specification 1.9.1): text only, in the order of the file. */
class RtfReader {
  readonly blocks: TextBlock[] = [];
  #groups: Group[] = [{ ...ROOT }];
  #decoder = toDecoder(1252);
  readonly #fonts = new Map<number, InstanceType<typeof TextDecoder>>();
  /** The font whose entry in the table of fonts is read. */
  #font = 0;
  #text = "";
  /** Bytes in the document's code page: a character may have two. */
  #bytes: number[] = [];
  #toSkip = 0;
  #rows: string[][] = [];
  #cells: string[] = [];
  /** Of each cell of the row: the word that merges it with the one to the left of it, or above it. */
  #merges: string[] = [];
  #merge = "";
  /** True in a paragraph of a cell. */
  #isInCell = false;

  get #group(): Group {
    return this.#groups.at(-1) as Group;
  }

  get #isShown(): boolean {
    return !this.#group.isSkipped && !this.#group.isHidden;
  }

  read(source: string): void {
    TOKEN.lastIndex = 0;
    if (/^\{\\rtf\d?\\mac\b/.test(source)) this.#decoder = toDecoder(10_000);
    for (let found = TOKEN.exec(source); found; found = TOKEN.exec(source)) {
      const [, word, number, hex, symbol, brace, text] = found;
      if (hex !== undefined) this.#addByte(parseInt(hex, 16));
      else if (word !== undefined)
        this.#control(
          word.toLowerCase(),
          number === undefined ? undefined : Number(number),
          source,
        );
      else if (symbol !== undefined) this.#symbol(symbol);
      else if (brace === "{") this.#open();
      else if (brace === "}") this.#close();
      else if (text !== undefined) this.#add(text);
    }
    this.#end();
    this.#endTable();
  }

  #open(): void {
    this.#flush();
    if (this.#groups.length > MAX_DEPTH)
      throw broken("the groups of the document are nested too deeply");
    this.#groups.push({ ...this.#group, isApart: false });
  }

  #close(): void {
    this.#flush();
    if (this.#group.isApart) this.#end();
    if (this.#groups.length > 1) this.#groups.pop();
  }

  #symbol(symbol: string): void {
    if (symbol === "*") this.#group.isSkipped = true;
    // TextEdit ends its paragraphs with a backslash and a line break.
    else if (symbol === "\n" || symbol === "\r") this.#controlText("par");
    else if (symbol === "~") this.#add(" ");
    else if (symbol === "_") this.#add("-");
    else if ("\\{}".includes(symbol)) this.#add(symbol);
  }

  #control(word: string, number: number | undefined, source: string): void {
    this.#flush();
    // The text of a text box is the only text in the description of its shape.
    if (word === "shptxt") this.#group.isSkipped = false;
    if (SKIPPED.has(word)) this.#group.isSkipped = true;
    else if (word === "ansicpg" && number !== undefined) this.#decoder = toDecoder(number);
    else if (word === "f" || word === "fcharset") this.#setFont(word, number ?? 0);
    else if (word === "v" || word === "plain") this.#group.isHidden = word === "v" && number !== 0;
    else if (word === "uc") this.#group.fallback = number ?? 1;
    else if (word === "bin")
      TOKEN.lastIndex = Math.min(source.length, TOKEN.lastIndex + Math.max(0, number ?? 0));
    else if (word === "u" && number !== undefined) {
      this.#add(String.fromCharCode(number < 0 ? number + 65_536 : number));
      this.#toSkip = this.#group.fallback;
    } else if (this.#group.isSkipped) return;
    else if (APART.test(word)) {
      this.#end();
      this.#group.isApart = true;
    } else this.#controlText(word, number);
  }

  #controlText(word: string, number = MAX_OUTLINE): void {
    if (PARAGRAPH_ENDS.has(word)) this.#end();
    else if (word === "intbl") this.#isInCell = true;
    else if (word === "pard") {
      this.#group.level = undefined;
      this.#isInCell = false;
    } else if (word === "outlinelevel")
      this.#group.level = number < MAX_OUTLINE ? number + 1 : undefined;
    else if (TEXTS[word] !== undefined) this.#add(TEXTS[word]);
    else if (word === "trowd") this.#merges = [];
    else if (word === "clmrg" || word === "clvmrg") this.#merge = word;
    else if (word === "cellx") {
      this.#merges.push(this.#merge);
      this.#merge = "";
    } else if (word === "cell") this.#cells.push(this.#take());
    else if (word === "row") this.#endRow();
  }

  #setFont(word: string, number: number): void {
    if (!this.#group.isSkipped) this.#group.decoder = this.#fonts.get(number);
    else if (word === "f") this.#font = number;
    else if (CHARSETS[number] !== undefined)
      this.#fonts.set(this.#font, toDecoder(CHARSETS[number]));
  }

  #addByte(byte: number): void {
    if (this.#toSkip > 0) this.#toSkip--;
    else if (this.#isShown) this.#bytes.push(byte);
  }

  #add(text: string): void {
    this.#flush();
    const skipped = Math.min(this.#toSkip, text.length);
    this.#toSkip -= skipped;
    if (this.#isShown) this.#text += text.slice(skipped);
  }

  #flush(): void {
    if (this.#bytes.length === 0) return;
    const decoder = this.#group.decoder ?? this.#decoder;
    this.#text += decoder.decode(Uint8Array.from(this.#bytes));
    this.#bytes = [];
  }

  /** Takes the text that has been read since the last end. */
  #take(): string {
    this.#flush();
    const text = this.#text.trim();
    this.#text = "";
    return text;
  }

  #end(): void {
    // A paragraph inside of a cell goes on in it.
    if (this.#isInCell || this.#cells.length > 0) return void (this.#text += " ");
    const text = this.#take();
    if (text === "") return;
    this.#endTable();
    const { level } = this.#group;
    this.blocks.push(
      level === undefined ? { kind: "text", text } : { kind: "heading", text, level },
    );
  }

  #endRow(): void {
    this.#isInCell = false;
    const above = this.#rows.at(-1) ?? [];
    const cells = this.#cells.splice(0);
    for (const [index, merge] of this.#merges.entries())
      if (cells[index] === "" && merge !== "")
        cells[index] = (merge === "clmrg" ? cells[index - 1] : above[index]) ?? "";
    this.#rows.push(cells);
  }

  #endTable(): void {
    const rows = this.#rows.splice(0).map((cells) => cells.map((text) => ({ text })));
    this.blocks.push(...tableBlocks(rows));
  }
}

export const extractRtf: ExtractFormat = async ({ bytes }) => {
  // All of it is ASCII; other bytes are in the code page of the document, as escaped ones are.
  const source = bytes
    .toString("latin1")
    .replace(/[\u0080-\u00ff]/g, (byte) => `\\'${byte.charCodeAt(0).toString(16)}`);
  const reader = new RtfReader();
  reader.read(source);
  if (reader.blocks.length === 0 && !source.includes("}"))
    throw new ExtractionError("broken_document", "the document is cut off");
  return { blocks: reader.blocks };
};
