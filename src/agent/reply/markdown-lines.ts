/** The beginning of a line of markdown. */
export interface LineStart {
  /**
   * `text` is read for markup inside the line. `literal` is code, or a line of marks alone. `doubt` is text of which
   * parsers may disagree whether it is code.
   */
  kind: "text" | "literal" | "doubt";
  /** The offset of its content, after quote marks, list marks and indentation. */
  content: number;
  /** True if it begins a block. Otherwise it goes on with the block of the line before. */
  fresh: boolean;
  /** True if the block ends with the line. */
  single: boolean;
}

/** A block quote, or a list item whose content begins so many columns in. */
type Container = { kind: "quote" } | { kind: "item"; width: number; sort: string; empty: boolean };

/** The paragraph that a line may go on with: of its own containers, or of ones that it leaves. */
type Paragraph = "none" | "here" | "lazy";
type Leaf = "heading" | "fence" | "rule" | "text" | "continued" | "delimiter";

interface Cursor {
  line: string;
  at: number;
  column: number;
}

/** A line has to show within so many characters how it is read. */
export const MAX_LINE_START = 1000;
/** Parsers limit how deep blocks nest. */
const MAX_DEPTH = 20;

/** Marks at which a line's start stays open until more of it has come. */
const OPEN_START =
  /^(?:[-+*_=:|\s]*|\d{1,9}[.)]?\s*|#{1,6}|\[|<\/?[A-Za-z0-9-]*|`{1,2}|`{3,}[^`]*|~+.*)$/;
