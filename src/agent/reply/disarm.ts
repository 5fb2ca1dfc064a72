import {
  disarmTag,
  getElement,
  isFetching,
  LOAD_SIGNS,
  mayLoad,
  OPEN_LOAD,
  readAnyTag,
  readLoad,
  readTag,
  type Insert,
} from "./html-loads.ts";
import { isAllowed, MAX_HELD, removeLinks, settledLength, type Masked } from "./links.ts";
import { loadsOutside, MAX_LABEL, readDefinition, readImage } from "./images.ts";
import {
  ANY_FENCE,
  beginsHtml,
  DELIMITER_ROW,
  findCode,
  getHtmlEnd,
  isPlainLine,
  isWithin,
  toMargin,
  type Code,
} from "./markdown-code.ts";

/** A long text is read in pieces, so that what is held stays short. */
const MAX_PIECE = 4096;
/** So much of a text is read together for its code. */
const MAX_SECTION = 16_000;
/** So often a section is read for its code. */
const MAX_READS = 40;
/** Something that loads is held so long for the end of its block, and a block so long whose links are looked through. */
const MAX_WAIT = 1300;
const MAX_BLOCK = 8000;
/** A construct is looked for in so many characters. */
const MAX_SPAN = 1000;
/** So much of what has gone out stays in view, for the label before a colon. */
const KEPT = MAX_LABEL + 10;

const NEWLINE = String.raw`\r\n|\r(?!\n)|\n`;
const LOADING = String.raw`!\[|<[A-Za-z]|<\/style|(?<=\]):`;
/** A text without a match stays as it is. */
const MAY_LOAD = new RegExp(LOADING, "i");
const SIGNS = new RegExp(`${NEWLINE}|${LOADING}`, "gi");
const LOOSE_SIGNS = new RegExp(`${SIGNS.source}|${LOAD_SIGNS}`, "gi");
const NEWLINES = new RegExp(NEWLINE, "g");
/** Matches an end of text that may be the begin of a sign; in a style sheet, also of its end. */
const OPEN_SIGN = /[!\r<]$/;
const OPEN_STYLE_END = /<\/?[a-z]{0,5}$/i;
/** Matches the end of a line that ends a block: a blank line follows, or a line that may open a fenced block. */
const BLOCK_END =
  /(?:\r\n|\r(?!\n)|\n)(?=[ \t]*[\r\n]|[ \t>*+\-.)\d]{0,100}(?:`{3,}[^`\r\n]{0,500}|~{3,}[^\r\n]{0,500})[\r\n])/;
const MAX_BLOCK_END = 700;
const BLANK = /^[ \t]*$/;
/** Matches a line that may be one of a block of code without a fence. */
const INDENTED = /^(?:[ >]|[-+*]|\d{1,9}[.)])*(?: {4}|\t)/;
const FENCE_END = /^ {0,3}(`{3,}|~{3,})[ \t]*$/;
const OPEN_FENCE_END = /^ {0,3}(?:`*|~*)[ \t]*$/;

/** Matches what takes a sign its meaning. */
const ESCAPE = /(?<!\\)(?:\\\\)*\\$/;

/** A fenced block that is open. */
interface OpenFence {
  margin: string;
  fence: string;
}

/** The outcome of a sign: the text up to `next` is decided, with these changes. */
interface Step {
  next: number;
  inserts?: readonly Insert[];
  /** Stands in place of the text from the sign to `next`. */
  text?: string;
  /** Called if the sign is no code. */
  enter?: () => void;
}

/** The state of a whole text. */
interface Page {
  /** True if all that follows may stand inside a tag or a style sheet. */
  isLost: boolean;
  /** True if a style sheet is open. */
  isStyle: boolean;
  /** The labels of images that may be images by reference, and of definitions. */
  images: Set<string>;
  definitions: Set<string>;
}

