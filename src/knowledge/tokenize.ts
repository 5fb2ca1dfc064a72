import {
  getDefaultLanguage,
  getLanguage,
  getLanguagesByWord,
  getScript,
  hasGrams,
  languagesIn,
  type Language,
  type Script,
} from "./languages.ts";
import { eachGram, toIndexed, toStem } from "./stem.ts";

/**
 * Words for the index, made the same way for documents and for questions: NFKC, lower case, words split at everything
 * that is no letter, digit or mark; runs of scripts without spaces (Han, Kana, Hangul, Thai, Lao, Khmer, Burmese) as
 * overlapping pairs of characters. FTS5's own tokenizers take such a run for one word, and find nothing in it.
 */
const WORD = /[\p{L}\p{N}\p{M}]+/gu;
const UNSPACED = "\\p{sc=Han}\\p{sc=Hiragana}\\p{sc=Katakana}\\p{sc=Hangul}\\p{sc=Thai}\\p{sc=Lao}\\p{sc=Khmer}\\p{sc=Myanmar}ー々〆";
const HAS_UNSPACED = new RegExp(`[${UNSPACED}]`, "u");
const RUNS = new RegExp(`([${UNSPACED}]+)|[^${UNSPACED}]+`, "gu");
/** Whether a word is of a script without spaces: a pair of characters, or a single one. */
export const isUnspaced = (word: string): boolean => HAS_UNSPACED.test(word);

/** A word of a text; `isRun`: characters of a script without spaces. */
interface Token {
  text: string;
  isRun: boolean;
  /** Undefined for numbers and runs. */
  script: Script | undefined;
}

const EASTERN_DIGITS = /[\u0660-\u0669\u06f0-\u06f9]/g;

function toToken(text: string, isRun: boolean): Token {
  if (isRun) return { text, isRun, script: undefined };
  const script = getScript(text);
  return { text: script === undefined || script === "arabic" ? text.replaceAll(EASTERN_DIGITS, toDigit) : text, isRun, script };
}

const toDigit = (digit: string): string => String(digit.charCodeAt(0) & 0xf);

function toTokens(text: string): Token[] {
  const tokens: Token[] = [];
  for (const [word] of text.normalize("NFKC").toLowerCase().matchAll(WORD)) {
    if (!HAS_UNSPACED.test(word)) tokens.push(toToken(word, false));
    else for (const [run, unspaced] of word.matchAll(RUNS)) tokens.push(toToken(run, unspaced !== undefined));
  }
  return tokens;
}

/** Which language the words of each script are taken for. */
type Profile = Map<Script, Language>;

/** A text is taken for a language if it has so many different frequent words of it; a longer text needs one more, and this share. */
const MIN_DIFFERENT = 2;
const LONG = 30;
const MIN_SHARE = 0.06;

interface Evidence {
  language: Language;
  hits: number;
  different: number;
}

/** How often words are frequent words of each language. Single letters tell nothing: lists and formulas are full of them. */
function weigh(words: readonly string[], languages: readonly Language[]): Evidence[] {
  const found = new Map(languages.map((language) => [language, { language, hits: 0, different: 0 }]));
  const seen = new Set<string>();
  for (const word of words) {
    const known = word.length > 1 ? getLanguagesByWord(word) : undefined;
    if (!known) continue;
    const isNew = !seen.has(word);
    if (isNew) seen.add(word);
    for (const language of known) {
      const evidence = found.get(language);
      if (!evidence) continue;
      evidence.hits++;
      if (isNew) evidence.different++;
    }
  }
  return [...found.values()];
}

/** The languages that most of the frequent words are of; none if there are too few of them. */
function mostLikely(found: readonly Evidence[], least: (evidence: Evidence) => boolean): Language[] {
  const most = Math.max(...found.map(({ hits }) => hits));
  return found.filter((evidence) => evidence.hits === most && least(evidence)).map(({ language }) => language);
}

