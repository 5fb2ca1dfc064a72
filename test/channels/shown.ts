/**
 * Shows a text as people see it: its words with their forms, as CommonMark and as each channel's own format. The readers follow
 * the vendors' descriptions or are packages of others, so that no renderer is its own judge.
 */
import { parse as parseDiscord } from "discord-markdown-parser";
import { parseHTML } from "linkedom";
import MarkdownIt from "markdown-it";
import cjkFriendly from "markdown-it-cjk-friendly";
import type Token from "markdown-it/lib/token.mjs";

/** A sign and its forms, as `strong` or `link:https://…`, in alphabetical order. White space and invisible signs are left out. */
export type Shown = string[];

/** Signs that people do not see: white space, and signs that only separate marks. */
const UNSEEN = /[\s\u200b\u2060\ufeff]/u;

/** Collects what is shown, below the forms that are open. */
class Page {
  readonly shown: Shown = [];
  readonly #open: string[] = [];

  within(form: string, write: () => void): void {
    this.#open.push(form);
    write();
    this.#open.pop();
  }

  open(form: string): void {
    this.#open.push(form);
  }

  close(): void {
    this.#open.pop();
  }

  write(text: string): void {
    const forms = [...new Set(this.#open)].toSorted().join(" ");
    for (const sign of text) if (!UNSEEN.test(sign)) this.shown.push(`${sign} ${forms}`.trim());
  }
}

/** The forms that a channel does not have, and its substitutes. */
export interface Ways {
  /** Forms that a channel does not have. */
  lacks?: readonly string[];
  /** Links are written as `words (address)`. */
  writesLinks?: boolean;
  /** Tables: drawn in code, or as they are; wider ones as cards. */
  tables: "native" | "code";
  cards?: boolean;
  /** The sign around code in a line, if the channel has no form for it. */
  tick?: string;
  /** Letters beside which a mark is shown: it is left away there. */
  apart?: RegExp;
  /** HTML that reaches the channel is shown as it is, dropped, or read as text like any other. */
  html?: "shown" | "dropped" | "read";
}

const FORMS: Readonly<Record<string, string>> = {
  strong: "strong",
  em: "em",
  s: "del",
  b: "strong",
  i: "em",
  del: "del",
};

const createParser = (html: boolean): MarkdownIt => {
  const parser = new MarkdownIt({ html, linkify: true }).use(cjkFriendly);
  parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
  return parser;
};
const parser = createParser(true);
const parserOfText = createParser(false);

/** Lines of a table that is drawn in code, and what parts its cells. */
const RULE = /^[-─┼+\s]+$/;
export const withoutRules = (code: string): string =>
  code
    .split("\n")
    .filter((line) => !RULE.test(line))
    .join("\n")
    .replace(/ [|│](?= |$)/gm, "");

const cellWidth = (text: string): number =>
  [...text].reduce(
    (sum, sign) => sum + (/[\u1100-\uffff]|\p{Emoji_Presentation}/u.test(sign) ? 2 : 1),
    0,
  );

/** The tokens of one table, as rows of cells. */
function readTable(tokens: readonly Token[]): Token[][] {
  const rows: Token[][] = [];
  for (const token of tokens) {
    if (token.type === "tr_open") rows.push([]);
    if (token.type === "inline") rows.at(-1)?.push(token);
  }
  return rows;
}

/** Reads the tokens of a markdown text in a channel's ways. */
class MarkdownReader {
  readonly page = new Page();
  readonly #ways: Ways;
  readonly #numbers: (number | undefined)[] = [];

  constructor(ways: Ways) {
    this.#ways = ways;
  }

  read(tokens: readonly Token[]): void {
    for (let at = 0; at < tokens.length; at++) {
      const token = tokens[at] as Token;
      if (token.type === "table_open") {
        const end = tokens.findIndex((other, index) => index > at && other.type === "table_close");
        this.#table(readTable(tokens.slice(at, end)));
        at = end;
      } else if (token.type.includes("list")) this.#list(token);
      else this.#block(token);
    }
  }

  #has(form: string): boolean {
    return this.#ways.lacks?.includes(form) !== true;
  }

  #within(form: string, write: () => void): void {
    if (this.#has(form)) this.page.within(form, write);
    else write();
  }

  #html({ content }: Token): void {
    if (this.#ways.html !== "dropped") this.page.write(content);
  }

  #block(token: Token): void {
    const form = { heading: "strong", blockquote: "quote" }[token.type.replace(/_.*/, "")];
    if (token.type === "inline") this.#inline(token.children ?? []);
    else if (token.type === "fence" || token.type === "code_block")
      this.#within("code", () => this.page.write(withoutRules(token.content)));
    else if (token.type === "html_block") this.#html(token);
    else if (form !== undefined && this.#has(form)) {
      if (token.nesting === 1) this.page.open(form);
      else this.page.close();
    }
  }

