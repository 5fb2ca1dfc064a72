import { LineReader, MAX_LINE_START, type LineStart } from "./markdown-lines.ts";
import { readSpan, newBlock, nextSign, type MarkdownBlock } from "./markdown-text.ts";

/** What may become HTML or an image. */
const CANDIDATE = /<(?=[A-Za-z/!?]|$)|!(?=\[|$)/g;
/** What may be the beginning of an address. */
const OPEN_ADDRESS = /(?::\/?|w{1,3})$/i;
/** A long text is read in pieces, so that what is held stays short. */
const MAX_PIECE = 4096;
const NEWLINE = /\r\n?|\n/g;

/**
 * Takes images and HTML out of markdown that comes in pieces: an image becomes its words and its address, or a link to
 * it, and HTML is escaped. Code and all other text stay as they are. The result does not depend on how the text is cut.
 *
 * What follows decides what a sign is, so a text goes out up to the first sign that may still become HTML or an image.
 * If parsers may disagree on what is code, code is escaped too: no reading of the result has an image or HTML.
 */
export class Disarmer {
  private readonly reader = new LineReader();
  /** What is not yet both scanned and gone out, with the character before it. */
  private raw = "";
  /** The same up to the end of the last line whose start is known, without the marks of its containers. */
  private view = "";
  private scanned = 0;
  private emitted = 0;
  private out = "";
  private line: LineStart | undefined;
  private block: MarkdownBlock | undefined;

  /** Takes a piece of text. Returns what may go out. */
  push(delta: string): string {
    let out = "";
    for (let at = 0; at < delta.length; at += MAX_PIECE) {
      this.raw += delta.slice(at, at + MAX_PIECE);
      this.read(false);
      CANDIDATE.lastIndex = Math.max(this.scanned, this.emitted);
      this.emitTo(CANDIDATE.exec(this.raw)?.index ?? this.raw.length);
      out += this.take();
    }
    return out;
  }

  /** Returns what is left at the end of the text. */
  end(): string {
    this.read(true);
    this.closeBlock(false);
    this.emitTo(this.raw.length);
    return this.take();
  }

  private take(): string {
    const { out } = this;
    this.out = "";
    const gone = Math.min(this.scanned, this.emitted) - 1;
    if (gone <= 0) return out;
    this.raw = this.raw.slice(gone);
    this.view = this.view.slice(gone);
    this.scanned -= gone;
    this.emitted -= gone;
    if (!this.block) return out;
    this.block.start -= gone;
    this.block.last -= gone;
    this.block.lines = this.block.lines.map((at) => at - gone).filter((at) => at > 0);
    if (this.block.table !== undefined) this.block.table -= gone;
    return out;
  }

  private emitTo(end: number): void {
    if (end <= this.emitted) return;
    this.out += this.raw.slice(this.emitted, end);
    this.emitted = end;
  }

  /** Reads lines as far as their starts are known, and scans their text. */
  private read(ended: boolean): void {
    for (;;) {
      if (!this.line && !this.beginLine(ended)) break;
      NEWLINE.lastIndex = this.view.length;
      const found = NEWLINE.exec(this.raw);
      // A line feed may follow a carriage return.
      const newline =
        found && (ended || found[0] !== "\r" || found.index + 1 < this.raw.length)
          ? found
          : undefined;
      const end = found?.index ?? this.raw.length;
      this.view +=
        this.raw.slice(this.view.length, end) + (newline ? "\n".padStart(newline[0].length) : "");
      if (this.line?.kind === "literal") this.scanned = this.view.length;
      if (!newline) break;
      if (this.line?.single) this.closeBlock(false);
      this.line = undefined;
    }
    if (this.block) this.scan(this.block, false);
  }

  /** Reads the start of a line. Returns false if more of it is needed. */
  private beginLine(ended: boolean): boolean {
    const start = this.view.length;
    const text = this.raw.slice(start, start + MAX_LINE_START);
    if (text === "") return false;
    const [head = ""] = text.split(/[\r\n]/, 1);
    const complete = head.length < text.length || (ended && text.length < MAX_LINE_START);
    const line =
      this.reader.read(head, complete) ??
      (head.length === MAX_LINE_START ? this.reader.giveUp(head) : undefined);
    if (!line) return false;
    const doubt = line.kind === "doubt";
    if (line.fresh || (doubt && !this.block?.doubt)) this.closeBlock(doubt);
    this.line = line;
    this.view += " ".repeat(line.content);
    if (line.kind === "literal") return true;
    const content = start + line.content;
    this.block ??= newBlock(content, doubt, line.single);
    this.block.lines.push(content);
    this.block.last = start;
    if (line.delimiter) this.block.table ??= start;
    return true;
  }

  private closeBlock(doubt: boolean): void {
    if (!this.block) return;
    // What was decided before the doubtful line stays decided.
    if (doubt) this.scan(this.block, false);
    this.block.doubt ||= doubt;
    this.scan(this.block, true);
    this.scanned = this.view.length;
    this.block = undefined;
  }

  private scan(block: MarkdownBlock, closed: boolean): void {
    for (;;) {
      const found = nextSign(block, this.view, this.scanned);
      const step = found && readSpan(block, this.view, found.at, found.sign, closed);
      const open = closed || found ? 0 : (OPEN_ADDRESS.exec(this.view.slice(-3))?.[0].length ?? 0);
      this.scanned = Math.max(this.scanned, step?.next ?? found?.at ?? this.view.length - open);
      if (!found || !step) return;
      if (!step.edit) continue;
      this.emitTo(found.at);
      this.out += step.edit.text;
      this.emitted = step.edit.end;
    }
  }
}

/** A text without images and HTML: see `Disarmer`. */
export function disarm(text: string): string {
  const disarmer = new Disarmer();
  return disarmer.push(text) + disarmer.end();
}