/** Returns whether a line of which there is only the begin may end a fenced block. */
const mayEndFence = (line: string, margin: string): boolean =>
  margin.startsWith(line) ||
  line.trim() === "" ||
  (line.startsWith(margin) && OPEN_FENCE_END.test(line.slice(margin.length)));

/** Puts a space behind a sign: then it is none. */
const part = (at: number): Step => ({ next: at + 1, inserts: [{ at: at + 1, text: " " }] });

/** Blanks the marks of quotes at the begins of lines. */
const withoutMarks = (text: string): string =>
  text.replaceAll(/(?<=[\r\n])[ \t]*>[ \t>]*/g, (marks) => " ".repeat(marks.length));

/**
 * Disarms in markdown, which comes in pieces, what a reader's program would fetch from outside by itself: an image becomes
 * its words and its address, or gets a space that makes it text, and attributes of HTML get another name. Code and all
 * other text stay as they are. The result does not depend on how the text is cut.
 *
 * Text goes out up to a sign that may still become an image or a tag. If that loads something and may stand in code, the
 * text is held to the end of the block, and the parser says what is code. If parsers may disagree, it is disarmed.
 */
class Disarmer {
  private readonly page: Page = {
    isLost: false,
    isStyle: false,
    images: new Set(),
    definitions: new Set(),
  };
  private readonly isMarking: boolean;
  private readonly maxWait: number;
  private out = "";
  private mask = "";
  /** The text since the last line at which no block was open, as it has left and as it has come. */
  private section = "";
  private sent = 0;
  /** The text before it is decided. */
  private at = 0;
  private lineStart = 0;
  private chunkStart = 0;
  private isAfterBlank = true;
  /** True if the line before is text of a paragraph to all parsers. */
  private isAfterText = false;
  private fence: OpenFence | undefined;
  /** HTML that goes on past blank lines. */
  private htmlEnd: RegExp | undefined;
  /** True if parsers may disagree on the rest of the chunk of lines, of the section or of the text. */
  private isHtml = false;
  private isUnclear = false;
  private isLostCode = false;
  private reads = 0;
  private read: { text: string; codes: Code[] } | undefined;
  /** The code of what has not been sent, for the mask, and the end of what was looked through for it. */
  private codes: Pick<Code, "start" | "end">[] = [];
  private marked = 0;

  /** @param isMarking whether only the code is looked for, which `takeMask` tells */
  constructor(isMarking = false) {
    this.isMarking = isMarking;
    this.maxWait = isMarking ? MAX_BLOCK : MAX_WAIT;
  }

  /** Takes a piece of text. Returns what may go out. */
  push(delta: string): string {
    for (let at = 0; at < delta.length; at += MAX_PIECE) {
      this.section += delta.slice(at, at + MAX_PIECE);
      this.scan(false);
      this.trim();
    }
    return this.take();
  }

  /** Returns what is left at the end of the text. */
  end(): string {
    this.scan(true);
    return this.take();
  }

  /** Returns the text that was sent since the last call, with a NUL for each sign of code but the ends of lines. */
  takeMask(): string {
    const { mask } = this;
    this.mask = "";
    return mask;
  }

  private take(): string {
    this.flush();
    const { out } = this;
    this.out = "";
    return out;
  }

  /** Sends what is decided. */
  private flush(): void {
    if (this.at <= this.sent) return;
    const text = this.section.slice(this.sent, this.at);
    this.out += text;
    if (this.isMarking) this.mask += this.maskCode(text, this.sent);
    this.sent = this.at;
  }

  private maskCode(text: string, from: number): string {
    let mask = text;
    for (const code of this.codes) {
      const start = Math.max(0, code.start - from);
      const end = Math.min(text.length, code.end - from);
      if (start < end)
        mask =
          mask.slice(0, start) + mask.slice(start, end).replace(/[^\n]/g, "\0") + mask.slice(end);
    }
    return mask;
  }

