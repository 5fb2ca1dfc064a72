import { HAN_VARIANTS } from "./han-variants.ts";

/** The zeros of the decimal digits of scripts, of which the other nine follow. */
const ZEROS = [
  0x0660, 0x06f0, 0x07c0, 0x0966, 0x09e6, 0x0a66, 0x0ae6, 0x0b66, 0x0be6, 0x0c66, 0x0ce6, 0x0d66,
  0x0e50, 0x0ed0, 0x0f20, 0x1040, 0x17e0, 0x1810,
];
/** Katakana, and how far Hiragana are before them. */
const [FIRST_KANA, LAST_KANA, KANA_STEP] = [0x30a1, 0x30f6, 0x60] as const;

/** What a character of a text is written as in the index; 0 if it stays as it is. */
const others = new Uint16Array(2 ** 16);
for (const zero of ZEROS)
  for (let digit = 0; digit < 10; digit++) others[zero + digit] = 0x30 + digit;
for (let kana = FIRST_KANA; kana <= LAST_KANA; kana++) others[kana] = kana - KANA_STEP;
for (const group of HAN_VARIANTS.split(" "))
  for (let at = 1; at < group.length; at++) others[group.charCodeAt(at)] = group.charCodeAt(0);

/** Marks inside of words that are not seen: soft hyphens, joiners, directions. */
const INVISIBLE = /[\u00ad\u061c\u200c-\u200f\u202a-\u202e\u2060-\u2064\ufeff]/g;
const HAS_OTHERS = /[\u0660-\uffff]/;
const APOSTROPHES =
  /(?<=[\u0400-\u052f])['`\u00b4\u02b9\u02bc\u2018\u2019\u2032](?=[\u0400-\u052f])/g;
/** Names of which the letters alone are names of something else. */
const NAMES = /(?<![\p{L}\p{N}])(?:([a-z])(\+\+|#)|\.net)(?![\p{L}\p{N}])/gu;

/** Writes the variants of a script in one way: Han characters as simplified ones, Katakana as Hiragana, all digits as 0 to 9. */
function foldCharacters(text: string): string {
  let folded = "";
  let from = 0;
  for (let at = 0; at < text.length; at++) {
    const other = others[text.charCodeAt(at)] as number;
    if (other === 0) continue;
    folded += text.slice(from, at) + String.fromCharCode(other);
    from = at + 1;
  }
  return from === 0 ? text : folded + text.slice(from);
}

/** Writes a text as the index has it, so that spellings of one word are the same: in lower case, without compatibility forms. */
export function foldSpelling(text: string): string {
  let folded = text.normalize("NFKC").toLowerCase().replaceAll("ß", "ss").replaceAll(INVISIBLE, "");
  if (HAS_OTHERS.test(folded)) folded = foldCharacters(folded);
  if (/[\u0400-\u052f]/.test(folded)) folded = folded.replaceAll(APOSTROPHES, "");
  if (/\+\+|#|\.net/.test(folded))
    folded = folded.replaceAll(NAMES, (_name, letter?: string, sign?: string) =>
      letter === undefined ? " dotnet" : `${letter}${sign === "#" ? "sharp" : "pp"}`,
    );
  return folded;
}

const HYPHEN = "-_\u2010.\u00b7";
/** Between groups of digits: spaces are only there if the number is written with them. */
const SEPARATORS = ",.'\u2019\u066c ";
const isDigit = (code: number): boolean => code >= 0x30 && code <= 0x39;
const MAX_PARTS = 3;
const MAX_LENGTH = 24;

/** A word or number that a text has in parts, as it is without what divides them. */
export interface JoinedWord {
  text: string;
  /** The places of the first part and behind the last one among the words of the text. */
  from: number;
  to: number;
  /** Whether the parts tell nothing of their own: `1,000` is one number. */
  isOne: boolean;
}

/** A part of a text: where it begins and ends. */
interface Part {
  from: number;
  to: number;
  isNumber: boolean;
}

/** Finds words that are written in parts (`node.js`, `e-mail`) and numbers with separators (`1,000`, `1 000`) as words come. */
export class JoinedWords {
  readonly found: JoinedWord[] = [];
  readonly #text: string;
  #parts: Part[] = [];
  #count = 0;
  /** Whether the parts go on with digits that are no group of a number. */
  #isList = false;

  constructor(text: string) {
    this.#text = text;
  }

  /** Adds the next word of the text. */
  add(from: number, to: number): void {
    const before = this.#parts.at(-1);
    const word = { from, to, isNumber: false };
    if (before && !this.#goesOn(before, word)) {
      // Groups of other lengths: an address, a date, a list. What is before and behind is no number either.
      const mark = this.#text[before.to];
      const first = this.#parts[0] as Part;
      const isList =
        this.#isBetweenDigits(before, word) &&
        mark !== " " &&
        (before === first || this.#text[first.to] === mark);
      if (isList) this.#parts = [];
      else this.end();
      this.#isList = isList;
    }
    this.#parts.push(word);
    this.#count++;
  }

  /** Ends the word that has been added in parts. */
  end(): void {
    const parts = this.#parts;
    this.#parts = [];
    const [first, second] = parts;
    const last = parts.at(-1);
    if (!first || !second || !last) return;
    const { isNumber } = second;
    if (isNumber && this.#isList) return;
    if (isNumber ? last.to - last.from !== 3 : parts.length > MAX_PARTS) return;
    if (last.to - first.from > MAX_LENGTH) return;
    this.found.push({
      text: parts.map(({ from, to }) => this.#text.slice(from, to)).join(""),
      from: this.#count - parts.length,
      to: this.#count,
      isOne: isNumber && this.#text[first.to] !== " ",
    });
  }

  /** Whether a word goes on with the part before it. */
  #goesOn(before: Part, word: Part): boolean {
    if (word.from !== before.to + 1) return false;
    const mark = this.#text[before.to] as string;
    if (!this.#isBetweenDigits(before, word))
      return HYPHEN.includes(mark) && !this.#parts[1]?.isNumber;
    if (!SEPARATORS.includes(mark)) return false;
    word.isNumber = this.#isGroup(before, word, mark);
    return word.isNumber;
  }

  /** Whether one character is between two words, and digits on both sides of it. */
  #isBetweenDigits(before: Part, word: Part): boolean {
    const text = this.#text;
    return (
      word.from === before.to + 1 &&
      isDigit(text.charCodeAt(before.to - 1)) &&
      isDigit(text.charCodeAt(word.from))
    );
  }

  /** Whether digits are the next group of a number: three, or two as in India, after one to three. */
  #isGroup(before: Part, { from, to }: Part, mark: string): boolean {
    const first = this.#parts[0] as Part;
    const isFirst = before === first;
    if (!isFirst && !before.isNumber) return false;
    if (!isFirst && this.#text[first.to] !== mark) return false;
    const length = to - from;
    if (first.to - first.from > 3 || this.#text.charCodeAt(first.from) === 0x30) return false;
    for (let at = first.from; at < first.to; at++)
      if (!isDigit(this.#text.charCodeAt(at))) return false;
    for (let at = from; at < to; at++) if (!isDigit(this.#text.charCodeAt(at))) return false;
    return length === 3 || (length === 2 && mark === ",");
  }
}
