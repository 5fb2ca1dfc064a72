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

/** The candidate that is nearest to a word, if any is near enough to be meant. */
export function suggest(word: string, candidates: Iterable<string>): string | undefined {
  const lower = word.toLowerCase();
  const most = word.length <= 4 ? 1 : word.length <= 8 ? 2 : 3;
  let best: { candidate: string; edits: number } | undefined;
  for (const candidate of candidates) {
    const edits = distance(lower, candidate.toLowerCase(), most);
    if (edits <= most && (!best || edits < best.edits)) best = { candidate, edits };
  }
  return best?.candidate;
}

/**
 * The candidates that are nearest to a dotted path, nearest first. A path counts as near if it can be mistyped for this one,
 * or if the same last name stands elsewhere.
 */
export function nearest(path: string, candidates: Iterable<string>, count: number): string[] {
  const lower = path.toLowerCase();
  const most = path.length < 3 ? 0 : Math.min(4, Math.ceil(path.length / 4));
  const last = lower.slice(lower.lastIndexOf(".") + 1);
  const found: { candidate: string; edits: number }[] = [];
  for (const candidate of candidates) {
    const other = candidate.toLowerCase();
    const edits = distance(lower, other, most);
    const elsewhere = other === last || other.endsWith(`.${last}`) ? 1 : most + 1;
    const best = Math.min(edits, elsewhere);
    if (best <= most) found.push({ candidate, edits: best });
  }
  return found
    .toSorted((a, b) => a.edits - b.edits)
    .slice(0, count)
    .map(({ candidate }) => candidate);
}

/** ` Did you mean "x"?`, or nothing. */
export function didYouMean(word: string, candidates: Iterable<string>): string {
  const found = suggest(word, candidates);
  return found === undefined ? "" : ` Did you mean "${found}"?`;
}