  /** Leaves the front of the section out. */
  private drop(length: number): void {
    this.flush();
    this.section = this.section.slice(length);
    this.sent -= length;
    this.at -= length;
    this.lineStart -= length;
    this.chunkStart = Math.max(0, this.chunkStart - length);
    this.marked -= length;
    this.codes = this.codes
      .map(({ start, end }) => ({ start: start - length, end: end - length }))
      .filter(({ end }) => end > this.sent);
  }

  private beginSection(): void {
    this.drop(this.at);
    this.isAfterBlank = true;
    this.isUnclear = false;
    this.reads = 0;
  }

  /** Keeps what is held short: of a section that is too long, the code is not looked for any more. */
  private trim(): void {
    const length = Math.min(this.at, Math.max(this.lineStart, this.at - MAX_PIECE)) - KEPT;
    if (this.section.length <= MAX_SECTION || length <= 0) return;
    this.drop(length);
    this.isUnclear = true;
    if (this.lineStart < 0 && !this.fence) this.isLostCode = true;
  }

  private scan(ended: boolean): void {
    while (this.fence ? this.passFence(this.fence, ended) : this.passText(ended));
  }

  /** Passes text up to behind the next sign. False if more text is needed. */
  private passText(ended: boolean): boolean {
    if (this.isAfterBlank && this.at === this.lineStart && !this.htmlEnd)
      if (/\S/.test(this.section.charAt(this.at))) this.beginSection();
    if (this.isMarking) return this.passMarked(ended);
    const signs = this.isLoose() ? LOOSE_SIGNS : SIGNS;
    signs.lastIndex = this.at;
    const found = signs.exec(this.section);
    if (!found) {
      const open = ended ? 0 : this.getOpenLength();
      this.at = Math.max(this.at, this.section.length - open);
      return false;
    }
    this.at = found.index;
    const [sign] = found;
    if (/^[\r\n]/.test(sign)) return this.passNewline(sign, ended);
    const step = this.decide(sign, ended);
    if (step) this.apply(step);
    return step !== undefined;
  }

  /** Passes a line of a block whose code is known for the mask. False if more text is needed. */
  private passMarked(ended: boolean): boolean {
    if (!this.markBlock(ended)) return false;
    NEWLINES.lastIndex = this.at;
    const found = NEWLINES.exec(this.section);
    this.at = Math.min(found?.index ?? Infinity, this.marked);
    if (found && found.index < this.marked) return this.passNewline(found[0], ended);
    return this.at < this.section.length;
  }

  private passNewline(sign: string, ended: boolean): boolean {
    // A line feed may follow a carriage return.
    if (sign === "\r" && this.at + 1 === this.section.length && !ended) return false;
    this.endLine(sign.length);
    return true;
  }

  private isLoose(): boolean {
    return this.page.isLost || this.page.isStyle;
  }

  private getOpenLength(): number {
    const end = this.section.slice(-40);
    const patterns = this.isLoose() ? [OPEN_SIGN, OPEN_STYLE_END, OPEN_LOAD] : [OPEN_SIGN];
    return Math.max(...patterns.map((pattern) => pattern.exec(end)?.[0].length ?? 0));
  }

  private apply({ next, inserts = [], text }: Step): void {
    let { section } = this;
    let end = next;
    if (text !== undefined) {
      section = section.slice(0, this.at) + text + section.slice(next);
      end = this.at + text.length;
    }
    for (const insert of inserts) {
      const at = insert.at + end - next;
      section = section.slice(0, at) + insert.text + section.slice(at);
      end += insert.text.length;
    }
    this.section = section;
    this.at = end;
  }

