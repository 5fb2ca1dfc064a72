/** Edit distance (Damerau-Levenshtein, optimal string alignment), given up above `most`. */
function distance(a: string, b: string, most: number): number {
  if (Math.abs(a.length - b.length) > most) return most + 1;
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      let best = Math.min(
        (last[j] as number) + 1,
        (row[j - 1] as number) + 1,
        (last[j - 1] as number) + cost,
      );
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        best = Math.min(best, (before[j - 2] as number) + 1);
      row.push(best);
    }
    before = last;
    last = row;
  }
  return last[b.length] as number;
}

/** Returns the candidates within `most` edits of a word, nearest first. `isMoved` says of one that it counts as one edit away. */
function findNear(
  word: string,
  candidates: Iterable<string>,
  most: number,
  isMoved: (candidate: string) => boolean = () => false,
): string[] {
  const lower = word.toLowerCase();
  return Array.from(candidates, (candidate) => {
    const other = candidate.toLowerCase();
    const edits = distance(lower, other, most);
    return { candidate, edits: isMoved(other) ? Math.min(edits, 1) : edits };
  })
    .filter(({ edits }) => edits <= most)
    .toSorted((a, b) => a.edits - b.edits)
    .map(({ candidate }) => candidate);
}

/** The candidate that is nearest to a word, if any is near enough to be meant; else one that begins with it, or the other way around. */
export function suggest(word: string, candidates: Iterable<string>): string | undefined {
  const all = [...candidates];
  const lower = word.toLowerCase();
  const isBeginning = (candidate: string): boolean =>
    Math.min(word.length, candidate.length) >= 4 &&
    (candidate.toLowerCase().startsWith(lower) || lower.startsWith(candidate.toLowerCase()));
  const [nearest] = findNear(word, all, word.length <= 4 ? 1 : word.length <= 8 ? 2 : 3);
  return nearest ?? all.find(isBeginning);
}

/**
 * The candidates that are nearest to a dotted path, nearest first. A path counts as near if it can be mistyped for this one,
 * or if the same last name stands elsewhere.
 */
export function nearest(path: string, candidates: Iterable<string>, count: number): string[] {
  const most = path.length < 3 ? 0 : Math.min(4, Math.ceil(path.length / 4));
  const last = path.slice(path.lastIndexOf(".") + 1).toLowerCase();
  const isMoved = (other: string): boolean => other === last || other.endsWith(`.${last}`);
  return findNear(path, candidates, most, isMoved).slice(0, count);
}

/** ` Did you mean "x"?`, or nothing. */
export function didYouMean(word: string, candidates: Iterable<string>): string {
  const found = suggest(word, candidates);
  return found === undefined ? "" : ` Did you mean "${found}"?`;
}