  #list(token: Token): void {
    const number = this.#numbers.at(-1);
    if (token.type === "ordered_list_open") this.#numbers.push(Number(token.attrGet("start") ?? 1));
    else if (token.type === "bullet_list_open") this.#numbers.push(undefined);
    else if (token.type === "list_item_open") {
      this.page.write(number === undefined ? "-" : `${number}.`);
      if (number !== undefined) this.#numbers[this.#numbers.length - 1] = number + 1;
    } else if (token.type !== "list_item_close") this.#numbers.pop();
  }

  /** True if a mark stands beside a letter, so that the channel would show it. */
  #isBeside(tokens: readonly Token[], opening: number, closing: number): boolean {
    const { apart } = this.#ways;
    if (!apart) return false;
    const said = (token: Token | undefined): string =>
      token?.type === "text" ? token.content : "";
    const isThere = ({ type, content }: Token): boolean => type !== "text" || content !== "";
    const before = said(tokens.slice(0, opening).findLast(isThere));
    const after = said(tokens.slice(closing + 1).find(isThere));
    return apart.test(before.slice(-1)) || apart.test(after.slice(0, 1));
  }

  /** Reads the tokens of a line; `plain` is without forms, as in code. */
  #inline(tokens: readonly Token[], plain = false): void {
    const skipped = new Set<number>();
    const links: Token[] = [];
    for (const [at, token] of tokens.entries()) {
      const form = FORMS[token.tag];
      if (token.type === "link_open") {
        links.push(token);
        this.#link(token, true, plain);
      } else if (token.type === "link_close") this.#link(links.pop() as Token, false, plain);
      else if (form !== undefined && token.nesting === 1) {
        const closing = tokens.findIndex(
          (one, index) => index > at && one.nesting === -1 && one.level === token.level,
        );
        if (!plain && this.#has(form) && !this.#isBeside(tokens, at, closing)) this.page.open(form);
        else skipped.add(closing);
      } else if (form !== undefined) {
        if (!skipped.has(at)) this.page.close();
      } else if (token.type === "code_inline") this.#code(token, plain);
      else if (token.type === "html_inline") this.#html(token);
      else this.page.write(token.content);
    }
  }

  #code({ content }: Token, plain: boolean): void {
    const { tick = "" } = this.#ways;
    if (plain) this.page.write(content);
    else {
      this.page.write(tick);
      this.#within("code", () => this.page.write(content));
      this.page.write(tick);
    }
  }

  #link(link: Token, isOpening: boolean, plain: boolean): void {
    const href = link.attrGet("href") ?? "";
    // An address that stands for itself.
    if (link.markup !== "") return;
    const written = plain || this.#ways.writesLinks === true;
    if (isOpening && !written) this.page.open(`link:${href}`);
    if (!isOpening && written) this.page.write(`(${href})`);
    else if (!isOpening) this.page.close();
  }

  #table(rows: readonly Token[][]): void {
    const { tables, cards = false } = this.#ways;
    const widths = (rows[0] ?? []).map((_, column) =>
      Math.max(...rows.map((row) => cellWidth(row[column]?.content ?? ""))),
    );
    const isWide = widths.reduce((sum, one) => sum + one, 0) > 40;
    const write = (plain: boolean): void => {
      for (const cell of rows.flat()) this.#inline(cell.children ?? [], plain);
    };
    if (tables === "native") write(false);
    else if (cards && isWide) this.#cards(rows);
    else this.#within("code", () => write(true));
  }

  #cards([head = [], ...rows]: readonly Token[][]): void {
    for (const [column, cell] of rows.flatMap((row) => [...row.entries()])) {
      const words = (): void => this.#inline(cell.children ?? []);
      if (cell.content === "") continue;
      this.#inline(head[column]?.children ?? []);
      this.page.write(":");
      if (column === 0) this.#within("strong", words);
      else words();
    }
  }
}

