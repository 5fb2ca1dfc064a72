/** Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet and individual rank learning methods", SIGIR 2009. */
const K = 60;

/** A chunk in a ranking; a higher score is better. */
export interface Ranked {
  seq: number;
  score: number;
}

/** Fuses rankings by their ranks alone: scores of words and of vectors have no common measure. Best first. */
export function fuseRankings(rankings: readonly (readonly Ranked[])[]): Ranked[] {
  const scores = new Map<number, number>();
  for (const ranking of rankings)
    for (const [index, { seq }] of ranking.entries()) scores.set(seq, (scores.get(seq) ?? 0) + 1 / (K + index + 1));
  return [...scores].map(([seq, score]) => ({ seq, score })).toSorted((a, b) => b.score - a.score || a.seq - b.seq);
}