  /** Ends the line at a line break. */
  private endLine(length: number): void {
    const line = this.section.slice(Math.max(0, this.lineStart), this.at);
    const { lineStart, page } = this;
    const next = this.at + length;
    this.isHtml ||= beginsHtml(line, !this.isAfterText) || DELIMITER_ROW.test(line);
    this.isAfterText = isPlainLine(line);
    if (this.htmlEnd) {
      if (this.htmlEnd.test(line)) this.htmlEnd = undefined;
    } else {
      this.htmlEnd = getHtmlEnd(line);
      this.isUnclear ||= this.htmlEnd !== undefined;
    }
    this.at = this.lineStart = next;
    this.isAfterBlank = BLANK.test(line);
    if (/^[ \t>]*$/.test(line)) {
      this.chunkStart = next;
      this.isHtml = false;
      // The rest of a style sheet is no code, whatever it looks like.
      page.isLost ||= page.isStyle;
    }
    if (ANY_FENCE.test(line)) this.openFence(Math.max(0, lineStart));
  }

  /** Begins a fenced block if the line before is the begin of one to all parsers. Otherwise nothing is code from here on. */
  private openFence(lineStart: number): void {
    const codes = this.getCodes(this.at);
    const code = codes.find(({ start, end }) => start >= lineStart && end >= this.lineStart - 2);
    if (code?.fence !== undefined)
      this.fence = { margin: toMargin(code.prefix ?? ""), fence: code.fence };
    else if (
      !codes.some(({ start, end, isBlock }) => isBlock && start <= lineStart && end > lineStart)
    )
      this.isLostCode = true;
    if (this.fence && this.isMarking) this.codes.push({ start: lineStart, end: this.at });
  }

  private endFence(): void {
    this.fence = undefined;
    this.chunkStart = this.lineStart;
    this.isHtml = this.isAfterText = false;
  }

  /** Passes a line of a fenced block, or what there is of it. False if more text is needed. */
  private passFence({ margin, fence }: OpenFence, ended: boolean): boolean {
    NEWLINES.lastIndex = this.at;
    const found = NEWLINES.exec(this.section);
    const next = found ? found.index + found[0].length : this.section.length;
    if (found?.[0] === "\r" && next === this.section.length && !ended) return false;
    const line = this.section.slice(Math.max(0, this.lineStart), found?.index);
    // The begin of a line says whether it belongs to the block.
    const isKnown = this.at > this.lineStart;
    const isOpen = !found && !ended && mayEndFence(line, margin);
    if (isOpen && !isKnown) return false;
    if (!isKnown && !isWithin(line, margin)) {
      this.endFence();
      return true;
    }
    if (this.isMarking) this.codes.push({ start: this.at, end: next });
    this.at = next;
    if (!found) return false;
    this.lineStart = next;
    this.isAfterBlank = BLANK.test(line);
    const closing = isKnown ? undefined : FENCE_END.exec(line.slice(margin.length))?.[1];
    if (!closing?.startsWith(fence)) return true;
    this.endFence();
    if (margin === "") this.beginSection();
    return true;
  }

  /** Returns the code of the section up to `end`; none if it is in doubt what is code. */
  private getCodes(end: number): Code[] {
    if (
      this.isLostCode ||
      this.isUnclear ||
      this.isLoose() ||
      this.htmlEnd ||
      this.reads >= MAX_READS
    )
      return [];
    const text = this.section.slice(0, end);
    if (this.read?.text !== text) {
      this.reads++;
      this.read = { text, codes: findCode(text) };
    }
    return this.read.codes;
  }

  /** Returns where the block of an offset ends; undefined if more text is needed. `isCut`: it goes on for long. */
  private findBlockEnd(from: number, ended: boolean): { end: number; isCut: boolean } | undefined {
    const { section, maxWait } = this;
    const found = BLOCK_END.exec(section.slice(from, from + maxWait + MAX_BLOCK_END));
    const length = found ? found.index + found[0].length : Infinity;
    if (length <= maxWait) return { end: from + length, isCut: false };
    if (section.length >= from + maxWait + MAX_BLOCK_END)
      return { end: from + maxWait, isCut: true };
    return ended ? { end: this.section.length, isCut: false } : undefined;
  }

