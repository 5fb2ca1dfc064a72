import type { TextBlock } from "../chunk.ts";
import { broken, ExtractionError, type ExtractFormat } from "./types.ts";

/** Groups that hold no text of the document: fonts, colours, styles, pictures, and what the program that wrote it needs. */
const SKIPPED = new Set(
  "fonttbl colortbl stylesheet info pict object themedata colorschememapping datastore latentstyles listtable listoverridetable rsidtbl generator xmlnstbl fldinst filetbl revtbl mmathPr".split(
    " ",
  ),
);
/** Control words that stand for text. */
const TEXTS: Record<string, string> = {
  tab: "\t",
  line: "\n",
  cell: " | ",
  emdash: "—",
  endash: "–",
  lquote: "‘",
  rquote: "’",
  ldblquote: "“",
  rdblquote: "”",
  bullet: "•",
  emspace: " ",
  enspace: " ",
};
const PARAGRAPH_ENDS = new Set(["par", "row", "sect", "page"]);
const MAX_DEPTH = 1000;

interface Group {
  isSkipped: boolean;
  /** How many fallback characters follow a `\u`. */
  fallback: number;
}

/** A control word with its number, a control symbol with its two hexadecimal digits, a brace, or text. */
const TOKEN = /\\([a-z]+)(-?\d+)? ?|\\'([0-9a-f]{2})|\\([^a-z])|([{}])|([^\\{}\r\n]+)|[\r\n]+/giy;

/** The character set of the code page that a file declares; that of Western Windows if it is not known here. */
function toDecoder(codePage: number): InstanceType<typeof TextDecoder> {
  const names: Record<number, string> = {
    932: "shift_jis",
    936: "gb18030",
    949: "euc-kr",
    950: "big5",
    65001: "utf-8",
  };
  try {
    return new TextDecoder(names[codePage] ?? `windows-${codePage}`);
  } catch {
    return new TextDecoder("windows-1252");
  }
}

/** Reads the paragraphs of a document (Rich Text Format Specification 1.9.1): text only, in the order of the file. */
class RtfReader {
  readonly paragraphs: string[] = [];
  #groups: Group[] = [{ isSkipped: false, fallback: 1 }];
  #decoder = toDecoder(1252);
  #text = "";
  /** Bytes in the document's code page: a character may have two. */
  #bytes: number[] = [];
  #toSkip = 0;

  get #group(): Group {
    return this.#groups.at(-1) as Group;
  }

  read(source: string): void {
    TOKEN.lastIndex = 0;
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
  }

  #open(): void {
    this.#flush();
    if (this.#groups.length > MAX_DEPTH)
      throw broken("the groups of the document are nested too deeply");
    this.#groups.push({ ...this.#group });
  }

  #close(): void {
    this.#flush();
    if (this.#groups.length > 1) this.#groups.pop();
  }

  #symbol(symbol: string): void {
    if (symbol === "*") this.#group.isSkipped = true;
    else if (symbol === "~") this.#add(" ");
    else if (symbol === "_") this.#add("-");
    else if ("\\{}".includes(symbol)) this.#add(symbol);
  }

  #control(word: string, number: number | undefined, source: string): void {
    this.#flush();
    if (SKIPPED.has(word)) this.#group.isSkipped = true;
    else if (word === "ansicpg" && number !== undefined) this.#decoder = toDecoder(number);
    else if (word === "uc") this.#group.fallback = number ?? 1;
    else if (word === "bin")
      TOKEN.lastIndex = Math.min(source.length, TOKEN.lastIndex + Math.max(0, number ?? 0));
    else if (word === "u" && number !== undefined) {
      this.#add(String.fromCharCode(number < 0 ? number + 65_536 : number));
      this.#toSkip = this.#group.fallback;
    } else if (PARAGRAPH_ENDS.has(word)) {
      if (!this.#group.isSkipped) this.#end();
    } else if (TEXTS[word] !== undefined) this.#add(TEXTS[word]);
  }

  #addByte(byte: number): void {
    if (this.#toSkip > 0) this.#toSkip--;
    else if (!this.#group.isSkipped) this.#bytes.push(byte);
  }

  #add(text: string): void {
    this.#flush();
    const skipped = Math.min(this.#toSkip, text.length);
    this.#toSkip -= skipped;
    if (!this.#group.isSkipped) this.#text += text.slice(skipped);
  }

  #flush(): void {
    if (this.#bytes.length === 0) return;
    this.#text += this.#decoder.decode(Uint8Array.from(this.#bytes));
    this.#bytes = [];
  }

  #end(): void {
    this.#flush();
    const text = this.#text.replace(/(?: \| )+$/, "").trim();
    if (text !== "") this.paragraphs.push(text);
    this.#text = "";
  }
}

export const extractRtf: ExtractFormat = async ({ bytes }) => {
  // All of it is ASCII; other bytes are in the code page of the document, as escaped ones are.
  const source = bytes
    .toString("latin1")
    .replace(/[\u0080-\u00ff]/g, (byte) => `\\'${byte.charCodeAt(0).toString(16)}`);
  const reader = new RtfReader();
  reader.read(source);
  if (reader.paragraphs.length === 0 && !source.includes("}"))
    throw new ExtractionError("broken_document", "the document is cut off");
  return {
    title: null,
    pages: null,
    blocks: reader.paragraphs.map((text): TextBlock => ({ kind: "text", text })),
  };
};