const HEADING = /^#{1,6}(?:[ \t]|$)/;
const FENCE = /^(?:(`{3,})[^`]*|(~{3,}).*)$/;
const UNDERLINE = /^(?:=+|-+)[ \t]*$/;
const RULE = /^(?:(?:\*[ \t]*){3,}|(?:_[ \t]*){3,}|(?:-[ \t]*){3,})$/;
const LIST_MARK = /^([-+*]|(\d{1,9})([.)]))(?=[ \t]|$)/;
const DELIMITER_ROW = /^(?!-+[ \t]*$)(?=.*-)(?=.*[|:])[-:|][-:| \t]*$/;
const FENCE_END = /^(`{3,}|~{3,})[ \t]*$/;
/** Matches a sign that may open a container. */
const MARK = /^\s*(?:[>*+-]|\d{1,9}[.)]|\[\^)/;
/** A code fence behind any marks of containers, and what may become one. */
const ANY_FENCE = /^(?:\s*\[\^[^\]]*\]:)?[\s>*+\-.)\d]*(?:```|~~~)/;
const OPEN_ANY_FENCE =
  /^(?:\s*\[(?:\^[^\]]*)?\]?|(?:\s*\[\^[^\]]*\]:)?[\s>*+\-.)\d]*(?:[`~]{0,2}|<[A-Za-z]{0,8}))$/;
/** Matches the beginning of a block of HTML, in which there is no code. */
const HTML = /^<(?:[!?]|\/?[A-Za-z][A-Za-z0-9-]*(?:[\s/>]|$))/;
/** Such HTML that ends a paragraph. */
const BLOCK_HTML =
  /^<(?:[!?]|\/?(?:address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|dialog|dir|div|dl|dt|fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|hr|html|iframe|legend|li|link|main|menu|menuitem|meta|nav|noframes|ol|optgroup|option|p|param|pre|script|search|section|source|style|summary|table|tbody|td|textarea|tfoot|th|thead|title|tr|track|ul)(?:[\s/>]|$))/i;
/** HTML that goes on past blank lines, and where it ends. */
const LONG_HTML =
  /^(?:\s*\[\^[^\]]*\]:)?[\s>*+\-.)\d]*<(?:(!--)|(\?)|(!\[CDATA\[)|(!)|(?:script|pre|style|textarea)(?:[\s>]|$))/i;
const LONG_HTML_ENDS = [/-->/, /\?>/, /\]\]>/, />/];
const ELEMENT_END = /<\/(?:script|pre|style|textarea)>/i;

const LITERAL: LineStart = { kind: "literal", content: 0, fresh: true, single: true };
const CONTINUED: LineStart = { kind: "text", content: 0, fresh: false, single: false };
export const DOUBT: LineStart = { kind: "doubt", content: 0, fresh: false, single: false };

/** Returns whether more of a line in doubt has to come. */
const isOpen = (line: string, complete: boolean): boolean =>
  !complete && (OPEN_ANY_FENCE.test(line) || LONG_HTML.test(line));

/** Returns the pattern that ends HTML which a line begins and does not end. */
function getHtmlEnd(line: string): RegExp | undefined {
  const [opening, ...marks] = LONG_HTML.exec(line) ?? [];
  if (opening === undefined) return undefined;
  const end = LONG_HTML_ENDS[marks.findIndex((mark) => mark !== undefined)] ?? ELEMENT_END;
  return end.test(line.slice(opening.length)) ? undefined : end;
}

/** The columns of white space at the cursor, and the offset after it. */
function indentAt({ line, at, column }: Cursor): { indent: number; next: number } {
  let next = at;
  let end = column;
  for (; line[next] === " " || line[next] === "\t"; next++)
    end += line[next] === "\t" ? 4 - (end % 4) : 1;
  return { indent: end - column, next };
}

/** Moves over columns of white space. A tab may be taken in part. */
function skipColumns(cursor: Cursor, columns: number): void {
  for (let left = columns; left > 0;) {
    const sign = cursor.line[cursor.at];
    if (sign !== " " && sign !== "\t") return;
    const width = sign === "\t" ? 4 - (cursor.column % 4) : 1;
    const taken = Math.min(width, left);
    cursor.column += taken;
    left -= taken;
    if (taken === width) cursor.at++;
  }
}

/** Moves over the cursor's white space and so many signs behind it. */
function skipSigns(cursor: Cursor, indent: number, count: number): void {
  skipColumns(cursor, indent);
  cursor.at += count;
  cursor.column += count;
}

/** Reads the marker of a list item at the cursor, and moves behind it. */
function openItem(cursor: Cursor, indent: number, mark: string): Container {
  skipSigns(cursor, indent, mark.length);
  const after = indentAt(cursor);
  const empty = after.next === cursor.line.length;
  const padding = empty || after.indent > 4 ? 1 : after.indent;
  skipColumns(cursor, padding);
  return { kind: "item", width: indent + mark.length + padding, sort: mark.slice(-1), empty };
}

/**
 * Reads markdown line by line, as CommonMark and GFM have it, and tells which lines are code. After a line that parsers
 * read differently, as those that begin with HTML, all is in doubt until the HTML has ended, and a blank line and one at
 * the margin follow; for good if a line in doubt may have opened a code fence.
 */
export class LineReader {
  private containers: Container[] = [];
  private leaf: "none" | "paragraph" | "fence" | "indented" = "none";
  private fence = "";
  /** Parsers may disagree on what may interrupt this paragraph: it has a table, or may be a definition. */
  private contested = false;
  private inFootnote = false;
  private afterBlank = true;
  /** True if the line before was blank, also one that is blank only inside its containers. */
  private afterGap = true;
  private isGap = false;
  private unreadable: "no" | "until-gap" | "for-good" = "no";
  /** Without it, HTML goes on past blank lines. */
  private htmlEnd: RegExp | undefined;
  /** True if no line in doubt may stand in a container. */
  private isFlat = false;

  /** Reads a line's start. `complete` says whether `line` is all of it; undefined if more of it is needed. */
  read(line: string, complete: boolean): LineStart | undefined {
    const blank = /^[ \t]*$/.test(line);
    if (blank && !complete) return undefined;
    const isClear = this.afterBlank && (this.isFlat ? !blank : /^\S/.test(line));
    if (isClear && this.unreadable !== "for-good" && !this.htmlEnd) this.reset();
    if (this.unreadable !== "no") return this.readLost(line, complete, blank);
    const start = blank ? this.readBlank(line) : this.readFull(line, complete);
    if (start) {
      this.afterBlank = blank;
      this.afterGap = this.isGap;
      this.isGap = false;
    }
    return start;
  }

  /** Gives up on a line whose start does not become clear. */
  giveUp(line: string): LineStart {
    this.htmlEnd ??= getHtmlEnd(line);
    this.isFlat = this.containers.length === 0 && !this.inFootnote && line.startsWith("<");
    this.unreadable =
      ANY_FENCE.test(line) || OPEN_ANY_FENCE.test(line) || this.leaf === "fence"
        ? "for-good"
        : "until-gap";
    this.afterBlank = false;
    this.afterGap = false;
    return DOUBT;
  }

  private contest(line: string, complete: boolean): LineStart | undefined {
    return isOpen(line, complete) ? undefined : this.giveUp(line);
  }

  private reset(): void {
    if (this.unreadable === "no" && !this.inFootnote) return;
    this.unreadable = "no";
    this.inFootnote = this.isFlat = false;
    this.containers = [];
    this.leaf = "none";
  }

  private readLost(line: string, complete: boolean, blank: boolean): LineStart | undefined {
    // The end of HTML may stand anywhere in a line.
    if (isOpen(line, complete) || (this.htmlEnd && !complete && line.length < MAX_LINE_START))
      return undefined;
    if (ANY_FENCE.test(line)) this.unreadable = "for-good";
    if (MARK.test(line)) this.isFlat = false;
    if (this.htmlEnd?.test(line)) this.htmlEnd = undefined;
    else this.htmlEnd ??= getHtmlEnd(line);
    this.afterBlank = blank;
    return DOUBT;
  }

  private readBlank(line: string): LineStart {
    const matched = this.matchContainers({ line, at: 0, column: 0 });
    const all = matched === this.containers.length;
    this.containers.length = matched;
    this.isGap = true;
    if (!all || this.leaf === "paragraph") this.leaf = "none";
    return LITERAL;
  }

  /** Moves over the marks of the containers that a line goes on with. Returns how many. */
  private matchContainers(cursor: Cursor): number {
    let matched = 0;
    for (const container of this.containers) {
      const { indent, next } = indentAt(cursor);
      if (container.kind === "quote") {
        if (indent > 3 || cursor.line[next] !== ">") break;
        skipSigns(cursor, indent, 1);
        skipColumns(cursor, 1);
      } else if (next === cursor.line.length) {
        if (container.empty) break;
        skipColumns(cursor, indent);
      } else {
        if (indent < container.width) break;
        skipColumns(cursor, container.width);
      }
      matched++;
    }
    return matched;
  }

  private readFull(line: string, complete: boolean): LineStart | undefined {
    const cursor = { line, at: 0, column: 0 };
    const matched = this.matchContainers(cursor);
    const all = matched === this.containers.length;
    const { indent, next } = indentAt(cursor);
    const rest = line.slice(next);
    if (rest === "") return complete ? this.readBlank(line) : undefined;
    if (this.inFootnote && !/^[\p{L}"'(]/u.test(line)) return this.contest(line, complete);
    if (all && this.leaf === "fence") {
      if (!complete && /^(?:`+|~+)[ \t]*$/.test(rest)) return undefined;
      if (indent < 4 && FENCE_END.exec(rest)?.[1]?.startsWith(this.fence)) this.leaf = "none";
      return LITERAL;
    }
    if (all && this.leaf === "indented" && indent >= 4) return LITERAL;
    // Some parsers take other white space for a blank line, or leave a byte order mark away.
    if (/^\s*$|^\uFEFF/.test(line)) return this.contest(line, complete);
    return this.openBlocks(
      cursor,
      complete,
      matched,
      this.leaf !== "paragraph" ? "none" : all ? "here" : "lazy",
    );
  }

  /** Reads the blocks that a line opens. */
  private openBlocks(
    cursor: Cursor,
    complete: boolean,
    matched: number,
    before: Paragraph,
  ): LineStart | undefined {
    const { line } = cursor;
    const opened: Container[] = [];
    for (;;) {
      const { indent, next } = indentAt(cursor);
      const rest = line.slice(next);
      const paragraph = opened.length === 0 ? before : "none";
      if (rest === "" ? !complete : !complete && OPEN_START.test(rest)) return undefined;
      if (rest === "") return this.begin("none", LITERAL, matched, opened);
      if (matched + opened.length > MAX_DEPTH) return this.contest(line, complete);
      if (indent >= 4) {
        if (
          paragraph === "none" &&
          matched + opened.length < this.containers.length &&
          !this.afterGap
        )
          return this.contest(line, complete);
        if (paragraph === "none") return this.begin("indented", LITERAL, matched, opened);
        return this.contested ? this.contest(line, complete) : { ...CONTINUED, content: next };
      }
      const sort = this.classifyLine(rest, paragraph, matched);
      if (sort === "contested") return this.contest(line, complete);
      if (sort === "quote") {
        skipSigns(cursor, indent, 1);
        skipColumns(cursor, 1);
        opened.push({ kind: "quote" });
      } else if (sort === "item")
        opened.push(openItem(cursor, indent, LIST_MARK.exec(rest)?.[1] ?? ""));
      else return this.openLeaf(sort, rest, next, paragraph, matched, opened);
    }
  }

  private begin(
    leaf: LineReader["leaf"],
    start: LineStart,
    matched: number,
    opened: readonly Container[],
  ): LineStart {
    const kept = this.containers
      .slice(0, matched)
      .map((one) => (one.kind === "item" ? { ...one, empty: false } : one));
    this.containers = [...kept, ...opened];
    this.leaf = leaf;
    return start;
  }

  private openLeaf(
    sort: Leaf,
    rest: string,
    next: number,
    paragraph: Paragraph,
    matched: number,
    opened: readonly Container[],
  ): LineStart {
    const start = { ...CONTINUED, content: next };
    const newBlock = { ...start, fresh: true };
    switch (sort) {
      case "heading":
        return this.begin("none", { ...newBlock, single: true }, matched, opened);
      case "fence":
        this.fence = /^(?:`+|~+)/.exec(rest)?.[0] ?? "";
        return this.begin("fence", LITERAL, matched, opened);
      case "rule":
        return this.begin("none", LITERAL, matched, opened);
      case "text":
        this.contested = rest.startsWith("[");
        this.inFootnote = rest.startsWith("[^");
        return this.begin("paragraph", newBlock, matched, opened);
      case "delimiter":
        this.contested = true;
        return paragraph === "here" ? start : this.begin("paragraph", newBlock, matched, opened);
      case "continued":
        return start;
    }
  }

  /** Classifies the rest of a line, after containers and indentation. */
  private classifyLine(
    rest: string,
    paragraph: Paragraph,
    matched: number,
  ): Leaf | "quote" | "item" | "contested" {
    const mark = LIST_MARK.exec(rest);
    if (DELIMITER_ROW.test(rest) && !RULE.test(rest) && (paragraph !== "none" || !mark))
      return paragraph === "lazy" || mark ? "contested" : "delimiter";
    // Some parsers know footnotes, and tables whose head looks like a fence.
    if (paragraph !== "none" && rest.startsWith("[^")) return "contested";
    if (FENCE.test(rest) && rest.includes("|")) return "contested";
    if ((paragraph === "here" ? BLOCK_HTML : HTML).test(rest)) return "contested";
    if (rest.startsWith(">")) return "quote";
    if (HEADING.test(rest)) return "heading";
    if (FENCE.test(rest)) return "fence";
    if (paragraph === "here" && UNDERLINE.test(rest)) return this.contested ? "contested" : "rule";
    if (RULE.test(rest)) return "rule";
    if (!mark) return paragraph === "none" ? "text" : "continued";
    // Only an item with text interrupts a paragraph, and of ordered ones only the first.
    const interrupts =
      rest.slice(mark[0].length).trim() !== "" && (mark[2] === undefined || Number(mark[2]) === 1);
    const beside = this.leaf === "indented" || this.leaf === "paragraph";
    if (paragraph === "none") return beside && !interrupts && !this.afterGap ? "contested" : "item";
    if (interrupts) return "item";
    if (paragraph === "here") return this.contested ? "contested" : "continued";
    const left = this.containers[matched];
    return left?.kind === "item" && left.sort === mark[0].slice(-1) ? "item" : "contested";
  }
}
