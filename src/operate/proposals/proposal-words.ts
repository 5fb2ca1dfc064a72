/** Words of trusted text that a proposal may have whatever the operator and the fields say. */
const COMMON = new Set(
  `a about after all also an and any are as at be because been before being below between both but by can case cases
  change changed changes check close closed come comes came complete completed could create created customer date decide delete deleted
  describe description details did do does done due during each either end ended error event events every explain fail failed fails
  first five following for four from give given gives had has have help here how if important in information into is it item items its
  just kind last later list look message money more most name named names need needed needs new next no not note notes now number of
  off on once one only open opened opens or order orders other out over own paid part person please price priority problem product
  question read ready reason received reply report reported request requested resolved result say says send sender sends sent short
  should since so some sort start started state status steps still stop stopped subject such suggest summarise summarize summary
  team text than that the their them then there these they this those three ticket time title to today total two type until up
  update updated updates urgent use used user value wants was way were what when where which who whose why will with within without word words
  work would write yes yet you your`
    .split(/\s+/)
    .filter((word) => word !== ""),
);

const WORD = /[\p{L}\p{N}]+(?:['’][\p{L}]+)?/gu;
const PLAIN = /^[\p{L}\p{M}\p{N}\s.,:;!?'’"()/%+&–—-]*$/u;
const ENDING = /(?:['’]s|s|es|d|ed|ing)$/;

const listWords = (text: string): string[] =>
  (text.match(WORD) ?? []).map((word) => word.toLowerCase());

/** The words in names of fields, hooks and mappings: `pull_request.mergedBy` has four. One with digits may be data, and does not count. */
const splitNames = (names: readonly string[]): string[] =>
  names
    .flatMap((name) => listWords(name.replace(/([a-z])([A-Z])/g, "$1 $2").replaceAll("_", " ")))
    .filter((word) => !/\d/.test(word));

/** Which words a proposal may use outside the boundary. */
export type Vocabulary = ReadonlySet<string>;

/**
 * Collects the words that a proposal may use outside the boundary. What bodies say is not among them, so that no sentence
 * of a body can become one of the operator's.
 * @param said texts of the operator, with all their words.
 * @param names names of fields, hooks and mappings.
 */
export function buildVocabulary(said: readonly string[], names: readonly string[]): Vocabulary {
  return new Set([...COMMON, ...said.flatMap(listWords), ...splitNames(names)]);
}

/** Whether a text has only plain punctuation, and words of a vocabulary or forms of them. */
export function isPlainText(text: string, vocabulary: Vocabulary): boolean {
  const isKnown = (word: string): boolean =>
    vocabulary.has(word) || (ENDING.test(word) && vocabulary.has(word.replace(ENDING, "")));
  return PLAIN.test(text) && listWords(text).every(isKnown);
}
