import {
  getDefaultLanguage,
  getLanguage,
  hasGrams,
  languagesIn,
  type Language,
  type Script,
} from "./languages.ts";
import { toIndexed } from "./stem.ts";
import { listGrams, readWords, type Token, type Words } from "./tokens.ts";

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

/** Counts how often words are frequent words of each language. */
function weigh(words: readonly Token[], languages: readonly Language[]): Evidence[] {
  const found = new Map(
    languages.map((language) => [language, { language, hits: 0, different: 0 }]),
  );
  const counts = new Map<Token, number>();
  for (const word of words)
    if (word.frequentIn.length > 0) counts.set(word, (counts.get(word) ?? 0) + 1);
  for (const [word, count] of counts)
    for (const language of word.frequentIn) {
      const evidence = found.get(language);
      if (!evidence) continue;
      evidence.hits += count;
      evidence.different++;
    }
  return [...found.values()];
}

/** The languages that most of the frequent words are of; none if there are too few of them. */
function mostLikely(
  found: readonly Evidence[],
  least: (evidence: Evidence) => boolean,
): Language[] {
  const most = Math.max(...found.map(({ hits }) => hits));
  return found
    .filter((evidence) => evidence.hits === most && least(evidence))
    .map(({ language }) => language);
}

/** The language of a text's words of one script; undefined if the text does not tell it. */
function detectLanguage(
  words: readonly Token[],
  script: Script,
  before: Language | undefined,
): Language | undefined {
  const found = weigh(words, languagesIn(script));
  const [least, share] = words.length > LONG ? [MIN_DIFFERENT + 1, MIN_SHARE] : [MIN_DIFFERENT, 0];
  const [standard] = found;
  // In a short text, a few words that several languages have do not count.
  const most = words.length > LONG ? 0 : (standard?.hits ?? 0) * 2;
  const isLikely = ({ language, hits, different }: Evidence): boolean =>
    different >= least &&
    hits >= words.length * share &&
    (language === standard?.language || hits > most);
  const likely = mostLikely(found, isLikely);
  return before && likely.includes(before) ? before : likely[0];
}

/** The share of its words with letters that English does not have, from which on a text that tells no language is in another one. */
const MIN_FOREIGN = 0.08;

/** The language of words that tell none: that of the passage before, unless it can be English only if nothing speaks against it. */
function assumeLanguage(
  words: readonly Token[],
  script: Script,
  before: Language | undefined,
): Language {
  const standard = getDefaultLanguage(script);
  if (before && before !== standard) return before;
  const foreign =
    script === "latin"
      ? words.filter(({ text }) => /[\u00df-\u024f\u1e00-\u1eff]/.test(text)).length
      : 0;
  return foreign > 0 && foreign >= words.length * MIN_FOREIGN
    ? (getLanguage("mis") as Language)
    : standard;
}

const groupByScript = (tokens: readonly Token[]): Map<Script, Token[]> =>
  Map.groupBy(
    tokens.filter(({ script }) => script !== undefined),
    ({ script }) => script as Script,
  );

const UMLAUTS: Record<string, string> = { ä: "ae", ö: "oe", ü: "ue" };

/** The forms in which a word is indexed. German names in other texts have one more, as they are written without umlauts. */
function listForms(token: Token, language: Language): string[] {
  const { code } = language;
  const own = token.getIndexed(language);
  if ((code !== "en" && code !== "mis") || !/[äöü]/.test(token.text)) return [own];
  const spelled = token.text.replaceAll(/[äöü]/g, (letter) => UMLAUTS[letter] ?? letter);
  return [own, toIndexed(spelled, language)];
}

/** The words and n-grams that a passage is indexed by. */
export interface IndexForm {
  /** Stems, separated by spaces. */
  words: string;
  /** Different ones, separated by spaces; none for a text in English or in scripts without spaces. */
  grams: string;
  gramCount: number;
  /** The codes of the languages of its words. */
  languages: string[];
}

/** The version of what documents are indexed as: a gateway that starts indexes those of an older one again. */
export const INDEX_FORM = 3;

const EMPTY: Profile = new Map();

/** Indexes the passages of one document, in order: one that does not tell its language has that of the passage before. */
export class DocumentTokenizer {
  #profile = EMPTY;

