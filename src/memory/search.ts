import { fuseGrams, type Ranked, type WordRanked } from "../knowledge/ranking.ts";
import { Coverage } from "../knowledge/relevance.ts";
import { toStem } from "../knowledge/stem.ts";
import { DocumentTokenizer, readQuestion } from "../knowledge/tokenize.ts";
import type { Note } from "./notes.ts";

interface IndexedNote {
  words: ReadonlySet<string>;
  grams: ReadonlySet<string>;
}

/** Ranks notes by the share that they have of a question: so short a text says nothing by its length, or by repeating a word. */
function rankByShare(count: number, matches: readonly (readonly number[])[]): Ranked[] {
  const coverage = new Coverage(count);
  for (const found of matches) found.forEach(coverage.addTerm(found.length));
  return Array.from({ length: count }, (_, seq) => ({ seq, score: coverage.getShare(seq) }))
    .filter(({ score }) => score > 0)
    .toSorted((a, b) => b.score - a.score || b.seq - a.seq);
}

/** Finds notes by words and n-grams, as documents are found. Best first. */
export function searchNotes(notes: readonly Note[], query: string): Note[] {
  const codes = new Set<string>();
  const indexed = notes.map(({ text }): IndexedNote => {
    const { words, grams, gramCount, languages } = new DocumentTokenizer().toIndexForm(text);
    for (const code of languages) codes.add(code);
    return {
      words: new Set(words.split(" ").map(toStem)),
      grams: new Set(gramCount > 0 ? grams.split(" ") : []),
    };
  });
  const { terms, grams } = readQuestion(query, [...codes]);
  const match = (fits: (note: IndexedNote) => boolean): number[] =>
    indexed.flatMap((note, seq) => (fits(note) ? [seq] : []));
  const byWord = rankByShare(
    notes.length,
    terms.map(({ text, prefix }) => {
      const stem = toStem(text);
      return match(
        ({ words }) =>
          words.has(stem) || (prefix && [...words].some((word) => word.startsWith(stem))),
      );
    }),
  ).map(({ seq, score }): WordRanked => ({
    seq,
    score,
    hasGrams: (indexed[seq]?.grams.size ?? 0) > 0,
  }));
  const byGram = rankByShare(
    notes.length,
    grams.map((gram) => match((note) => note.grams.has(gram))),
  );
  return fuseGrams(byWord, byGram).flatMap(({ seq }) => notes[seq] ?? []);
}