/** The language of a text's words of one script; undefined if the text does not tell it. */
function detectLanguage(words: readonly string[], script: Script, before: Language | undefined): Language | undefined {
  const found = weigh(words, languagesIn(script));
  const [least, share] = words.length > LONG ? [MIN_DIFFERENT + 1, MIN_SHARE] : [MIN_DIFFERENT, 0];
  const [standard] = found;
  // In a short text, a few words that several languages have do not count.
  const most = words.length > LONG ? 0 : (standard?.hits ?? 0) * 2;
  const isLikely = ({ language, hits, different }: Evidence): boolean =>
    different >= least && hits >= words.length * share && (language === standard?.language || hits > most);
  const likely = mostLikely(found, isLikely);
  return before && likely.includes(before) ? before : likely[0];
}

const groupByScript = (tokens: readonly Token[]): Map<Script, string[]> => {
  const words = new Map<Script, string[]>();
  for (const { text, script } of tokens) {
    if (script === undefined) continue;
    const known = words.get(script);
    if (known) known.push(text);
    else words.set(script, [text]);
  }
  return words;
};

/** The words and n-grams that a passage is indexed by. */
export interface IndexForm {
  /** Separated by spaces; the index reduces those that are English to their stems. */
  words: string;
  /** Different ones; none for a text in English or in scripts without spaces. */
  grams: string[];
  /** The codes of the languages of its words. */
  languages: string[];
}

/** The version of `IndexForm`; documents that were indexed before there were versions have 0. */
export const INDEX_FORM = 1;

const EMPTY: Profile = new Map();
/** A text's vocabulary comes again and again. */
const MAX_KNOWN = 50_000;
const indexed = new Map<Language, Map<string, string>>();

function getIndexed(word: string, language: Language): string {
  if (language.code === "en") return word;
  let known = indexed.get(language);
  if (!known || known.size >= MAX_KNOWN) indexed.set(language, (known = new Map()));
  let found = known.get(word);
  if (found === undefined) known.set(word, (found = toIndexed(word, language)));
  return found;
}

/** Indexes the passages of one document, in order: one that does not tell its language has that of the passage before. */
export class DocumentTokenizer {
  #profile = EMPTY;