  /** Finds the code of the block that follows, for the mask. False if more text is needed. */
  private markBlock(ended: boolean): boolean {
    if (this.marked > this.at) return true;
    if (this.at === this.section.length) return false;
    const block = this.findBlockEnd(this.at, ended);
    if (!block) return false;
    if (!block.isCut)
      this.codes.push(...this.getCodes(block.end).filter(({ end }) => end > this.at));
    this.marked = block.end;
    return true;
  }

  /** Returns whether what stands at the sign may be code, by the text before it. */
  private mayBeCode(): boolean {
    const line = this.section.slice(Math.max(0, this.lineStart), this.at);
    return INDENTED.test(line) || this.section.slice(this.chunkStart, this.at).includes("`");
  }

  /** Returns whether parsers may disagree on what is text here. */
  private isInDoubt(): boolean {
    if (this.isLostCode || this.isUnclear || this.isHtml || this.isLoose()) return true;
    const line = this.section.slice(Math.max(0, this.lineStart), this.at + 40);
    return beginsHtml(line.split(/[\r\n]/, 1)[0] ?? "", !this.isAfterText);
  }

  /** Decides on a sign. Undefined if what follows decides. */
  private decide(sign: string, ended: boolean): Step | undefined {
    const { at } = this;
    if (/^[!<]/.test(sign) && ESCAPE.test(this.section.slice(Math.max(0, at - 20), at)))
      if (!this.isInDoubt()) return { next: at + 1 };
    const block = this.findBlockEnd(at, ended);
    const raw = this.section.slice(at, Math.min(block?.end ?? Infinity, at + MAX_SPAN + 1));
    const step = this.readSign(sign, raw, block !== undefined || raw.length > MAX_SPAN);
    if (step === "more") return undefined;
    if (!step.inserts && step.text === undefined && !step.enter) return step;
    if (this.mayBeCode()) {
      if (!block) return undefined;
      const codes = block.isCut ? [] : this.getCodes(block.end);
      if (codes.some(({ start, end }) => start <= at && at < end))
        return { next: at + sign.length };
    }
    step.enter?.();
    return step;
  }

  /** Reads a sign. `closed` says that what follows `raw` does not belong to it. */
  private readSign(sign: string, raw: string, closed: boolean): Step | "more" {
    const { at, page } = this;
    if (sign === ":") return this.readDefinition();
    if (sign === "![") return this.readImage(raw, closed);
    if (/^<\/style/i.test(sign)) {
      page.isStyle = false;
      return { next: at + 1 };
    }
    if (sign.startsWith("<")) return this.readTag(raw, closed);
    const load = readLoad(raw, closed);
    if (load === "more") return "more";
    if (load === "none") return { next: at + 1 };
    return { next: at + load.at, inserts: [{ ...load, at: at + load.at }] };
  }

  private readDefinition(): Step {
    const { at, page } = this;
    const key = readDefinition(this.section.slice(0, at - 1));
    if (key === undefined) return { next: at + 1 };
    page.definitions.add(key);
    const isImage = page.images.has(key) || page.images.has("*");
    return { next: at + 1, ...(isImage && { inserts: [{ at, text: " " }] }) };
  }

