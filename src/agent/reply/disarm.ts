import { DOUBT, LineReader, MAX_LINE_START, type LineStart } from "./markdown-lines.ts";
import {
  isLoose,
  MAX_LABEL,
  newBlock,
  newPage,
  nextSign,
  openLength,
  readSpan,
  type MarkdownBlock,
} from "./markdown-text.ts";

/** `[text](address "title")`, an image's too; addresses without white space. */
const LINK = /!?\[([^\]]{0,1000})\]\(\s*<?([^\s)>]{1,2000})>?(?:\s+[^)]{0,1000})?\)/g;
const REFERENCE = /^[ \t]*\[[^\]]{1,1000}\]:[ \t]*<?(\S+?)>?(?:[ \t].*)?$/gm;
const BARE = /<?\b((?:https?|ftp):\/\/[^\s<>"')\]\0]+|www\.[^\s<>"')\]\0]+)>?/gi;

function getHost(address: string): string | undefined {
  try {
    return new URL(
      address.startsWith("www.") || address.startsWith("//")
        ? `https://${address.replace(/^\/\//, "")}`
        : address,
    ).hostname.toLowerCase();
  } catch {
    return undefined;
  }
}

/** Returns whether `hooks.allowedLinkHosts` has a host: by its name, or by `*.` and a domain above it. */
export const isAllowedHost = (host: string, hosts: readonly string[]): boolean =>
  hosts.some(
    (allowed) =>
      host === allowed.toLowerCase() ||
      (allowed.startsWith("*.") && host.endsWith(allowed.slice(1).toLowerCase())),
  );

type IsAllowed = (address: string) => boolean;

function isAllowed(address: string, hosts: readonly string[]): boolean {
  const host = getHost(address);
  // A relative address leads nowhere outside.
  if (host === undefined)
    return !/^[a-z][a-z0-9+.-]*:/i.test(address) || address.startsWith("mailto:");
  return isAllowedHost(host, hosts);
}

/** A text, and the same with another sign for each of its code: links are looked for in that. */
interface Masked {
  text: string;
  mask: string;
}

/** Replaces what of the mask matches: by a part of itself, by other words, or not at all. */
function replaceMasked(
  { text, mask }: Masked,
  pattern: RegExp,
  replace: (match: RegExpMatchArray) => string | { from: number; length: number } | undefined,
): Masked {
  const done = { text: "", mask: "" };
  let last = 0;
  for (const match of mask.matchAll(pattern)) {
    const by = replace(match);
    if (by === undefined) continue;
    const at = match.index ?? 0;
    const part = (whole: string): string =>
      typeof by === "string" ? by : whole.slice(at + by.from, at + by.from + by.length);
    done.text += text.slice(last, at) + part(text);
    done.mask += mask.slice(last, at) + part(mask);
    last = at + match[0].length;
  }
  return { text: done.text + text.slice(last), mask: done.mask + mask.slice(last) };
}

function removeLinks(masked: Masked, isKept: IsAllowed): { text: string; removedLinks: number } {
  let removedLinks = 0;
  const removed = <R>(by: R): R => {
    removedLinks++;
    return by;
  };
  const inline = replaceMasked(masked, LINK, ([all, label = "", address = ""]) =>
    isKept(address) ? undefined : removed({ from: all.indexOf("[") + 1, length: label.length }),
  );
  const defined = replaceMasked(inline, REFERENCE, ([, address = ""]) =>
    isKept(address) ? undefined : removed(""),
  );
  const { text } = replaceMasked(defined, BARE, ([, address = ""]) =>
    isKept(address) ? undefined : removed("[link removed]"),
  );
  return { text, removedLinks };
}

/** Removes links to some hosts, and what else names these hosts. `hosts` are in ASCII and lower case. */
export function removeLinksTo(text: string, hosts: readonly string[]): string {
  const { text: cleaned } = removeLinks(
    { text, mask: text },
    (address) => !hosts.includes(getHost(address)?.replace(/\.+$/, "") ?? ""),
  );
  return hosts.reduce((rest, host) => rest.replace(toPattern(host), "[link removed]"), cleaned);
}

/** Matches a host without a scheme, with what follows it up to white space. */
const toPattern = (host: string): RegExp =>
  new RegExp(
    `(?<![\\p{L}\\p{N}@.-])${host.replace(/[.[\]]/g, "\\$&")}(?![\\p{L}\\p{N}-])[^\\s<>")\\]]*`,
    "giu",
  );

/**
 * A reply as it may leave: no reader's program fetches something from outside because of it; with a list of hosts, links
 * to others are removed and counted. Code stays as it is.
 */
export function cleanReply(
  text: string,
  allowedHosts?: readonly string[],
): { text: string; removedLinks: number } {
  const cleaner = createReplyCleaner(allowedHosts);
  const cleaned = cleaner.push(text) + cleaner.end();
  return { text: cleaned, removedLinks: cleaner.removedLinks() };
}

/** A link that goes on longer than this does not hold a stream up. */
const MAX_HELD = 4000;
const WHOLE_LINK = new RegExp(LINK.source, "y");
/** Matches an end of text that may still become a link. */
const OPEN_LINK = /^\[[^\]]*(?:\](?:\([^)]*)?)?$/;

/** Up to where links are known: the beginning of a line after which no link goes on. */
function settledLength(text: string): number {
  const end = text.lastIndexOf("\n") + 1;
  const head = text.slice(0, end);
  /** The beginning of the last line at which nothing is open. */
  let safe = 0;
  let past = 0;
  for (let at = head.indexOf("["); at >= 0; at = head.indexOf("[", past)) {
    const line = head.lastIndexOf("\n", at) + 1;
    if (line >= past) safe = line;
    WHOLE_LINK.lastIndex = at;
    if (WHOLE_LINK.test(head)) past = WHOLE_LINK.lastIndex;
    else if (OPEN_LINK.test(head.slice(at))) return safe;
    else past = at + 1;
  }
  return end;
}

interface ReplyCleaner {
  push(delta: string): string;
  end(): string;
  removedLinks(): number;
}

/** Leaves a text as it is. */
export const KEPT_TEXT: ReplyCleaner = {
  push: (delta) => delta,
  end: () => "",
  removedLinks: () => 0,
};

/** `cleanReply` for a text that comes in pieces: nothing goes out of which it is not clear yet what it becomes. */
export function createReplyCleaner(allowedHosts?: readonly string[]): ReplyCleaner {
  const disarmer = new Disarmer();
  if (!allowedHosts)
    return {
      push: (delta) => disarmer.push(delta),
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
    push(delta) {
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

/** Matches the beginning of an image, or of a tag that loads something. */
const CANDIDATE = /<(?=[A-Za-z]|$)|!(?=\[|$)/g;
/** The same, where an image may be open or may refer to what follows. */
const END_CANDIDATE = /<(?=[A-Za-z]|$)|!(?=\[|$)|\](?=[:(]|$)/g;
/** A long text is read in pieces, so that what is held stays short. */
const MAX_PIECE = 4096;
const NEWLINE = /\r\n?|\n/g;

/** So much of what has gone out stays in view, for the label before a colon. */
const KEPT = MAX_LABEL + 10;

/**
 * Disarms in markdown, which comes in pieces, what a reader's program would fetch from outside by itself: an image becomes
 * its words and its address, or gets a space that makes it text, and attributes of HTML get another name. Code and all
 * other text stay as they are. The result does not depend on how the text is cut.
 *
 * What follows decides what a sign is, so a text goes out up to the first sign that may still become an image or a tag. If
 * parsers may disagree on what is code, images in it are disarmed too: no reading of the result fetches something.
 */
class Disarmer {
  private readonly reader = new LineReader();
  private readonly page = newPage();
  private readonly isMarking: boolean;
  /** The text that is not yet both scanned and sent, with the character before it. */
  private raw = "";
  /** The same up to the end of the last line whose start is known, without the marks of its containers. */
  private view = "";
  private scanned = 0;
  private emitted = 0;
  private out = "";
  /** `out` with another sign for each of its code. */
  private mask = "";
  /** The code spans and blocks that have not been sent. */
  private codes: { start: number; end: number }[] = [];
  private line: LineStart | undefined;
  private block: MarkdownBlock | undefined;

  /** @param isMarking whether `takeMask` is asked: then nothing goes out before it is known whether it is code */
  constructor(isMarking = false) {
    this.isMarking = isMarking;
  }

  /** Takes a piece of text. Returns what may go out. */
  push(delta: string): string {
    let out = "";
    for (let at = 0; at < delta.length; at += MAX_PIECE) {
      this.raw += delta.slice(at, at + MAX_PIECE);
      this.read(false);
      this.emitTo(this.getDecided());
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

  /** Up to where the text cannot change any more. */
  private getDecided(): number {
    if (isLoose(this.page) || this.isMarking) return this.scanned;
    const candidate =
      this.page.images.size > 0 || this.block?.image === true ? END_CANDIDATE : CANDIDATE;
    candidate.lastIndex = Math.max(this.scanned, this.emitted);
    return candidate.exec(this.raw)?.index ?? this.raw.length;
  }

  private take(): string {
    const { out } = this;
    this.out = "";
    const gone = Math.min(this.scanned, this.emitted) - KEPT;
    if (gone <= KEPT) return out;
    this.raw = this.raw.slice(gone);
    this.view = this.view.slice(gone);
    this.scanned -= gone;
    this.emitted -= gone;
    if (this.block) this.block.start -= gone;
    this.codes = this.codes
      .map(({ start, end }) => ({ start: start - gone, end: end - gone }))
      .filter(({ end }) => end > this.emitted);
    return out;
  }

  private emitTo(end: number): void {
    if (end <= this.emitted) return;
    const text = this.raw.slice(this.emitted, end);
    this.out += text;
    if (this.isMarking) this.mask += this.maskCode(text, this.emitted);
    this.emitted = end;
  }

  /** Puts text in place of what stands between. */
  private put(start: number, end: number, text: string): void {
    this.emitTo(start);
    this.out += text;
    if (this.isMarking) this.mask += text;
    this.emitted = end;
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

  /** Returns the text that was sent since the last call, with a NUL for each sign of code but the ends of lines. */
  takeMask(): string {
    const { mask } = this;
    this.mask = "";
    return mask;
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
      if (this.line?.kind === "literal") this.pass(this.view.length, true);
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
    const { block } = this;
    // Decisions before the line stay.
    if (block) this.scan(block, false);
    if (line.fresh || (line.kind === "doubt" && !this.block?.doubt))
      this.closeBlock(line.kind === "doubt");
    this.line = this.page.isLost ? DOUBT : line;
    this.view += " ".repeat(this.line.content);
    if (this.line.kind === "literal") return true;
    const isDoubt = this.line.kind === "doubt";
    this.block ??= newBlock(this.page, start + this.line.content, isDoubt, isDoubt && block?.image);
    return true;
  }

  private closeBlock(doubt: boolean): void {
    if (!this.block) return;
    this.block.doubt ||= doubt;
    this.scan(this.block, true);
    // The rest of a style sheet is no code, whatever it looks like.
    this.page.isLost ||= this.page.isStyle;
    this.scanned = this.view.length;
    this.block = undefined;
  }

  /** Goes on behind text that is decided. */
  private pass(end: number, isCode: boolean): void {
    if (end <= this.scanned) return;
    if (isCode && this.isMarking) this.codes.push({ start: this.scanned, end });
    this.scanned = end;
  }

  private scan(block: MarkdownBlock, closed: boolean): void {
    for (;;) {
      const found = nextSign(block, this.view, this.scanned);
      const step = found && readSpan(block, this.view, found.at, found.sign, closed);
      const open = closed || found ? 0 : openLength(block, this.view);
      if (step?.isCode) this.pass(found?.at ?? 0, false);
      this.pass(step?.next ?? found?.at ?? this.view.length - open, step?.isCode === true);
      if (!found || !step) return;
      for (const { at, text } of step.inserts ?? []) this.put(at, at, text);
      if (step.text !== undefined) this.put(found.at, step.next, step.text);
    }
  }
}

/** A text that fetches nothing from outside: see `Disarmer`. */
export function disarm(text: string): string {
  const disarmer = new Disarmer();
  return disarmer.push(text) + disarmer.end();
}