/** Shows a markdown text in a channel's ways. HTML is shown as its source. */
export function showMarkdown(markdown: string, ways: Ways = { tables: "native" }): Shown {
  const reader = new MarkdownReader(ways);
  reader.read((ways.html === "read" ? parserOfText : parser).parse(markdown, {}));
  return reader.page.shown;
}

/** The bullet of a list, as any channel writes it, at the beginning of a line. */
const withBullets = (text: string): string =>
  text.replace(/^((?:[ \t]*>)*[ \t]*)[-•*](?= )/gm, "$1-");

const TELEGRAM: Readonly<Record<string, string>> = { ...FORMS, code: "code", blockquote: "quote" };

/** As much of an element or a text of the DOM as is read here. */
interface HtmlNode {
  nodeType: number;
  textContent: string | null;
  childNodes: Iterable<HtmlNode>;
  localName: string;
  getAttribute(name: string): string | null;
}

/** Telegram: an element for each form. */
export function readTelegram(html: string): Shown {
  const page = new Page();
  const { document } = parseHTML(`<html><body>${html}</body></html>`);
  const visit = (node: HtmlNode): void => {
    for (const child of node.childNodes) {
      if (child.nodeType === 3) {
        page.write((child.textContent ?? "").replaceAll("•", "-"));
        continue;
      }
      const name = child.localName;
      if (name === "pre")
        page.within("code", () => page.write(withoutRules(child.textContent ?? "")));
      else if (name === "a") page.within(`link:${child.getAttribute("href")}`, () => visit(child));
      else {
        const form = TELEGRAM[name];
        if (form === undefined) throw new Error(`Telegram has no <${name}>`);
        page.within(form, () => visit(child));
      }
    }
  };
  visit(document.body);
  return page.shown;
}

const SIGNAL: Readonly<Record<string, string>> = {
  BOLD: "strong",
  ITALIC: "em",
  STRIKETHROUGH: "del",
  MONOSPACE: "code",
};

/** Signal: a text, and ranges in UTF-16 units. iMessage: a text alone. Quotes and bullets are signs before lines. */
export function readRanges({ text, styles }: { text: string; styles: readonly string[] }): Shown {
  const ranges = styles.map((style) => {
    const [start = "", length = "", name = ""] = style.split(":");
    return {
      start: Number(start),
      end: Number(start) + Number(length),
      form: SIGNAL[name] ?? name,
    };
  });
  const page = new Page();
  let offset = 0;
  for (const line of text.split(/(?<=\n)/)) {
    const formsAt = (at: number): string[] =>
      ranges.filter(({ start, end }) => start <= at && at < end).map(({ form }) => form);
    const quoted = /^(?: *> ?)*/.exec(line)?.[0] ?? "";
    const isCode = formsAt(offset + quoted.length).includes("code");
    // All of these are as long as the line.
    const bulleted = isCode ? line : quoted + withBullets(line.slice(quoted.length));
    const blank = isCode && RULE.test(line) ? " ".repeat(line.length) : bulleted;
    const shown = isCode ? blank.replace(/ [|│](?= |\n|$)/g, "  ") : blank;
    let at = offset;
    for (const sign of shown) {
      const forms = [...formsAt(at), ...(quoted === "" ? [] : ["quote"])];
      for (const form of forms) page.open(form);
      if (at - offset >= quoted.length) page.write(sign);
      for (const _ of forms) page.close();
      at += sign.length;
    }
    offset += line.length;
  }
  return page.shown;
}

/** Signs beside which Slack shows a mark. */
const SLACK_LETTER = /[A-Za-z0-9]|[^\p{ASCII}\u200B\u2060]/u;
/** Those of scripts with spaces between words. */
export const SPACED = /(?![\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Hang}])[\p{L}\p{N}]/u;

/** A channel's reading of signs around words, one sign for each form. A sign counts if no letter is outside and no space inside. */
interface Marks {
  letters: RegExp;
  write(text: string, page: Page): void;
}

const MARKS: Readonly<Record<string, string>> = { "*": "strong", _: "em", "~": "del" };

function readMarks(text: string, { write, letters }: Marks, page: Page): void {
  const pair = new RegExp(
    `(?<!${letters.source})([*_~])(?=[^\\s\\u200b\\u2060])(?!\\1)([^\\n]*?[^\\s\\u200b\\u2060])\\1(?!${letters.source})`,
    "u",
  );
  const read = (part: string): void => {
    const found = pair.exec(part);
    if (!found) return write(part, page);
    const [whole, sign = "", inner = ""] = found;
    write(part.slice(0, found.index), page);
    page.within(MARKS[sign] as string, () => read(inner));
    read(part.slice(found.index + whole.length));
  };
  read(text);
}