  toIndexForm(text: string): IndexForm {
    const tokens = toTokens(text);
    const scripts = [...groupByScript(tokens)].toSorted(([, a], [, b]) => b.length - a.length);
    const profile = new Map(this.#profile);
    for (const [script, words] of scripts) {
      const before = profile.get(script);
      profile.set(script, detectLanguage(words, script, before) ?? before ?? getDefaultLanguage(script));
    }
    this.#profile = profile;
    const languages = scripts.map(([script]) => profile.get(script) as Language);
    const words: string[] = [];
    for (const token of tokens) {
      if (token.isRun) pairs(token.text, (term) => words.push(term));
      else words.push(token.script === undefined ? token.text : getIndexed(token.text, profile.get(token.script) as Language));
    }
    const [main] = languages;
    const runs = tokens.reduce((sum, { text: run, isRun }) => (isRun ? sum + run.length : sum), 0);
    const isSpaced = runs < (scripts[0]?.[1].length ?? 0);
    const grams = isSpaced && main && hasGrams(main.code) ? toGrams(tokens, main) : [];
    return { words: words.join(" "), grams, languages: languages.map(({ code }) => code) };
  }
}

/** The words of a text as documents of form 0 have them: as if all were English. */
export function indexWords(text: string): string {
  const words: string[] = [];
  for (const { text: word, isRun } of toTokens(text))
    if (isRun) pairs(word, (term) => words.push(term));
    else words.push(word);
  return words.join(" ");
}

function toGrams(tokens: readonly Token[], { stopWords }: Language): string[] {
  const grams = new Set<string>();
  const seen = new Set(stopWords);
  for (const { text, isRun, script } of tokens) {
    if (isRun || seen.has(text)) continue;
    seen.add(text);
    eachGram(text, script ?? "other", (gram) => grams.add(gram));
  }
  return [...grams];
}

function pairs(run: string, add: (text: string, prefix: boolean) => void): void {
  const chars = Array.from(run);
  if (chars.length === 1) return add(run, true);
  for (let i = 0; i + 1 < chars.length; i++) add(`${chars[i] as string}${chars[i + 1] as string}`, false);
}

/** `prefix` marks the beginning of a pair: a question of one such character still finds the pairs that begin with it. */
export interface Term {
  text: string;
  prefix: boolean;
}

/** What the languages of the indexed documents are, as far as a question needs it: their codes. */
export interface IndexLanguages {
  codes: readonly string[];
  /** Whether passages of an older version are there, whose words were reduced by the English rules alone. */
  isOld: boolean;
}

/** What a question asks an index for. */
export interface Question {
  /** A word comes once for each different stem that the languages of the index give it. */
  terms: Term[];
  /** Empty if no passage has n-grams. */
  grams: string[];
}

/** So many different words of a question count: a pasted page is no question. */
const MAX_TERMS = 64;
/** The words with the most letters come first. */
const MAX_GRAMS = 64;

/** The languages of an index that the words of a script can be in. */
function candidates(script: Script, { codes, isOld }: IndexLanguages): Language[] {
  const found = codes.map(getLanguage).filter((language) => language?.script === script) as Language[];
  // Older passages: as if all their words were English.
  const english = getLanguage("en") as Language;
  if (isOld && !found.includes(english)) found.push(english);
  return found.length > 0 ? found : [getDefaultLanguage(script)];
}

/** Reads a question for an index: without frequent words, as long as others are left. */
export function readQuestion(text: string, index: IndexLanguages): Question {
  const tokens = toTokens(text);
  const stopWords = new Set<string>();
  const languages = new Map<Script, Language[]>();
  for (const [script, words] of groupByScript(tokens)) {
    const possible = candidates(script, index);
    languages.set(script, possible);
    // The first one's are left out in any case: hardly any of them tells something in another language.
    const asked =
      possible.length === 1 ? possible : [...mostLikely(weigh(words, possible), ({ hits }) => hits > 0), getDefaultLanguage(script)];
    for (const word of words) if (asked.some((language) => language.stopWords.has(word))) stopWords.add(word);
  }
  const isTelling = ({ text: word }: Token): boolean => !stopWords.has(word);
  const telling = tokens.some(isTelling) ? tokens.filter(isTelling) : tokens;
  const terms = new Map<string, Term>();
  const add = (word: string, prefix: boolean): void => {
    // Stems of several languages are often the same one.
    const stem = toStem(word);
    if (!terms.has(stem)) terms.set(stem, { text: word, prefix });
  };
  for (const token of telling) {
    if (terms.size >= MAX_TERMS) break;
    if (token.isRun) pairs(token.text, add);
    else if (token.script === undefined) add(token.text, false);
    else for (const language of languages.get(token.script) ?? []) add(getIndexed(token.text, language), false);
  }
  return { terms: [...terms.values()].slice(0, MAX_TERMS), grams: index.codes.some(hasGrams) ? askedGrams(telling) : [] };
}

function askedGrams(tokens: readonly Token[]): string[] {
  const grams = new Set<string>();
  for (const { text, isRun, script } of tokens.toSorted((a, b) => b.text.length - a.text.length)) {
    if (grams.size >= MAX_GRAMS) break;
    if (!isRun) eachGram(text, script ?? "other", (gram) => grams.add(gram));
  }
  return [...grams].slice(0, MAX_GRAMS);
}

const WIDE = new RegExp(`[${UNSPACED}]`, "gu");
const CHARS_PER_TOKEN = 4;

/** About how many tokens a model counts: one for each character of a script without spaces, else one for four characters. */
export function countTokens(text: string): number {
  const wide = HAS_UNSPACED.test(text) ? (text.match(WIDE)?.length ?? 0) : 0;
  return wide + Math.ceil((text.length - wide) / CHARS_PER_TOKEN);
}
