/** What a sentence looks like if a value that it was written around is missing. */
const HOLES: readonly [string, RegExp][] = [
  ["two spaces", / {2}/],
  ["empty brackets", /\(\s*\)/],
  ["empty quotes", /(?<!:)""|''|“”|‘’/],
  ["a space before a punctuation mark", / [,.;:)]/],
  ["a space after an opening bracket", /\( /],
  ["a value that is not text", /\bundefined\b|(?<!":)\bnull\b|\bNaN\b|\[object/],
  ["a space at the end of a line", / $/m],
  ["a colon before nothing", /:\s*$|:\n\s*\n/],
  ["a line without a word", /^[^\p{L}\p{N}\n]+$/mu],
  ["more than one empty line", /\n{3}/],
  ["an empty line at an end", /^\s|\s$/],
  ["a number sign without a number", /#(?!\w)/],
  ["a sentence that stops short", /\b(?:a|an|the|by|of|on|in|to|from|into|at|with)(?:[.,;)]|$)/im],
  ["no text at all", /^$/],
];

/** The names of the holes in a text, such as "empty brackets". */
export function holesIn(text: string): string[] {
  return HOLES.filter(([, pattern]) => pattern.test(text)).map(([name]) => name);
}

/** The same body with every text that itself looks like a hole replaced: what is found then is the template's. */
export function withoutHoles(value: unknown): unknown {
  if (typeof value === "string") return value !== "" && holesIn(value).length > 0 ? "words" : value;
  if (Array.isArray(value)) return value.map(withoutHoles);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, withoutHoles(member)]));
}

type Members = Record<string, unknown>;

function pathsBelow(value: unknown): string[][] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, member]) => [[name], ...pathsBelow(member).map((rest) => [name, ...rest])]);
}

/** Every body that differs from the given one by one field whose name `uses` accepts: left out, null, or empty. */
export function* withOneFieldLess(body: unknown, uses: (name: string) => boolean): Generator<{ change: string; body: unknown }> {
  for (const path of pathsBelow(body)) {
    const name = path.at(-1) as string;
    const parentIn = (root: unknown) => path.slice(0, -1).reduce((at, step) => (at as Members)[step], root) as Members;
    const value = parentIn(body)[name];
    if (Array.isArray(parentIn(body)) || !uses(name)) continue;
    const changes = [undefined, null, ...(typeof value === "string" ? [""] : []), ...(Array.isArray(value) ? [[]] : [])];
    for (const change of changes) {
      const changed = structuredClone(body);
      if (change === undefined) delete parentIn(changed)[name];
      else parentIn(changed)[name] = change;
      yield { change: `${path.join(".")}: ${JSON.stringify(change) ?? "left out"}`, body: changed };
    }
  }
}