  private readImage(raw: string, closed: boolean): Step | "more" {
    const { at, page } = this;
    const text = withoutMarks(raw);
    const image = readImage(text, closed);
    // The text behind an image whose end is not known may be its address.
    if (image === "more" || (image.kind === "open" && !closed)) return "more";
    if (loadsOutside(image, text)) {
      const { words, address, end } = image;
      const before = this.section.slice(Math.max(this.chunkStart, at - MAX_SPAN), at);
      // The words must not make a tag of what stands before.
      const hasTag = /<[A-Za-z]/.test(before.replaceAll(/`[^`]*`/g, ""));
      if (end === undefined || this.isInDoubt() || hasTag) return part(at);
      // Without words the address begins the text: with a letter or a slash it is no mark.
      if (words === "" && !/^[A-Za-z/]/.test(address)) return part(at);
      return { next: at + end, text: words === "" ? address : `${words} (${address})` };
    }
    const isDefined = image.keys.some((key) => page.definitions.has(key));
    if (isDefined || (image.kind === "open" && page.definitions.size > 0)) return part(at);
    for (const key of image.keys) page.images.add(key);
    return { next: at + 2 };
  }

  private readTag(raw: string, closed: boolean): Step | "more" {
    const { at, page } = this;
    const text = withoutMarks(raw);
    const isDoubt = this.isInDoubt();
    const end = (isDoubt ? readAnyTag : readTag)(text, closed);
    if (end === "more") return "more";
    if (end === "none" && !isDoubt) return { next: at + 1 };
    const element = getElement(text);
    const tag = typeof end === "number" ? text.slice(0, end) : "";
    // It goes on for long, or with the marks of a quote in it.
    const isOpen = tag === "" || (isDoubt && tag !== raw.slice(0, tag.length));
    if (isOpen ? isFetching(element) : mayLoad(tag) && readTag(tag, true) !== end) return part(at);
    const inserts = disarmTag(tag).map((one) => ({ ...one, at: at + one.at }));
    const enter = (): void => {
      page.isLost ||= isOpen;
      page.isStyle ||= element === "style";
    };
    return {
      next: at + (inserts.length > 0 ? tag.length : 1),
      ...(inserts.length > 0 && { inserts }),
      ...((isOpen || element === "style") && { enter }),
    };
  }
}

/** A text that fetches nothing from outside: see `Disarmer`. */
export function disarm(text: string): string {
  if (!MAY_LOAD.test(text)) return text;
  const disarmer = new Disarmer();
  return disarmer.push(text) + disarmer.end();
}

/**
 * A reply as it may leave: no reader's program fetches something from outside because of it; with a list of hosts, links
 * to others are removed and counted. Code stays as it is.
 */
export function cleanReply(
  text: string,
  allowedHosts?: readonly string[],
): { text: string; removedLinks: number } {
  if (!allowedHosts) return { text: disarm(text), removedLinks: 0 };
  const cleaner = createReplyCleaner(allowedHosts);
  const cleaned = cleaner.push(text) + cleaner.end();
  return { text: cleaned, removedLinks: cleaner.removedLinks() };
}

/** Leaves a text as it is. */
export const KEPT_TEXT: ReturnType<typeof createReplyCleaner> = {
  push: (delta) => delta,
  end: () => "",
  removedLinks: () => 0,
};

/** `cleanReply` for a text that comes in pieces: nothing goes out of which it is not clear yet what it becomes. */
export function createReplyCleaner(allowedHosts?: readonly string[]) {
  const disarmer = new Disarmer();
  if (!allowedHosts)
    return {
      push: (delta: string) => disarmer.push(delta),
      end: () => disarmer.end(),
      removedLinks: () => 0,
    };
  const reader = new Disarmer(true);
  let held: Masked = { text: "", mask: "" };
  let count = 0;
  const hold = (text: string): void => {
    held = { text: held.text + text, mask: held.mask + reader.takeMask() };
  };
  // Images are found last, because the text without the links may be an image again.
  const take = (length: number): string => {
    const taken = { text: held.text.slice(0, length), mask: held.mask.slice(0, length) };
    held = { text: held.text.slice(length), mask: held.mask.slice(length) };
    const { text, removedLinks } = removeLinks(taken, (address) =>
      isAllowed(address, allowedHosts),
    );
    count += removedLinks;
    return disarmer.push(text);
  };
  return {
    push(delta: string) {
      hold(reader.push(delta));
      const out = take(settledLength(held.mask));
      return held.text.length <= MAX_HELD ? out : out + take(held.text.length);
    },
    end() {
      hold(reader.end());
      return take(held.text.length) + disarmer.end();
    },
    removedLinks: () => count,
  };
}
