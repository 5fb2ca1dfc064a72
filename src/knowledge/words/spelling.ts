import HAN_VARIANTS from "./han-variants.json" with { type: "json" };

/** The zeros of the decimal digits of scripts, of which the other nine follow. */
const ZEROS = [
  0x0660, 0x06f0, 0x07c0, 0x0966, 0x09e6, 0x0a66, 0x0ae6, 0x0b66, 0x0be6, 0x0c66, 0x0ce6, 0x0d66,
  0x0e50, 0x0ed0, 0x0f20, 0x1040, 0x17e0, 0x1810,
];
/** Katakana, and how far Hiragana are before them. */
const [FIRST_KANA, LAST_KANA, KANA_STEP] = [0x30a1, 0x30f6, 0x60] as const;

/** The character that stands for a character of a text in the index; 0 if it stays as it is. */
const others = new Uint16Array(2 ** 16);
for (const zero of ZEROS)
  for (let digit = 0; digit < 10; digit++) others[zero + digit] = 0x30 + digit;
for (let kana = FIRST_KANA; kana <= LAST_KANA; kana++) others[kana] = kana - KANA_STEP;
/**
 * Han characters that are written in several ways: a simplified one and, behind it, its traditional forms and the Japanese one
 * (the dictionaries TSCharacters and JPShinjitaiCharacters of OpenCC 1.4, Apache-2.0). Of a character with several simplified
 * forms the first one counts.
 */
for (const group of HAN_VARIANTS.flatMap((line) => line.split(" ")))
  for (let at = 1; at < group.length; at++) others[group.charCodeAt(at)] = group.charCodeAt(0);

/** Marks inside of words that are not seen: soft hyphens, places for line ends, joiners, directions, variants of a character. */
const INVISIBLE = /[\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\p{VS}]|\u20e3/gu;
const HAS_OTHERS = /[\u0660-\uffff]/;
const APOSTROPHES =
  /(?<=[\u0400-\u052f])['`\u00b4\u02b9\u02bc\u2018\u2019\u2032](?=[\u0400-\u052f])/g;
/** Names of which the letters alone are names of something else, also with the number of a version. */
const NAMES = /(?<![\p{L}\p{N}])(?:([a-z])(\+\+|#)|\.net)(?!\p{L})(?=(\p{N}?))/gu;

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
    folded = folded.replaceAll(NAMES, (_name, letter?: string, sign?: string, version?: string) => {
      const name = letter === undefined ? " dotnet" : `${letter}${sign === "#" ? "sharp" : "pp"}`;
      return version ? `${name} ` : name;
    });
  return folded;
}

const LETTER = "[\\p{L}\\p{N}\\p{M}]";
/**
 * Numbers in groups of three digits, or of two as in India, with the same mark between all of them. Groups of other lengths
 * are an address, a date or a list, and digits before and behind those are no number either.
 */
const NUMBERS = new RegExp(
  `(?<!${LETTER}|\\d[^\\p{L}\\p{M} ])[1-9]\\d{0,2}` +
    `(?:(?:,\\d{2,3})*,\\d{3}(?!,\\d)|([.'\u2019\u066c])\\d{3}(?:\\1\\d{3})*(?!\\1\\d)| \\d{3}(?: \\d{3})*)(?!${LETTER})`,
  "gu",
);
/** Words in parts; what is between two digits is no hyphen. */
const PARTS = new RegExp(
  `(?<!${LETTER})${LETTER}+(?:(?!(?<=\\d).\\d)[-_\u2010.\u00b7]${LETTER}+)+`,
  "gu",
);
const MAX_PARTS = 3;
const MAX_LENGTH = 24;

/** A word or number that a text has in parts. */
export interface JoinedWord {
  /** Without what divides it. */
  text: string;
  /** The place of the first part in the text. */
  index: number;
  /** The number of its parts. */
  parts: number;
  /** True if the parts tell nothing of their own: `1,000` is one number. */
  isOne: boolean;
}

/** Finds words that are written in parts (`node.js`, `e-mail`) and numbers with separators (`1,000`, `1 000`). */
export function findJoined(text: string): JoinedWord[] {
  const find = (pattern: RegExp, most: number, isNumber: boolean): JoinedWord[] =>
    [...text.matchAll(pattern)].flatMap(({ 0: whole, index }) => {
      const parts = whole.split(/[^\p{L}\p{N}\p{M}]/u);
      if (parts.length > most || whole.length > MAX_LENGTH) return [];
      const isOne = isNumber && !whole.includes(" ");
      return [{ text: parts.join(""), index, parts: parts.length, isOne }];
    });
  return [...find(NUMBERS, Infinity, true), ...find(PARTS, MAX_PARTS, false)];
}