/** Reads a text line by line: code stands aside, so that no mark is read in it, and a line's quote and bullet before it. */
function readLines(text: string, { letters, write }: Marks): Shown {
  const page = new Page();
  const parts = text.split("```");
  for (const [index, part] of parts.entries()) {
    if (index % 2 === 1) {
      const isQuoted = /(?:^|\n) *> ?$/.test(parts[index - 1] ?? "");
      const code = isQuoted ? part.replace(/^ *> ?/gm, "") : part;
      if (isQuoted) page.open("quote");
      page.within("code", () => write(withoutRules(code), page));
      if (isQuoted) page.close();
      continue;
    }
    for (const line of part.split("\n")) {
      const [quoted = ""] = /^\s*> ?/.exec(line) ?? [];
      if (quoted) page.open("quote");
      const codes: string[] = [];
      const rest = withBullets(line.slice(quoted.length)).replace(/`([^`]+)`/g, (_, code: string) =>
        String.fromCharCode(0xe000 + codes.push(code) - 1),
      );
      const writeAll = (piece: string, to: Page): void => {
        for (const run of piece.split(/([\ue000-\uefff])/)) {
          const code = codes[run.charCodeAt(0) - 0xe000];
          if (code === undefined) write(run, to);
          else to.within("code", () => write(code, to));
        }
      };
      readMarks(rest, { letters, write: writeAll }, page);
      if (quoted) page.close();
    }
  }
  return page.shown;
}

/** WhatsApp: https://faq.whatsapp.com/539178204879377 */
export function readWhatsApp(text: string): Shown {
  return readLines(text, { letters: SPACED, write: (part, page) => page.write(part) });
}

/** Slack's mrkdwn: https://docs.slack.dev/messaging/formatting-message-text */
export function readMrkdwn(text: string): Shown {
  const back = (part: string): string =>
    part.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
  const write = (part: string, page: Page): void => {
    for (const [index, piece] of part.split(/<([^>]*)>/).entries()) {
      if (index % 2 === 0) {
        page.write(back(piece));
        continue;
      }
      if (/^[@!#]/.test(piece)) throw new Error(`calls ${piece}`);
      const [url = "", words] = piece.split("|");
      if (words === undefined) page.write(back(url));
      else page.within(`link:${back(url)}`, () => page.write(back(words)));
    }
  };
  return readLines(text, { letters: SLACK_LETTER, write });
}

type DiscordNode = Readonly<Record<string, unknown>> & { type: string };

/** Discord, as the rules of its client were published. */
export function readDiscord(text: string): Shown {
  const page = new Page();
  const nodesOf = (content: unknown): readonly DiscordNode[] => content as readonly DiscordNode[];
  const visit = (nodes: unknown): void => {
    if (typeof nodes === "string") return page.write(nodes);
    for (const node of nodesOf(nodes)) {
      const { type, content } = node;
      const form = {
        strong: "strong",
        em: "em",
        strikethrough: "del",
        blockQuote: "quote",
        heading: "strong",
      }[type];
      if (form !== undefined) page.within(form, () => visit(content));
      else if (type === "inlineCode") page.within("code", () => page.write(content as string));
      else if (type === "codeBlock")
        page.within("code", () => page.write(withoutRules(content as string)));
      else if (type === "text" || type === "newline" || type === "br" || type === "emoticon")
        page.write(typeof content === "string" ? content : "");
      else if (type === "twemoji") page.write(String(node["name"]));
      else if (type === "url" || type === "autolink") visit(content);
      else if (type === "link") page.within(`link:${String(node["target"])}`, () => visit(content));
      else throw new Error(`Discord reads ${type}: ${JSON.stringify(node)}`);
    }
  };
  visit(parseDiscord(withBullets(text), "extended"));
  return page.shown;
}

/** The first difference between two shown texts, with the words before it; undefined if there is none. */
export function differenceOf(found: Shown, expected: Shown): string | undefined {
  const at = expected.findIndex((one, index) => found[index] !== one);
  const first = at < 0 ? (found.length > expected.length ? expected.length : -1) : at;
  if (first < 0) return undefined;
  const words = (list: Shown): string => list.slice(Math.max(0, first - 20), first + 20).join("|");
  return `found    ${words(found)}\nexpected ${words(expected)}`;
}
