/** Search in a few short texts, such as notes, without an index. */
import { fuseGrams, type Ranked, type WordRanked } from "./ranking.ts";
import { Coverage } from "./relevance.ts";
import { DocumentTokenizer, readQuestion } from "./words/tokenize.ts";

interface IndexedText {
  words: ReadonlySet<string>;
  grams: ReadonlySet<string>;
}

/** Ranks texts by the share that they have of a question: so short a text says nothing by its length, or by repeating a word. */
function rankByShare(count: number, matches: readonly (readonly number[])[]): Ranked[] {
  const coverage = new Coverage(count);
  for (const found of matches) found.forEach(coverage.addTerm(found.length));
  return Array.from({ length: count }, (_, seq) => ({ seq, score: coverage.getShare(seq) }))
    .filter(({ score }) => score > 0)
    .toSorted((a, b) => b.score - a.score || b.seq - a.seq);
}

/** Finds texts by words and n-grams, as documents are found. Returns their places in the list, best first. */
export function searchTexts(texts: readonly string[], query: string): number[] {
  const codes = new Set<string>();
  const indexed = texts.map((text): IndexedText => {
    const { words, grams, gramCount, languages } = new DocumentTokenizer().toIndexForm(text);
    for (const code of languages) codes.add(code);
    return {
      words: new Set(words.split(" ")),
      grams: new Set(gramCount > 0 ? grams.split(" ") : []),
    };
  });
  const { terms, grams } = readQuestion(query, [...codes]);
  const match = (fits: (text: IndexedText) => boolean): number[] =>
    indexed.flatMap((text, seq) => (fits(text) ? [seq] : []));
  const byWord = rankByShare(
    texts.length,
    terms.map(({ text, prefix }) =>
      match(
        ({ words }) =>
          words.has(text) || (prefix && [...words].some((word) => word.startsWith(text))),
      ),
    ),
  ).map(({ seq, score }): WordRanked => ({
    seq,
    score,
    hasGrams: (indexed[seq]?.grams.size ?? 0) > 0,
  }));
  const byGram = rankByShare(
    texts.length,
    grams.map((gram) => match(({ grams: own }) => own.has(gram))),
  );
  return fuseGrams(byWord, byGram).map(({ seq }) => seq);
}