  toIndexForm(text: string): IndexForm {
    const { tokens, joined } = readWords(text);
    const scripts = [...groupByScript(tokens)].toSorted(([, a], [, b]) => b.length - a.length);
    const profile = new Map(this.#profile);
    for (const [script, words] of scripts) {
      const before = profile.get(script);
      profile.set(
        script,
        detectLanguage(words, script, before) ?? assumeLanguage(words, script, before),
      );
    }
    this.#profile = profile;
    const languages = scripts.map(([script]) => profile.get(script) as Language);
    const words: string[] = [];
    let runs = 0;
    let language: Language | undefined;
    const add = (token: Token): void => {
      if (token.script === undefined) return void words.push(token.text);
      if (token.script !== language?.script) language = profile.get(token.script);
      words.push(...(language ? listForms(token, language) : [token.text]));
    };
    for (const token of tokens)
      if (token.isRun) {
        runs += token.text.length;
        pairs(token.text, (term) => words.push(term));
      } else add(token);
    for (const { token } of joined) add(token);
    const [main] = languages;
    const isSpaced = runs < (scripts[0]?.[1].length ?? 0);
    const telling =
      isSpaced && main && hasGrams(main.code)
        ? tokens.filter(({ text: word }) => !main.stopWords.has(word))
        : [];
    const grams = listGrams(telling);
    return {
      words: words.join(" "),
      grams: grams.join(" "),
      gramCount: grams.length,
      languages: languages.map(({ code }) => code),
    };
  }
}

function pairs(run: string, add: (text: string, prefix: boolean) => void): void {
  const chars = Array.from(run);
  if (chars.length === 1) return add(run, true);
  for (let i = 0; i + 1 < chars.length; i++)
    add(`${chars[i] as string}${chars[i + 1] as string}`, false);
}

/** `prefix` marks the beginning of a pair: a question of one such character still finds the pairs that begin with it. */
export interface Term {
  text: string;
  prefix: boolean;
  /**
   * The numbers of the question's words that it is a form of: languages have different forms of one word, and a word that
   * the question has in parts stands for all of them.
   */
  words: readonly number[];
}

/** The words of a question that an index is asked for. */
export interface Question {
  /** A word comes once for each different stem that the languages of the index give it. */
  terms: Term[];
  /** Empty if no passage has n-grams. */
  grams: string[];
  /** False if all its words are frequent ones, which tell nothing. */
  isTelling: boolean;
}

/** So many different words of a question count: a pasted page is no question. */
const MAX_TERMS = 64;
/** The words with the most letters come first. */
const MAX_GRAMS = 64;

/** Serbian and Croatian are written in two scripts, and their stems are the same in both. */
const isInBoth = ({ code, script }: Language, asked: Script): boolean =>
  (code === "sr" || code === "hr") && script !== asked && /^(?:latin|cyrillic)$/.test(asked);

/** The languages of an index that the words of a script can be in. */
function candidates(script: Script, codes: readonly string[]): Language[] {
  const found = codes
    .map(getLanguage)
    .filter(
      (language) => language && (language.script === script || isInBoth(language, script)),
    ) as Language[];
  return found.length > 0 ? found : [getDefaultLanguage(script)];
}

/** A word of a question with the numbers of the words that it stands for. */
type Numbered = Pick<Term, "words"> & { token: Token };

/** Returns a question's words, without those that tell nothing as long as others are left, then words that it has in parts. */
function keepTelling(
  { tokens, joined }: Words,
  isTelling: (token: Token) => boolean,
): { words: Token[]; numbered: Numbered[]; isTelling: boolean } {
  const isReplaced = (at: number): boolean =>
    joined.some(({ from, to, isOne }) => isOne && at >= from && at < to);
  const all = tokens.filter((_, at) => !isReplaced(at));
  const told = all.filter(isTelling);
  const hasTelling = told.length > 0 || joined.some(({ isOne }) => isOne);
  const words = hasTelling ? told : all;
  const numbers = new Map(words.map((token, number) => [token, number]));
  const wholes = joined.map(({ token, from, to }, at) => {
    const parts = tokens.slice(from, to).flatMap((part) => numbers.get(part) ?? []);
    return { token, words: parts.length > 0 ? parts : [words.length + at] };
  });
  const numbered = words.map((token) => ({ token, words: [numbers.get(token) as number] }));
  return { words, numbered: [...numbered, ...wholes], isTelling: hasTelling };
}

/**
 * Reads a question for an index: without frequent words, as long as others are left.
 * `codes`: the languages of the indexed documents.
 */
export function readQuestion(text: string, codes: readonly string[]): Question {
  const read = readWords(text);
  const stopWords = new Set<string>();
  const languages = new Map<Script, Language[]>();
  for (const [script, words] of groupByScript([
    ...read.tokens,
    ...read.joined.map(({ token }) => token),
  ])) {
    const possible = candidates(script, codes);
    languages.set(script, possible);
    // The first one's are left out in any case: hardly any of them tells something in another language.
    const asked =
      possible.length === 1
        ? possible
        : [
            ...mostLikely(weigh(words, possible), ({ hits }) => hits > 0),
            getDefaultLanguage(script),
          ];
    // A single letter is a preposition of one of the languages more often than a word that tells something.
    for (const { text: word } of words)
      if ((word.length === 1 ? possible : asked).some((language) => language.stopWords.has(word)))
        stopWords.add(word);
  }
  const { words, numbered, isTelling } = keepTelling(
    read,
    ({ text: word }) => !stopWords.has(word),
  );
  const terms = new Map<string, Term>();
  const add = (term: Term): void => {
    // Stems of several languages are often the same one.
    if (!terms.has(term.text)) terms.set(term.text, term);
  };
  let next = numbered.length;
  for (const { token, words: of } of numbered) {
    if (terms.size >= MAX_TERMS) break;
    if (token.isRun) pairs(token.text, (text, prefix) => add({ text, prefix, words: [next++] }));
    else if (token.script === undefined) add({ text: token.text, prefix: false, words: of });
    else
      for (const language of languages.get(token.script) ?? [])
        for (const text of listForms(token, language)) add({ text, prefix: false, words: of });
  }
  const grams = listGrams(
    codes.some(hasGrams) ? words.toSorted((a, b) => b.text.length - a.text.length) : [],
  );
  return {
    terms: [...terms.values()].slice(0, MAX_TERMS),
    grams: grams.slice(0, MAX_GRAMS),
    isTelling,
  };
}
